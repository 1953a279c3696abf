//! The packet counters of the eBPF programs, through `ebpf-bridge stats`.

use std::collections::BTreeMap;
use std::ops::Sub;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::{Node, plugin};

/// Ingress reasons of packets that are no IPv4 or IPv6: they are no candidates for the fast path.
const NOT_IP: [&str; 1] = ["not_ip"];

/// Counters by reason. Packets are counted as the programs see them: a GSO frame is one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct Stats {
    /// What became of packets in flow_ingress; `redirected` is the fast path, all else is the kernel's.
    pub ingress: BTreeMap<String, u64>,
    /// What flow_egress did.
    pub egress: BTreeMap<String, u64>,
}

impl Stats {
    /// Asks the plugin on `node`.
    pub fn read(node: &Node) -> Result<Stats> {
        let json = node.call_json(&format!("{} stats -o json", plugin::path()?.display()))?;
        ensure!(json["schemaVersion"] == 1, "`stats` answers in another schema: {json}");
        Stats::deserialize(&json).with_context(|| format!("`stats` answers in another layout: {json}"))
    }

    /// Packets that took the fast path.
    pub fn redirected(&self) -> u64 {
        self.ingress("redirected")
    }

    /// Packets that flow_ingress counted under a reason.
    pub fn ingress(&self, reason: &str) -> u64 {
        self.ingress.get(reason).copied().unwrap_or(0)
    }

    /// Packets that flow_egress counted under a reason.
    pub fn egress(&self, reason: &str) -> u64 {
        self.egress.get(reason).copied().unwrap_or(0)
    }

    /// IP packets that were left to the kernel.
    pub fn by_kernel(&self) -> u64 {
        let counted = self.ingress.iter().filter(|(reason, _)| !NOT_IP.contains(&reason.as_str()));
        counted.map(|(_, count)| count).sum::<u64>() - self.redirected()
    }

    /// The part of all IP packets that took the fast path, 0 to 1; 0 if there were none.
    pub fn fast_share(&self) -> f64 {
        let all = self.redirected() + self.by_kernel();
        if all == 0 { 0.0 } else { self.redirected() as f64 / all as f64 }
    }
}

impl Sub for &Stats {
    type Output = Stats;

    /// What was counted since `before`.
    fn sub(self, before: &Stats) -> Stats {
        Stats { ingress: since(&self.ingress, &before.ingress), egress: since(&self.egress, &before.egress) }
    }
}

fn since(now: &BTreeMap<String, u64>, before: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    let earlier = |reason| before.get(reason).copied().unwrap_or(0);
    now.iter().map(|(reason, count)| (reason.clone(), count.saturating_sub(earlier(reason)))).collect()
}
