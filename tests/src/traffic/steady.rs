//! A flow that goes on in the background while the test does something to the node.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::{tcp, udp};
use crate::Place;

/// From when on a time without answers counts as a stall.
pub const STALL: Duration = Duration::from_millis(200);
/// How often a message is sent.
const PERIOD: Duration = Duration::from_millis(2);
/// How long one read may block before the client looks whether it shall stop.
const SLICE: Duration = Duration::from_millis(20);

type Message = [u8; 8];

/// What a steady flow saw.
#[derive(Debug, Clone, Copy)]
pub struct Report {
    /// Messages sent.
    pub sent: u64,
    /// Messages answered.
    pub answered: u64,
    /// The longest time between two answers, or since the last one.
    pub silence: Duration,
    /// How often an answer came [`STALL`] or more after the one before.
    pub stalls: u64,
    /// When the last answer came.
    pub last: Instant,
}

/// A client that sends a message every 2 ms and has it answered, until stopped or dropped.
pub struct Steady {
    done: Arc<AtomicBool>,
    report: Arc<Mutex<Report>>,
    threads: Vec<JoinHandle<Result<()>>>,
}

impl Steady {
    /// Over one TCP connection. A message lost on the way delays those after it.
    pub fn tcp(client: &Place, server: &Place, address: IpAddr) -> Result<Steady> {
        let (near, far, _) = tcp::connect(client, server, address)?;
        near.set_read_timeout(Some(SLICE))?;
        far.set_read_timeout(Some(SLICE))?;
        Ok(Steady::start(
            move |message, done| tcp_ask(&near, message, done),
            move |done| tcp_answer(&far, done),
        ))
    }

    /// Over UDP. A message lost on the way is given up after 20 ms.
    pub fn udp(client: &Place, server: &Place, address: IpAddr) -> Result<Steady> {
        let near = udp::bind(client, address)?;
        let far = udp::bind(server, address)?;
        near.connect(SocketAddr::new(address, far.local_addr()?.port()))?;
        near.set_read_timeout(Some(SLICE))?;
        Ok(Steady::start(
            move |message, _| udp_ask(&near, message),
            move |done| udp::answer(&far, done).map(|_| ()),
        ))
    }

    /// What it saw until now.
    pub fn report(&self) -> Report {
        let mut report = *self.report.lock().unwrap_or_else(PoisonError::into_inner);
        report.silence = report.silence.max(report.last.elapsed());
        report
    }

    /// Waits until `count` more messages were answered.
    ///
    /// # Errors
    /// If that takes longer than `within`.
    pub fn goes_on(&self, count: u64, within: Duration) -> Result<()> {
        let start = Instant::now();
        let goal = self.report().answered + count;
        while self.report().answered < goal {
            ensure!(
                start.elapsed() < within,
                "not {count} more answers within {within:?}: {:?}",
                self.report()
            );
            thread::sleep(PERIOD);
        }
        Ok(())
    }

    /// Looks for a while that no more answers come; one may still be on its way to the client's thread.
    pub fn stands_still(&self, time: Duration) -> Result<()> {
        let before = self.report().answered;
        thread::sleep(time);
        let report = self.report();
        ensure!(
            report.answered <= before + 1,
            "answers still come: {before} before {time:?}, now {report:?}"
        );
        Ok(())
    }

    /// Ends the flow and returns what it saw.
    pub fn stop(mut self) -> Result<Report> {
        self.done.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread.join().expect("a thread of the steady flow panicked")?;
        }
        Ok(self.report())
    }

    fn start(
        ask: impl Fn(Message, &AtomicBool) -> Result<bool> + Send + 'static,
        answer: impl Fn(&AtomicBool) -> Result<()> + Send + 'static,
    ) -> Steady {
        let done = Arc::new(AtomicBool::new(false));
        let first = Report { sent: 0, answered: 0, silence: Duration::ZERO, stalls: 0, last: Instant::now() };
        let report = Arc::new(Mutex::new(first));
        let (client_done, server_done, shared) = (done.clone(), done.clone(), report.clone());
        let threads = vec![
            thread::spawn(move || answer(&server_done)),
            thread::spawn(move || client(&ask, &client_done, &shared)),
        ];
        Steady { done, report, threads }
    }
}

impl Drop for Steady {
    fn drop(&mut self) {
        self.done.store(true, Ordering::Relaxed);
    }
}

fn client(
    ask: &dyn Fn(Message, &AtomicBool) -> Result<bool>,
    done: &AtomicBool,
    report: &Mutex<Report>,
) -> Result<()> {
    let report = || report.lock().unwrap_or_else(PoisonError::into_inner);
    let mut number = 0_u64;
    while !done.load(Ordering::Relaxed) {
        number += 1;
        report().sent = number;
        if ask(number.to_be_bytes(), done)? {
            let mut report = report();
            report.answered += 1;
            let silence = report.last.elapsed();
            report.silence = report.silence.max(silence);
            report.stalls += u64::from(silence >= STALL);
            report.last = Instant::now();
        }
        thread::sleep(PERIOD);
    }
    Ok(())
}

/// Sends a message and waits for it to come back, as long as it takes: TCP gives nothing up.
fn tcp_ask(mut stream: &TcpStream, message: Message, done: &AtomicBool) -> Result<bool> {
    stream.write_all(&message).context("sending a message")?;
    let Some(answer) = read_message(stream, done)? else { return Ok(false) };
    ensure!(answer == message, "an answer differs from the message");
    Ok(true)
}

fn tcp_answer(mut stream: &TcpStream, done: &AtomicBool) -> Result<()> {
    while let Some(message) = read_message(stream, done)? {
        stream.write_all(&message).context("answering")?;
    }
    Ok(())
}

/// The next message; none if `done` came first, or the other side closed because of it.
fn read_message(mut stream: &TcpStream, done: &AtomicBool) -> Result<Option<Message>> {
    let mut message = Message::default();
    let mut got = 0;
    while got < message.len() && !done.load(Ordering::Relaxed) {
        match stream.read(&mut message[got..]) {
            Ok(0) => break,
            Ok(length) => got += length,
            Err(error) if is_timeout(&error) => {}
            // The other end was told to stop too, and closed with a message of ours unread.
            Err(_) if done.load(Ordering::Relaxed) => break,
            Err(error) => return Err(error).context("reading a message"),
        }
    }
    Ok((got == message.len()).then_some(message))
}

/// Sends a message and waits one slice of time for it to come back.
fn udp_ask(socket: &UdpSocket, message: Message) -> Result<bool> {
    // A full queue or an ICMP error is a loss like any other.
    if socket.send(&message).is_err() {
        return Ok(false);
    }
    let mut answer = Message::default();
    while let Ok(length) = socket.recv(&mut answer) {
        if length == message.len() && answer == message {
            return Ok(true);
        }
    }
    Ok(false)
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted)
}
