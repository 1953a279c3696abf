//! `monitor`: events as they happen. A watcher moves the end of the events ahead of itself, so that they cost
//! nothing again a moment after it is gone, however it went.

use std::{
    io::{self, Write},
    os::fd::{AsFd, AsRawFd, BorrowedFd},
    path::Path,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::{Duration, Instant},
};

use anyhow::Context;
use aya_log::EbpfLogger;
use clap::Args;
use ebpf_bridge_common::reason::{self, Egress, Ingress};
use log::{Log, Metadata, Record};
use nix::{
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::{
        signal::{SigSet, Signal},
        signalfd::SignalFd,
    },
    time::{ClockId, clock_gettime},
};
use serde_json::json;

use super::{
    Output, SCHEMA_VERSION,
    node::{Node, is_named, loaded},
};
use crate::{
    dataplane::{self, Counters, Pins, Program},
    plan::Side,
};

/// How far ahead the end of the events is kept.
const AHEAD: Duration = Duration::from_secs(2);
/// How often it is moved.
const STEP_MS: u16 = 500;

/// Which events, and for how long.
#[derive(Args)]
pub(super) struct Monitor {
    /// Only of this pod: [namespace/]name, or the beginning of a container id
    #[arg(long)]
    pod: Option<String>,
    /// Only this reason
    #[arg(long)]
    reason: Option<String>,
    /// Stop after so many seconds
    #[arg(long = "for", value_name = "SECONDS")]
    seconds: Option<u64>,
}

/// Prints events until time is up, a signal comes or nobody reads any more; then says how many were lost.
pub(super) fn monitor(bpffs: &Path, output: Output, options: &Monitor) -> anyhow::Result<()> {
    let pins = loaded(bpffs)?;
    let printer = printer(bpffs, output, options)?;
    let (seen, closed) = (AtomicU64::new(0), AtomicBool::new(false));
    let printer = Printer { seen: &seen, closed: &closed, ..printer };
    let limit = options.seconds.map(Duration::from_secs);
    let signals = signals()?;
    // Every program logs to the same map.
    let mut events =
        EbpfLogger::init_from_id_with_logger(dataplane::program_id(&pins, Program::Ingress)?, printer)?;
    let (start, before) = (Instant::now(), counted(&pins)?);
    while !closed.load(Ordering::Relaxed) && limit.is_none_or(|limit| start.elapsed() < limit) {
        let until = Duration::from(clock_gettime(ClockId::CLOCK_MONOTONIC)?) + AHEAD;
        dataplane::control(&pins, |config| config.events_until_ns = until.as_nanos() as u64)?;
        // SAFETY: the descriptor belongs to `events`, which outlives the call.
        let ring = unsafe { BorrowedFd::borrow_raw(events.as_raw_fd()) };
        poll(
            &mut [PollFd::new(ring, PollFlags::POLLIN), PollFd::new(signals.as_fd(), PollFlags::POLLIN)],
            PollTimeout::from(STEP_MS),
        )?;
        events.flush();
        if signals.read_signal()?.is_some() {
            break;
        }
    }
    // In this order, so that no event is counted whose packet is not.
    let after = counted(&pins)?;
    dataplane::control(&pins, |config| config.events_until_ns = 0)?;
    events.flush();
    let seen = seen.load(Ordering::Relaxed);
    finish(output, seen, (after - before).saturating_sub(seen))
}

/// Ctrl-C and its like end the watch, and are no death.
fn signals() -> anyhow::Result<SignalFd> {
    let signals: SigSet = [Signal::SIGINT, Signal::SIGTERM].into_iter().collect();
    signals.thread_block().context("cannot block signals")?;
    let flags = nix::sys::signalfd::SfdFlags::SFD_NONBLOCK | nix::sys::signalfd::SfdFlags::SFD_CLOEXEC;
    SignalFd::with_flags(&signals, flags).context("cannot wait for signals")
}

/// Packets that make an event while somebody watches.
fn counted(pins: &Pins) -> anyhow::Result<u64> {
    let Some(Counters { ingress, egress }) = dataplane::counters(pins)? else { return Ok(0) };
    let ingress = ingress.iter().filter(|(reason, _)| *reason != Ingress::Redirected).map(|(_, count)| count);
    let egress = egress.iter().filter(|(reason, _)| *reason != Egress::Untagged).map(|(_, count)| count);
    Ok(ingress.chain(egress).sum())
}

