//! Connections that are made, used once and closed.
//!
//! Why not wrk: it would measure the HTTP server behind it. One thread holds both ends, so that no time goes into
//! waking the other.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::{PATIENCE, any_like, pin};
use crate::Place;

/// Bytes of a request, and of its answer.
const MESSAGE: usize = 64;
/// Before the clock starts.
const WARM_UP: Duration = Duration::from_millis(50);

/// What was done.
#[derive(Debug, Clone, Copy)]
pub struct Churn {
    /// Connections from the first SYN to both ends closed.
    pub connections: u64,
    /// From the first to the last.
    pub elapsed: Duration,
    /// Connections before that, which are in no other count.
    pub warm_up: u64,
}

/// For a time: connects from `client` to a server at `address`, sends a request, gets an answer, closes, the server
/// first; one connection after the other, everything on one CPU.
pub fn churn(client: &Place, server: &Place, address: IpAddr, time: Duration, cpu: usize) -> Result<Churn> {
    let listener = server.run_in(|| Ok(TcpListener::bind(any_like(address))?))?;
    let to = SocketAddr::new(address, listener.local_addr()?.port());
    client.run_in(|| {
        pin(cpu)?;
        let warm_up = run(&listener, to, WARM_UP)?.connections;
        Ok(Churn { warm_up, ..run(&listener, to, time)? })
    })
}

fn run(listener: &TcpListener, to: SocketAddr, time: Duration) -> Result<Churn> {
    let start = Instant::now();
    let mut churn = Churn { connections: 0, elapsed: Duration::ZERO, warm_up: 0 };
    while churn.elapsed < time {
        connection(listener, to).with_context(|| format!("connection {} to {to}", churn.connections))?;
        churn.connections += 1;
        churn.elapsed = start.elapsed();
    }
    Ok(churn)
}

fn connection(listener: &TcpListener, to: SocketAddr) -> Result<()> {
    let mut near = TcpStream::connect_timeout(&to, PATIENCE)?;
    let (mut far, _) = listener.accept()?;
    let mut message = [0x5a; MESSAGE];
    for end in [&near, &far] {
        end.set_read_timeout(Some(PATIENCE))?;
    }
    near.write_all(&message)?;
    far.read_exact(&mut message)?;
    far.write_all(&message)?;
    near.read_exact(&mut message)?;
    // TIME_WAIT stays with the server, so the client does not run out of ports.
    drop(far);
    ensure!(near.read(&mut message)? == 0, "more than the answer");
    Ok(())
}
