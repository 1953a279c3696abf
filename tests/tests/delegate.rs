//! Another IPAM plugin: executed as the specification says, whatever becomes of the ADD.

use std::net::IpAddr;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use ebpf_bridge_lab::libcni::{Conflist, Container, Runtime, exec};
use ebpf_bridge_lab::observe::{default_gateways, link};
use ebpf_bridge_lab::{Need, Node, Scene, Snapshot, config, plugin, traffic};
use serde_json::{Value, json};

use crate::check::{equal, eventually, refused};
use crate::suite::Suite;

const LEASE: &str = r#"{"cniVersion":"1.1.0","ips":[{"address":"10.1.0.9/24","gateway":"10.1.0.1"}],
    "routes":[{"dst":"192.0.2.0/24"}],"dns":{"nameservers":["10.1.0.53"]}}"#;
/// Where the plugin of the tests writes how it was called, and what it was told.
const CALLS: &str = "/run/lab/calls";
const TOLD: &str = "/run/lab/told";

pub(crate) fn register(suite: &mut Suite) {
    suite
        .test("delegate: every verb reaches the IPAM plugin, with environment and configuration", every_verb);
    for (what, answer) in [("null", "echo null"), ("nothing", "true")] {
        suite.test(format!("delegate: an answer that is {what} makes a pod without addresses"), move || {
            no_addresses(answer)
        });
    }
    suite.test("delegate: its error is passed on and nothing is left", error_passed_on);
    suite.test("delegate: a plugin that is killed is named and its lease given back", killed);
    suite.test("delegate: an ADD that fails afterwards gives the lease back", given_back);
    suite.test("delegate: a plugin that is not there is named, code 103, and nothing is left", not_there);
    for (what, prepare) in DEL_VARIANTS {
        suite.test(format!("delegate: DEL is forwarded when {what}"), move || forwarded_del(prepare));
    }
    suite.test_with(&[Need::Peer("static")], "delegate: static of the reference plugins", reference_static);
    let dhcp = [Need::Peer("dhcp"), Need::Tool("busybox")];
    suite.test_with(
        &dhcp,
        "delegate: dhcp of the reference plugins, with its daemon and a server",
        reference_dhcp,
    );
}

/// A node whose IPAM plugin `fake` answers ADD by a line of shell, and everything else with success.
fn node(answer: &str) -> Result<Node> {
    let node = Node::new()?;
    let script = format!(
        "#!/bin/sh\nmkdir -p /run/lab\ncat >>{TOLD}\n\
         echo $CNI_COMMAND $CNI_CONTAINERID $CNI_IFNAME $CNI_NETNS $CNI_ARGS >>{CALLS}\n\
         [ $CNI_COMMAND = ADD ] || exit 0\n{answer}\n"
    );
    // Another process writes the file: a descriptor of ours could live on in a child just forked by another test,
    // and nothing executes a file that is open for writing.
    let write = "printf %s \"$1\" >/opt/cni/bin/fake && chmod +x /opt/cni/bin/fake";
    let status = node.command("sh").args(["-c", write, "sh", &script]).status()?;
    ensure!(status.success(), "writing the plugin: {status}");
    Ok(node)
}

fn lease() -> String {
    format!("echo '{LEASE}'")
}

fn list(changes: &Value) -> Conflist {
    let mut config = config::bridge("auto");
    config["ipam"] = json!({"type": "fake", "key": "value"});
    Conflist::of(config::with(config, changes)).version("1.1.0")
}

fn calls(node: &Node) -> Result<Vec<String>> {
    Ok(node.read(CALLS)?.lines().map(|line| line.trim().to_owned()).collect())
}

fn verbs(node: &Node) -> Result<Vec<String>> {
    Ok(calls(node)?.iter().filter_map(|call| call.split(' ').next().map(str::to_owned)).collect())
}

