//! Uplinks of other kinds than the usual one.

use anyhow::{Context, Result, ensure};
use ebpf_bridge_lab::libcni::Conflist;
use ebpf_bridge_lab::traffic::{self, Transfer};
use ebpf_bridge_lab::{Need, Scene, Stats, UPLINK, Variant, config, observe};
use serde_json::json;

use crate::check::equal;
use crate::suite::Suite;

/// The tunnel's network: the node is .1, the outside host .2.
const TUNNEL: &str = "172.31.0";
/// The part of a transfer's packets that must be fast.
const SHARE: f64 = 0.95;

pub(crate) fn register(suite: &mut Suite) {
    let bpf = [Need::Bpf];
    suite.test_with(
        &bpf,
        "uplink: flows into a VXLAN tunnel are fast, beside those that leave by its underlay",
        vxlan,
    );
    suite.test_with(&bpf, "uplink: a device without an Ethernet header is left alone", tun);
    for (need, attach) in [(Need::Tcx, "tcx"), (Need::NoTcx, "clsact")] {
        suite.test_with(
            &[Need::Bpf, need],
            format!("uplink: its programs are attached by {attach}"),
            move || attached(attach),
        );
    }
    suite.test_with(
        &[Need::Bpf, Need::Tcx],
        "uplink: pods' veths have TCX, too, if ebpf.attach asks for it",
        veths_by_tcx,
    );
    suite.test_with(&bpf, "uplink: one that gets its default route later is found by the next ADD", late);
}

fn with_uplinks(uplinks: &[&str]) -> Conflist {
    Conflist::of(config::with(config::bridge("auto"), &json!({"ebpf": {"uplinks": uplinks}})))
}

fn vxlan() -> Result<()> {
    let mut scene = Scene::new(Variant::Auto.node()?, with_uplinks(&[UPLINK, "vxlan0"]));
    let outside = scene.node.outside();
    let (near, far) = (outside.node_address(), outside.address());
    for (place, local, remote, last) in
        [(&**scene.node.outside(), far, near, 2), (&*scene.node, near, far, 1)]
    {
        place.call(&format!(
            "ip link add vxlan0 type vxlan id 7 local {local} remote {remote} dstport 4789 dev {UPLINK}"
        ))?;
        place.call(&format!("ip address add {TUNNEL}.{last}/24 dev vxlan0"))?;
        place.call("ip link set vxlan0 up")?;
    }
    scene.wire("pod1")?;
    let through = format!("{TUNNEL}.2").parse()?;
    // The tunnel's own packets end on the node, which is nothing to be fast about, and are counted where they arrive.
    let sent =
        fast(&scene, 0.7, || traffic::upload(&scene.pods[0], scene.node.outside(), through, 50 << 20))?;
    equal("the client in the tunnel", sent.peer.ip().to_string(), format!("{TUNNEL}.1"))?;
    let sent = fast(&scene, SHARE, || traffic::upload(&scene.pods[0], scene.node.outside(), far, 50 << 20))?;
    equal("the client beside it", sent.peer.ip(), near)
}

fn tun() -> Result<()> {
    let mut scene = Scene::new(Variant::Auto.node()?, with_uplinks(&[UPLINK, "tun0"]));
    scene.node.call("ip tuntap add dev tun0 mode tun")?;
    scene.node.call("ip link set tun0 up")?;
    scene.wire("pod1")?;
    let status = scene.status()?;
    ensure!(status.devices.iter().all(|device| device.ifname != "tun0"), "programs are on tun0: {status:?}");
    ensure!(scene.log()?.contains("tun0 has no Ethernet header"), "the log does not say why");
    let far = scene.node.outside().address();
    fast(&scene, SHARE, || traffic::upload(&scene.pods[0], scene.node.outside(), far, 50 << 20)).map(drop)
}

/// TCX since 6.6, filters of clsact before; pods' veths, which go with their filters, have clsact on any kernel.
fn attached(attach: &str) -> Result<()> {
    let scene = Scene::with_pods(Variant::Auto, 1)?;
    let veth = &scene.pods[0].result.veth()?.name;
    for (device, attach) in [(UPLINK, attach), (veth, "clsact")] {
        let found = observe::programs(&scene.node, device)?;
        let found: Vec<_> = found.iter().map(|program| (&*program.direction, &*program.attach)).collect();
        equal(&format!("programs of {device}"), found, [("ingress", attach), ("egress", attach)])?;
    }
    Ok(())
}

fn veths_by_tcx() -> Result<()> {
    let tcx = config::with(config::bridge("auto"), &json!({"ebpf": {"attach": "tcx"}}));
    let mut scene = Scene::new(Variant::Auto.node()?, Conflist::of(tcx));
    let veth = scene.wire("pod1")?.result.veth()?.name.clone();
    let found = observe::programs(&scene.node, &veth)?;
    ensure!(found.len() == 2 && found.iter().all(|program| program.attach == "tcx"), "{found:?}");
    Ok(())
}

fn late() -> Result<()> {
    let mut scene = Scene::new(Variant::Auto.node()?, Conflist::of(config::bridge("auto")));
    let gateway = scene.node.outside().address();
    scene.node.call("ip -4 route del default")?;
    scene.node.call("ip -6 route del default")?;
    scene.wire("pod1")?;
    let on_uplink = |scene: &Scene| -> Result<bool> {
        Ok(scene.status()?.devices.iter().any(|device| device.ifname == UPLINK))
    };
    ensure!(!on_uplink(&scene)?, "programs are on {UPLINK} already");
    scene.node.call(&format!("ip route add default via {gateway}"))?;
    scene.wire("pod2")?;
    ensure!(on_uplink(&scene)?, "no programs are on {UPLINK}");
    fast(&scene, SHARE, || traffic::upload(&scene.pods[0], scene.node.outside(), gateway, 50 << 20)).map(drop)
}

/// A transfer of which over `share` of the packets must be fast.
fn fast(scene: &Scene, share: f64, transfer: impl FnOnce() -> Result<Transfer>) -> Result<Transfer> {
    let before = Stats::read(&scene.node)?;
    let sent = transfer().context("the transfer")?;
    let counted = &Stats::read(&scene.node)? - &before;
    ensure!(counted.fast_share() > share, "{:.1} % were fast: {counted:?}", 100.0 * counted.fast_share());
    Ok(sent)
}
