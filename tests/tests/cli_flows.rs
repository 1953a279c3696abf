//! The operator's `flows`, `stats` and `monitor`, under traffic.

use anyhow::{Context, Result, ensure};
use ebpf_bridge_lab::operator::operate;
use ebpf_bridge_lab::traffic::{self, Steady};
use ebpf_bridge_lab::{Need, Stats};
use serde_json::Value;

use crate::check::{equal, eventually};
use crate::cli_status::configured;
use crate::suite::Suite;

pub(crate) fn register(suite: &mut Suite) {
    suite.test_with(
        &[Need::Bpf],
        "operator: `flows` tells both directions of a masqueraded flow, in words",
        flows,
    );
    suite.test_with(
        &[Need::Bpf],
        "operator: `stats --watch` tells rates and the share of the fast path",
        rates,
    );
    suite.test_with(
        &[Need::Bpf],
        "operator: `monitor` tells of one pod only, and how many events were lost",
        monitor,
    );
}

/// conntrack of the node says which port the masquerade took.
fn flows() -> Result<()> {
    let scene = configured()?;
    let outside = scene.node.outside();
    let far = outside.address();
    let steady = Steady::tcp(&scene.pods[0], outside, far)?;
    let pod = scene.pods[0].address();
    let mut json = Value::Null;
    let of = |json: &Value, from: &str, to: &str| -> Option<Value> {
        let mut flows = json["flows"].as_array()?.iter();
        let begins = |flow: &Value, key: &str, address: &str| {
            flow[key].as_str().is_some_and(|socket| socket.starts_with(&format!("{address}:")))
        };
        flows.find(|flow| begins(flow, "source", from) && begins(flow, "destination", to)).cloned()
    };
    let (node_address, pod_address) = (outside.node_address().to_string(), pod.to_string());
    eventually("both directions", traffic::PATIENCE, || {
        json = operate(&scene.node, "flows -o json")?.fine()?.json()?;
        Ok(of(&json, &pod_address, &far.to_string()).is_some()
            && of(&json, &far.to_string(), &node_address).is_some())
    })?;
    let there = of(&json, &pod_address, &far.to_string()).context("no way there")?;
    let back = of(&json, &far.to_string(), &node_address).context("no way back")?;
    let (source, destination) =
        (there["source"].as_str().unwrap_or_default(), there["destination"].as_str().unwrap_or_default());
    // The peer sees the masqueraded port, in the destination of what it sends.
    let port =
        back["destination"].as_str().and_then(|socket| socket.rsplit(':').next()).context("no port")?;
    equal(
        "there",
        &there["words"],
        &*format!("TCP {source} -> {destination}, leaves eth0 as the node:{port}"),
    )?;
    equal(
        "back",
        &back["words"],
        &*format!("TCP {destination} -> {node_address}:{port}, enters shop/web at {source}"),
    )?;
    equal("its pod", &there["fromPod"], "shop/web")?;
    ensure!(there["kernelSeconds"].as_f64().is_some_and(|seconds| seconds < 6.0), "{there}");
    ensure!(there["ageSeconds"].is_u64(), "{there}");
    let words = there["words"].as_str().unwrap_or_default();
    ensure!(operate(&scene.node, "flows --pod web")?.fine()?.stdout.contains(words), "not in the table");
    equal(
        "of another pod",
        operate(&scene.node, "flows --pod db")?.fine()?.stdout,
        "no flow is being carried\n",
    )?;
    let watched = operate(&scene.node, "flows --watch --for 2 -o json")?.fine()?.stdout;
    ensure!(watched.lines().count() >= 2, "{watched}");
    for line in watched.lines() {
        equal("schema", &serde_json::from_str::<Value>(line)?["schemaVersion"], 1)?;
    }
    // Ages grow with the flow, though the kernel has it once a second.
    eventually("the age", traffic::PATIENCE, || {
        let json = operate(&scene.node, "flows --pod web -o json")?.fine()?.json()?;
        let flow = of(&json, &pod_address, &far.to_string());
        Ok(flow.is_some_and(|flow| flow["ageSeconds"].as_u64().is_some_and(|age| age >= 3)))
    })?;
    steady.stop().map(drop)
}

fn rates() -> Result<()> {
    let scene = configured()?;
    let steady = Steady::udp(&scene.pods[0], &scene.pods[1], scene.pods[1].address())?;
    eventually("the flow is fast", traffic::PATIENCE, || Ok(Stats::read(&scene.node)?.redirected() > 20))?;
    let said = operate(&scene.node, "stats --watch --for 3 -o json")?.fine()?.stdout;
    let last: Value = serde_json::from_str(said.lines().last().context("no line")?)?;
    ensure!(last["perSecond"]["ingress"]["redirected"].as_f64().is_some_and(|rate| rate > 1.0), "{last}");
    ensure!(last["fastShare"].as_f64().is_some_and(|share| share > 0.0 && share <= 1.0), "{last}");
    let table = operate(&scene.node, "stats --watch --for 2")?.fine()?.stdout;
    ensure!(
        table.contains("PER SECOND") && table.contains("% of the IP packets took the fast path"),
        "{table}"
    );
    let once = operate(&scene.node, "stats")?.fine()?.stdout;
    ensure!(once.contains("flow_ingress") && !once.contains("PER SECOND"), "{once}");
    steady.stop().map(drop)
}

fn monitor() -> Result<()> {
    let scene = configured()?;
    let (pod, outside) = (&scene.pods[0], scene.node.outside());
    let one = Steady::udp(pod, outside, outside.address())?;
    let two = Steady::udp(&scene.pods[1], outside, outside.address())?;
    let said = operate(&scene.node, "monitor --pod web --for 3 -o json")?;
    equal("exit code", said.code, 0)?;
    let lines: Vec<Value> = said.stdout.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    let (last, events) = lines.split_last().context("no line")?;
    ensure!(last["lost"].is_u64() && last["events"].as_u64() >= Some(events.len() as u64), "{last}");
    let veth = pod.result.veth()?.name.clone();
    let address = format!("{}:", pod.address());
    ensure!(!events.is_empty(), "no events");
    for event in events {
        let packet = event["packet"].as_str().unwrap_or_default();
        ensure!(event["device"] == *veth || packet.contains(&address), "of another pod: {event}");
    }
    let refused = operate(&scene.node, "monitor --pod nobody --for 1")?.refused(1)?;
    ensure!(refused.contains("nobody"), "{refused}");
    let said = operate(&scene.node, "monitor --for 1")?;
    ensure!(said.stderr.ends_with(" lost\n"), "{said:?}");
    one.stop()?;
    two.stop().map(drop)
}
