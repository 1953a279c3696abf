//! What ADD makes, compared with what the kernel shows.

use std::net::IpAddr;

use anyhow::{Context, Result, ensure};
use ebpf_bridge_lab::libcni::{AddResult, Conflist, Container, Runtime};
use ebpf_bridge_lab::observe::{default_gateways, link};
use ebpf_bridge_lab::{Node, Place, Scene, Variant, WiredPod, config, traffic};
use serde_json::{Value, json};

use crate::check::equal;
use crate::suite::Suite;

pub(crate) fn register(suite: &mut Suite) {
    for version in ["1.0.0", "1.1.0"] {
        suite.test(format!("wiring: the result of CNI {version} is what the kernel shows"), move || {
            result_is_true(version)
        });
    }
    suite.test("wiring: the bridge holds the gateway address and answers on it", gateway_answers);
    suite.test("wiring: the pod has one default route, through the gateway", default_route);
    suite.test("wiring: lo is up in the pod", loopback);
    suite.test("wiring: the MTU asked for is on both ends of the veth and on the bridge", mtu);
    suite.test("wiring: a MAC asked for as runtimeConfig is the pod's", || {
        mac(|container| container.capability("mac", json!("c2:11:22:33:44:55")))
    });
    suite.test("wiring: a MAC asked for in CNI_ARGS is the pod's", || {
        mac(|container| container.args("MAC=c2:11:22:33:44:55"))
    });
    suite.test("wiring: routes of the IPAM are in the pod", ipam_routes);
    suite.test("wiring: the bridge keeps its MAC whatever pods come and go", bridge_mac);
}

fn bridge_list(changes: &Value) -> Conflist {
    Conflist::of(config::with(config::bridge(Variant::Auto.mode()), changes))
}

fn result_is_true(version: &str) -> Result<()> {
    let mut scene = Scene::new(Node::new()?, bridge_list(&json!({})).version(version));
    scene.wire("pod1")?;
    let WiredPod { pod, container, result, .. } = &scene.pods[0];
    equal("cniVersion", &result.cni_version, version)?;

    let inside = result.inside()?;
    equal("the interface", &inside.name, &container.ifname)?;
    equal("its sandbox", &inside.sandbox, &container.netns)?;
    interface_is_true(pod, result, &inside.name)?;
    interface_is_true(&scene.node, result, &result.veth()?.name)?;
    interface_is_true(&scene.node, result, config::BRIDGE)?;
    let port = link(&scene.node, &result.veth()?.name)?;
    equal("the bridge of the veth", port.master.as_deref(), Some(config::BRIDGE))?;

    let given: Vec<_> = result.ips.iter().map(|ip| ip.address).collect();
    equal("addresses", link(pod, "eth0")?.addresses, given)?;
    for ip in &result.ips {
        let interface = ip.interface.and_then(|index| result.interfaces.get(index));
        equal("the interface of the address", interface.map(|i| &i.name), Some(&container.ifname))?;
        equal("the gateway", default_gateways(pod)?, Vec::from_iter(ip.gateway))?;
    }
    routes_are_there(pod, result)
}

fn interface_is_true(place: &Place, result: &AddResult, name: &str) -> Result<()> {
    let said = result.interfaces.iter().find(|interface| interface.name == name);
    let said = said.with_context(|| format!("{name} is not in the result"))?;
    let shown = link(place, name)?;
    equal(&format!("the MAC of {name}"), said.mac.as_deref(), Some(shown.mac.as_str()))?;
    ensure!(shown.up, "{name} is down");
    let mtu = (result.cni_version == "1.1.0").then_some(shown.mtu);
    equal(&format!("the MTU of {name} in the result"), said.mtu, mtu)
}

fn routes_are_there(pod: &Place, result: &AddResult) -> Result<()> {
    for route in &result.routes {
        let shown = pod.call_json(&format!("ip -j route show {}", route.dst))?;
        let gateway = route.gw.or(result.ips[0].gateway).map(|gateway| gateway.to_string());
        ensure!(
            shown[0]["gateway"].as_str() == gateway.as_deref(),
            "the route to {} in the pod: {shown}, expected through {gateway:?}",
            route.dst
        );
    }
    Ok(())
}

fn gateway_answers() -> Result<()> {
    let scene = Scene::with_pods(Variant::Auto, 1)?;
    let gateway: IpAddr = [10, 1, 0, 1].into();
    let held = link(&scene.node, config::BRIDGE)?.addresses;
    ensure!(held.iter().any(|address| address.ip() == gateway), "the bridge has {held:?}");
    traffic::round_trips(&scene.pods[0], &scene.node, gateway, 10)?;
    Ok(())
}

fn default_route() -> Result<()> {
    let scene = Scene::with_pods(Variant::Auto, 1)?;
    equal("default gateways", default_gateways(&scene.pods[0])?, vec![IpAddr::from([10, 1, 0, 1])])
}

fn loopback() -> Result<()> {
    let scene = Scene::with_pods(Variant::Auto, 1)?;
    let pod = &scene.pods[0];
    ensure!(link(pod, "lo")?.up, "lo is down");
    traffic::round_trips(pod, pod, [127, 0, 0, 1].into(), 1)?;
    Ok(())
}

fn mtu() -> Result<()> {
    let mut scene = Scene::new(Node::new()?, bridge_list(&json!({"mtu": 1400})));
    let pod = scene.wire("pod1")?;
    let veth = pod.result.veth()?.name.clone();
    equal("the MTU in the pod", link(pod, "eth0")?.mtu, 1400)?;
    equal("the MTU of the host's end", link(&scene.node, &veth)?.mtu, 1400)?;
    equal("the MTU of the bridge", link(&scene.node, config::BRIDGE)?.mtu, 1400)
}

fn mac(ask: impl Fn(Container) -> Container) -> Result<()> {
    let node = Node::new()?;
    let runtime = Runtime::new(bridge_list(&json!({"capabilities": {"mac": true}})));
    let pod = node.pod("pod1")?;
    let result = runtime.add(&node, &ask(Container::of(&pod)))?;
    equal("the MAC in the result", result.inside()?.mac.as_deref(), Some("c2:11:22:33:44:55"))?;
    equal("the MAC in the pod", link(&pod, "eth0")?.mac, "c2:11:22:33:44:55")
}

fn ipam_routes() -> Result<()> {
    let routes = json!([{"dst": "203.0.113.0/24"}, {"dst": "192.0.2.0/24", "gw": "10.1.0.9"}]);
    let mut scene = Scene::new(Node::new()?, bridge_list(&json!({"ipam": {"routes": routes}})));
    let pod = scene.wire("pod1")?;
    let named: Vec<_> = pod.result.routes.iter().map(|route| route.dst.to_string()).collect();
    for wanted in ["203.0.113.0/24", "192.0.2.0/24"] {
        ensure!(
            named.iter().any(|dst| dst == wanted),
            "{wanted} is not among the routes of the result: {named:?}"
        );
    }
    routes_are_there(pod, &pod.result)
}

fn bridge_mac() -> Result<()> {
    let mut scene = Scene::with_pods(Variant::Auto, 1)?;
    let first = link(&scene.node, config::BRIDGE)?.mac;
    for number in 2..=6 {
        scene.wire(&format!("pod{number}"))?;
        equal("the bridge's MAC", &link(&scene.node, config::BRIDGE)?.mac, &first)?;
    }
    scene.unwire()?;
    equal("the bridge's MAC without pods", &link(&scene.node, config::BRIDGE)?.mac, &first)
}
