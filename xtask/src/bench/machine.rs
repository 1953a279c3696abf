//! What has to be here, and what is: tools, kernel, versions.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, anyhow};
use ebpf_bridge_lab::{Need, plugin};
use serde_json::{Value, json};

use super::options::Plan;
use super::outcome::SCHEMA_VERSION;
use crate::debian;
use crate::fault::Fault;
use crate::process::{self, Captured, which};

/// Programs, and the Debian packages they come from.
const TOOLS: [(&str, &str); 7] = [
    ("ip", "iproute2"),
    ("nft", "nftables"),
    ("iptables", "iptables"),
    ("iperf3", "iperf3"),
    ("taskset", "util-linux"),
    ("time", "time"),
    ("strace", "strace"),
];
const REFERENCE: &str = "containernetworking-plugins";

/// Makes sure that everything is here, or says what is not.
pub(super) fn check() -> Result<()> {
    if !debian::is_root() {
        let sentence = "the benchmark makes network namespaces and loads eBPF programs, which only root may";
        return Err(Fault::new(sentence, "become root (`sudo -s`), then `cargo xtask bench`").into());
    }
    let tools = TOOLS.into_iter().filter(|(tool, _)| which(tool).is_none()).map(|(_, package)| package);
    let mut missing: Vec<&str> = tools.collect();
    if ["bridge", "ptp", "host-local"].into_iter().any(|name| Need::Peer(name).missing().is_some()) {
        missing.push(REFERENCE);
    }
    if !missing.is_empty() {
        install(&missing)?;
    }
    match [Need::Lab, Need::Bpf].into_iter().find_map(Need::missing) {
        Some(missing) => Err(Fault::new(missing, "run the benchmark on a Linux machine that has it").into()),
        None => Ok(()),
    }
}

fn install(packages: &[&str]) -> Result<()> {
    let list = packages.join(", ");
    let outcome = match debian::refusal() {
        Some(reason) => Err(anyhow!(reason)),
        None => debian::update().and_then(|()| debian::install(packages)),
    };
    outcome.map_err(|error| {
        let sentence = format!("the benchmark needs {list}, which could not be installed: {error:#}");
        Fault::new(sentence, format!("install what Debian calls {list}")).into()
    })
}

/// What the results were measured on, for the results file.
pub(super) fn describe(cpus: usize, plan: &Plan) -> Result<Value> {
    let reference = plugin::reference_dir().context("no reference plugins")?;
    let ours = plugin::path()?;
    Ok(json!({
        "schemaVersion": SCHEMA_VERSION,
        "date": said("date", &["--utc", "+%Y-%m-%dT%H:%M:%SZ"]),
        "machine": {
            "cores": cpus,
            "cpu": cpu_model(),
            "kernel": read("/proc/sys/kernel/osrelease")?,
            "architecture": std::env::consts::ARCH,
            "memoryGB": memory(),
            "virtual": read("/proc/cpuinfo")?.contains(" hypervisor"),
            "loadAverage": read("/proc/loadavg")?.split(' ').next(),
        },
        "versions": {
            "ebpf-bridge": said(&ours.to_string_lossy(), &["--version"]),
            "reference": reference_version(reference),
            "iptables": said("iptables", &["--version"]),
            "iperf3": said("iperf3", &["--version"]),
        },
        "plan": {
            "quick": plan.quick, "rounds": plan.rounds, "sampleSeconds": plan.seconds,
            "burstMillis": plan.burst.as_millis() as u64, "repeats": plan.repeats,
        },
    }))
}

fn read(path: &str) -> Result<String> {
    Ok(fs::read_to_string(path).with_context(|| format!("reading {path}"))?.trim().into())
}

/// In units of 2^30 bytes, rounded.
fn memory() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let kilobytes: u64 = text.lines().next()?.split_whitespace().nth(1)?.parse().ok()?;
    Some((kilobytes + (1 << 19)) >> 20)
}

fn cpu_model() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(": ")?.1.into())
}

/// The first line a program says about itself; nothing if it says nothing.
fn said(program: &str, arguments: &[&str]) -> Option<String> {
    let captured = Captured::of(process::clean(program).args(arguments)).ok()?;
    let mut lines = captured.stdout.lines().chain(captured.stderr.lines());
    lines.find(|line| !line.trim().is_empty()).map(Into::into)
}

/// Reference builds may not know their version; Debian does, for those it installed.
fn reference_version(dir: &Path) -> Option<String> {
    let about = said(dir.join("bridge").to_str()?, &[])?;
    let installed = debian::is_debian() && dir.starts_with("/usr/lib/cni");
    let package = installed.then(|| said("dpkg-query", &["--show", "--showformat=${Version}", REFERENCE]));
    Some(package.flatten().map_or(about, |version| format!("{REFERENCE} {version}")))
}
