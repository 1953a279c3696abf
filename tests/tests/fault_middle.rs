//! What happens in the middle of an ADD, at system calls sampled by a seed: the pod's namespace vanishes, the bridge or
//! the leases are deleted, another build of the plugin comes by.

use std::thread;

use anyhow::{Context, Result, ensure};
use ebpf_bridge_lab::libcni::{Conflist, Container, Runtime, exec_interrupted};
use ebpf_bridge_lab::observe::programs;
use ebpf_bridge_lab::traffic::PATIENCE;
use ebpf_bridge_lab::{Need, Node, Snapshot, UPLINK, config, plugin};
use serde_json::json;

use crate::check::{equal, eventually};
use crate::control::other_build;
use crate::fault::shell;
use crate::killed::{ENV, call, gc, points, request, stops};
use crate::suite::Suite;

/// How many points of an ADD are tried for each thing that happens.
const POINTS: usize = 6;
/// Pods of each of the two builds, and how often each comes and goes.
const PODS: usize = 3;
const ROUNDS: usize = 6;

pub(crate) fn register(suite: &mut Suite) {
    for (what, script) in [
        ("the namespace vanishes", "umount -l /run/netns/pod1; rm /run/netns/pod1"),
        ("the bridge is deleted", "ip link delete br0 2>/dev/null || true"),
        ("the leases are deleted", "rm -rf /var/lib/cni/networks/*"),
        ("the records are deleted", "rm -rf /run/ebpf-bridge"),
        ("the pins are deleted", "rm -rf /sys/fs/bpf/ebpf-bridge"),
        ("the uplink goes down", "ip link set eth0 down"),
        ("the rules are flushed", "nft flush ruleset"),
    ] {
        suite.test_with(
            &[Need::Bpf],
            format!("fault: {what} in the middle of an ADD: DEL clears all"),
            || in_the_middle(script),
        );
    }
    suite.test_with(&[Need::Bpf], "fault: two builds of the plugin at once wire and unwire pods", two_builds);
}

fn in_the_middle(script: &str) -> Result<()> {
    let count = {
        let node = Node::new()?;
        let _pod = node.pod("pod1")?;
        stops(&node, "ADD")?
    };
    for point in points(count, POINTS) {
        let node = Node::new()?;
        let _pod = node.pod("pod1")?;
        let meanwhile = || shell(&node, script);
        let outcome =
            exec_interrupted(&node, plugin::NAME, "ADD", &ENV, &request(&json!({})), point, meanwhile);
        let at = || format!("at stop {point}, ADD: {outcome:?}");
        if outcome.is_err() {
            let error = outcome.as_ref().err().map(ToString::to_string).unwrap_or_default();
            ensure!(error.starts_with("the plugin failed with code"), "{error} at stop {point}");
        }
        call(&node, "DEL", &request(&json!({}))).with_context(at)?;
        gc(&node, &json!([])).with_context(at)?;
        cleared(&node).with_context(at)?;
    }
    Ok(())
}

/// Nothing of the plugin's is left but the bridge.
fn cleared(node: &Node) -> Result<()> {
    for tree in ["/run/ebpf-bridge", "/var/lib/cni/networks", "/sys/fs/bpf/ebpf-bridge"] {
        equal(&format!("left under {tree}"), node.tree(tree)?, Vec::<String>::new())?;
    }
    let links = node.call("ip -o link show")?;
    ensure!(!links.contains("master br0"), "a port is left:\n{links}");
    let rules = node.call("nft list ruleset")?;
    ensure!(!rules.contains(plugin::NAME), "rules are left:\n{rules}");
    // The kernel lets go of a link some time after its last pin.
    eventually("no program on the uplink", PATIENCE, || Ok(programs(node, UPLINK)?.is_empty()))
}

/// As during an upgrade: the runtime still runs the old binary for some pods and the new one for others.
fn two_builds() -> Result<()> {
    let node = Node::new()?;
    let other = other_build()?;
    shell(&node, &format!("ln -s {} /opt/cni/bin/next", other.display()))?;
    let before = Snapshot::take(&node)?;
    let runtimes = [plugin::NAME, "next"].map(|kind| {
        Runtime::new(Conflist::of(config::with(config::bridge("required"), &json!({"type": kind}))))
    });
    let mut pods = Vec::new();
    for number in 0..2 * PODS {
        pods.push(node.pod(&format!("pod{number}"))?);
    }
    thread::scope(|scope| {
        let (node, runtimes) = (&node, &runtimes);
        let threads: Vec<_> = pods
            .iter()
            .enumerate()
            .map(|(number, pod)| {
                scope.spawn(move || {
                    for round in 0..ROUNDS {
                        // ADD by one build, DEL by the other.
                        let container = Container::of(pod);
                        let (adds, deletes) = (&runtimes[number % 2], &runtimes[(number + 1) % 2]);
                        adds.add(node, &container).with_context(|| format!("ADD {number}, round {round}"))?;
                        deletes
                            .del(node, &container)
                            .with_context(|| format!("DEL {number}, round {round}"))?;
                    }
                    anyhow::Ok(())
                })
            })
            .collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("a thread panicked"))
    })?;
    Snapshot::take(&node)?.without_link(config::BRIDGE).ensure_equals(&before)
}
