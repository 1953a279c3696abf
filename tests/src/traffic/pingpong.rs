//! Requests over one TCP connection, each after the answer to the one before.
//!
//! Why not sockperf: around each second that it measures, of which it counts a half, it spends two on itself. Both
//! wake the other end by a blocking read, as servers and clients do, so the rates are alike.

use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::{pin, tcp};
use crate::Place;

/// Before the clock starts: flows learned, the window opened.
const WARM_UP: Duration = Duration::from_millis(50);

/// What was done.
#[derive(Debug, Clone, Copy)]
pub struct PingPong {
    /// Requests answered.
    pub transactions: u64,
    /// From the first to the last.
    pub elapsed: Duration,
    /// Requests before that, which are in no other count.
    pub warm_up: u64,
}

/// For a time: sends requests of `size` bytes from `client` to a server at `address`, and gets the same back. Both ends
/// are on one CPU, or where the scheduler puts them.
pub fn ping_pong(
    client: &Place,
    server: &Place,
    address: IpAddr,
    size: usize,
    time: Duration,
    cpu: Option<usize>,
) -> Result<PingPong> {
    let (near, far, _) = tcp::connect(client, server, address)?;
    thread::scope(|scope| {
        let answering = scope.spawn(|| {
            cpu.map_or(Ok(()), pin)?;
            answer(&far, size)
        });
        let asking = scope.spawn(|| {
            cpu.map_or(Ok(()), pin)?;
            let warm_up = ask(&near, size, WARM_UP)?.transactions;
            Ok(PingPong { warm_up, ..ask(&near, size, time)? })
        });
        let asked = asking.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        drop(near.shutdown(Shutdown::Write));
        answering.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        asked
    })
}

fn ask(mut near: &TcpStream, size: usize, time: Duration) -> Result<PingPong> {
    let mut message = vec![0x5a; size];
    let start = Instant::now();
    let mut done = PingPong { transactions: 0, elapsed: Duration::ZERO, warm_up: 0 };
    while done.elapsed < time {
        near.write_all(&message).context("sending a request")?;
        near.read_exact(&mut message).context("waiting for the answer")?;
        done.transactions += 1;
        done.elapsed = start.elapsed();
    }
    Ok(done)
}

/// Until the client has no more requests.
fn answer(mut far: &TcpStream, size: usize) -> Result<()> {
    let mut message = vec![0; size];
    loop {
        match far.read(&mut message).context("waiting for a request")? {
            0 => return Ok(()),
            some => far.read_exact(&mut message[some..]).context("reading a request")?,
        }
        far.write_all(&message).context("answering")?;
    }
}
