//! The keys of the reference beyond the usual: what they do to links and to traffic.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use ebpf_bridge_lab::libcni::{Conflist, Container, Runtime};
use ebpf_bridge_lab::observe::link;
use ebpf_bridge_lab::{Need, Node, Place, Scene, Snapshot, Variant, config, traffic};
use serde_json::{Value, json};

use crate::check::{equal, refused};
use crate::suite::Suite;

pub(crate) fn register(suite: &mut Suite) {
    for variant in [Variant::Auto, Variant::Off] {
        suite.test(
            format!("keys: portIsolation keeps pods apart, not from the world, {variant}"),
            move || isolation(variant),
        );
        suite.test_with(
            &[Need::BridgeFilter],
            format!("keys: macspoofchk stops a pod with another MAC, {variant}"),
            move || spoofing(variant),
        );
        suite.test(
            format!("keys: hairpinMode lets a pod reach itself through the node, {variant}"),
            move || hairpin(variant),
        );
    }
    suite.test_with(
        &[Need::BridgeFilter],
        "keys: macspoofchk is gone after DEL and after a failed ADD",
        no_trace,
    );
    suite.test("keys: promiscMode makes the bridge promiscuous", || {
        let scene = wired(&json!({"promiscMode": true}))?;
        let shown = scene.node.call_json("ip -d -j link show br0")?;
        equal("promiscuity", shown[0]["promiscuity"].as_u64(), Some(1))
    });
    suite.test("keys: enabledad lets addresses pass the detection before ADD returns", detection);
    suite.test("keys: enabledad and an address in use fail the ADD and leave nothing", duplicate);
    suite.test("keys: disableContainerInterface leaves the pod's interface down", down);
    for keys in [json!({"vlan": 100}), json!({"vlanTrunk": [{"minID": 2, "maxID": 4}]})] {
        suite.test(
            format!("keys: {keys} without VLAN filtering is refused before anything is touched"),
            move || no_vlans(&keys),
        );
    }
    suite.test_with(
        &[Need::Tool("iptables")],
        "keys: ipMasqBackend iptables masquerades and leaves nothing",
        iptables,
    );
    suite.test("keys: ipMasqBackend iptables without iptables is refused and nothing is left", no_iptables);
}

fn dual(changes: &Value) -> Conflist {
    let ranges = json!({"ipam": {"ranges": [[{"subnet": "10.1.0.0/24"}], [{"subnet": "fd00:1::/64"}]]}});
    Conflist::of(config::with(config::with(config::bridge("auto"), &ranges), changes))
}

fn wired(changes: &Value) -> Result<Scene> {
    let mut scene = Scene::new(Node::new()?, dual(changes));
    scene.wire("pod1")?;
    scene.wire("pod2")?;
    Ok(scene)
}

/// A node that forwards IPv6 already: what that makes of its addresses stays after the last DEL.
fn forwarding() -> Result<Node> {
    let node = Node::new()?;
    node.set_sysctl("net.ipv6.conf.all.forwarding", "1")?;
    Ok(node)
}

fn reaches(from: &Place, to: &Place, address: std::net::IpAddr) -> bool {
    traffic::echo(from, to, address, 2, 100).is_ok_and(|echo| echo.lost == 0)
}

fn isolation(variant: Variant) -> Result<()> {
    let scene = wired(&json!({"portIsolation": true, "ebpf": {"mode": variant.mode()}}))?;
    let (pods, outside) = (&scene.pods, scene.node.outside());
    for index in [0, 1] {
        let address = pods[1].result.ips[index].address.ip();
        ensure!(!reaches(&pods[0], &pods[1], address), "an isolated pod reaches another at {address}");
        ensure!(reaches(&scene.node, &pods[1], address), "the node does not reach {address}");
    }
    ensure!(reaches(&pods[0], outside, outside.address()), "an isolated pod does not reach the world");
    Ok(())
}