fn finish(output: Output, seen: u64, lost: u64) -> anyhow::Result<()> {
    match output {
        Output::Table => writeln!(io::stderr(), "{seen} events, {lost} lost")?,
        Output::Json => super::write(
            format!("{}\n", json!({ "schemaVersion": SCHEMA_VERSION, "events": seen, "lost": lost }))
                .as_bytes(),
        )?,
    }
    Ok(())
}

/// Program and name of a reason.
fn name(code: u32) -> Option<(&'static str, &'static str)> {
    let ingress = Ingress::ALL.iter().find(|reason| reason.index() == code);
    let egress = Egress::ALL.iter().find(|reason| reason.index() == code);
    let ingress = ingress.map(|reason| ("flow_ingress", reason.name()));
    ingress.or_else(|| egress.map(|reason| ("flow_egress", reason.name())))
}

/// The printer that the options ask for; what they name must be there.
fn printer<'a>(bpffs: &Path, output: Output, options: &'a Monitor) -> anyhow::Result<Printer<'a>> {
    if let Some(reason) = &options.reason {
        let known = (0..reason::COUNTERS).any(|code| name(code).is_some_and(|(_, name)| name == reason));
        anyhow::ensure!(known, "--reason is {reason:?}, which no program gives; `stats -o json` lists them");
    }
    let node = Node::look(bpffs)?;
    let mut devices = Vec::new();
    let mut addresses = Vec::new();
    if let Some(asked) = &options.pod {
        for pod in node.records()?.iter().filter(|pod| is_named(pod, asked)) {
            devices.extend(node.host.link(Side::Node, &pod.veth)?.map(|link| link.index.to_string()));
            addresses.extend(pod.ips().iter().map(|ip| format!("{ip}:")));
        }
        anyhow::ensure!(
            !devices.is_empty(),
            "--pod is {asked:?}, which no pod of this node is; `ls` lists them"
        );
    }
    let links =
        node.host.node().links()?.into_iter().map(|(name, link)| (link.index.to_string(), name)).collect();
    let reason = options.reason.as_deref();
    Ok(Printer { output, reason, devices, addresses, links, seen: &NOTHING, closed: &OPEN })
}

static NOTHING: AtomicU64 = AtomicU64::new(0);
static OPEN: AtomicBool = AtomicBool::new(false);

/// Puts an event of the programs (`code device rest`) into words.
struct Printer<'a> {
    output: Output,
    reason: Option<&'a str>,
    /// Of the pod asked for, if one is.
    devices: Vec<String>,
    addresses: Vec<String>,
    /// Names of all devices.
    links: Vec<(String, String)>,
    /// Events until now, also those that are not asked for.
    seen: &'a AtomicU64,
    /// Whoever reads has seen enough.
    closed: &'a AtomicBool,
}

impl Printer<'_> {
    /// It came by the pod's veth, or goes to or comes from its address.
    fn is_of_pod(&self, device: &str, rest: &str) -> bool {
        self.devices.is_empty()
            || self.devices.iter().any(|own| own == device)
            || rest
                .split(' ')
                .any(|word| self.addresses.iter().any(|address| word.starts_with(address.as_str())))
    }

    fn print(&self, program: &str, reason: &str, device: &str, rest: &str) -> io::Result<()> {
        let link = self.links.iter().find(|(index, _)| index == device).map_or(device, |(_, name)| name);
        let text = match self.output {
            Output::Table => format!("{program:<12} {reason:<16} on {link:<15} {}\n", words_of(rest)),
            Output::Json => {
                let event = json!({
                    "schemaVersion": SCHEMA_VERSION, "program": program, "reason": reason, "device": link,
                    "packet": words_of(rest),
                });
                format!("{event}\n")
            }
        };
        io::stdout().lock().write_all(text.as_bytes())
    }
}

impl Log for Printer<'_> {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        self.seen.fetch_add(1, Ordering::Relaxed);
        let text = record.args().to_string();
        let mut words = text.splitn(3, ' ');
        let (Some(code), Some(device), Some(rest)) = (words.next(), words.next(), words.next()) else {
            return;
        };
        let Some((program, reason)) = code.parse().ok().and_then(name) else { return };
        if self.reason.is_some_and(|wanted| wanted != reason) || !self.is_of_pod(device, rest) {
            return;
        }
        if self.print(program, reason, device, rest).is_err() {
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
