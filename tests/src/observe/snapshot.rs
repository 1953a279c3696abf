//! Everything a plugin may leave behind on a node, as lines that can be compared.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use serde_json::Value;

use crate::{Node, Place};

/// Where the pins, the leases and our own files are. Of the leases' tree only what is inside: the directory is
/// the administrator's, made when missing.
const TREES: [&str; 4] = ["/sys/fs/bpf", "/var/lib/cni/networks", "/run/ebpf-bridge", "/run/cni"];

/// One observed thing, in words, and the device it belongs to if it belongs to one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Line {
    text: String,
    device: Option<String>,
}

/// Links, addresses, routes, rules, qdiscs, filters, nftables and iptables rules, pins, leases and files of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    lines: BTreeSet<Line>,
}

impl Snapshot {
    /// Looks at `node`.
    pub fn take(node: &Node) -> Result<Snapshot> {
        let mut lines = BTreeSet::new();
        links(node, &mut lines)?;
        for family in ["-4", "-6"] {
            each(node, &format!("ip -j {family} route show table all"), "route", &mut lines)?;
            each(node, &format!("ip -j {family} rule show"), "rule", &mut lines)?;
        }
        each(node, "tc -j qdisc show", "qdisc", &mut lines)?;
        rules(node, &mut lines)?;
        for tree in TREES {
            lines.extend(node.tree(tree)?.into_iter().map(|path| line(format!("file {tree}/{path}"))));
        }
        Ok(Snapshot { lines })
    }

    /// The same without one link and what goes with it: its addresses, routes and qdiscs, not the ports of a bridge.
    pub fn without_link(mut self, name: &str) -> Snapshot {
        self.lines.retain(|line| line.device.as_deref() != Some(name));
        self
    }

    /// The same without IPv6 link-local addresses and their routes, which the kernel adds to a link when it gets to it.
    pub fn without_link_local(mut self) -> Snapshot {
        self.lines.retain(|line| !line.text.contains("fe80:"));
        self
    }

    /// What is here and was not in `before` (`+`), and what was there and is no more (`-`).
    pub fn changes_since(&self, before: &Snapshot) -> Vec<String> {
        let appeared = self.lines.difference(&before.lines).map(|line| format!("+ {}", line.text));
        appeared.chain(before.lines.difference(&self.lines).map(|line| format!("- {}", line.text))).collect()
    }

    /// # Errors
    /// If anything changed since `before`; the message lists what.
    pub fn ensure_equals(&self, before: &Snapshot) -> Result<()> {
        let changes = self.changes_since(before);
        ensure!(changes.is_empty(), "the node is not what it was:\n  {}", changes.join("\n  "));
        Ok(())
    }
}

fn links(node: &Place, lines: &mut BTreeSet<Line>) -> Result<()> {
    for link in list(&node.call_json("ip -j address show")?) {
        let device = link["ifname"].as_str().map(String::from);
        let of_link = ["ifname", "address", "mtu", "master", "flags"].map(|key| link[key].clone());
        lines
            .insert(Line { text: format!("link {}", Value::from(of_link.to_vec())), device: device.clone() });
        for address in list(&link["addr_info"]) {
            let text = format!("address {} {}/{}", link["ifname"], address["local"], address["prefixlen"]);
            lines.insert(Line { text, device: device.clone() });
        }
    }
    Ok(())
}

/// One line for each object a tool lists.
fn each(node: &Place, call: &str, what: &str, lines: &mut BTreeSet<Line>) -> Result<()> {
    for object in list(&node.call_json(call)?) {
        let device = object["dev"].as_str().map(String::from);
        lines.insert(Line { text: format!("{what} {object}"), device });
    }
    Ok(())
}

/// Rules without their counters, which any packet moves.
fn rules(node: &Place, lines: &mut BTreeSet<Line>) -> Result<()> {
    let ruleset = node.call("nft --stateless list ruleset")?;
    lines.extend(numbered("nft", ruleset.lines()));
    for program in ["iptables-save", "ip6tables-save"] {
        // Where iptables is not installed there is nothing of it to leave behind.
        let saved = node.call(program).unwrap_or_default();
        let rules = saved.lines().filter(|line| !line.starts_with('#'));
        lines.extend(numbered(program, rules.map(|line| line.split(" [").next().unwrap_or(line))));
    }
    Ok(())
}

/// The place of a rule in its chain matters, and equal lines in two chains are two.
fn numbered<'a>(what: &str, text: impl Iterator<Item = &'a str>) -> Vec<Line> {
    text.enumerate().map(|(number, rule)| line(format!("{what} {number:03} {rule}"))).collect()
}

fn line(text: String) -> Line {
    Line { text, device: None }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}
