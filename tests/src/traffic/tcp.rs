//! TCP: bulk in either direction, and request/response.

use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::{PATIENCE, any_like};
use crate::Place;

/// Length of the pattern that is sent over and over: a prime, so that it never falls into step with segments.
const PATTERN: usize = 65_521;

/// What went over one connection.
#[derive(Debug, Clone)]
pub struct Transfer {
    /// Payload that arrived, every byte compared with what was sent.
    pub bytes: u64,
    /// The client's address as the server saw it.
    pub peer: SocketAddr,
    /// From the first byte to the receiver's word that it has the last.
    pub elapsed: Duration,
}

/// Sends `bytes` from a client to a server at `address`.
pub fn upload(client: &Place, server: &Place, address: IpAddr, bytes: u64) -> Result<Transfer> {
    let (near, far, peer) = connect(client, server, address)?;
    Ok(Transfer { elapsed: pump(near, far, bytes)?, bytes, peer })
}

/// Sends `bytes` from a server at `address` to a client that connected to it.
pub fn download(client: &Place, server: &Place, address: IpAddr, bytes: u64) -> Result<Transfer> {
    let (near, far, peer) = connect(client, server, address)?;
    Ok(Transfer { elapsed: pump(far, near, bytes)?, bytes, peer })
}

/// Sends `count` requests of one byte over one connection, each after the answer to the one before.
pub fn round_trips(client: &Place, server: &Place, address: IpAddr, count: u64) -> Result<Transfer> {
    let (mut near, mut far, peer) = connect(client, server, address)?;
    let start = Instant::now();
    thread::scope(|scope| {
        let server = scope.spawn(move || -> Result<()> {
            let mut byte = [0];
            for _ in 0..count {
                far.read_exact(&mut byte).context("reading a request")?;
                far.write_all(&[byte[0].wrapping_add(1)]).context("answering")?;
            }
            Ok(())
        });
        for number in 0..count {
            let mut byte = [number as u8];
            near.write_all(&byte).context("sending a request")?;
            near.read_exact(&mut byte).with_context(|| format!("no answer to request {number}"))?;
            ensure!(byte[0] == (number as u8).wrapping_add(1), "a wrong answer to request {number}");
        }
        server.join().expect("the server panicked")
    })?;
    Ok(Transfer { bytes: count, peer, elapsed: start.elapsed() })
}

/// A connection: the client's end, the server's, and the client's address as the server sees it.
pub(super) fn connect(
    client: &Place,
    server: &Place,
    address: IpAddr,
) -> Result<(TcpStream, TcpStream, SocketAddr)> {
    let listener = server.run_in(|| Ok(TcpListener::bind(any_like(address))?))?;
    let to = SocketAddr::new(address, listener.local_addr()?.port());
    let near = client
        .run_in(|| Ok(TcpStream::connect_timeout(&to, PATIENCE)?))
        .with_context(|| format!("connecting to {to}"))?;
    let (far, peer) = listener.accept().context("accepting the connection")?;
    for end in [&near, &far] {
        end.set_read_timeout(Some(PATIENCE))?;
        end.set_write_timeout(Some(PATIENCE))?;
        end.set_nodelay(true)?;
    }
    Ok((near, far, peer))
}

fn pump(mut from: TcpStream, mut to: TcpStream, bytes: u64) -> Result<Duration> {
    let start = Instant::now();
    let pattern = &pattern();
    thread::scope(|scope| {
        let sender = scope.spawn(move || -> Result<()> {
            let mut left = bytes;
            while left > 0 {
                let length = left.min(PATTERN as u64);
                from.write_all(&pattern[..length as usize])
                    .with_context(|| format!("sending, {left} bytes left"))?;
                left -= length;
            }
            from.shutdown(Shutdown::Write)?;
            from.read_exact(&mut [0]).context("waiting for the receiver's word")
        });
        receive(&mut to, pattern, bytes)?;
        to.write_all(&[0])?;
        sender.join().expect("the sender panicked")
    })?;
    Ok(start.elapsed())
}

fn receive(to: &mut TcpStream, pattern: &[u8], bytes: u64) -> Result<()> {
    let mut buffer = vec![0; PATTERN];
    let mut got = 0;
    loop {
        let at = (got % PATTERN as u64) as usize;
        let length =
            to.read(&mut buffer[..PATTERN - at]).with_context(|| format!("receiving after {got} bytes"))?;
        if length == 0 {
            ensure!(got == bytes, "{got} of {bytes} bytes arrived");
            return Ok(());
        }
        ensure!(buffer[..length] == pattern[at..at + length], "other bytes than sent, after {got}");
        got += length as u64;
    }
}

/// Bytes without a period of their own: xorshift64 (Marsaglia, 2003).
fn pattern() -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..PATTERN).map(|_| next()).collect()
}
