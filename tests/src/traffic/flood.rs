//! As many datagrams as one CPU can send, carry and receive.
//!
//! Why not iperf3 or sockperf: their senders outrun the receivers, so that on a machine of few cores the rate is
//! that of the scheduler, and of the socket buffer that overflows. Here one thread holds both ends: it sends a batch
//! that fits the buffer and takes it out again. Nothing is lost, nobody is woken, the kernel does the work between
//! on the same CPU, so the time per datagram is what the path costs.

use std::io;
use std::marker::PhantomData;
use std::mem::zeroed;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nix::libc;

use super::{pinned, udp};
use crate::Place;

/// Datagrams under way at a time: well below the 212,992 bytes of a default receive buffer.
const BATCH: usize = 64;
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
        ends.run(WARM_UP)?;
        ends.run(time)
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
        let mut flood = Flood { received: 0, lost: 0, elapsed: Duration::ZERO };
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

/// Message headers that all name the same bytes: their content is of no interest.
struct Batch<'a> {
    messages: Box<[libc::mmsghdr; BATCH]>,
    _vector: Box<libc::iovec>,
    _payload: PhantomData<&'a mut [u8]>,
}

impl<'a> Batch<'a> {
    fn of(payload: &'a mut [u8]) -> Self {
        let mut vector =
            Box::new(libc::iovec { iov_base: payload.as_mut_ptr().cast(), iov_len: payload.len() });
        // SAFETY: all zeros is a message header without name, control data and buffers.
        let mut messages: Box<[libc::mmsghdr; BATCH]> = Box::new(unsafe { zeroed() });
        for message in messages.iter_mut() {
            message.msg_hdr.msg_iov = &raw mut *vector;
            message.msg_hdr.msg_iovlen = 1;
        }
        Self { messages, _vector: vector, _payload: PhantomData }
    }

    /// Sends a batch in one system call; returns how many the kernel took.
    fn send(&mut self, socket: &UdpSocket) -> io::Result<usize> {
        let (messages, count) = (self.messages.as_mut_ptr(), BATCH as libc::c_uint);
        // SAFETY: `count` headers, which name a vector and a payload that live as long as `self`.
        counted(unsafe { libc::sendmmsg(socket.as_raw_fd(), messages, count, 0) })
    }

    /// Takes up to a batch of what is there in one system call; returns how many.
    fn receive(&mut self, socket: &UdpSocket) -> io::Result<usize> {
        let (messages, count) = (self.messages.as_mut_ptr(), BATCH as libc::c_uint);
        let no_timeout = std::ptr::null_mut();
        let flags = libc::MSG_DONTWAIT as _;
        // SAFETY: as in `send`, and nothing else reads the payload; a null timeout is none.
        counted(unsafe { libc::recvmmsg(socket.as_raw_fd(), messages, count, flags, no_timeout) })
    }
}

fn counted(result: libc::c_int) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}
