//! UDP: datagrams that are answered, one at a time.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use nix::libc;

use super::any_like;
use crate::Place;

/// How long the client waits for one answer before it counts as lost.
const ANSWER: Duration = Duration::from_secs(2);

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
    exchange(bind(client, address)?, bind(server, address)?, address, count, size)
}

/// The same, but no datagram may be fragmented on its way, nor its answer.
pub fn echo_whole(client: &Place, server: &Place, address: IpAddr, count: u64, size: usize) -> Result<Echo> {
    let (near, far) = (bind(client, address)?, bind(server, address)?);
    for socket in [&near, &far] {
        never_fragment(socket, address.is_ipv4())?;
    }
    exchange(near, far, address, count, size)
}

fn never_fragment(socket: &UdpSocket, v4: bool) -> Result<()> {
    let (level, name, value) = if v4 {
        (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_DO)
    } else {
        (libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_DO)
    };
    // SAFETY: the option's value is an int, alive during the call, and its length is given.
    let set = unsafe {
        let (value, length) = ((&raw const value).cast(), size_of_val(&value) as u32);
        libc::setsockopt(socket.as_raw_fd(), level, name, value, length)
    };
    if set == 0 { Ok(()) } else { Err(io::Error::last_os_error()).context("forbidding fragments") }
}

fn exchange(near: UdpSocket, far: UdpSocket, address: IpAddr, count: u64, size: usize) -> Result<Echo> {
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
