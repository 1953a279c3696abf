//! The bridge, what it forwards, and who else has a say in that.

use std::collections::BTreeSet;

use super::check::{Check, Verdict};
use crate::{
    cli::node::{Device, Node, own},
    dataplane,
    host::iptables,
    plan::{Expectation, Side},
    verbs::Difference,
};

pub(super) const CHECKS: &[Check] = &[
    Check { area: "bridge", name: "bridge", examine: bridge },
    Check { area: "masquerade", name: "masquerade", examine: masquerade },
    Check { area: "forwarding", name: "forwarding", examine: forwarding },
    Check { area: "forwarding", name: "node_routes", examine: node_routes },
    Check { area: "forwarding", name: "forward_policy", examine: forward_policy },
    Check { area: "programs", name: "foreign_programs", examine: foreign_programs },
];

/// What of the kernel's state differs at any pod and is meant by `select`, each once, with what was found.
pub(super) fn kernel_differences(
    node: &Node,
    select: impl Fn(&Expectation) -> bool,
) -> anyhow::Result<Vec<(Expectation, String)>> {
    let mut found: Vec<(Expectation, String)> = Vec::new();
    for difference in node.differences()? {
        let Difference::Kernel(expected, there) = difference else { continue };
        if select(expected) && !found.iter().any(|(known, _)| known == expected) {
            found.push((expected.clone(), there.clone()));
        }
    }
    Ok(found)
}

fn to_be_repaired(differences: Vec<(Expectation, String)>) -> Vec<Verdict> {
    let verdict = |(expected, there): (Expectation, String)| {
        Verdict::wrong(format!("expected {expected}, found: {there}"), format!("{} repair", own()))
    };
    differences.into_iter().map(verdict).collect()
}

/// True for what is expected of a link of the node's that is a bridge of ours.
pub(super) fn is_of_bridge(expected: &Expectation, bridges: &BTreeSet<&str>) -> bool {
    match expected {
        Expectation::Up(Side::Node, link)
        | Expectation::MtuAtLeast(Side::Node, link, _)
        | Expectation::Promiscuous(link)
        | Expectation::Address(Side::Node, link, _) => bridges.contains(link.as_str()),
        _ => false,
    }
}

pub(super) fn bridges(node: &Node) -> anyhow::Result<BTreeSet<&str>> {
    Ok(node.records()?.iter().map(|record| record.bridge.as_str()).collect())
}

fn bridge(node: &Node) -> anyhow::Result<Vec<Verdict>> {
    let bridges = bridges(node)?;
    let wrong = to_be_repaired(kernel_differences(node, |expected| is_of_bridge(expected, &bridges))?);
    if !wrong.is_empty() {
        return Ok(wrong);
    }
    if bridges.is_empty() {
        return Ok(Verdict::note("no pods, so no bridge is needed"));
    }
    let mut told = Vec::new();
    for name in bridges {
        let pods = node.records()?.iter().filter(|record| record.bridge == name);
        let gateways: BTreeSet<String> =
            pods.clone().flat_map(|record| &record.gateways).map(ToString::to_string).collect();
        let with = if gateways.is_empty() { "no address" } else { &Vec::from_iter(gateways).join(" and ") };
        told.push(format!("{name} is up with {with} and has {} of our pods", pods.count()));
    }
    Ok(Verdict::fine(told.join("; ")))
}

fn masquerade(node: &Node) -> anyhow::Result<Vec<Verdict>> {
    let is_masquerade = |expected: &Expectation| matches!(expected, Expectation::Masquerade { .. });
    let wrong = to_be_repaired(kernel_differences(node, is_masquerade)?);
    if !wrong.is_empty() {
        return Ok(wrong);
    }
    let masqueraded = node.networks_of_pods()?.filter(|network| network.ip_masq);
    let networks: BTreeSet<String> = masqueraded.map(|network| network.name).collect();
    if networks.is_empty() {
        return Ok(Verdict::note("no network of this node's pods asks for it"));
    }
    Ok(Verdict::fine(format!("rules of network {} are in place", Vec::from_iter(networks).join(", "))))
}

fn forwarding(node: &Node) -> anyhow::Result<Vec<Verdict>> {
    let differences = kernel_differences(node, |expected| matches!(expected, Expectation::Sysctl(..)))?;
    let wrong = differences.iter().filter_map(|(expected, there)| {
        let Expectation::Sysctl(_, sysctl, value) = expected else { return None };
        let what = format!("{sysctl} is {there}, so the node forwards nothing from or to pods");
        Some(Verdict::wrong(what, format!("sysctl -w {sysctl}={value}")))
    });
    let wrong: Vec<Verdict> = wrong.collect();
    if !wrong.is_empty() {
        return Ok(wrong);
    }
    if node.records()?.iter().all(|record| record.gateways.is_empty()) {
        return Ok(Verdict::note("no pod has its gateway here, so the node need not forward"));
    }
    Ok(Verdict::fine("the node forwards between its devices"))
}

fn node_routes(node: &Node) -> anyhow::Result<Vec<Verdict>> {
    let is_route = |expected: &Expectation| matches!(expected, Expectation::NodeRoute(_));
    Ok(to_be_repaired(kernel_differences(node, is_route)?))
}

/// A policy of DROP is for everybody's packets; Docker and firewalls set it, and let only their own through.
fn forward_policy(node: &Node) -> anyhow::Result<Vec<Verdict>> {
    let mut verdicts = Vec::new();
    for v4 in [true, false] {
        let addresses = node.records()?.iter().flat_map(|record| &record.addresses);
        let pods: Vec<_> = addresses.filter(|address| address.is_ipv4() == v4).collect();
        if pods.is_empty() {
            continue;
        }
        // Without the program there is no such policy, or nobody to ask.
        let Ok(rules) = iptables::filter_rules(v4) else { continue };
        if !rules.iter().any(|rule| rule == "-P FORWARD DROP") {
            continue;
        }
        let program = iptables::program(v4);
        for bridge in bridges(node)? {
            let accepts = |rule: &&String| {
                let words: Vec<&str> = rule.split(' ').collect();
                let names = |flag: &str, what: &str| words.windows(2).any(|pair| pair == [flag, what]);
                let covers = words.iter().filter_map(|word| word.parse::<ipnetwork::IpNetwork>().ok());
                let of_pods = covers.clone().any(|net| pods.iter().all(|pod| net.contains(pod.ip())));
                names("-j", "ACCEPT") && (names("-i", bridge) || of_pods)
            };
            if !rules.iter().any(|rule| accepts(&rule)) {
                let what = format!(
                    "the policy of {program}'s FORWARD chain is DROP, and no rule accepts what pods on {bridge} send"
                );
                let fix = format!(
                    "{program} -A FORWARD -i {bridge} -j ACCEPT && {program} -A FORWARD -o {bridge} -j ACCEPT"
                );
                verdicts.push(Verdict::wrong(what, fix));
            }
        }
    }
    if verdicts.is_empty() {
        verdicts = Verdict::fine("no FORWARD policy of iptables is in the pods' way");
    }
    Ok(verdicts)
}

/// They stay where they are; but one that ends the walk through the programs before ours keeps flows slow.
fn foreign_programs(node: &Node) -> anyhow::Result<Vec<Verdict>> {
    let mut notes = Vec::new();
    for Device { name, index, .. } in node.devices()? {
        let foreign = dataplane::foreign(&node.pins, &node.host, &name, index);
        if !foreign.is_empty() {
            notes.push(Verdict::Note(format!("{name} has programs of others, too: {}", foreign.join(", "))));
        }
    }
    Ok(notes)
}
