//! Addresses, routes, MTU and sysctls: what hurt users of the reference (rows A1 to A8 of the fault list).

use std::net::{IpAddr, Ipv6Addr};

use anyhow::{Context, Result, ensure};
use ebpf_bridge_lab::libcni::{Conflist, Container, Runtime};
use ebpf_bridge_lab::observe::{default_gateways, link};
use ebpf_bridge_lab::{Node, Place, Pod, Scene, Snapshot, config, traffic};
use serde_json::{Value, json};

use crate::check::{equal, refused};
use crate::suite::Suite;

const V6_RANGE: &str = "fd00:1::/64";
const V6_GATEWAY: Ipv6Addr = Ipv6Addr::new(0xfd00, 1, 0, 0, 0, 0, 0, 1);

pub(crate) fn register(suite: &mut Suite) {
    let every = json!([{"dst": "0.0.0.0/0"}, {"dst": "::/0"}]);
    let with_gw = json!([{"dst": "0.0.0.0/0", "gw": "10.1.0.1"}, {"dst": "::/0", "gw": V6_GATEWAY}]);
    for (how, routes) in [("without a gateway", every), ("with the gateway", with_gw)] {
        suite.test(
            format!("address: isDefaultGateway and an IPAM default route {how} make one default route"),
            move || one_default(&routes),
        );
    }
    suite.test("address: the IPv6 gateway and pods are usable when ADD returns", at_once);
    suite.test("address: a pod's MTU above the bridge's raises the bridge", jumbo);
    suite.test("address: a pod without an MTU of its own takes that of the bridge it joins", joins);
    suite.test("address: a pod does not listen to router advertisements", no_advertisement);
    suite.test("address: on a node without IPv6 an IPv4 network works", v4_only);
    suite.test("address: on a node without IPv6 an IPv6 network is refused and nothing is left", v6_refused);
    suite.test("address: of two networks in a pod the first default route stays in front", two_networks);
    suite.test("address: mtu, advmss, priority and table of a route are programmed", attributes);
    suite.test("address: a gateway of our own has the subnet's first address where IPAM names none", || {
        let scene = wired(&json!({}))?;
        equal("the gateway", default_gateways(&scene.pods[0])?, vec![IpAddr::from([10, 1, 0, 1])])
    });
}

/// Both families, CNI 1.1.0, one pod.
fn wired(changes: &Value) -> Result<Scene> {
    let mut scene = Scene::new(Node::new()?, dual(changes));
    scene.wire("pod1")?;
    Ok(scene)
}

fn dual(changes: &Value) -> Conflist {
    let ranges = json!({"ipam": {"ranges": [[{"subnet": "10.1.0.0/24"}], [{"subnet": V6_RANGE}]]}});
    Conflist::of(config::with(config::with(config::bridge("auto"), &ranges), changes)).version("1.1.0")
}

fn one_default(routes: &Value) -> Result<()> {
    let scene = wired(&json!({"ipam": {"routes": routes}}))?;
    for (family, gateway) in [("-4", IpAddr::from([10, 1, 0, 1])), ("-6", V6_GATEWAY.into())] {
        let shown = scene.pods[0].call_json(&format!("ip -j {family} route show default"))?;
        equal("default routes", shown.as_array().map_or(0, Vec::len), 1)?;
        equal("its gateway", shown[0]["gateway"].as_str(), Some(gateway.to_string().as_str()))?;
        let said =
            scene.pods[0].result.routes.iter().filter(|r| r.dst.prefix() == 0 && r.gw == Some(gateway));
        equal("default routes in the result", said.count(), 1)?;
    }
    Ok(())
}

fn at_once() -> Result<()> {
    let mut scene = wired(&json!({}))?;
    settled(&[&scene.node, &scene.pods[0]])?;
    traffic::round_trips(&scene.pods[0], &scene.node, V6_GATEWAY.into(), 1)?;
    scene.wire("pod2")?;
    settled(&[&scene.node, &scene.pods[1]])?;
    let address = scene.pods[1].result.ips[1].address.ip();
    for from in [&*scene.pods[0] as &Place, &scene.node] {
        traffic::round_trips(from, &scene.pods[1], address, 1)?;
    }
    Ok(())
}

