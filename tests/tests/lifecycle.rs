//! What an attachment leaves and finds: failed ADDs, reused addresses, the bridge's MAC (rows L1 to L3, L9).

use std::net::IpAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use ebpf_bridge_lab::libcni::{Conflist, Container, Runtime};
use ebpf_bridge_lab::observe::link;
use ebpf_bridge_lab::{Node, Place, Scene, Snapshot, config, traffic};
use serde_json::{Value, json};

use crate::check::{equal, refused, within};
use crate::suite::Suite;

pub(crate) fn register(suite: &mut Suite) {
    let late = [
        ("another address on the bridge", "ip address add 10.9.0.1/24 dev br0", json!({})),
        (
            "a route to nowhere",
            "true",
            json!({"ipam": {"routes": [{"dst": "9.9.9.0/24", "gw": "172.31.9.9"}]}}),
        ),
        (
            "an uplink that is not there",
            "true",
            json!({"ebpf": {"mode": "required", "uplinks": ["absent0"]}}),
        ),
        ("a bridge that is none", "true", json!({"bridge": "eth0"})),
    ];
    for (what, prepare, changes) in late {
        for bridge_is_there in [false, true] {
            // Without a bridge there is none to have another address.
            if bridge_is_there || !prepare.contains("br0") {
                let bridge = if bridge_is_there { "with" } else { "without" };
                let (prepare, changes) = (prepare.to_owned(), changes.clone());
                suite.test(
                    format!(
                        "lifecycle: an ADD that fails for {what} leaves nothing, {bridge} a bridge before"
                    ),
                    move || fails_clean(&prepare, &changes, bridge_is_there),
                );
            }
        }
    }
    suite.test("lifecycle: a reused address is reachable within a second from pod and node", reused);
    for (what, changes) in [
        ("with a gateway", json!({})),
        ("without", json!({"isGateway": false, "isDefaultGateway": false, "ipMasq": false})),
    ] {
        for made_by_us in [true, false] {
            let maker = if made_by_us { "ours" } else { "the administrator's" };
            let changes = changes.clone();
            suite.test(
                format!("lifecycle: the MAC of the bridge, {maker}, {what} address, never changes"),
                move || mac_stays(&changes, made_by_us),
            );
        }
    }
}

fn list(changes: &Value) -> Conflist {
    let ranges = json!({"ipam": {"ranges": [[{"subnet": "10.1.0.0/24"}], [{"subnet": "fd00:1::/64"}]]}});
    Conflist::of(config::with(config::with(config::bridge("auto"), &ranges), changes))
}

fn fails_clean(prepare: &str, changes: &Value, bridge_is_there: bool) -> Result<()> {
    let node = Node::new()?;
    if bridge_is_there {
        // Up once, or else its queue would look like something the plugin left.
        for call in ["ip link add br0 type bridge", "ip link set br0 up", "ip link set br0 down"] {
            node.call(call)?;
        }
    }
    node.call(prepare)?;
    let before = Snapshot::take(&node)?;
    let mut scene = Scene::new(node, list(changes));
    for _ in 0..2 {
        refused(scene.wire("pod1").map(|pod| pod.result.clone()))?;
        Snapshot::take(&scene.node)?.ensure_equals(&before)?;
        scene.node.call("umount /run/netns/pod1")?;
        scene.node.call("rm /run/netns/pod1")?;
    }
    // The address is free: the next pod of a sound configuration gets the very first.
    let sound = if prepare.contains("address") { json!({"forceAddress": true}) } else { json!({}) };
    let pod = scene.node.pod("pod2")?;
    let result = Runtime::new(list(&sound)).add(&scene.node, &Container::of(&pod))?;
    ensure!(result.ips[0].address.contains([10, 1, 0, 2].into()), "got {result:?}");
    traffic::round_trips(&pod, &scene.node, [10, 1, 0, 1].into(), 1).map(drop)
}

fn reused() -> Result<()> {
    let node = Node::new()?;
    // Room for two pods: the one that asks, and the one whose address is used again.
    let range = |subnet: &str, first: &str, last: &str| json!([{"subnet": subnet, "rangeStart": first, "rangeEnd": last}]);
    let ranges =
        json!([range("10.1.0.0/24", "10.1.0.2", "10.1.0.3"), range("fd00:1::/64", "fd00:1::2", "fd00:1::3")]);
    let mut scene = Scene::new(node, list(&json!({"ipam": {"ranges": ranges}})));
    scene.wire("asks")?;
    scene.wire("first")?;
    let addresses = [scene.pods[1].address(), scene.pods[1].result.ips[1].address.ip()];
    slowest(&scene, addresses)?;
    // A packet that is lost is sent again after a second.
    within("the first connections", Duration::from_secs(1), || {
        let first = scene.pods.pop().context("the first pod")?;
        scene.runtime.del(&scene.node, &first.container)?;
        first.pod.destroy()?;
        scene.wire("second")?;
        equal("the address", scene.pods[1].address(), addresses[0])?;
        slowest(&scene, addresses)
    })
}

/// The longest that a first connection to the second pod takes, from the first one and from the node.
fn slowest(scene: &Scene, addresses: [IpAddr; 2]) -> Result<Duration> {
    let mut slowest = Duration::ZERO;
    for to in addresses {
        for (name, from) in [("pod", &*scene.pods[0].pod), ("node", &*scene.node)] as [(&str, &Place); 2] {
            let start = Instant::now();
            traffic::round_trips(from, &scene.pods[1], to, 1).with_context(|| format!("{name} to {to}"))?;
            slowest = slowest.max(start.elapsed());
        }
    }
    Ok(slowest)
}

fn mac_stays(changes: &Value, made_by_us: bool) -> Result<()> {
    let node = Node::new()?;
    if !made_by_us {
        node.call("ip link add br0 type bridge")?;
    }
    let broken = json!({"ebpf": {"mode": "required", "uplinks": ["absent0"]}});
    let mut scene = Scene::new(node, list(&config::with(changes.clone(), &broken)));
    refused(scene.wire("broken").map(|pod| pod.result.clone()))?;
    let mut scene = Scene::new(scene.node, list(changes));
    let mut macs = Vec::new();
    for number in 0..6 {
        scene.wire(&format!("pod{number}"))?;
        macs.push(link(&scene.node, config::BRIDGE)?.mac);
    }
    scene.unwire()?;
    macs.push(link(&scene.node, config::BRIDGE)?.mac);
    ensure!(macs[0] != "00:00:00:00:00:00", "the bridge has no MAC");
    ensure!(macs.iter().all(|mac| *mac == macs[0]), "the MAC changed: {macs:?}");
    Ok(())
}
