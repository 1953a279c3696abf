//! As many datagrams as one CPU can carry, of ten thousand flows in turn: what a cache of flows is worth when no two
//! packets in a row are of the same.
//!
//! Why not iperf3 or sockperf: neither has so many flows, nor goes round them packet by packet. The rest is as in
//! [`super::flood`].

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::batch::Batch;
use super::{Flood, pinned, udp};
use crate::Place;

/// Sockets on either side. Each pair of them is a flow.
const SIDE: usize = 100;
/// Client sockets that send before anything is taken out: as many datagrams wait at each server socket.
const AT_ONCE: usize = 8;
/// How long datagrams may take before what is missing counts as lost.
const LATE: Duration = Duration::from_millis(20);

/// Flows that take turns.
pub const FLOWS: usize = SIDE * SIDE;

/// What became of the datagrams of many flows.
#[derive(Debug, Clone, Copy)]
pub struct ManyFlows {
    /// The first datagram of each.
    pub first: Flood,
    /// All others; the first ones are its warm-up.
    pub rest: Flood,
}

/// Sends a datagram of `size` bytes for each of [`FLOWS`] new flows from `client` to a server at `address`, then goes on
/// with them for a time, in turn, everything on one CPU.
///
/// # Errors
/// If none arrive.
pub fn many_flows(
    client: &Place,
    server: &Place,
    address: IpAddr,
    size: usize,
    time: Duration,
    cpu: usize,
) -> Result<ManyFlows> {
    let bind = |place: &Place| (0..SIDE).map(|_| udp::bind(place, address)).collect::<Result<Vec<_>>>();
    let (near, far) = (bind(client)?, bind(server)?);
    let to = far.iter().map(|socket| Ok(SocketAddr::new(address, socket.local_addr()?.port())));
    let to = to.collect::<io::Result<Vec<_>>>().context("asking for the servers' ports")?;
    pinned(cpu, || {
        let (mut sent, mut taken) = (vec![0x5a; size], vec![0; size]);
        let (sending, taking) = (Batch::towards(&mut sent, &to), Batch::of(&mut taken));
        let mut ends = Ends { near: &near, far: &far, sending, taking };
        // One datagram past the flows that are counted: neighbours are resolved, and that takes long.
        ends.greet(&to)?;
        let first = ends.run(Duration::ZERO)?;
        // Between the first datagrams and what is counted: every flow is learned.
        let warm_up = first.received + ends.run(Duration::ZERO)?.received;
        Ok(ManyFlows { first, rest: Flood { warm_up, ..ends.run(time)? } })
    })
}

struct Ends<'a> {
    near: &'a [UdpSocket],
    far: &'a [UdpSocket],
    sending: Batch<'a>,
    taking: Batch<'a>,
}

impl Ends<'_> {
    /// Sends one datagram from a socket of its own flow, and waits for it.
    fn greet(&mut self, to: &[SocketAddr]) -> Result<()> {
        let socket = &self.near[0];
        for _ in 0..50 {
            socket.send_to(&[0], to[0]).context("sending the first datagram")?;
            if self.take(1)? == 1 {
                return Ok(());
            }
        }
        anyhow::bail!("no datagram arrived")
    }

    /// Goes round the flows once, and until the time is over.
    fn run(&mut self, time: Duration) -> Result<Flood> {
        let start = Instant::now();
        let mut flood = Flood { received: 0, lost: 0, elapsed: Duration::ZERO, warm_up: 0 };
        let near = self.near;
        loop {
            for some in near.chunks(AT_ONCE) {
                let sent = some.iter().map(|socket| self.sending.send(socket));
                let sent: usize = sent.sum::<io::Result<_>>().context("sending datagrams")?;
                let received = self.take(sent)?;
                flood.received += received as u64;
                flood.lost += (sent - received) as u64;
            }
            flood.elapsed = start.elapsed();
            if flood.elapsed >= time {
                ensure!(flood.received > 0, "no datagram arrived");
                return Ok(flood);
            }
        }
    }

    /// Takes out what was sent, as far as it comes.
    fn take(&mut self, sent: usize) -> Result<usize> {
        let start = Instant::now();
        let mut received = 0;
        loop {
            for socket in self.far {
                match self.taking.receive(socket) {
                    Ok(count) => received += count,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(error) => return Err(error).context("receiving datagrams"),
                }
            }
            if received >= sent || start.elapsed() > LATE {
                // More than was sent are late ones that were counted as lost.
                return Ok(received.min(sent));
            }
            thread::yield_now();
        }
    }
}