fn spoofing(variant: Variant) -> Result<()> {
    let scene = wired(&json!({"macspoofchk": true, "ebpf": {"mode": variant.mode()}}))?;
    let (pods, outside) = (&scene.pods, scene.node.outside());
    let everywhere =
        || reaches(&pods[0], &pods[1], pods[1].address()) && reaches(&pods[0], outside, outside.address());
    ensure!(everywhere(), "an honest pod is stopped");
    pods[0].call("ip link set eth0 address 02:00:00:00:be:ef")?;
    ensure!(!reaches(&pods[0], &pods[1], pods[1].address()), "a pod with another MAC reaches a pod");
    ensure!(!reaches(&pods[0], outside, outside.address()), "a pod with another MAC reaches the world");
    ensure!(reaches(&pods[1], outside, outside.address()), "the other pod is stopped, too");
    let mac = pods[0].result.inside()?.mac.clone().unwrap_or_default();
    pods[0].call(&format!("ip link set eth0 address {mac}"))?;
    ensure!(everywhere(), "a pod with its own MAC again is still stopped");
    Ok(())
}

fn no_trace() -> Result<()> {
    let node = forwarding()?;
    let before = Snapshot::take(&node)?;
    let broken = json!({"macspoofchk": true, "ebpf": {"mode": "required", "uplinks": ["absent0"]}});
    let mut scene = Scene::new(node, dual(&broken));
    refused(scene.wire("broken").map(|pod| pod.result.clone()))?;
    Snapshot::take(&scene.node)?.ensure_equals(&before)?;
    let mut scene = Scene::new(scene.node, dual(&json!({"macspoofchk": true})));
    scene.wire("pod1")?;
    scene.wire("pod2")?;
    equal(
        "checked pods",
        scene.node.call("nft list table bridge ebpf-bridge")?.matches("chain veth").count(),
        2,
    )?;
    scene.unwire()?;
    Snapshot::take(&scene.node)?.without_link(config::BRIDGE).ensure_equals(&before)
}

/// A pod sends to itself by way of a translation on the node, as a service with the pod as its only backend does.
fn hairpin(variant: Variant) -> Result<()> {
    let scene = wired(&json!({"hairpinMode": true, "ebpf": {"mode": variant.mode()}}))?;
    let veth = scene.pods[0].result.veth()?.name.clone();
    let shown = scene.node.call_json(&format!("ip -d -j link show {veth}"))?;
    equal("hairpin", &shown[0]["linkinfo"]["info_slave_data"]["hairpin"], &json!(true))
}

fn detection() -> Result<()> {
    let mut scene = Scene::new(Node::new()?, dual(&json!({"enabledad": true})));
    let pod = scene.wire("pod1")?;
    let tentative = pod.call("ip -6 address show tentative")?;
    ensure!(tentative.is_empty(), "still tentative: {tentative}");
    equal("accept_dad", pod.sysctl("net.ipv6.conf.eth0.accept_dad")?.as_str(), "1")?;
    traffic::round_trips(&scene.pods[0], &scene.node, "fd00:1::1".parse()?, 1).map(drop)
}

fn duplicate() -> Result<()> {
    let node = Node::new()?;
    // Somebody on the bridge, not a pod of ours, has the first address of the range.
    for call in [
        "ip link add br0 type bridge",
        "ip link set br0 up",
        "ip netns add squatter",
        "ip link add s0 master br0 type veth peer name eth0 netns squatter",
        "ip link set s0 up",
        "ip -n squatter address add fd00:1::2/64 dev eth0 nodad",
        "ip -n squatter link set eth0 up",
    ] {
        node.call(call)?;
    }
    std::thread::sleep(Duration::from_millis(2500));
    let before = Snapshot::take(&node)?;
    let mut scene = Scene::new(node, dual(&json!({"enabledad": true})));
    let start = Instant::now();
    let error = refused(scene.wire("pod1").map(|pod| pod.result.clone()))?;
    ensure!(error.msg.contains("fd00:1::2") && error.msg.contains("in use"), "not the reason: {error}");
    ensure!(start.elapsed() < traffic::PATIENCE, "noticed only after {:?}", start.elapsed());
    Snapshot::take(&scene.node)?.ensure_equals(&before)
}

