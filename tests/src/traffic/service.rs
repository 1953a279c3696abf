//! A server that says who it is and whom it sees, and clients that may choose their port.
//!
//! Every question is eight bytes, every answer 64: `<server's name> <client's address>`, filled up with blanks.

use std::io::{Read, Write};
use std::net::{Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use socket2::{Domain, Socket, Type};

use super::PATIENCE;
use crate::Place;

/// How long the server's threads may block before they look whether they shall stop.
const SLICE: Duration = Duration::from_millis(20);
const QUESTION: [u8; 8] = *b"who am I";
/// Makes the server close the connection, before the client does: TIME_WAIT stays with it.
const CLOSE: [u8; 8] = *b"good bye";
const ANSWER: usize = 64;

/// What a server said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The server's name.
    pub server: String,
    /// The client as the server saw it.
    pub peer: SocketAddr,
}

/// A server for TCP and UDP of both families on one port. It ends with the value.
pub struct Service {
    done: Arc<AtomicBool>,
}

impl Service {
    /// Serves on a port of every address of a place.
    pub fn start(place: &Place, name: &str, port: u16) -> Result<Service> {
        let any = SocketAddr::from((Ipv6Addr::UNSPECIFIED, port));
        let (tcp, udp) = place.run_in(|| Ok((listener(any)?, UdpSocket::bind(any)?)))?;
        udp.set_read_timeout(Some(SLICE))?;
        let done = Arc::new(AtomicBool::new(false));
        let (tcp_name, tcp_done) = (name.to_owned(), done.clone());
        thread::spawn(move || serve_tcp(&tcp_name, &tcp, &tcp_done));
        let (udp_name, udp_done) = (name.to_owned(), done.clone());
        thread::spawn(move || serve_udp(&udp_name, &udp, &udp_done));
        Ok(Service { done })
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.done.store(true, Ordering::Relaxed);
    }
}

/// Asks `count` times over one TCP connection from a port, 0 for any. To be called inside the client's place.
///
/// # Errors
/// If a question has no answer, or not the same as the first.
pub fn ask_tcp(from: u16, to: SocketAddr, count: usize) -> Result<Answer> {
    let socket = Socket::new(Domain::for_address(to), Type::STREAM, None)?;
    if from != 0 {
        socket.set_reuse_address(true)?;
        socket.bind(&any_port_like(to, from).into()).with_context(|| format!("binding to port {from}"))?;
    }
    socket.connect_timeout(&to.into(), PATIENCE).with_context(|| format!("connecting to {to}"))?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.set_tcp_nodelay(true)?;
    let mut stream = TcpStream::from(socket);
    let answer = same_answers(count, || {
        stream.write_all(&QUESTION)?;
        let mut answer = [0; ANSWER];
        stream.read_exact(&mut answer)?;
        parse(&answer)
    });
    let answer = answer.with_context(|| format!("asking {to} over TCP"))?;
    stream.write_all(&CLOSE)?;
    ensure!(stream.read(&mut [0])? == 0, "{to} said something more");
    Ok(answer)
}

/// Asks `count` times over UDP from a port, 0 for any; only answers from `to` count. To be called inside the
/// client's place.
///
/// # Errors
/// If a question has no answer, or not the same as the first.
pub fn ask_udp(from: u16, to: SocketAddr, count: usize) -> Result<Answer> {
    ask_udp_within(PATIENCE, from, to, count)
}

/// The same with a limit on how long an answer may take.
pub fn ask_udp_within(limit: Duration, from: u16, to: SocketAddr, count: usize) -> Result<Answer> {
    let socket = Socket::new(Domain::for_address(to), Type::DGRAM, None)?;
    // A process that is just being started may hold the last socket of this port for a moment more.
    socket.set_reuse_address(true)?;
    socket.bind(&any_port_like(to, from).into()).with_context(|| format!("binding to port {from}"))?;
    let socket = UdpSocket::from(socket);
    socket.connect(to).with_context(|| format!("connecting to {to}"))?;
    socket.set_read_timeout(Some(limit))?;
    same_answers(count, || {
        socket.send(&QUESTION)?;
        let mut answer = [0; ANSWER];
        socket.recv(&mut answer)?;
        parse(&answer)
    })
    .with_context(|| format!("asking {to} over UDP"))
}

fn any_port_like(to: SocketAddr, port: u16) -> SocketAddr {
    let mut any = super::any_like(to.ip());
    any.set_port(port);
    any
}

fn same_answers(count: usize, mut ask: impl FnMut() -> Result<Answer>) -> Result<Answer> {
    let first = ask().context("question 1")?;
    for number in 2..=count {
        let next = ask().with_context(|| format!("question {number}"))?;
        ensure!(next == first, "{next:?} answered question {number}, and {first:?} the first");
    }
    Ok(first)
}

fn parse(answer: &[u8]) -> Result<Answer> {
    let text = std::str::from_utf8(answer)?;
    let (server, peer) =
        text.trim_end().split_once(' ').with_context(|| format!("not an answer: {text:?}"))?;
    Ok(Answer { server: server.into(), peer: peer.parse()? })
}

fn answer(name: &str, mut peer: SocketAddr) -> Vec<u8> {
    peer.set_ip(peer.ip().to_canonical());
    format!("{:<ANSWER$}", format!("{name} {peer}")).into_bytes()
}

fn listener(address: SocketAddr) -> Result<TcpListener> {
    let listener = TcpListener::bind(address).with_context(|| format!("listening on {address}"))?;
    let socket = Socket::from(listener);
    // accept(2) heeds it too.
    socket.set_read_timeout(Some(SLICE))?;
    Ok(socket.into())
}

fn serve_tcp(name: &str, listener: &TcpListener, done: &AtomicBool) {
    while !done.load(Ordering::Relaxed) {
        let Ok((mut stream, peer)) = listener.accept() else { continue };
        let answer = answer(name, peer);
        thread::spawn(move || -> Result<()> {
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.set_nodelay(true)?;
            let mut question = [0; QUESTION.len()];
            loop {
                stream.read_exact(&mut question)?;
                if question == CLOSE {
                    return Ok(());
                }
                stream.write_all(&answer)?;
            }
        });
    }
}

fn serve_udp(name: &str, socket: &UdpSocket, done: &AtomicBool) {
    let mut question = [0; QUESTION.len()];
    while !done.load(Ordering::Relaxed) {
        if let Ok((_, peer)) = socket.recv_from(&mut question) {
            // A lost answer is noticed by the client.
            let _ = socket.send_to(&answer(name, peer), peer);
        }
    }
}
