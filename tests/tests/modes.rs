//! `ebpf.mode`, and a node on which eBPF cannot be had.

use anyhow::{Result, ensure};
use ebpf_bridge_lab::libcni::Conflist;
use ebpf_bridge_lab::{Need, Node, Scene, Snapshot, UPLINK, Variant, config, observe};

use crate::check::{equal, refused};
use crate::suite::Suite;

pub(crate) fn register(suite: &mut Suite) {
    suite.test("modes: off attaches and pins nothing, and the log says why", || {
        on_the_bridge_path(Variant::Off, &["mode", "off"])
    });
    suite.test("modes: auto without a bpffs attaches nothing, and the log says why", || {
        on_the_bridge_path(Variant::NoBpffs, &["BPF file system", "mounted"])
    });
    suite.test(
        "modes: required without a bpffs fails with one error and leaves the node as it was",
        impossible,
    );
    suite.test_with(&[Need::Bpf], "modes: required works where eBPF does", required);
    suite.test_with(&[Need::Bpf], "modes: auto mounts a missing bpffs", mounts_bpffs);
}

fn on_the_bridge_path(variant: Variant, reasons: &[&str]) -> Result<()> {
    let node = variant.node()?;
    let before = node.tree("/sys/fs/bpf")?;
    let mut scene = Scene::new(node, Conflist::of(config::bridge(variant.mode())));
    scene.wire("pod1")?;
    scene.wire("pod2")?;
    equal("pins", scene.node.tree("/sys/fs/bpf")?, before)?;
    for device in [UPLINK, &scene.pods[0].result.veth()?.name, &scene.pods[1].result.veth()?.name] {
        equal(&format!("programs on {device}"), observe::programs(&scene.node, device)?, vec![])?;
    }
    let log = scene.log()?;
    ensure!(reasons.iter().all(|reason| log.contains(reason)), "no word of {reasons:?} in the log:\n{log}");
    let status = scene.status()?;
    equal("pods in `status`", status.pods.len(), 2)?;
    for pod in &status.pods {
        ensure!(!pod.accelerated && !pod.why.is_empty(), "not a pod without the fast path: {pod:?}");
    }
    Ok(())
}

fn impossible() -> Result<()> {
    let node = Node::without_bpffs()?;
    let before = Snapshot::take(&node)?;
    let mut scene = Scene::new(node, Conflist::of(config::bridge("required")));
    let error = refused(scene.wire("pod1").map(|pod| pod.result.clone()))?;
    ensure!(error.msg.contains("BPF file system"), "the error does not say what is missing: {error}");
    equal("cniVersion of the error", error.cni_version.as_deref(), Some("1.0.0"))?;
    Snapshot::take(&scene.node)?.ensure_equals(&before)
}

fn required() -> Result<()> {
    let mut scene = Scene::new(Node::new()?, Conflist::of(config::bridge("required")));
    let veth = scene.wire("pod1")?.result.veth()?.name.clone();
    equal("programs on the veth", observe::programs(&scene.node, &veth)?.len(), 2)
}

fn mounts_bpffs() -> Result<()> {
    let node = Node::new()?;
    node.call("umount /sys/fs/bpf")?;
    let mut scene = Scene::new(node, Conflist::of(config::bridge("required")));
    let veth = scene.wire("pod1")?.result.veth()?.name.clone();
    equal("programs on the veth", observe::programs(&scene.node, &veth)?.len(), 2)?;
    ensure!(!scene.node.tree("/sys/fs/bpf")?.is_empty(), "nothing is pinned");
    Ok(())
}
