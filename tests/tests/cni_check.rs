//! CHECK: content with what ADD made, and names what has gone since.

use anyhow::{Context, Result, ensure};
use ebpf_bridge_lab::libcni::{Conflist, Container, exec};
use ebpf_bridge_lab::{Need, Node, Scene, config, plugin};
use serde_json::{Value, json};

use crate::check::{differs, equal, refused};
use crate::suite::Suite;

/// What somebody did (`{veth}` stands for the host's end), where, and the words CHECK must say.
const DAMAGES: [(&str, At, &str, &[&str]); 19] = [
    ("the veth was taken off the bridge", At::Node, "ip link set {veth} nomaster", &["{veth}", "br0"]),
    ("the veth is down", At::Node, "ip link set {veth} down", &["{veth}", "down"]),
    ("the bridge is down", At::Node, "ip link set br0 down", &["br0", "down"]),
    ("the gateway address is gone", At::Node, "ip address del 10.1.0.1/24 dev br0", &["10.1.0.1/24", "br0"]),
    ("forwarding is off", At::Node, "sysctl -q net.ipv4.ip_forward=0", &["net.ipv4.ip_forward"]),
    ("the rules were flushed", At::Node, "nft flush ruleset", &["masquerade", "n1", "MACs", "{veth}"]),
    ("the bridge's MTU is lower", At::Node, "ip link set br0 mtu 1300", &["MTU 1400", "br0", "1300"]),
    ("hairpin mode is off", At::Node, "bridge link set dev {veth} hairpin off", &["hairpin", "{veth}"]),
    ("isolation is off", At::Node, "bridge link set dev {veth} isolated off", &["isolated", "{veth}"]),
    ("the MAC check is gone", At::Node, "nft delete table bridge ebpf-bridge", &["MACs", "{veth}"]),
    ("the MAC check is empty", At::Node, "nft flush table bridge ebpf-bridge", &["MACs", "{veth}"]),
    ("a route to another node is gone", At::Node, "ip route del 10.7.0.0/24", &["10.7.0.0/24"]),
    ("the lease is gone", At::Node, "rm /var/lib/cni/networks/n1/10.1.0.2", &["10.1.0.2", "not leased"]),
    ("the pod's address is gone", At::Pod, "ip address del 10.1.0.2/24 dev eth0", &["10.1.0.2/24", "eth0"]),
    ("the pod's default route is gone", At::Pod, "ip route del default", &["0.0.0.0/0", "10.1.0.1"]),
    ("the pod's MTU was changed", At::Pod, "ip link set eth0 mtu 1300", &["MTU 1400", "eth0", "1300"]),
    (
        "the pod's MAC was changed",
        At::Pod,
        "ip link set eth0 address c2:11:22:33:44:55",
        &["MAC", "c2:11:22"],
    ),
    ("the pod's link is down", At::Pod, "ip link set eth0 down", &["eth0", "down"]),
    ("the pod's link is gone", At::Pod, "ip link del eth0", &["eth0", "no such link"]),
];

/// The same where eBPF is there.
const EBPF_DAMAGES: [(&str, At, &str, &[&str]); 4] = [
    ("a program was detached", At::Node, "tc filter del dev {veth} ingress", &["flow_ingress", "{veth}"]),
    (
        "the uplink was detached",
        At::Node,
        "find /sys/fs/bpf -name *-flow_egress_out -delete",
        &["flow_egress_out"],
    ),
    (
        "conntrack is strict",
        At::Node,
        "sysctl -q net.netfilter.nf_conntrack_tcp_be_liberal=0",
        &["nf_conntrack_tcp_be_liberal", "is 0"],
    ),
    ("the pins are gone", At::Node, "umount /sys/fs/bpf", &["pinned", "/sys/fs/bpf"]),
];

#[derive(Clone, Copy)]
enum At {
    Node,
    Pod,
}

pub(crate) fn register(suite: &mut Suite) {
    for version in ["0.4.0", "1.0.0", "1.1.0"] {
        suite.test(format!("check: right after ADD it is content, CNI {version}"), move || content(version));
    }
    for (what, at, command, words) in DAMAGES {
        suite.test(format!("check: {what}"), move || noticed(at, command, words));
    }
    for (what, at, command, words) in EBPF_DAMAGES {
        suite.test_with(&[Need::Bpf], format!("check: {what}"), move || noticed(at, command, words));
    }
    suite.test("check: of what was never added fails with code 3", never_added);
    suite.test("check: without prevResult fails with code 7 and says so", without_result);
    suite.test("check: prevResult may have interfaces and addresses of later plugins", later_plugins);
    suite.test("check: a prevResult that lacks the pod's address is told", forgotten_address);
    for (backend, flushes) in [
        ("nftables", &["nft flush ruleset"][..]),
        ("iptables", &["iptables -t nat -F", "iptables -t mangle -F"]),
        ("iptables", &["iptables -t mangle -F"]),
    ] {
        suite.test_with(
            &[Need::Tool("iptables")],
            format!(
                "check: after {flushes:?} CHECK names the rules and the next ADD restores them, {backend}"
            ),
            move || mended(backend, flushes),
        );
    }
}