/// Asked at once: traffic would be tried again until an address is no longer tentative.
fn settled(places: &[&Place]) -> Result<()> {
    for place in places {
        let tentative = place.call("ip -6 address show tentative scope global")?;
        ensure!(tentative.is_empty(), "still tentative: {tentative}");
    }
    Ok(())
}

/// Two networks share the bridge, the first with a smaller MTU.
fn jumbo() -> Result<()> {
    let node = Node::new()?;
    let runtime =
        |mtu: u32| Runtime::new(dual(&json!({"mtu": mtu, "ipam": {"dataDir": "/var/lib/cni/shared"}})));
    let pods = ["pod1", "pod2", "pod3"].map(|name| node.pod(name));
    let [small, big, other] = pods;
    let (small, big, other) = (small?, big?, other?);
    runtime(1400).add(&node, &Container::of(&small))?;
    let bigger = runtime(9000);
    for pod in [&big, &other] {
        let result = bigger.add(&node, &Container::of(pod))?;
        equal("the MTU in the result", result.inside()?.mtu, Some(9000))?;
    }
    equal("the MTU of the bridge", link(&node, config::BRIDGE)?.mtu, 9000)?;
    equal("the MTU of the first pod", link(&small, "eth0")?.mtu, 1400)?;
    let addresses = link(&other, "eth0")?.addresses;
    let gateways = [[10, 1, 0, 1].into(), V6_GATEWAY.into()];
    let ways = addresses.iter().map(|address| (&*other, address.ip()));
    for (to, address) in ways.chain(gateways.map(|gateway| (&*node, gateway))) {
        let echo = traffic::echo_whole(&big, to, address, 10, 8000)?;
        ensure!(echo.lost == 0, "{} of 10 datagrams of 8000 bytes to {address} had no answer", echo.lost);
    }
    Ok(())
}

fn joins() -> Result<()> {
    let node = Node::new()?;
    node.call("ip link add br0 mtu 1400 type bridge")?;
    let mut scene = Scene::new(node, dual(&json!({})));
    let pod = scene.wire("pod1")?;
    equal("the MTU in the result", pod.result.inside()?.mtu, Some(1400))?;
    equal("the MTU in the pod", link(pod, "eth0")?.mtu, 1400)
}

fn no_advertisement() -> Result<()> {
    let scene = wired(&json!({}))?;
    // A pod that was not wired by us shows that the advertisement is one.
    let control = scene.node.pod("control")?;
    let peer = control.netns_path();
    scene
        .node
        .call(&format!("ip link add c0 master br0 type veth peer name eth0 netns {}", peer.display()))?;
    control.set_sysctl("net.ipv6.conf.eth0.accept_dad", "0")?;
    scene.node.call("ip link set c0 up")?;
    control.call("ip link set eth0 up")?;
    let heard =
        |pod: &Pod| pod.call("ip -6 address show dev eth0").map(|shown| shown.contains("2001:db8:bad:"));
    crate::check::eventually("the control hears the router", traffic::PATIENCE, || {
        traffic::advertise(&scene.node, config::BRIDGE)?;
        heard(&control)
    })?;
    ensure!(!heard(&scene.pods[0])?, "the pod took an address from a router");
    let routes = scene.pods[0].call("ip -6 route show")?;
    ensure!(!routes.contains("proto ra"), "the pod took a route from a router: {routes}");
    Ok(())
}

fn without_ipv6() -> Result<Node> {
    let node = Node::new()?;
    node.set_sysctl("net.ipv6.conf.all.disable_ipv6", "1")?;
    Ok(node)
}

fn v4_only() -> Result<()> {
    let mut scene = Scene::new(without_ipv6()?, Conflist::of(config::bridge("auto")));
    scene.wire("pod1")?;
    scene.wire("pod2")?;
    let pods = &scene.pods;
    traffic::round_trips(&pods[0], &pods[1], pods[1].address(), 10)?;
    traffic::round_trips(&pods[0], scene.node.outside(), scene.node.outside().address(), 10)?;
    Ok(())
}

