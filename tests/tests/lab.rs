//! The lab itself: what the other tests conclude from it must hold.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use ebpf_bridge_lab::libcni::{PluginError, exec};
use ebpf_bridge_lab::traffic::{FLOWS, churn, cpus, flood, many_flows};
use ebpf_bridge_lab::{Need, Node, Place, Snapshot};

use crate::check::{equal, refused};
use crate::suite::Suite;

pub(crate) fn register(suite: &mut Suite) {
    suite.test("lab: nothing can be mounted on a node without a bpffs", nothing_mounts);
    suite.test_with(&[Need::Bpf], "lab: what is pinned on one node is not seen on another", pins_apart);
    suite.test("lab: outside has no route to pods", outside_is_blind);
    suite.test("lab: a snapshot notices an address, a route, a rule and a file", snapshot_notices);
    suite.test(
        "lab: a plugin that says two things, or fails without an error, is found out",
        protocol_breaches,
    );
    suite.test("lab: what the generators say to have done, the kernel has counted", generators_count);
}

fn nothing_mounts() -> Result<()> {
    let node = Node::without_bpffs()?;
    for mount in ["mount -t bpf bpf /sys/fs/bpf", "mount -t tmpfs none /mnt"] {
        ensure!(node.call(mount).is_err(), "`{mount}` succeeded");
    }
    equal("file systems of type bpf", node.call("cat /proc/mounts")?.matches(" bpf ").count(), 0)
}

fn pins_apart() -> Result<()> {
    let (one, other) = (Node::new()?, Node::new()?);
    one.call("mkdir /sys/fs/bpf/seen-here")?;
    ensure!(one.tree("/sys/fs/bpf")?.contains(&"seen-here".into()), "not seen where it was made");
    ensure!(!other.tree("/sys/fs/bpf")?.contains(&"seen-here".into()), "seen on the other node");
    Ok(())
}

fn outside_is_blind() -> Result<()> {
    let node = Node::new()?;
    let found = node.outside().call("ip route get 10.1.0.2");
    ensure!(found.is_err(), "a route to 10.1.0.2: {found:?}");
    Ok(())
}

fn generators_count() -> Result<()> {
    let node = Node::new()?;
    let (outside, address) = (node.outside(), node.outside().address());
    let (time, cpu) = (Duration::from_millis(50), cpus()?[0]);
    let flood = flood(&node, outside, address, 64, time, cpu)?;
    let counted = snmp(outside, "Udp:", "InDatagrams")?;
    ensure!(counted >= flood.received, "{counted} datagrams counted, not {}", flood.received);
    equal("datagrams for which there was no room", snmp(outside, "Udp:", "RcvbufErrors")?, 0)?;
    let earlier = snmp(outside, "Udp:", "InDatagrams")?;
    let many = many_flows(&node, outside, address, 64, time, cpu)?;
    equal("first datagrams", many.first.received + many.first.lost, FLOWS as u64)?;
    let (said, counted) = (many.rest.warm_up + many.rest.received, snmp(outside, "Udp:", "InDatagrams")?);
    ensure!(counted - earlier >= said, "{} datagrams counted, not {said}", counted - earlier);
    let churn = churn(&node, outside, address, time, cpu)?;
    let counted = snmp(outside, "Tcp:", "PassiveOpens")?;
    ensure!(counted >= churn.connections, "{counted} connections counted, not {}", churn.connections);
    equal("connections reset", snmp(&node, "Tcp:", "EstabResets")?, 0)
}

/// A counter of snmp(7): a line of names, then a line of values.
fn snmp(place: &Place, protocol: &str, name: &str) -> Result<u64> {
    let text = place.run_in(|| Ok(fs::read_to_string("/proc/thread-self/net/snmp")?))?;
    let mut lines = text.lines().filter(|line| line.starts_with(protocol));
    let (names, values) = (lines.next().context("no names")?, lines.next().context("no values")?);
    let mut pairs = names.split_whitespace().zip(values.split_whitespace());
    let value = pairs.find(|pair| pair.0 == name).with_context(|| format!("no {name}"))?;
    Ok(value.1.parse()?)
}

fn snapshot_notices() -> Result<()> {
    let node = Node::new()?;
    for (make, unmake) in [
        ("ip address add 198.51.100.9/24 dev eth0", "ip address delete 198.51.100.9/24 dev eth0"),
        ("ip route add 203.0.113.0/24 via 198.51.100.1", "ip route delete 203.0.113.0/24"),
        ("ip rule add priority 7 table 7", "ip rule delete priority 7"),
        ("nft add table ip something", "nft delete table ip something"),
        ("mkdir -p /var/lib/cni/networks/n9", "rmdir /var/lib/cni/networks/n9"),
    ] {
        let before = Snapshot::take(&node)?;
        node.call(make)?;
        ensure!(!Snapshot::take(&node)?.changes_since(&before).is_empty(), "`{make}` went unnoticed");
        node.call(unmake)?;
        Snapshot::take(&node)?.ensure_equals(&before)?;
    }
    Ok(())
}

fn protocol_breaches() -> Result<()> {
    let node = Node::new()?;
    let answers =
        [("echo '{}{}'", "2 documents"), ("echo no", "not JSON"), ("exit 1", "without an error document")];
    for (script, complaint) in answers {
        plugin(&node, script)?;
        let error = exec(&node, "fake", "ADD", &[], "{}").err().map(|error| format!("{error:#}"));
        ensure!(error.as_ref().is_some_and(|e| e.contains(complaint)), "`{script}`: {error:?}");
    }
    plugin(&node, r#"echo '{"code":11,"msg":"later"}'; exit 1"#)?;
    let PluginError { code, msg, .. } = refused(exec(&node, "fake", "ADD", &[], "{}"))?;
    equal("the error", (code, msg.as_str()), (11, "later"))
}

/// Puts a plugin `fake` on the node that runs one line of shell. Another process writes the file: a descriptor of
/// ours could live on in a child just forked by another test, and nothing executes a file that is open for writing.
fn plugin(node: &Node, script: &str) -> Result<()> {
    let write = "printf '#!/bin/sh\n%s\n' \"$1\" >/opt/cni/bin/fake && chmod +x /opt/cni/bin/fake";
    let status = node.command("sh").args(["-c", write, "sh", script]).status()?;
    ensure!(status.success(), "writing the plugin: {status}");
    Ok(())
}
