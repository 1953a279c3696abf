//! Packets that belong to no connection any more (plugins#816): none leaves with a pod's address.

use std::net::{IpAddr, SocketAddr};
use std::thread;
use std::time::Duration;

use anyhow::{Result, ensure};
use ebpf_bridge_lab::traffic::{Capture, Segment, Service, ask_tcp};
use ebpf_bridge_lab::{Family, Need, Scene, Stats, Variant};
use serde_json::json;

use crate::suite::Suite;

const PORT: u16 = 7000;
const CLIENT: u16 = 40_000;

pub(crate) fn register(suite: &mut Suite) {
    for variant in [Variant::Auto, Variant::Off] {
        for family in Family::ALL {
            for bridged in [true, false] {
                let name = format!(
                    "invalid: late, damaged and stray segments of a pod leave with the node's address or not \
                     at all, {family}, br_netfilter {}, {variant}",
                    u8::from(bridged)
                );
                suite.test_with(&[Need::Bpf], name, move || stray(variant, family, bridged, "nftables"));
            }
            suite.test_with(
                &[Need::Bpf, Need::Tool("iptables"), Need::Tool("ip6tables")],
                format!(
                    "invalid: late, damaged and stray segments of a pod leave with the node's address or not \
                     at all, {family}, {variant}, ipMasqBackend iptables"
                ),
                move || stray(variant, family, true, "iptables"),
            );
        }
    }
}

fn stray(variant: Variant, family: Family, bridged: bool, backend: &str) -> Result<()> {
    let scene = Scene::dual_stack_with(variant, 1, &json!({"ipMasqBackend": backend}))?;
    for key in ["iptables", "ip6tables"] {
        let value = if bridged { "1" } else { "0" };
        scene.node.set_sysctl(&format!("net.bridge.bridge-nf-call-{key}"), value)?;
    }
    let (pod, outside) = (&scene.pods[0], scene.node.outside());
    let _service = Service::start(outside, "outside", PORT)?;
    let pod_address = pod.address_in(family);
    let capture = Capture::start(outside, move |frame| {
        frame.addresses().is_some_and(|(from, to)| from == pod_address || to == pod_address)
    })?;

    let to: SocketAddr = (outside.address_in(family), PORT).into();
    let before = Stats::read(&scene.node).unwrap_or_default();
    pod.run_in(|| ask_tcp(CLIENT, to, 50))?;
    if variant == Variant::Auto {
        let counted = &Stats::read(&scene.node)? - &before;
        ensure!(counted.redirected() > 50, "the connection was not fast: {counted:?}");
    }
    send_strays(&scene, pod_address, to)?;
    // A stray of a connection conntrack has never heard of is invalid to a strict conntrack.
    scene.node.set_sysctl("net.netfilter.nf_conntrack_tcp_loose", "0")?;
    send_strays(&scene, pod_address, (to.ip(), PORT + 1).into())?;
    send_strays(&scene, pod_address, to)?;

    let leaked = capture.stop()?;
    ensure!(leaked.is_empty(), "{} packets with the pod's address, the first: {:?}", leaked.len(), leaked[0]);
    Ok(())
}

/// Late data after the server's reset, before and after `renew`, with right and wrong checksums.
fn send_strays(scene: &Scene, from: IpAddr, to: SocketAddr) -> Result<()> {
    let outside = scene.node.outside();
    let segment = Segment {
        from: (from, CLIENT).into(),
        to,
        sequence: 0x1000_0000,
        acknowledgement: 0x2000_0000,
        reset: false,
        checksum_right: true,
    };
    let node = outside.node_address_in(if from.is_ipv4() { Family::V4 } else { Family::V6 });
    let reset = Segment { from: to, to: (node, CLIENT).into(), reset: true, ..segment };
    outside.run_in(|| reset.send())?;
    for pause in [0, 0, 0, 1100] {
        thread::sleep(Duration::from_millis(pause));
        for checksum_right in [true, false] {
            scene.pods[0].run_in(|| Segment { checksum_right, ..segment }.send())?;
        }
    }
    Ok(())
}