fn v6_refused() -> Result<()> {
    for bridge_is_there in [false, true] {
        let node = without_ipv6()?;
        if bridge_is_there {
            node.call("ip link add br0 type bridge")?;
        }
        let before = Snapshot::take(&node)?;
        let mut scene = Scene::new(node, dual(&json!({})));
        let error = refused(scene.wire("pod1").map(|pod| pod.result.clone()))?;
        ensure!(error.msg.contains("IPv6 is disabled"), "the error does not say why: {error}");
        Snapshot::take(&scene.node)?.ensure_equals(&before)?;
    }
    Ok(())
}

fn two_networks() -> Result<()> {
    let mut scene = wired(&json!({}))?;
    let second = json!({"bridge": "br1", "ipam": {"ranges": [[{"subnet": "10.2.0.0/24"}], [{"subnet": "fd00:2::/64"}]]}});
    let mut list = dual(&second);
    list.name = "n2".into();
    let runtime = Runtime::new(list);
    let mut container = scene.pods[0].container.clone();
    container.ifname = "eth1".into();
    let result = runtime.add(&scene.node, &container)?;
    for (family, everything) in [("-4", "0.0.0.0/0"), ("-6", "::/0")] {
        let shown = defaults(&scene.pods[0], family)?;
        let order: Vec<_> = shown.iter().map(|(_, device)| device.as_str()).collect();
        equal("default routes, the preferred first", order, vec!["eth0", "eth1"])?;
        ensure!(shown[0].0 < shown[1].0, "metrics do not tell them apart: {shown:?}");
        let said = result.routes.iter().find(|route| route.dst.to_string() == everything);
        let said = said.context("no default route in the second result")?.priority;
        equal("the metric in the result", said, Some(shown[1].0))?;
    }
    // Two interfaces are there to be used: each network reaches its own gateway and the world through the first.
    traffic::round_trips(&scene.pods[0], &scene.node, [10, 2, 0, 1].into(), 5)?;
    traffic::round_trips(&scene.pods[0], scene.node.outside(), scene.node.outside().address(), 5)?;
    runtime.del(&scene.node, &container)?;
    equal("default routes left", defaults(&scene.pods[0], "-4")?.len(), 1)?;
    scene.wire("pod2").map(|_| ())
}

/// Metric and device of each default route, the preferred first.
fn defaults(place: &Place, family: &str) -> Result<Vec<(u32, String)>> {
    let shown = place.call_json(&format!("ip -j {family} route show default"))?;
    let routes = shown.as_array().into_iter().flatten();
    let mut found: Vec<_> = routes
        .map(|r| (r["metric"].as_u64().unwrap_or(0) as u32, r["dev"].as_str().unwrap_or_default().to_owned()))
        .collect();
    found.sort();
    Ok(found)
}

fn attributes() -> Result<()> {
    let routes = json!([
        {"dst": "203.0.113.0/24", "mtu": 1300, "advmss": 1200, "priority": 77, "table": 123},
        {"dst": "2001:db8:9::/48", "mtu": 1300, "advmss": 1200, "priority": 78, "table": 124},
        {"dst": "192.0.2.0/24", "priority": 5},
    ]);
    let scene = wired(&json!({"ipam": {"routes": routes}}))?;
    let pod = &scene.pods[0];
    for (show, metric) in
        [("-4 route show 203.0.113.0/24 table 123", 77), ("-6 route show 2001:db8:9::/48 table 124", 78)]
    {
        let shown = pod.call_json(&format!("ip -j {show}"))?;
        equal("metric", shown[0]["metric"].as_u64(), Some(metric))?;
        equal("mtu and advmss", &shown[0]["metrics"][0], &json!({"mtu": 1300, "advmss": 1200}))?;
    }
    let shown = pod.call_json("ip -j route show 192.0.2.0/24")?;
    equal("metric", shown[0]["metric"].as_u64(), Some(5))?;
    let main = pod.call("ip route show")?;
    ensure!(!main.contains("203.0.113.0"), "also in the main table: {main}");
    let said = pod.result.routes.iter().find(|route| route.dst.to_string() == "203.0.113.0/24");
    let said = said.context("the route is not in the result")?;
    equal(
        "the result",
        (said.mtu, said.advmss, said.priority, said.table),
        (Some(1300), Some(1200), Some(77), Some(123)),
    )
}
