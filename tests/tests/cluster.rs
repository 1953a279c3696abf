//! The shortest configuration, and pods of two nodes that reach each other with their own addresses.

use std::net::IpAddr;

use anyhow::{Context, Result, ensure};
use ebpf_bridge_lab::libcni::{AddResult, Conflist, Container, Runtime};
use ebpf_bridge_lab::observe::{default_gateways, link, programs};
use ebpf_bridge_lab::{Cluster, LAN, Need, Node, Pod, Scene, Snapshot, Stats, traffic};
use serde_json::{Value, json};

use crate::check::equal;
use crate::suite::Suite;

pub(crate) fn register(suite: &mut Suite) {
    suite.test(
        "cluster: podCIDR alone makes cni0, a gateway, a default route, leases and masquerade",
        shortest,
    );
    suite.test("cluster: two podCIDRs make the same for both families", shortest_dual);
    suite.test("cluster: pods of two nodes see each other's own addresses, both families", across);
    suite.test_with(&[Need::Bpf], "cluster: over 95 % from a pod to one of another node is fast", fast);
    suite
        .test("cluster: nodeRoutes again are no change, and another node's new address is taken over", again);
    suite.test("cluster: a route to other pods that an administrator made stays", foreign);
    suite.test("cluster: the last DEL leaves the ways to other nodes and nothing else", after_del);
}

fn short(keys: &Value) -> Conflist {
    let mut conf = json!({"type": "ebpf-bridge"});
    conf.as_object_mut()
        .into_iter()
        .for_each(|conf| conf.extend(keys.as_object().cloned().into_iter().flatten()));
    Conflist::of(conf)
}

fn shortest() -> Result<()> {
    let mut scene = Scene::new(Node::new()?, short(&json!({"podCIDR": "10.244.1.0/24"})));
    scene.wire("pod1")?;
    scene.wire("pod2")?;
    let (pods, outside) = (&scene.pods, scene.node.outside());
    equal("the first address", pods[0].address(), IpAddr::from([10, 244, 1, 2]))?;
    equal("the gateway", default_gateways(&pods[0])?, vec![IpAddr::from([10, 244, 1, 1])])?;
    ensure!(link(&scene.node, "cni0")?.up, "cni0 is down");
    traffic::round_trips(&pods[0], &pods[1], pods[1].address(), 10)?;
    let seen = traffic::round_trips(&pods[0], outside, outside.address(), 10)?.peer.ip();
    equal("the pod as outside sees it", seen, outside.node_address())
}

fn shortest_dual() -> Result<()> {
    let mut scene = Scene::new(Node::new()?, short(&json!({"podCIDR": ["10.244.1.0/24", "fd00:1::/64"]})));
    scene.wire("pod1")?;
    let outside = scene.node.outside();
    for (address, node) in
        [(outside.address(), outside.node_address()), (outside.address_v6(), outside.node_address_v6())]
    {
        let seen = traffic::round_trips(&scene.pods[0], outside, address, 10)?.peer.ip();
        equal("the pod as outside sees it", seen, node)?;
    }
    Ok(())
}

/// The configuration of a node, which knows the way to the other.
fn of_node(index: usize) -> Conflist {
    let other = 1 - index;
    let routes: Vec<Value> = [true, false]
        .map(|v4| json!({"podCIDR": range(other, v4), "via": Cluster::address(other, v4)}))
        .into();
    short(&json!({"podCIDR": [range(index, true), range(index, false)], "nodeRoutes": routes}))
}

fn range(index: usize, v4: bool) -> String {
    if v4 { format!("10.244.{index}.0/24") } else { format!("fd00:{index}::/64") }
}

struct Wired {
    cluster: Cluster,
    runtimes: [Runtime; 2],
    pods: [Pod; 2],
    results: [AddResult; 2],
}

fn wired() -> Result<Wired> {
    let cluster = Cluster::new()?;
    let runtimes = [Runtime::new(of_node(0)), Runtime::new(of_node(1))];
    let pods = [cluster.nodes[0].pod("pod")?, cluster.nodes[1].pod("pod")?];
    let add = |index: usize| runtimes[index].add(&cluster.nodes[index], &Container::of(&pods[index]));
    let results = [add(0)?, add(1)?];
    Ok(Wired { cluster, runtimes, pods, results })
}

impl Wired {
    fn address(&self, index: usize, v4: bool) -> Result<IpAddr> {
        let ips = self.results[index].ips.iter().map(|ip| ip.address.ip());
        ips.into_iter().find(|ip| ip.is_ipv4() == v4).context("no address of the family")
    }
}

