//! Load: a node full of pods that come and go as fast as it can, while others stream. Nothing may fail, leak, or arrive
//! other than it was sent.

mod churn;
mod streams;

use std::env;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use ebpf_bridge_lab::libcni::{Conflist, Runtime};
use ebpf_bridge_lab::{Node, Snapshot, Stats, config, plugin};
use serde_json::{Value, json};

use self::churn::Churn;
use self::streams::Streams;
use super::needs;
use crate::build;
use crate::workspace::Workspace;

/// How long a stream may stand still. A shared machine breaks any bound, and so it is not one where `CI` is set.
const STALL: Duration = Duration::from_millis(200);

/// Options of `cargo xtask test load`.
#[derive(Args)]
pub(crate) struct Options {
    /// Fewer pods and less than two minutes
    #[arg(long)]
    short: bool,
    /// How long pods come and go
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<u64>,
    /// How many pods there are at a time
    #[arg(long, value_name = "N")]
    pods: Option<usize>,
    /// With this `ebpf.mode`
    #[arg(long, default_value = "required")]
    mode: String,
}

/// The networks of the node. A bridge has 1023 ports, and the kernel floods broadcasts to all of them.
pub(super) struct Site {
    pub(super) node: Node,
    pub(super) runtimes: [Runtime; 2],
}

pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<ExitCode> {
    needs::install();
    plugin::choose(build::run(workspace)?);
    let pods = options.pods.unwrap_or(if options.short { 60 } else { 500 });
    let seconds = options.seconds.unwrap_or(if options.short { 45 } else { 20 * 60 });
    let site = Site::new(&options.mode)?;
    let before = Snapshot::take(&site.node)?;
    load(&site, pods, Duration::from_secs(seconds))?;
    let after = Snapshot::take(&site.node)?;
    after.without_link("br0").without_link("br1").ensure_equals(&before).context("after the last DEL")?;
    println!("load: no ADD or DEL failed, every byte arrived as sent, and nothing is left");
    Ok(ExitCode::SUCCESS)
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
fn load(site: &Site, pods: usize, time: Duration) -> Result<()> {
    let streams = Streams::start(site)?;
    let churn = Churn::new(site, pods);
    let started = Instant::now();
    churn.fill()?;
    println!("load: {pods} pods in {:.1} s", started.elapsed().as_secs_f64());
    let memory = unreclaimable_kib()?;
    let rounds = thread::scope(|scope| {
        let checked = scope.spawn(|| streams.transfer_until(site, Instant::now() + time));
        let rounds = churn.turn_over(time);
        let bytes = checked.join().expect("the transfers panicked")?;
        println!("load: {} MiB compared byte by byte", bytes >> 20);
        rounds
    })?;
    let per_second = rounds as f64 / time.as_secs_f64();
    println!("load: {rounds} pods came and went, {per_second:.1} a second, beside {pods}");
    // The machine may have other uses; a leak of a veth or a namespace for each would be tens of MiB.
    println!("load: the kernel's memory grew by {} KiB", unreclaimable_kib()?.saturating_sub(memory));
    if let Ok(stats) = Stats::read(&site.node) {
        println!("load: {:.1} % of the packets took the fast path", 100.0 * stats.fast_share());
    }
    let stall = streams.stop(site)?;
    println!("load: the longest stall of a stream was {} ms", stall.as_millis());
    churn.empty()?;
    ensure!(
        stall < STALL || env::var_os("CI").is_some(),
        "a stream stood still for {stall:?}; less than {STALL:?} is allowed (compare with --mode off)"
    );
    Ok(())
}

/// What the kernel has allocated for objects and cannot give back at will.
fn unreclaimable_kib() -> Result<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").context("reading /proc/meminfo")?;
    let line = text.lines().find_map(|line| line.strip_prefix("SUnreclaim:"));
    let number = line.and_then(|line| line.trim().strip_suffix("kB")).map(str::trim);
    number.and_then(|number| number.parse().ok()).context("no SUnreclaim in /proc/meminfo")
}
