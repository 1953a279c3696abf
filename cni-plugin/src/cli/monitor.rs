//! `monitor`: events as they happen. A watcher moves the end of the events ahead of itself, so that they cost
//! nothing again a moment after it is gone, however it went.

use std::{
    io::{self, Write},
    os::fd::{AsRawFd, BorrowedFd},
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use aya_log::EbpfLogger;
use ebpf_bridge_common::reason;
use log::{Log, Metadata, Record};
use nix::{
    poll::{PollFd, PollFlags, PollTimeout, poll},
    time::{ClockId, clock_gettime},
};

use crate::dataplane::{self, Pins, Program};

/// How far ahead the end of the events is kept.
const AHEAD: Duration = Duration::from_secs(2);
/// How often it is moved.
const STEP_MS: u16 = 500;

/// Prints events until `limit` has passed, or for ever.
pub(super) fn monitor(bpffs: &Path, reason: Option<&str>, limit: Option<Duration>) -> anyhow::Result<()> {
    let pins = Pins::under(bpffs);
    anyhow::ensure!(pins.exist(), "the eBPF programs are not loaded: no pod of this node is accelerated");
    if let Some(reason) = reason {
        let known = (0..reason::COUNTERS).any(|code| name(code).is_some_and(|(_, name)| name == reason));
        anyhow::ensure!(known, "--reason is {reason:?}, which no program gives; `stats -o json` lists them");
    }
    let closed = AtomicBool::new(false);
    let printer = Printer { reason, closed: &closed };
    // Every program logs to the same map.
    let mut events =
        EbpfLogger::init_from_id_with_logger(dataplane::program_id(&pins, Program::Ingress)?, printer)?;
    let start = Instant::now();
    while !closed.load(Ordering::Relaxed) && limit.is_none_or(|limit| start.elapsed() < limit) {
        let until = Duration::from(clock_gettime(ClockId::CLOCK_MONOTONIC)?) + AHEAD;
        dataplane::control(&pins, |config| config.events_until_ns = until.as_nanos() as u64)?;
        // SAFETY: the descriptor belongs to `events`, which outlives the call.
        let ring = unsafe { BorrowedFd::borrow_raw(events.as_raw_fd()) };
        poll(&mut [PollFd::new(ring, PollFlags::POLLIN)], PollTimeout::from(STEP_MS))?;
        events.flush();
    }
    dataplane::control(&pins, |config| config.events_until_ns = 0)?;
    Ok(())
}

/// Program and name of a reason.
fn name(code: u32) -> Option<(&'static str, &'static str)> {
    let ingress = reason::Ingress::ALL.iter().find(|reason| reason.index() == code);
    let egress = reason::Egress::ALL.iter().find(|reason| reason.index() == code);
    let ingress = ingress.map(|reason| ("flow_ingress", reason.name()));
    ingress.or_else(|| egress.map(|reason| ("flow_egress", reason.name())))
}

/// Puts an event of the programs (`code device rest`) into words.
struct Printer<'a> {
    reason: Option<&'a str>,
    /// Whoever reads has seen enough.
    closed: &'a AtomicBool,
}

impl Log for Printer<'_> {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        let text = record.args().to_string();
        let mut words = text.splitn(3, ' ');
        let (Some(code), Some(device), Some(rest)) = (words.next(), words.next(), words.next()) else {
            return;
        };
        let Some((program, reason)) = code.parse().ok().and_then(name) else { return };
        if self.reason.is_some_and(|wanted| wanted != reason) {
            return;
        }
        if writeln!(io::stdout().lock(), "{program:<12} {reason:<16} on {device:<4} {}", words_of(rest))
            .is_err()
        {
            self.closed.store(true, Ordering::Relaxed);
        }
    }

    fn flush(&self) {}
}

/// `source destination protocol`, or an EtherType.
fn words_of(rest: &str) -> String {
    match rest.split(' ').collect::<Vec<_>>().as_slice() {
        [source, destination, protocol] => format!("{source} > {destination} protocol {protocol}"),
        _ => format!("EtherType 0x{rest}"),
    }
}