fn every_verb() -> Result<()> {
    let node = node(&lease())?;
    let before = Snapshot::take(&node)?;
    let runtime = Runtime::new(list(&json!({})));
    let pod = node.pod("pod1")?;
    let container = Container::of(&pod).args("K8S_POD_NAME=x;FOO=BAR");
    let result = runtime.add(&node, &container)?;
    equal("the pod's addresses", link(&pod, "eth0")?.addresses, vec!["10.1.0.9/24".parse()?])?;
    equal("the address in the result", result.address()?, IpAddr::from([10, 1, 0, 9]))?;
    equal("its interface", result.ips[0].interface, Some(2))?;
    equal("name servers", &result.dns["nameservers"], &json!(["10.1.0.53"]))?;
    equal("default gateways", default_gateways(&pod)?, vec![IpAddr::from([10, 1, 0, 1])])?;
    ensure!(pod.call("ip route")?.contains("192.0.2.0/24 via 10.1.0.1"), "the leased route is missing");
    traffic::round_trips(&pod, &node, [10, 1, 0, 1].into(), 1)?;
    runtime.check(&node, &container)?;
    let request = json!({"cniVersion": "1.1.0", "name": "n1", "cni.dev/valid-attachments": [
        {"containerID": "pod1", "ifname": "eth0"}]});
    let request = config::with(list(&json!({})).plugins[0].clone(), &request).to_string();
    for verb in ["STATUS", "GC"] {
        exec(&node, plugin::NAME, verb, &[], &request)?;
    }
    runtime.del(&node, &container)?;
    let own = "pod1 eth0 /run/netns/pod1 K8S_POD_NAME=x;FOO=BAR";
    let expected =
        [format!("ADD {own}"), format!("CHECK {own}"), "STATUS".into(), "GC".into(), format!("DEL {own}")];
    equal("calls", calls(&node)?, expected.to_vec())?;
    // What the plugin is told is what we were told.
    let told = node.read(TOLD)?;
    let told =
        serde_json::Deserializer::from_str(&told).into_iter::<Value>().collect::<Result<Vec<_>, _>>()?;
    ensure!(told.iter().all(|told| told["ipam"]["key"] == "value" && told["bridge"] == "br0"), "{told:?}");
    ensure!(told[1]["prevResult"]["ips"][0]["address"] == "10.1.0.9/24", "{told:?}");
    Snapshot::take(&node)?.without_link(config::BRIDGE).ensure_equals(&before)
}

fn no_addresses(answer: &str) -> Result<()> {
    let node = node(answer)?;
    let runtime = Runtime::new(list(&json!({})));
    let pod = node.pod("pod1")?;
    let result = runtime.add(&node, &Container::of(&pod))?;
    equal("addresses in the result", result.ips.len(), 0)?;
    equal("the pod's addresses", link(&pod, "eth0")?.addresses, vec![])?;
    ensure!(link(&pod, "eth0")?.up, "eth0 is down");
    runtime.check(&node, &Container::of(&pod))
}

/// An ADD that fails: what the plugin said, how the fake was called, and that nothing is left.
fn failing(answer: &str, changes: &Value, code: u32, words: &[&str], called: &[&str]) -> Result<()> {
    let node = node(answer)?;
    let pod = node.pod("pod1")?;
    let before = Snapshot::take(&node)?;
    let error = refused(Runtime::new(list(changes)).add(&node, &Container::of(&pod)))?;
    equal("the code", error.code, code)?;
    for word in words {
        ensure!(error.msg.contains(word), "the message does not name {word}: {error}");
    }
    if !called.is_empty() {
        equal("calls", verbs(&node)?, called.iter().map(ToString::to_string).collect::<Vec<_>>())?;
    }
    Snapshot::take(&node)?.ensure_equals(&before)
}

fn error_passed_on() -> Result<()> {
    let answer = r#"echo '{"code":11,"msg":"the pool is being filled"}'; exit 1"#;
    failing(answer, &json!({}), 11, &["the pool is being filled"], &["ADD"])
}

fn killed() -> Result<()> {
    failing("kill -9 $$", &json!({}), 103, &["fake", "signal: 9"], &["ADD", "DEL"])
}

fn given_back() -> Result<()> {
    let broken = json!({"ebpf": {"mode": "required", "uplinks": ["absent0"]}});
    failing(&lease(), &broken, 102, &["absent0"], &["ADD", "DEL"])
}

fn not_there() -> Result<()> {
    failing("true", &json!({"ipam": {"type": "nowhere"}}), 103, &["nowhere", "/opt/cni/bin"], &[])
}

type Prepare = fn(&Node, Container) -> Result<(Container, Value)>;

