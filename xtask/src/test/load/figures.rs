//! What a load run came to.

use std::fs;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use ebpf_bridge_lab::traffic::STALL;

use crate::workspace::Workspace;

/// How many times more stalls there may be, and how much longer, than without programs: both numbers are of rare
/// events, and vary by that much from run to run.
const STALLS_RATIO: f64 = 3.0;
/// Stalls per minute that say nothing about the programs: those of a machine that stands still itself three times, for
/// each of the four streams.
const STALLS_NOISE: f64 = 12.0;
/// What the kernel may keep for each pod that came and went. A veth alone is more.
const KIB_PER_POD: u64 = 4;
/// Growth that other uses of the machine account for.
const KIB_NOISE: u64 = 64 << 10;

/// One phase.
pub(super) struct Figures {
    /// `ebpf.mode`.
    pub(super) mode: &'static str,
    /// Pods at a time.
    pub(super) pods: usize,
    /// How long wiring them took.
    pub(super) filled: Duration,
    /// How long pods came and went.
    pub(super) time: Duration,
    /// How many.
    pub(super) rounds: usize,
    /// Payload that was compared byte by byte.
    pub(super) bytes: u64,
    /// The part of packets that the programs carried, 0 to 1.
    pub(super) fast: f64,
    /// The longest time a stream stood still.
    pub(super) longest: Duration,
    /// How often one did for [`STALL`] or longer.
    pub(super) stalls: u64,
    /// Growth of the kernel's memory from before the first ADD to after the last DEL.
    pub(super) grown: u64,
}

impl Figures {
    fn stalls_per_minute(&self) -> f64 {
        self.stalls as f64 * 60.0 / self.time.as_secs_f64()
    }

    fn rows(&self) -> [(&'static str, String); 8] {
        let rate = self.rounds as f64 / self.time.as_secs_f64();
        [
            ("pods at a time", self.pods.to_string()),
            ("all wired in, s", format!("{:.1}", self.filled.as_secs_f64())),
            (
                "pods that came and went",
                format!("{} in {} s, {rate:.1} a second", self.rounds, self.time.as_secs()),
            ),
            ("compared byte by byte, MiB", (self.bytes >> 20).to_string()),
            ("packets on the fast path", format!("{:.1} %", 100.0 * self.fast)),
            ("longest stall of a stream, ms", self.longest.as_millis().to_string()),
            ("stalls of 200 ms and more, a minute", format!("{:.1}", self.stalls_per_minute())),
            ("the kernel's memory grew by, KiB", self.grown.to_string()),
        ]
    }

    pub(super) fn print(&self) {
        for (what, value) in self.rows() {
            println!("load, mode {}: {what}: {value}", self.mode);
        }
    }
}

/// A stall below the bound is as promised. A machine that is busy with the churn alone breaks the bound without any
/// programs, so beyond it what counts is whether there are many more of them with.
///
/// # Errors
/// If there are, or if memory leaks.
pub(super) fn judge(with: &Figures, without: &Figures) -> Result<()> {
    for figures in [with, without] {
        let allowed = KIB_NOISE.max(KIB_PER_POD * figures.rounds as u64);
        ensure!(
            figures.grown <= allowed,
            "with mode {}, the kernel's memory grew by {} KiB; {allowed} KiB are allowed",
            figures.mode,
            figures.grown
        );
    }
    if with.longest < STALL {
        println!("load: no stream stood still for {} ms", STALL.as_millis());
        return Ok(());
    }
    let (stalls, usual) = (with.stalls_per_minute(), without.stalls_per_minute());
    println!(
        "load: streams stood still for {} ms and more {stalls:.1} times a minute, and {usual:.1} without programs",
        STALL.as_millis()
    );
    ensure!(
        stalls <= STALLS_NOISE.max(usual * STALLS_RATIO),
        "streams stood still {stalls:.1} times a minute, and {usual:.1} times without programs"
    );
    Ok(())
}

/// Writes the figures as a page of the documentation.
pub(super) fn write(workspace: &Workspace, with: &Figures, without: &Figures) -> Result<()> {
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").context("reading the kernel's release")?;
    let cpus = thread::available_parallelism()?;
    let mut page = format!(
        "# Under load\n\n\
         Written by `cargo xtask test load --docs`: pods come and go on two bridges, four at a time, as fast as the\n\
         machine can, while four others stream. Every fourth new pod must reach its gateway at once. Kernel {}, {cpus} CPUs.\n\n\
         | | `ebpf.mode` `{}` | `{}` |\n|---|---|---|\n",
        kernel.trim(),
        with.mode,
        without.mode
    );
    for ((what, with), (_, without)) in with.rows().into_iter().zip(without.rows()) {
        page.push_str(&format!("| {what} | {with} | {without} |\n"));
    }
    page.push_str(
        "\nNo ADD or DEL failed, and after the last DEL no veth, lease, rule, pin or file was left. The CPUs are all\n\
         busy with wiring, so streams may stand still for want of one: the right column says how often they do\n\
         without programs.\n",
    );
    let path = workspace.root.join("docs/load.md");
    fs::write(&path, page).with_context(|| format!("writing {}", path.display()))
}

/// How much [`kernel_kib`] has grown once the kernel has ended the last namespaces, which it does in its own time.
pub(super) fn growth(before: u64) -> Result<u64> {
    let mut least = u64::MAX;
    for _ in 0..10 {
        thread::sleep(Duration::from_millis(500));
        least = least.min(kernel_kib()?.saturating_sub(before));
        if least == 0 {
            break;
        }
    }
    Ok(least)
}

/// What the kernel has allocated for objects and for each CPU, and cannot give back at will.
pub(super) fn kernel_kib() -> Result<u64> {
    let text = fs::read_to_string("/proc/meminfo").context("reading /proc/meminfo")?;
    let field = |name: &str| -> Result<u64> {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        let number = line.and_then(|line| line.trim().strip_suffix("kB")).map(str::trim);
        number.and_then(|number| number.parse().ok()).with_context(|| format!("no {name} in /proc/meminfo"))
    };
    Ok(field("SUnreclaim:")? + field("Percpu:")?)
}
