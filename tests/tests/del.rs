//! DEL, and what is left after it: nothing but the bridge.

use anyhow::{Context, Result};
use ebpf_bridge_lab::libcni::{Conflist, Container, Runtime};
use ebpf_bridge_lab::{Node, Scene, Snapshot, Variant, config, traffic};

use crate::suite::Suite;

pub(crate) fn register(suite: &mut Suite) {
    for variant in Variant::ALL {
        suite.test(
            format!("del: of both pods leaves the node as it was, the bridge aside, {variant}"),
            move || leaves_nothing(variant),
        );
    }
    suite.test("del: twice is no error", || gone_by(|_, container| Ok(container), Times::Twice));
    suite.test("del: works without CNI_NETNS", || {
        gone_by(|_, container| Ok(container.netns(None)), Times::Once)
    });
    suite.test("del: works with an empty CNI_NETNS", || {
        gone_by(|_, container| Ok(container.netns(Some(""))), Times::Once)
    });
    suite.test("del: works with a CNI_NETNS that names nothing", || {
        gone_by(|_, container| Ok(container.netns(Some("/run/netns/never-was"))), Times::Once)
    });
    suite.test("del: works with a CNI_NETNS that is a plain file", || {
        gone_by(|_, container| Ok(container.netns(Some("/etc/passwd"))), Times::Once)
    });
    suite.test("del: works when the pod's namespace is gone", namespace_gone);
    suite.test("del: works when the interface is gone", || {
        gone_by(|scene, container| scene.pods[0].call("ip link delete eth0").map(|_| container), Times::Once)
    });
    suite.test("del: of what was never added is no error and changes nothing", never_added);
    suite.test("del: of one pod leaves the other reachable", other_pod_stays);
}

#[derive(PartialEq, Eq)]
enum Times {
    Once,
    Twice,
}

fn leaves_nothing(variant: Variant) -> Result<()> {
    let node = variant.node()?;
    let before = Snapshot::take(&node)?;
    let mut scene = Scene::new(node, Conflist::of(config::bridge(variant.mode())));
    scene.wire("pod1")?;
    scene.wire("pod2")?;
    let (client, server, outside) = (&scene.pods[0], &scene.pods[1], scene.node.outside());
    traffic::upload(client, server, server.address(), 1 << 20)?;
    traffic::upload(client, outside, outside.address(), 1 << 20)?;
    scene.unwire()?;
    is_as(&scene.node, &before)
}

fn is_as(node: &Node, before: &Snapshot) -> Result<()> {
    Snapshot::take(node)?.without_link(config::BRIDGE).ensure_equals(before)
}

/// Wires one pod, DELs it as `name_it` names it, by a runtime that has forgotten the result, and looks what is left.
fn gone_by(name_it: fn(&Scene, Container) -> Result<Container>, times: Times) -> Result<()> {
    let node = Node::new()?;
    let before = Snapshot::take(&node)?;
    let mut scene = Scene::new(node, Conflist::of(config::bridge("auto")));
    let container = scene.wire("pod1")?.container.clone();
    let container = name_it(&scene, container)?;
    let forgetful = Runtime::new(scene.runtime.list().clone());
    forgetful.del(&scene.node, &container)?;
    if times == Times::Twice {
        forgetful.del(&scene.node, &container).context("the second DEL")?;
    }
    is_as(&scene.node, &before)
}

fn namespace_gone() -> Result<()> {
    let node = Node::new()?;
    let before = Snapshot::take(&node)?;
    let mut scene = Scene::new(node, Conflist::of(config::bridge("auto")));
    scene.wire("pod1")?;
    let wired = scene.pods.pop().context("the pod just wired")?;
    wired.pod.destroy()?;
    scene.runtime.del(&scene.node, &wired.container)?;
    is_as(&scene.node, &before)
}

fn never_added() -> Result<()> {
    let node = Node::new()?;
    let before = Snapshot::take(&node)?;
    let runtime = Runtime::new(Conflist::of(config::bridge("auto")));
    runtime.del(&node, &Container::of(&node.pod("pod1")?))?;
    Snapshot::take(&node)?.ensure_equals(&before)
}

fn other_pod_stays() -> Result<()> {
    let scene = Scene::with_pods(Variant::Auto, 3)?;
    scene.runtime.del(&scene.node, &scene.pods[2].container)?;
    let (client, server, outside) = (&scene.pods[0], &scene.pods[1], scene.node.outside());
    traffic::upload(client, server, server.address(), 1 << 20)?;
    traffic::upload(client, outside, outside.address(), 1 << 20)?;
    Ok(())
}
