//! UDP: datagrams that are answered, one at a time.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::any_like;
use crate::Place;

/// How long the client waits for one answer before it counts as lost.
const ANSWER: Duration = Duration::from_millis(500);

/// What became of the datagrams sent.
#[derive(Debug, Clone)]
pub struct Echo {
    /// Datagrams sent by the client.
    pub sent: u64,
    /// Those without an answer.
    pub lost: u64,
    /// The client's address as the server saw it.
    pub peer: SocketAddr,
}

/// Sends `count` datagrams of `size` bytes (8 at least) to a server at `address` that sends each back.
///
/// # Errors
/// If no datagram arrived at all, an answer came from elsewhere, or one is not what was sent.
pub fn echo(client: &Place, server: &Place, address: IpAddr, count: u64, size: usize) -> Result<Echo> {
    let far = bind(server, address)?;
    let near = bind(client, address)?;
    let to = SocketAddr::new(address, far.local_addr()?.port());
    near.connect(to).with_context(|| format!("connecting to {to}"))?;
    near.set_read_timeout(Some(ANSWER))?;
    let done = &AtomicBool::new(false);
    thread::scope(|scope| {
        let server = scope.spawn(move || answer(&far, done));
        let lost = ask(&near, count, size);
        done.store(true, Ordering::Relaxed);
        let peer = server.join().expect("the server panicked")?;
        Ok(Echo { sent: count, lost: lost?, peer: peer.context("no datagram arrived")? })
    })
}

pub(super) fn bind(place: &Place, like: IpAddr) -> Result<UdpSocket> {
    place.run_in(|| UdpSocket::bind(any_like(like)).context("binding a UDP socket"))
}

/// Sends back what comes until `done`; returns the last sender.
pub(super) fn answer(socket: &UdpSocket, done: &AtomicBool) -> Result<Option<SocketAddr>> {
    socket.set_read_timeout(Some(Duration::from_millis(20)))?;
    let mut buffer = vec![0; 65_536];
    let mut last = None;
    while !done.load(Ordering::Relaxed) {
        let Ok((length, from)) = socket.recv_from(&mut buffer) else { continue };
        last = Some(from);
        socket.send_to(&buffer[..length], from).context("sending a datagram back")?;
    }
    Ok(last)
}

fn ask(socket: &UdpSocket, count: u64, size: usize) -> Result<u64> {
    let mut datagram = vec![0x5a; size];
    let mut buffer = vec![0; 65_536];
    let mut lost = 0;
    for number in 0..count {
        datagram[..8].copy_from_slice(&number.to_be_bytes());
        socket.send(&datagram).context("sending a datagram")?;
        loop {
            let Ok(length) = socket.recv(&mut buffer) else {
                lost += 1;
                break;
            };
            if buffer[..8] == datagram[..8] {
                ensure!(buffer[..length] == datagram[..], "an answer differs from datagram {number}");
                break;
            }
            // The late answer to a datagram already counted as lost.
        }
    }
    Ok(lost)
}