fn settings() -> Value {
    let node = json!([{"podCIDR": "10.7.0.0/24", "via": "198.51.100.1"}]);
    let keys = json!({"mtu": 1400, "hairpinMode": true, "portIsolation": true, "macspoofchk": true, "nodeRoutes": node});
    config::with(config::bridge("auto"), &keys)
}

fn scene() -> Result<Scene> {
    let mut scene = Scene::new(Node::new()?, Conflist::of(settings()).version("1.1.0"));
    scene.wire("pod1")?;
    Ok(scene)
}

/// One plugin's execution with exactly this configuration.
fn call(node: &Node, verb: &str, container: &Container, request: &Value) -> Result<Option<Value>> {
    let netns = container.netns.clone().unwrap_or_default();
    let env =
        [("CNI_CONTAINERID", &*container.id), ("CNI_NETNS", &*netns), ("CNI_IFNAME", &*container.ifname)];
    Ok(exec(node, plugin::NAME, verb, &env, &request.to_string())?.document)
}

fn content(version: &str) -> Result<()> {
    let node = Node::new()?;
    let container = Container::of(&node.pod("pod1")?);
    let mut request = config::with(settings(), &json!({"cniVersion": version, "name": "n1"}));
    let result = call(&node, "ADD", &container, &request)?.context("no result")?;
    request["prevResult"] = result;
    equal("the answer", call(&node, "CHECK", &container, &request)?, None)
}

fn noticed(at: At, command: &str, words: &[&str]) -> Result<()> {
    let scene = scene()?;
    let pod = &scene.pods[0];
    let veth = pod.result.veth()?.name.clone();
    scene.runtime.check(&scene.node, &pod.container).context("before the damage")?;
    let command = command.replace("{veth}", &veth);
    match at {
        At::Node => scene.node.call(&command)?,
        At::Pod => pod.call(&command)?,
    };
    let error = refused(scene.runtime.check(&scene.node, &pod.container))?;
    differs(&error, words, &veth)
}

fn never_added() -> Result<()> {
    let node = Node::new()?;
    let container = Container::of(&node.pod("pod1")?);
    let request =
        config::with(settings(), &json!({"cniVersion": "1.1.0", "name": "n1", "prevResult": {"ips": []}}));
    let error = refused(call(&node, "CHECK", &container, &request))?;
    equal("the code", error.code, 3)?;
    ensure!(error.msg.contains("pod1"), "the container is not named: {error}");
    Ok(())
}

fn without_result() -> Result<()> {
    let scene = scene()?;
    let request = config::with(settings(), &json!({"cniVersion": "1.1.0", "name": "n1"}));
    let error = refused(call(&scene.node, "CHECK", &scene.pods[0].container, &request))?;
    equal("the code", error.code, 7)?;
    ensure!(error.msg.contains("prevResult"), "the key is not named: {error}");
    Ok(())
}

/// ADD, then CHECK with a result that somebody has changed.
fn check_changed(change: impl FnOnce(&mut Value)) -> Result<Option<Value>> {
    let node = Node::new()?;
    let container = Container::of(&node.pod("pod1")?);
    let mut request = config::with(settings(), &json!({"cniVersion": "1.1.0", "name": "n1"}));
    let mut result = call(&node, "ADD", &container, &request)?.context("no result")?;
    change(&mut result);
    request["prevResult"] = result;
    call(&node, "CHECK", &container, &request)
}

fn later_plugins() -> Result<()> {
    check_changed(|result| {
        if let Some(interfaces) = result["interfaces"].as_array_mut() {
            interfaces.push(json!({"name": "ifb0"}));
            interfaces.push(json!({"name": "tun0", "sandbox": "/run/netns/pod1", "socketPath": "/x"}));
        }
        if let Some(ips) = result["ips"].as_array_mut() {
            ips.push(json!({"address": "192.0.2.77/32", "interface": 4}));
        }
        result["routes"] = json!([{"dst": "198.51.100.0/24", "gw": "192.0.2.1"}]);
    })
    .map(drop)
}

fn forgotten_address() -> Result<()> {
    let error = refused(check_changed(|result| result["ips"] = json!([])))?;
    differs(&error, &["prevResult", "10.1.0.2/24"], "")
}

/// plugins#512: rules flushed by firewalld or an admin, CHECK was happy and networking dead.
fn mended(backend: &str, flushes: &[&str]) -> Result<()> {
    let config = config::with(config::bridge("auto"), &json!({"ipMasqBackend": backend}));
    let mut scene = Scene::new(Node::new()?, Conflist::of(config).version("1.1.0"));
    scene.wire("pod1")?;
    flushes.iter().try_for_each(|flush| scene.node.call(flush).map(drop))?;
    let container = scene.pods[0].container.clone();
    differs(&refused(scene.runtime.check(&scene.node, &container))?, &["masquerade", "n1"], "")?;
    scene.wire("pod2")?;
    scene.runtime.check(&scene.node, &container)
}
