//! Load: a node full of pods that come and go as fast as it can, while others stream. Nothing may fail, leak, or arrive
//! other than it was sent. The same without programs, in the same run, tells what of it is the machine's doing.

mod churn;
mod figures;
mod streams;

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Args;
use ebpf_bridge_lab::libcni::{Conflist, Runtime};
use ebpf_bridge_lab::{Node, Place, Snapshot, Stats, config, plugin};
use serde_json::{Value, json};

use self::churn::Churn;
use self::figures::Figures;
use self::streams::Streams;
use super::needs;
use crate::build;
use crate::workspace::Workspace;

/// The programs' part of the time; the rest is for the comparison without them.
const PROGRAMS: f64 = 2.0 / 3.0;

/// Options of `cargo xtask test load`.
#[derive(Args)]
pub(crate) struct Options {
    /// Fewer pods, and two minutes in all
    #[arg(long)]
    short: bool,
    /// How long pods come and go with the programs; half as long again without them
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<u64>,
    /// How many pods there are at a time
    #[arg(long, value_name = "N")]
    pods: Option<usize>,
    /// Write the figures to docs/load.md
    #[arg(long)]
    docs: bool,
}

/// The networks of the node. A bridge has 1023 ports, and the kernel floods broadcasts to all of them.
pub(super) struct Site {
    pub(super) node: Node,
    pub(super) runtimes: [Runtime; 2],
}

pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<ExitCode> {
    needs::install();
    plugin::choose(build::run(workspace)?);
    Place::allow_many()?;
    let pods = options.pods.unwrap_or(if options.short { 60 } else { 500 });
    let seconds = options.seconds.unwrap_or(if options.short { 60 } else { 20 * 60 });
    let time = Duration::from_secs(seconds);
    let with = phase("required", pods, time)?;
    let without = phase("off", pods, time.mul_f64((1.0 - PROGRAMS) / PROGRAMS))?;
    figures::judge(&with, &without)?;
    if options.docs {
        figures::write(workspace, &with, &without)?;
    }
    println!(
        "load: no ADD or DEL failed, every byte arrived as sent, and no veth, lease, rule, pin or file is left"
    );
    Ok(ExitCode::SUCCESS)
}

/// A node with this `ebpf.mode`, from the first ADD to the last DEL.
fn phase(mode: &'static str, pods: usize, time: Duration) -> Result<Figures> {
    let site = Site::new(mode)?;
    let before = Snapshot::take(&site.node)?;
    let figures = load(&site, mode, pods, time).with_context(|| format!("with mode {mode}"))?;
    let after = Snapshot::take(&site.node)?;
    after.without_link("br0").without_link("br1").ensure_equals(&before).context("after the last DEL")?;
    figures.print();
    Ok(figures)
}

impl Site {
    fn new(mode: &str) -> Result<Self> {
        let node = Node::new()?;
        let runtimes = [0, 1].map(|number| {
            let network = config::with(config::bridge(mode), &network(number));
            let list = Conflist { name: format!("n{number}"), ..Conflist::of(network) };
            Runtime::new(list)
        });
        Ok(Self { node, runtimes })
    }
}

fn network(number: usize) -> Value {
    let subnet = format!("10.{}.0.0/22", number + 1);
    json!({"bridge": format!("br{number}"), "ipam": {"ranges": [[{"subnet": subnet}]]}})
}

/// Fills the node, has pods come and go while others stream, and empties it.
fn load(site: &Site, mode: &'static str, pods: usize, time: Duration) -> Result<Figures> {
    let memory = figures::kernel_kib()?;
    let streams = Streams::start(site)?;
    let churn = Churn::new(site, pods);
    let started = Instant::now();
    churn.fill()?;
    let filled = started.elapsed();
    let over = AtomicBool::new(false);
    let (rounds, bytes) = thread::scope(|scope| -> Result<_> {
        let checked = scope.spawn(|| streams.transfer_until(site, &over));
        let rounds = churn.turn_over(time);
        over.store(true, Ordering::Relaxed);
        Ok((rounds?, checked.join().expect("the transfers panicked")?))
    })?;
    let fast = Stats::read(&site.node).map_or(0.0, |stats| stats.fast_share());
    let (longest, stalls) = streams.stop(site)?;
    churn.empty()?;
    let grown = figures::growth(memory)?;
    Ok(Figures { mode, pods, filled, time, rounds, bytes, fast, longest, stalls, grown })
}
