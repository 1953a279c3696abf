//! `flows`: what is being carried, in words.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, SocketAddr},
    path::Path,
    time::Duration,
};

use nix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

use super::{
    Report, SCHEMA_VERSION,
    node::{Node, is_named, name},
    table::{age, columns},
};
use crate::{
    dataplane::{self, Learned},
    state::Record,
};

/// A flow whose last packet went past the kernel longer ago than this many renewals is over, or idle.
const LIVE: u32 = 5;

pub(super) fn flows(bpffs: &Path, asked: Option<&str>) -> anyhow::Result<Report> {
    let node = Node::look(bpffs)?;
    let names = Names::of(&node)?;
    let pods = node.records()?.iter().filter(|pod| asked.is_some_and(|asked| is_named(pod, asked)));
    let wanted: BTreeSet<u32> = pods.filter_map(|pod| names.index_of(&pod.veth)).collect();
    let mut live = live(&node)?;
    live.retain(|flow| {
        asked.is_none() || wanted.contains(&flow.from_device) || wanted.contains(&flow.to_device)
    });
    live.sort_by_key(|flow| (flow.source, flow.destination, flow.protocol));
    let now = now()?;
    let head = ["AGE", "KERNEL", "FLOW"].map(str::to_owned).to_vec();
    let rows = live.iter().map(|flow| {
        let since = began(flow, now).map_or_else(|| "-".to_owned(), age);
        let kernel = Duration::from_nanos(now.saturating_sub(flow.learned_ns));
        vec![since, format!("{:.1}s", kernel.as_secs_f64()), names.words(flow)]
    });
    let table = match live.as_slice() {
        [] => "no flow is being carried\n".to_owned(),
        _ => columns(&[vec![head], rows.collect()].concat()),
    };
    let told: Vec<Value> = live.iter().map(|flow| document(flow, &names, now)).collect();
    Ok(Report { json: json!({ "schemaVersion": SCHEMA_VERSION, "flows": told }), table })
}

/// Those that the programs carry, or would: of this epoch, and not too long ago.
fn live(node: &Node) -> anyhow::Result<Vec<Learned>> {
    let Some(settings) = node.settings()? else { return Ok(Vec::new()) };
    let (now, patience) = (now()?, settings.renew_ns * u64::from(LIVE));
    let mut flows = dataplane::flows(&node.pins)?;
    flows.retain(|flow| flow.epoch == settings.epoch && now.saturating_sub(flow.learned_ns) < patience);
    Ok(flows)
}

/// As `bpf_ktime_get_ns` counts.
fn now() -> anyhow::Result<u64> {
    Ok(Duration::from(clock_gettime(ClockId::CLOCK_MONOTONIC)?).as_nanos() as u64)
}

fn began(flow: &Learned, now: u64) -> Option<Duration> {
    (flow.since_s != 0)
        .then(|| Duration::from_nanos(now).saturating_sub(Duration::from_secs(flow.since_s.into())))
}

/// What devices and addresses are called.
struct Names<'a> {
    devices: BTreeMap<u32, String>,
    own: BTreeSet<IpAddr>,
    pods: &'a [Record],
}

impl<'a> Names<'a> {
    fn of(node: &'a Node) -> anyhow::Result<Self> {
        let (mut devices, mut own) = (BTreeMap::new(), BTreeSet::new());
        for (name, link) in node.host.node().links()? {
            own.extend(node.host.node().addresses(link.index)?.iter().map(ipnetwork::IpNetwork::ip));
            devices.insert(link.index, name);
        }
        Ok(Self { devices, own, pods: node.records()? })
    }

    fn index_of(&self, device: &str) -> Option<u32> {
        self.devices.iter().find(|(_, name)| *name == device).map(|(index, _)| *index)
    }

    fn device(&self, index: u32) -> String {
        self.devices.get(&index).cloned().unwrap_or_else(|| format!("device {index}"))
    }

    fn pod(&self, index: u32) -> Option<String> {
        let device = self.devices.get(&index)?;
        self.pods.iter().find(|pod| pod.veth == *device).map(name)
    }

    /// `TCP 10.88.0.2:40112 -> 1.1.1.1:443, leaves eth0 as the node:40112`
    fn words(&self, flow: &Learned) -> String {
        let way = match self.pod(flow.to_device) {
            Some(pod) if flow.to_pod => format!("enters {pod}"),
            _ => format!("leaves {}", self.device(flow.to_device)),
        };
        let mut words = format!("{} {} -> {}, {way}", protocol(flow), flow.source, flow.destination);
        if flow.source_after != flow.source {
            words.push_str(&format!(" as {}", self.socket(flow.source_after)));
        }
        if flow.destination_after != flow.destination {
            words.push_str(&format!(" at {}", self.socket(flow.destination_after)));
        }
        words
    }

    fn socket(&self, socket: SocketAddr) -> String {
        if self.own.contains(&socket.ip()) {
            format!("the node:{}", socket.port())
        } else {
            socket.to_string()
        }
    }
}

fn protocol(flow: &Learned) -> &'static str {
    if flow.protocol == 6 { "TCP" } else { "UDP" }
}

fn document(flow: &Learned, names: &Names<'_>, now: u64) -> Value {
    json!({
        "protocol": protocol(flow), "source": flow.source, "destination": flow.destination,
        "from": names.device(flow.from_device), "to": names.device(flow.to_device),
        "fromPod": names.pod(flow.from_device), "toPod": names.pod(flow.to_device),
        "sourceAfter": flow.source_after, "destinationAfter": flow.destination_after,
        "ageSeconds": began(flow, now).map(|age| age.as_secs()),
        "kernelSeconds": now.saturating_sub(flow.learned_ns) as f64 / 1e9,
        "words": names.words(flow),
    })
}
