//! One sample of traffic.

use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use ebpf_bridge_lab::traffic::{churn, flood, ping_pong};
use serde_json::Value;

use super::meter::Meter;
use super::options::Plan;
use super::results::Sample;
use super::rig::{Ends, Rig};
use super::server::{Cpus, PORT, pinned};
use super::workload::{Load, Route};

/// Payload of a datagram, and of a request and its answer, in bytes.
const SMALL: usize = 64;

/// What a load did: the value to report, how many units of work that was, and what got lost.
struct Done {
    value: f64,
    work: f64,
    lost: Option<u64>,
}

/// Loads a route of a rig, with everything the kernel and our programs count meanwhile.
pub(super) fn measure(rig: &Rig, load: Load, route: Route, plan: &Plan, cpus: Cpus) -> Result<Sample> {
    let ends = rig.ends(route).context("a route this variant does not have")?;
    let places = [ends.client, ends.server];
    let counted = rig.stats()?;
    let before = Meter::read(places)?;
    let done = match load {
        Load::Streams(count) => streams(ends, count, plan, cpus)?,
        Load::RoundTrips => round_trips(ends, plan, cpus)?,
        Load::Datagrams => datagrams(ends, plan, cpus)?,
        Load::Connections => connections(ends, plan, cpus)?,
    };
    let after = Meter::read(places)?;
    let fast_share = match (counted, rig.stats()?) {
        (Some(before), Some(after)) => Some((&after - &before).fast_share()),
        _ => None,
    };
    let tcp = !matches!(load, Load::Datagrams);
    Ok(Sample {
        value: done.value,
        cpu: Some(after.busy_since(&before).as_secs_f64() * 1e6 / done.work),
        retransmits: tcp.then(|| after.retransmits_since(&before)),
        lost: done.lost,
        fast_share,
    })
}

fn streams(ends: Ends, count: u8, plan: &Plan, cpus: Cpus) -> Result<Done> {
    let mut iperf3 = pinned(ends.client, cpus.client, "iperf3");
    iperf3.args(["--json", "--client", &ends.address.to_string(), "--port", &PORT.to_string()]);
    iperf3.args(["--time", &plan.seconds.to_string(), "--parallel", &count.to_string()]);
    let output = iperf3.stdin(Stdio::null()).output().context("running iperf3")?;
    let said: Value = serde_json::from_slice(&output.stdout).context("iperf3 printed other than JSON")?;
    ensure!(output.status.success(), "iperf3: {}", said["error"]);
    let received = &said["end"]["sum_received"];
    let number = |name: &str| received[name].as_f64().with_context(|| format!("iperf3 says no {name}"));
    Ok(Done { value: number("bits_per_second")? / 1e9, work: number("bytes")? / 1e6, lost: None })
}

fn round_trips(ends: Ends, plan: &Plan, cpus: Cpus) -> Result<Done> {
    let turns = ping_pong(ends.client, ends.server, ends.address, SMALL, plan.burst, cpus.server)?;
    let transactions = turns.transactions as f64;
    Ok(Done { value: transactions / turns.elapsed.as_secs_f64(), work: transactions, lost: None })
}

fn datagrams(ends: Ends, plan: &Plan, cpus: Cpus) -> Result<Done> {
    let flood = flood(ends.client, ends.server, ends.address, SMALL, plan.burst, cpus.server)?;
    let received = flood.received as f64;
    Ok(Done { value: received / flood.elapsed.as_secs_f64(), work: received, lost: Some(flood.lost) })
}

fn connections(ends: Ends, plan: &Plan, cpus: Cpus) -> Result<Done> {
    let churn = churn(ends.client, ends.server, ends.address, plan.burst, cpus.server)?;
    let connections = churn.connections as f64;
    Ok(Done { value: connections / churn.elapsed.as_secs_f64(), work: connections, lost: None })
}
