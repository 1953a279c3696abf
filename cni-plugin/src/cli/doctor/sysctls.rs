//! Settings of the node's network that others may have changed.

use std::fs;

use ebpf_bridge_common::wire::CONFIG_TCP;

use super::check::{Check, Verdict};
use crate::{cli::node::Node, dataplane::Missing, plan::Sysctl, verbs::Difference};

pub(super) const CHECKS: &[Check] = &[
    Check { area: "conntrack", name: "be_liberal", examine: liberal },
    Check { area: "conntrack", name: "timeouts", examine: timeouts },
    Check { area: "settings", name: "br_netfilter", examine: br_netfilter },
    Check { area: "settings", name: "rp_filter", examine: rp_filter },
];

/// conntrack sees one packet a second of a fast flow, and must not find it out of window.
fn liberal(node: &Node) -> anyhow::Result<Vec<Verdict>> {
    for difference in node.differences()? {
        if let Difference::Programs(missing @ Missing::Liberal(_)) = difference {
            let what = format!("{missing}: fast TCP flows may be found invalid, and dropped");
            let fix = format!("sysctl -w {}=1", Sysctl::ConntrackLiberal);
            return Ok(vec![Verdict::wrong(what, fix)]);
        }
    }
    let Some(settings) = node.settings()? else {
        return Ok(Verdict::note("no programs are loaded, so conntrack need not be prepared"));
    };
    Ok(match node.host.sysctls().read(&Sysctl::ConntrackLiberal)? {
        _ if settings.flags & CONFIG_TCP == 0 => {
            Verdict::note("TCP is left to the bridge path, as its window tracking was strict at the last ADD")
        }
        None => Verdict::note("conntrack is not loaded, so it tracks no windows"),
        Some(value) => Verdict::fine(format!("{} is {value}", Sysctl::ConntrackLiberal)),
    })
}

/// The last data of a flow that conntrack sees may be acknowledged by a packet that it does not see.
fn timeouts(node: &Node) -> anyhow::Result<Vec<Verdict>> {
    let seconds = |key| -> anyhow::Result<Option<u64>> {
        Ok(node.host.sysctls().read(&key)?.and_then(|text| text.parse().ok()))
    };
    let unacknowledged = seconds(Sysctl::ConntrackUnacknowledged)?;
    let established = seconds(Sysctl::ConntrackEstablished)?;
    let (Some(unacknowledged), Some(established)) = (unacknowledged, established) else {
        return Ok(Vec::new());
    };
    let is_used = node.settings()?.is_some_and(|settings| settings.flags & CONFIG_TCP != 0);
    if unacknowledged >= established || !is_used {
        return Ok(Vec::new());
    }
    let key = Sysctl::ConntrackUnacknowledged;
    let what = format!("{key} is {unacknowledged} s: idle fast TCP flows are forgotten early");
    Ok(vec![Verdict::wrong(what, format!("sysctl -w {key}={established}"))])
}

/// Services of Kubernetes are translated by netfilter, also between two ports of a bridge.
fn br_netfilter(node: &Node) -> anyhow::Result<Vec<Verdict>> {
    let is_kubernetes = node.records()?.iter().any(|record| record.pod.is_some());
    let mut verdicts = Vec::new();
    for (v4, name) in [(true, "bridge-nf-call-iptables"), (false, "bridge-nf-call-ip6tables")] {
        let addresses = node.records()?.iter().flat_map(|record| &record.addresses);
        if !is_kubernetes || !addresses.clone().any(|address| address.is_ipv4() == v4) {
            continue;
        }
        let consequence = "a pod that reaches a pod of this node through a Service gets no answer";
        match fs::read_to_string(format!("/proc/sys/net/bridge/{name}")) {
            Err(_) => {
                let fix = "modprobe br_netfilter";
                verdicts.push(Verdict::wrong(format!("br_netfilter is not loaded: {consequence}"), fix));
            }
            Ok(value) if value.trim() == "0" => {
                let what = format!("net.bridge.{name} is 0: {consequence}");
                verdicts.push(Verdict::wrong(what, format!("sysctl -w net.bridge.{name}=1")));
            }
            Ok(_) => verdicts.push(Verdict::Fine(format!("net.bridge.{name} is 1, as Services need it"))),
        }
    }
    Ok(verdicts)
}

/// Strict reverse-path filtering drops what comes in by another uplink than the one answers leave by.
fn rp_filter(node: &Node) -> anyhow::Result<Vec<Verdict>> {
    let uplinks = node.host.default_uplinks()?;
    if uplinks.len() < 2 {
        return Ok(Verdict::fine("rp_filter: there is one way out, so strict filtering does no harm"));
    }
    let read = |link: &str| -> u8 {
        let text = fs::read_to_string(format!("/proc/sys/net/ipv4/conf/{link}/rp_filter"));
        text.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
    };
    // The kernel takes the larger of both (Documentation/networking/ip-sysctl.rst).
    let strict = uplinks.iter().filter(|link| read(link).max(read("all")) == 1);
    let wrong = strict.map(|link| {
        let what = format!(
            "net.ipv4.conf.{link}.rp_filter is strict and there are {} uplinks: answers that come by another are dropped",
            uplinks.len()
        );
        Verdict::wrong(what, format!("sysctl -w net.ipv4.conf.{link}.rp_filter=2"))
    });
    let wrong: Vec<Verdict> = wrong.collect();
    Ok(if wrong.is_empty() { Verdict::fine("rp_filter: loose or off on every uplink") } else { wrong })
}
