//! One sample of traffic.

use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use ebpf_bridge_lab::traffic::{Flood, churn, flood, many_flows, ping_pong};
use serde_json::Value;

use super::load::Load;
use super::meter::Meter;
use super::options::Plan;
use super::results::Sample;
use super::rig::{Ends, Rig};
use super::route::Route;
use super::server::{Cpus, PORT, pinned};
use super::workload::Workload;

/// Payload of a request and its answer, and of a datagram of many flows, in bytes.
const SMALL: usize = 64;

/// Loads a route of a rig, with everything the kernel and our programs count meanwhile.
pub(super) fn measure(
    rig: &Rig,
    load: Load,
    route: Route,
    plan: &Plan,
    cpus: Cpus,
) -> Result<Vec<(Workload, Sample)>> {
    let ends = rig.ends(route).context("a route this variant does not have")?;
    let places = [ends.client, ends.server];
    let counted = rig.stats()?;
    let before = Meter::read(places)?;
    let mut done = match load {
        Load::Streams(count) => vec![(load, streams(ends, count, plan, cpus)?)],
        Load::RoundTrips { pinned } => {
            vec![(load, round_trips(ends, plan, pinned.then_some(cpus.server))?)]
        }
        Load::Datagrams(size) => vec![(load, datagrams(ends, size, plan, cpus)?)],
        Load::ManyFlows | Load::NewFlows => flows(ends, plan, cpus)?,
        Load::Connections => vec![(load, connections(ends, plan, cpus)?)],
    };
    let after = Meter::read(places)?;
    // What is counted is of the whole sample, so it belongs to the workload that most of it was.
    let (_, sample) = &mut done[0];
    sample.cpu = sample.work.map(|work| after.busy_since(&before).as_secs_f64() * 1e6 / work);
    sample.retransmits = load.is_tcp().then(|| after.retransmits_since(&before));
    if let (Some(before), Some(after)) = (counted, rig.stats()?) {
        sample.fast_share = Some((&after - &before).fast_share());
    }
    Ok(done.into_iter().map(|(load, sample)| (Workload::Traffic(load, route), sample)).collect())
}

fn streams(ends: Ends, count: u8, plan: &Plan, cpus: Cpus) -> Result<Sample> {
    let mut iperf3 = pinned(ends.client, cpus.client, "iperf3");
    iperf3.args(["--json", "--client", &ends.address.to_string(), "--port", &PORT.to_string()]);
    iperf3.args(["--time", &plan.seconds.to_string(), "--parallel", &count.to_string()]);
    let output = iperf3.stdin(Stdio::null()).output().context("running iperf3")?;
    let said: Value = serde_json::from_slice(&output.stdout).context("iperf3 printed other than JSON")?;
    ensure!(output.status.success(), "iperf3: {}", said["error"]);
    let received = &said["end"]["sum_received"];
    let number = |name: &str| received[name].as_f64().with_context(|| format!("iperf3 says no {name}"));
    let work = Some(number("bytes")? / 1e6);
    Ok(Sample { value: number("bits_per_second")? / 1e9, work, ..Sample::default() })
}

fn round_trips(ends: Ends, plan: &Plan, cpu: Option<usize>) -> Result<Sample> {
    let turns = ping_pong(ends.client, ends.server, ends.address, SMALL, plan.burst, cpu)?;
    Ok(Sample::rate(turns.transactions, turns.elapsed, turns.warm_up))
}

fn datagrams(ends: Ends, size: u16, plan: &Plan, cpus: Cpus) -> Result<Sample> {
    let flood = flood(ends.client, ends.server, ends.address, size.into(), plan.burst, cpus.server)?;
    Ok(flooded(flood))
}

fn flows(ends: Ends, plan: &Plan, cpus: Cpus) -> Result<Vec<(Load, Sample)>> {
    let flows = many_flows(ends.client, ends.server, ends.address, SMALL, plan.burst, cpus.server)?;
    Ok(vec![(Load::ManyFlows, flooded(flows.rest)), (Load::NewFlows, flooded(flows.first))])
}

fn connections(ends: Ends, plan: &Plan, cpus: Cpus) -> Result<Sample> {
    let churn = churn(ends.client, ends.server, ends.address, plan.burst, cpus.server)?;
    Ok(Sample::rate(churn.connections, churn.elapsed, churn.warm_up))
}

fn flooded(flood: Flood) -> Sample {
    Sample { lost: Some(flood.lost), ..Sample::rate(flood.received, flood.elapsed, flood.warm_up) }
}