fn across() -> Result<()> {
    let wired = wired()?;
    for v4 in [true, false] {
        for (from, to) in [(0, 1), (1, 0)] {
            let seen = traffic::round_trips(&wired.pods[from], &wired.pods[to], wired.address(to, v4)?, 50)?;
            equal("the pod as the other node's sees it", seen.peer.ip(), wired.address(from, v4)?)?;
            let echo = traffic::echo(&wired.pods[from], &wired.pods[to], wired.address(to, v4)?, 50, 1200)?;
            equal("the pod as the other node's sees it", echo.peer.ip(), wired.address(from, v4)?)?;
            ensure!(echo.lost == 0, "{} of 50 datagrams had no answer", echo.lost);
        }
        // To the rest of the world it is the node as before.
        let outside = wired.cluster.nodes[0].outside();
        let (address, node) = if v4 {
            (outside.address(), outside.node_address())
        } else {
            (outside.address_v6(), outside.node_address_v6())
        };
        let seen = traffic::round_trips(&wired.pods[0], outside, address, 5)?.peer.ip();
        equal("the pod as outside sees it", seen, node)?;
    }
    Ok(())
}

fn fast() -> Result<()> {
    let wired = wired()?;
    for (index, node) in wired.cluster.nodes.iter().enumerate() {
        equal(&format!("programs on the link of node {index}"), programs(node, LAN)?.is_empty(), false)?;
    }
    for v4 in [true, false] {
        let before = wired.cluster.nodes.iter().map(Stats::read).collect::<Result<Vec<_>>>()?;
        traffic::upload(&wired.pods[0], &wired.pods[1], wired.address(1, v4)?, 50 << 20)?;
        for (node, before) in wired.cluster.nodes.iter().zip(&before) {
            let counted = &Stats::read(node)? - before;
            let share = counted.fast_share();
            ensure!(share > 0.95, "IPv4 {v4}: {:.1} % took the fast path: {counted:?}", 100.0 * share);
        }
    }
    Ok(())
}

fn node_routes(node: &Node) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for family in ["-4", "-6"] {
        let shown = node.call_json(&format!("ip -j {family} route show proto 235"))?;
        let routes = shown.as_array().cloned().into_iter().flatten();
        found.extend(routes.map(|route| format!("{} {}", route["dst"], route["gateway"]).replace('"', "")));
    }
    Ok(found)
}

fn again() -> Result<()> {
    let wired = wired()?;
    let node = &wired.cluster.nodes[0];
    let before = node_routes(node)?;
    equal(
        "the ways to the other node",
        &before,
        &vec!["10.244.1.0/24 192.168.77.2".to_owned(), "fd00:1::/64 fd77::2".to_owned()],
    )?;
    let second = node.pod("second")?;
    wired.runtimes[0].add(node, &Container::of(&second))?;
    equal("the ways after another ADD", node_routes(node)?, before)?;
    let moved = json!([{"podCIDR": range(1, true), "via": "192.168.77.9"}]);
    let third = node.pod("third")?;
    Runtime::new(short(&json!({"podCIDR": [range(0, true), range(0, false)], "nodeRoutes": moved})))
        .add(node, &Container::of(&third))?;
    let after = node_routes(node)?;
    ensure!(after.contains(&"10.244.1.0/24 192.168.77.9".to_owned()), "not taken over: {after:?}");
    equal("the ways", after.len(), 2)
}

fn foreign() -> Result<()> {
    let cluster = Cluster::new()?;
    let node = &cluster.nodes[0];
    node.call("ip route add 10.244.1.0/24 via 192.168.77.8")?;
    let pod = node.pod("pod")?;
    let runtime = Runtime::new(of_node(0));
    runtime.add(node, &Container::of(&pod))?;
    runtime.del(node, &Container::of(&pod))?;
    let shown = node.call_json("ip -j route show 10.244.1.0/24")?;
    equal("the administrator's route", shown[0]["gateway"].as_str(), Some("192.168.77.8"))
}

fn after_del() -> Result<()> {
    let cluster = Cluster::new()?;
    let node = &cluster.nodes[0];
    // What forwarding makes of the addresses stays.
    node.set_sysctl("net.ipv6.conf.all.forwarding", "1")?;
    let before = Snapshot::take(node)?;
    let pod = node.pod("pod")?;
    let runtime = Runtime::new(of_node(0));
    runtime.add(node, &Container::of(&pod))?;
    runtime.del(node, &Container::of(&pod))?;
    equal("the ways to the other node", node_routes(node)?.len(), 2)?;
    for family in ["-4", "-6"] {
        node.call(&format!("ip {family} route flush proto 235"))?;
    }
    Snapshot::take(node)?.without_link("cni0").ensure_equals(&before)
}