const DEL_VARIANTS: [(&str, Prepare); 5] = [
    ("CNI_NETNS is missing", |_, container| Ok((container.netns(None), json!({})))),
    ("CNI_NETNS is gone", |_, container| Ok((container.netns(Some("/run/netns/gone")), json!({})))),
    ("CNI_NETNS is a plain file", |_, container| Ok((container.netns(Some("/etc/passwd")), json!({})))),
    ("the interface is gone", |node, container| {
        node.call("ip link delete br0 type bridge")?;
        node.call("nsenter --net=/run/netns/pod1 ip link delete eth0")?;
        Ok((container, json!({})))
    }),
    ("the configuration has another IPAM by now", |_, container| {
        Ok((container, json!({"ipam": {"type": "host-local", "subnet": "10.9.0.0/24"}})))
    }),
];

fn forwarded_del(prepare: Prepare) -> Result<()> {
    let node = node(&lease())?;
    let pod = node.pod("pod1")?;
    let container = Container::of(&pod);
    Runtime::new(list(&json!({}))).add(&node, &container)?;
    let (container, changes) = prepare(&node, container)?;
    Runtime::new(list(&changes)).del(&node, &container)?;
    equal("calls", verbs(&node)?, vec!["ADD".to_owned(), "DEL".to_owned()])?;
    let told = node.read(TOLD)?;
    let told =
        serde_json::Deserializer::from_str(&told).into_iter::<Value>().collect::<Result<Vec<_>, _>>()?;
    equal("the IPAM that DEL was told of", &told[1]["ipam"]["type"], &json!("fake"))
}

fn reference_static() -> Result<()> {
    let addresses = json!([{"address": "10.1.0.33/24", "gateway": "10.1.0.1"}]);
    let changes = json!({"ipam": {"type": "static", "addresses": addresses}});
    let node = Node::new()?;
    let before = Snapshot::take(&node)?;
    let mut scene = Scene::new(node, list(&changes).version("1.0.0"));
    scene.wire("pod1")?;
    let pod = &scene.pods[0];
    equal("the address", pod.address(), IpAddr::from([10, 1, 0, 33]))?;
    traffic::round_trips(pod, &scene.node, [10, 1, 0, 1].into(), 1)?;
    scene.runtime.check(&scene.node, &pod.container)?;
    scene.unwire()?;
    Snapshot::take(&scene.node)?.without_link(config::BRIDGE).ensure_equals(&before)
}

/// The server listens on the bridge; the daemon, which keeps the lease, runs on the node.
fn reference_dhcp() -> Result<()> {
    let node = Node::new()?;
    for call in ["ip link add br0 type bridge", "ip address add 10.1.0.1/24 dev br0", "ip link set br0 up"] {
        node.call(call)?;
    }
    let settings = "start 10.1.0.50\nend 10.1.0.60\ninterface br0\nlease_file /run/lab/leases\npidfile /run/lab/pid\n\
                    option subnet 255.255.255.0\noption router 10.1.0.1\n";
    let write =
        "mkdir -p /run/lab /run/cni && touch /run/lab/leases && printf %s \"$1\" >/run/lab/udhcpd.conf";
    let status = node.command("sh").args(["-c", write, "sh", settings]).status()?;
    ensure!(status.success(), "writing the server's configuration: {status}");
    let mut server = node.command("busybox").args(["udhcpd", "-f", "/run/lab/udhcpd.conf"]).spawn()?;
    let mut daemon = node.command("/opt/cni/bin/dhcp").arg("daemon").spawn()?;
    let outcome = dhcp_lease(node);
    for child in [&mut server, &mut daemon] {
        child.kill().context("stopping a daemon")?;
        child.wait()?;
    }
    outcome
}

fn dhcp_lease(node: Node) -> Result<()> {
    eventually("the daemon listens", traffic::PATIENCE, || Ok(node.call("ls /run/cni/dhcp.sock").is_ok()))?;
    thread::sleep(Duration::from_millis(100));
    let changes =
        json!({"ipam": {"type": "dhcp"}, "isGateway": false, "isDefaultGateway": false, "ipMasq": false});
    let mut config = list(&changes).version("1.0.0");
    config.plugins[0]["ipam"] = json!({"type": "dhcp"});
    let mut scene = Scene::new(node, config);
    scene.wire("pod1")?;
    let pod = &scene.pods[0];
    let address = pod.address();
    ensure!(
        address.to_string().starts_with("10.1.0.5") || address.to_string() == "10.1.0.60",
        "got {address}"
    );
    equal("the pod's addresses", link(pod, "eth0")?.addresses.len(), 1)?;
    traffic::round_trips(pod, &scene.node, [10, 1, 0, 1].into(), 1)?;
    scene.runtime.check(&scene.node, &pod.container)?;
    scene.unwire()
}
