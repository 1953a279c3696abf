//! `cargo xtask bench`: one round of a little, with everything it writes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use ebpf_bridge_lab::observe::{Profile, count_runs};
use ebpf_bridge_lab::{Need, Scene, Stats, Variant, plugin, traffic};
use serde_json::Value;

use crate::check::equal;
use crate::suite::Suite;

/// What it checks for before it measures, so that the test does not install it.
const NEEDS: [Need; 10] = [
    Need::Bpf,
    Need::Commands,
    Need::Tool("iptables"),
    Need::Tool("iperf3"),
    Need::Tool("taskset"),
    Need::Tool("time"),
    Need::Tool("strace"),
    Need::Peer("bridge"),
    Need::Peer("ptp"),
    Need::Peer("host-local"),
];

pub(crate) fn register(suite: &mut Suite) {
    suite.test_with(&NEEDS, "bench: a round of a little leaves results, report and chart", little);
    suite.test_with(&NEEDS, "bench: an unknown workload is answered with those there are", unknown);
    suite.test_with(
        &[Need::Bpf],
        "bench: the profile has every packet that the programs counted",
        profile_counts,
    );
}

fn bench(arguments: &[&str]) -> Result<Command> {
    let mut command = Command::new(Need::commands().context("no xtask")?);
    command.arg("bench").args(arguments).stdin(Stdio::null());
    command.env(plugin::PATH_VARIABLE, plugin::path()?);
    Ok(command)
}

fn little() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let out = directory.path().to_str().context("an odd path")?;
    let arguments = ["--quick", "--rounds", "1", "--only", "udp-64-pod", "--only", "memory", "--out", out];
    let output = bench(&arguments)?.output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let results: Value = serde_json::from_slice(&fs::read(directory.path().join("results.json"))?)?;
    equal("schemaVersion", results["schemaVersion"].as_u64(), Some(1))?;
    let of = |workload: &str| -> Vec<&Value> {
        let all = results["results"].as_array().into_iter().flatten();
        all.filter(|series| series["workload"] == workload).collect()
    };
    let traffic = of("udp-64-pod");
    let variants: Vec<_> = traffic.iter().filter_map(|series| series["variant"].as_str()).collect();
    for variant in ["accelerated", "off", "reference", "ptp", "wire"] {
        ensure!(variants.contains(&variant), "{variant} is not among {variants:?}");
    }
    for series in traffic.iter().chain(&of("memory")) {
        ensure!(series["median"].as_f64() > Some(0.0), "nothing measured: {series}");
    }
    again(directory.path())?;
    ensure!(
        fs::read_to_string(directory.path().join("pod.svg"))?.contains("bare wire"),
        "the wire is not drawn"
    );
    Ok(())
}

/// Reported once more, the report is the same.
fn again(directory: &Path) -> Result<()> {
    let path: PathBuf = directory.join("report.md");
    let report = fs::read_to_string(&path)?;
    ensure!(report.contains("| UDP 64 B, pod to pod"), "{report}");
    fs::remove_file(&path)?;
    let output = bench(&["--from", directory.to_str().context("an odd path")?])?.output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    equal("the report", fs::read_to_string(&path)?, report)
}

fn unknown() -> Result<()> {
    let output = bench(&["--only", "warp"])?.output()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(!output.status.success(), "there is no such workload, and nothing is said about it");
    ensure!(said.contains("\"warp\"") && said.contains("udp-64-pod"), "{said}");
    Ok(())
}

fn profile_counts() -> Result<()> {
    let scene = Scene::with_pods(Variant::Auto, 2)?;
    let [client, server] = [&scene.pods[0], &scene.pods[1]];
    let counting = count_runs()?;
    let (before, counted) = (Profile::of(&scene.node)?, Stats::read(&scene.node)?);
    traffic::upload(client, server, server.address(), 1 << 20)?;
    let (after, all) = (Profile::of(&scene.node)?, Stats::read(&scene.node)?);
    drop(counting);
    let fast = (&all - &counted).redirected();
    let find = |profile: &[Profile]| profile.iter().find(|one| one.name == "flow_ingress").cloned();
    let ran = find(&after).context("no flow_ingress")?.since(&find(&before).context("no flow_ingress")?);
    ensure!(fast > 0 && ran.runs >= fast, "{} runs for {fast} packets", ran.runs);
    ensure!(!ran.time.is_zero() && ran.instructions > 0, "{ran:?}");
    Ok(())
}