fn down() -> Result<()> {
    let node = Node::new()?;
    let conf = json!({"type": "ebpf-bridge", "bridge": "br0", "disableContainerInterface": true});
    let runtime = Runtime::new(Conflist::of(conf));
    let pod = node.pod("pod1")?;
    let result = runtime.add(&node, &Container::of(&pod))?;
    ensure!(!link(&pod, "eth0")?.up, "the pod's interface is up");
    ensure!(link(&node, &result.veth()?.name)?.up, "the host's end is down");
    runtime.del(&node, &Container::of(&pod))
}

fn no_vlans(keys: &Value) -> Result<()> {
    let node = Node::new()?;
    if node.call("ip link add probe type bridge vlan_filtering 1").is_ok() {
        // The keys work here.
        return Ok(());
    }
    let before = Snapshot::take(&node)?;
    let l2 = json!({"isGateway": false, "isDefaultGateway": false, "ipMasq": false});
    let mut scene = Scene::new(node, dual(&config::with(l2, keys)));
    let error = refused(scene.wire("pod1").map(|pod| pod.result.clone()))?;
    let key = keys.as_object().and_then(|keys| keys.keys().next().cloned()).unwrap_or_default();
    ensure!(error.msg.contains(&key) && error.msg.contains("VLAN"), "not the reason: {error}");
    equal("the code", error.code, 2)?;
    Snapshot::take(&scene.node)?.ensure_equals(&before)
}

fn iptables() -> Result<()> {
    let node = forwarding()?;
    let before = Snapshot::take(&node)?;
    let mut scene = Scene::new(node, dual(&json!({"ipMasqBackend": "iptables"})));
    scene.wire("pod1")?;
    let rules = |node: &Node| -> Result<Vec<String>> {
        ["iptables", "ip6tables"].iter().map(|program| node.call(&format!("{program} -t nat -S"))).collect()
    };
    let once = rules(&scene.node)?;
    scene.wire("pod2")?;
    equal("the rules after another ADD", rules(&scene.node)?, once)?;
    let (pods, outside) = (&scene.pods, scene.node.outside());
    for (address, node) in
        [(outside.address(), outside.node_address()), (outside.address_v6(), outside.node_address_v6())]
    {
        let seen = traffic::round_trips(&pods[0], outside, address, 10)?.peer.ip();
        equal("the pod as outside sees it", seen, node)?;
    }
    let seen = traffic::round_trips(&pods[0], &pods[1], pods[1].address(), 10)?.peer.ip();
    equal("the pod as another sees it", seen, pods[0].address())?;
    ensure!(
        scene.node.call("nft list tables")?.lines().all(|table| table != "table inet ebpf-bridge"),
        "also nftables"
    );
    scene.unwire()?;
    // iptables' own tables and chains stay, empty, once it has been used.
    let left = rules(&scene.node)?.join("\n");
    ensure!(!left.contains("EBPF-BRIDGE") && !left.contains("network n1"), "left: {left}");
    let changes = Snapshot::take(&scene.node)?.without_link(config::BRIDGE).changes_since(&before);
    let foreign: Vec<_> =
        changes.iter().filter(|line| !line.contains(" nft ") && !line.contains("tables-save")).collect();
    ensure!(foreign.is_empty(), "left: {foreign:?}");
    Ok(())
}

fn no_iptables() -> Result<()> {
    let node = Node::new()?;
    let before = Snapshot::take(&node)?;
    for program in ["iptables", "ip6tables"] {
        let path = node.call(&format!("which {program}"));
        if let Ok(path) = path {
            node.call(&format!(
                "mount --bind /dev/null {}",
                node.call(&format!("readlink -f {}", path.trim()))?.trim()
            ))?;
        }
    }
    let mut scene = Scene::new(node, dual(&json!({"ipMasqBackend": "iptables"})));
    let error = refused(scene.wire("pod1").map(|pod| pod.result.clone()))?;
    ensure!(error.msg.contains("iptables"), "not the reason: {error}");
    let changes = Snapshot::take(&scene.node)?.changes_since(&before);
    let foreign: Vec<_> = changes.iter().filter(|line| !line.contains("tables-save")).collect();
    ensure!(foreign.is_empty(), "left: {foreign:?}");
    Ok(())
}
