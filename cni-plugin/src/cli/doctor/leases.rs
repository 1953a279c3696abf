//! Leases, and whatever else belongs to nobody.

use super::check::{Check, Verdict};
use crate::{
    cli::node::{Node, own},
    config::Ipam,
    ipam::HostLocal,
    verbs::Leftover,
};

pub(super) const CHECKS: &[Check] = &[
    Check { area: "leases", name: "usage", examine: usage },
    Check { area: "leases", name: "stale_leases", examine: leases },
    Check { area: "leftovers", name: "attachments", examine: attachments },
    Check { area: "leftovers", name: "veths", examine: veths },
    Check { area: "leftovers", name: "rules", examine: rules },
    Check { area: "leftovers", name: "pins", examine: pins },
];

/// Addresses used and free, of every network that is configured or has pods.
fn usage(node: &Node) -> anyhow::Result<Vec<Verdict>> {
    let mut networks = node.networks();
    for network in node.networks_of_pods()? {
        if !networks.iter().any(|known| known.name == network.name) {
            networks.push(network);
        }
    }
    let mut verdicts = Vec::new();
    for network in &networks {
        let Ipam::HostLocal(config) = &network.ipam else { continue };
        for usage in HostLocal::new(&network.name, config.clone())?.usage()? {
            // An IPv6 subnet has more than anybody wants to read.
            let free = match usage.total.saturating_sub(usage.used) {
                some @ 0..=99_999_999 => some.to_string(),
                _ => "plenty".to_owned(),
            };
            let what =
                format!("network {}: {} used and {free} free in {}", network.name, usage.used, usage.pool);
            verdicts.push(if usage.is_full() {
                Verdict::wrong(what, format!("{} gc", own()))
            } else {
                Verdict::Fine(what)
            });
        }
    }
    if verdicts.is_empty() {
        verdicts = Verdict::note("no network leases addresses here");
    }
    Ok(verdicts)
}

fn left(node: &Node, select: impl Fn(&Leftover) -> bool) -> anyhow::Result<Vec<Verdict>> {
    let found = node.leftovers()?.iter().filter(|leftover| select(leftover));
    Ok(found
        .map(|leftover| Verdict::wrong(format!("nobody needs {leftover}"), format!("{} gc", own())))
        .collect())
}

fn leases(node: &Node) -> anyhow::Result<Vec<Verdict>> {
    left(node, |leftover| matches!(leftover, Leftover::Lease { .. }))
}

fn attachments(node: &Node) -> anyhow::Result<Vec<Verdict>> {
    let mut verdicts = left(node, |leftover| matches!(leftover, Leftover::Attachment(_)))?;
    if node.leftovers()?.is_empty() {
        verdicts.push(Verdict::Fine("everything here belongs to somebody".to_owned()));
    }
    Ok(verdicts)
}

fn veths(node: &Node) -> anyhow::Result<Vec<Verdict>> {
    left(node, |leftover| matches!(leftover, Leftover::Veth(_)))
}

fn rules(node: &Node) -> anyhow::Result<Vec<Verdict>> {
    left(node, |leftover| matches!(leftover, Leftover::Rules(_)))
}

fn pins(node: &Node) -> anyhow::Result<Vec<Verdict>> {
    left(node, |leftover| matches!(leftover, Leftover::Pin(_)))
}
