//! As many datagrams as one CPU can send, carry and receive.
//!
//! Why not iperf3 or sockperf: their senders outrun the receivers, so that on a machine of few cores the rate is
//! that of the scheduler, and of the socket buffer that overflows. Here one thread holds both ends: it sends a batch
//! that fits the buffer and takes it out again. Nothing is lost, nobody is woken, the kernel does the work between
//! on the same CPU, so the time per datagram is what the path costs.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::batch::Batch;
use super::{pinned, udp};
use crate::Place;

/// How long the end of a batch may take before what is missing counts as lost.
const LATE: Duration = Duration::from_millis(20);
/// Before the clock starts: neighbours, connection tracking, flows learned.
const WARM_UP: Duration = Duration::from_millis(50);

/// What became of the datagrams.
#[derive(Debug, Clone, Copy)]
pub struct Flood {
    /// Datagrams that arrived.
    pub received: u64,
    /// Those that did not.
    pub lost: u64,
    /// From the first to the last.
    pub elapsed: Duration,
    /// Datagrams before that, which are in no other count.
    pub warm_up: u64,
}

/// Sends datagrams of `size` bytes from `client` to a server at `address` for a time, everything on one CPU.
///
/// # Errors
/// If none arrive.
pub fn flood(
    client: &Place,
    server: &Place,
    address: IpAddr,
    size: usize,
    time: Duration,
    cpu: usize,
) -> Result<Flood> {
    let (near, far) = (udp::bind(client, address)?, udp::bind(server, address)?);
    let to = SocketAddr::new(address, far.local_addr()?.port());
    near.connect(to).with_context(|| format!("connecting to {to}"))?;
    pinned(cpu, || {
        let mut payload = vec![0x5a; size];
        let mut ends = Ends { near: &near, far: &far, batch: Batch::of(&mut payload) };
        let warm_up = ends.run(WARM_UP)?.received;
        Ok(Flood { warm_up, ..ends.run(time)? })
    })
}

struct Ends<'a> {
    near: &'a UdpSocket,
    far: &'a UdpSocket,
    batch: Batch<'a>,
}

impl Ends<'_> {
    fn run(&mut self, time: Duration) -> Result<Flood> {
        let start = Instant::now();
        let mut flood = Flood { received: 0, lost: 0, elapsed: Duration::ZERO, warm_up: 0 };
        while flood.elapsed < time {
            let sent = self.batch.send(self.near).context("sending datagrams")?;
            let received = self.take(sent)?;
            flood.received += received as u64;
            flood.lost += (sent - received) as u64;
            flood.elapsed = start.elapsed();
        }
        ensure!(flood.received > 0, "no datagram arrived");
        Ok(flood)
    }

    /// Takes out what was sent, as far as it comes.
    fn take(&mut self, sent: usize) -> Result<usize> {
        let start = Instant::now();
        let mut received = 0;
        while received < sent {
            match self.batch.receive(self.far) {
                Ok(count) => received += count,
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => {
                    return Err(error).context("receiving datagrams");
                }
                Err(_) if start.elapsed() > LATE => break,
                // Under load the kernel leaves the rest to ksoftirqd, which waits for this CPU.
                Err(_) => thread::yield_now(),
            }
        }
        // More than was sent are late ones that were counted as lost.
        Ok(received.min(sent))
    }
}
