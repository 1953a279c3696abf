//! In a list with the reference's other plugins, and as the delegate of flannel's.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use ebpf_bridge_lab::libcni::{AddResult, Conflist, Container, Runtime, exec};
use ebpf_bridge_lab::observe::{default_gateways, link};
use ebpf_bridge_lab::{Need, Node, Pod, Scene, Snapshot, Variant, config, plugin, traffic};
use serde_json::{Value, json};

use crate::check::equal;
use crate::suite::Suite;

pub(crate) fn register(suite: &mut Suite) {
    // On the fast path: `chained`.
    for variant in [Variant::Off, Variant::NoBpffs] {
        suite.test_with(
            &[Need::Peer("firewall"), Need::Tool("iptables")],
            format!("conflist: firewall opens FORWARD policy DROP for pods, {variant}"),
            move || firewall(variant),
        );
        suite.test_with(
            &[Need::Peer("portmap"), Need::Tool("iptables")],
            format!("conflist: portmap makes a pod's port the node's, {variant}"),
            move || portmap(variant),
        );
    }
    suite.test_with(&[Need::Peer("tuning")], "conflist: tuning sets sysctls, MTU and MAC in the pod", tuning);
    suite.test_with(
        &["firewall", "portmap", "tuning", "bandwidth"].map(Need::Peer),
        "conflist: DEL of all of them in reverse leaves nothing of ours",
        all_of_them,
    );
    for (shape, delegate) in flannel_shapes() {
        suite.test(format!("conflist: as flannel's delegate, {shape}"), move || flannel(&delegate));
    }
    suite.test_with(
        &[Need::Tool("strace")],
        "conflist: ADD and DEL execute nothing once the network exists",
        no_exec,
    );
}

fn ours(variant: Variant) -> Conflist {
    let capabilities = json!({"capabilities": {"bandwidth": true}});
    Conflist::of(config::with(config::bridge(variant.mode()), &capabilities))
}

/// A node on which bridged packets meet iptables, and nothing is forwarded that no rule allows.
fn forwards_nothing(variant: Variant) -> Result<Node> {
    let node = variant.node()?;
    node.set_sysctl("net.bridge.bridge-nf-call-iptables", "1")?;
    node.call("iptables -P FORWARD DROP")?;
    Ok(node)
}

fn firewall(variant: Variant) -> Result<()> {
    let mut closed = Scene::new(forwards_nothing(variant)?, ours(variant));
    closed.wire("pod1")?;
    closed.wire("pod2")?;
    ensure!(
        traffic::echo(&closed.pods[0], &closed.pods[1], closed.pods[1].address(), 1, 64).is_err(),
        "not closed"
    );

    let mut scene = Scene::new(forwards_nothing(variant)?, ours(variant).then(json!({"type": "firewall"})));
    scene.wire("pod1")?;
    scene.wire("pod2")?;
    let (pods, outside) = (&scene.pods, scene.node.outside());
    traffic::upload(&pods[0], &pods[1], pods[1].address(), 4 << 20)?;
    traffic::upload(&pods[0], outside, outside.address(), 4 << 20)?;
    scene.runtime.del(&scene.node, &pods[1].container)?;
    traffic::upload(&pods[0], outside, outside.address(), 1 << 20).map(drop)
}

/// A server that was there before its pod's network.
fn listening(pod: &Pod) -> Result<TcpListener> {
    pod.run_in(|| Ok(TcpListener::bind(SocketAddr::from(([0, 0, 0, 0], 0)))?))
}

fn portmap(variant: Variant) -> Result<()> {
    let node = variant.node()?;
    let list =
        ours(variant).then(json!({"type": "portmap", "capabilities": {"portMappings": true}, "snat": true}));
    let runtime = Runtime::new(list);
    let pod = node.pod("pod1")?;
    let server = listening(&pod)?;
    let mapping =
        json!([{"hostPort": 8080, "containerPort": server.local_addr()?.port(), "protocol": "tcp"}]);
    let container = Container::of(&pod).capability("portMappings", mapping);
    runtime.add(&node, &container)?;
    let to = SocketAddr::from((node.outside().node_address(), 8080));
    for _ in 0..20 {
        let mut near = node.outside().run_in(|| Ok(TcpStream::connect_timeout(&to, traffic::PATIENCE)?))?;
        let (mut far, peer) = server.accept()?;
        equal("the client as the pod sees it", peer.ip(), node.outside().address())?;
        near.write_all(b"?")?;
        far.read_exact(&mut [0])?;
        far.write_all(b"!")?;
        near.read_exact(&mut [0]).context("no answer from the node's port")?;
    }
    runtime.del(&node, &container)?;
    let closed = node.outside().run_in(|| Ok(TcpStream::connect_timeout(&to, Duration::from_secs(1))?));
    ensure!(closed.is_err(), "the port is still open after DEL");
    Ok(())
}

fn tuning() -> Result<()> {
    let tuning = json!({"type": "tuning", "mtu": 1350, "mac": "c2:11:22:33:44:77", "promisc": true,
        "sysctl": {"net.ipv4.conf.eth0.rp_filter": "2"}});
    let mut scene = Scene::new(Node::new()?, ours(Variant::Auto).then(tuning));
    let pod = scene.wire("pod1")?;
    let shown = link(pod, "eth0")?;
    equal("MTU and MAC", (shown.mtu, shown.mac.as_str()), (1350, "c2:11:22:33:44:77"))?;
    equal("the sysctl", pod.sysctl("net.ipv4.conf.eth0.rp_filter")?.as_str(), "2")?;
    traffic::upload(&scene.pods[0], scene.node.outside(), scene.node.outside().address(), 4 << 20)?;
    scene.unwire()
}

fn all_of_them() -> Result<()> {
    let node = Node::new()?;
    let before = Snapshot::take(&node)?;
    let list = ours(Variant::Auto)
        .then(json!({"type": "tuning", "sysctl": {"net.ipv4.conf.eth0.rp_filter": "2"}}))
        .then(json!({"type": "firewall"}))
        .then(json!({"type": "bandwidth", "capabilities": {"bandwidth": true}}))
        .then(json!({"type": "portmap", "capabilities": {"portMappings": true}}));
    let runtime = Runtime::new(list);
    let pod = node.pod("pod1")?;
    let container = Container::of(&pod)
        .capability("portMappings", json!([{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}]))
        .capability("bandwidth", json!({"ingressRate": 16_000_000, "ingressBurst": 8_000_000}));
    let result = runtime.add(&node, &container)?;
    equal("the pod's interface in the last result", result.inside()?.name.as_str(), "eth0")?;
    traffic::upload(&pod, node.outside(), node.outside().address(), 1 << 20)?;
    runtime.del(&node, &container)?;
    // The others keep their tables and top-level chains.
    let changes = Snapshot::take(&node)?.without_link(config::BRIDGE).changes_since(&before);
    let ours = |line: &&String| {
        !(line.contains(" nft ") || line.contains("tables-save")) || line.contains("ebpf-bridge")
    };
    let left: Vec<_> = changes.iter().filter(ours).collect();
    ensure!(left.is_empty(), "left: {left:#?}");
    Ok(())
}

/// What flannel's plugin passes on for a delegate of ours: the keys of `delegate`, and its own (flannel-io/cni-plugin,
/// flannel_linux.go, `doCmdAdd` and `getDelegateIPAM`). `isGateway` is set for the type `bridge` only.
fn flannel_shapes() -> [(&'static str, Value); 4] {
    let base = json!({
        "cniVersion": "0.3.1", "name": "cbr0", "type": "ebpf-bridge", "hairpinMode": true, "isDefaultGateway": true,
        "ipMasq": false, "mtu": 1450,
        "ipam": {
            "type": "host-local",
            "ranges": [[{"subnet": "10.244.1.0/24"}]],
            "routes": [{"dst": "10.244.0.0/16"}],
        },
    });
    let with = |keys: &Value| config::with(base.clone(), keys);
    let mut older = base.clone();
    older["ipam"] =
        json!({"type": "host-local", "subnet": "10.244.1.0/24", "routes": [{"dst": "10.244.0.0/16"}]});
    let ranges = json!([[{"subnet": "10.244.1.0/24"}], [{"subnet": "fd00:1::/64"}]]);
    let both = json!([{"dst": "10.244.0.0/16"}, {"dst": "fd00::/16"}]);
    let ports = json!([{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}]);
    [
        // Its kube-flannel.yml, and flanneld with --ip-masq.
        ("as its manifest has it", with(&json!({"runtimeConfig": {"portMappings": ports}}))),
        ("a subnet, as before 1.0", older),
        (
            "CNI 1.0.0 and a bridge",
            with(&json!({"cniVersion": "1.0.0", "bridge": "cni0", "isGateway": true})),
        ),
        (
            "both families, masquerading itself",
            with(
                &json!({"ipMasq": true, "ipam": {"ranges": ranges, "routes": both, "dataDir": "/var/lib/cni/flannel"}}),
            ),
        ),
    ]
}

fn flannel(delegate: &Value) -> Result<()> {
    let node = Node::new()?;
    // It stays on, and with it the kernel has more routes.
    node.set_sysctl("net.ipv6.conf.all.forwarding", "1")?;
    let before = Snapshot::take(&node)?;
    let pods = [node.pod("pod1")?, node.pod("pod2")?];
    let request = delegate.to_string();
    let call = |verb, pod: &Pod| {
        let netns = pod.netns();
        let env = [("CNI_CONTAINERID", pod.name()), ("CNI_NETNS", &netns), ("CNI_IFNAME", "eth0")];
        exec(&node, plugin::NAME, verb, &env, &request)
    };
    let mut results = Vec::new();
    for pod in &pods {
        let result = AddResult::parse(&call("ADD", pod)?.document.context("no result")?)?;
        equal("the version of the result", &json!(result.cni_version), &delegate["cniVersion"])?;
        results.push(result);
    }
    equal("MTU", (link(&pods[0], "eth0")?.mtu, link(&node, "cni0")?.mtu), (1450, 1450))?;
    equal("default gateways", default_gateways(&pods[0])?, vec![std::net::IpAddr::from([10, 244, 1, 1])])?;
    let cluster = pods[0].call_json("ip -j route show 10.244.0.0/16")?;
    equal("the way to the cluster", cluster[0]["gateway"].as_str(), Some("10.244.1.1"))?;
    for ip in &results[1].ips {
        traffic::round_trips(&pods[0], &pods[1], ip.address.ip(), 10)?;
    }
    let outside = node.outside();
    let seen =
        traffic::round_trips(&pods[0], outside, outside.address(), 1).map(|transfer| transfer.peer.ip());
    if delegate["ipMasq"] == true {
        equal("the pod as outside sees it", seen?, outside.node_address())?;
    } else {
        ensure!(seen.is_err(), "masqueraded, which flanneld does itself");
    }
    // It passes on what it kept of the ADD, without a previous result.
    pods.iter().try_for_each(|pod| call("DEL", pod).map(drop))?;
    Snapshot::take(&node)?.without_link("cni0").ensure_equals(&before)
}

fn no_exec() -> Result<()> {
    let scene = Scene::with_pods(Variant::Auto, 1)?;
    let pod = scene.node.pod("pod2")?;
    let mut request = config::bridge("auto");
    request["cniVersion"] = json!("1.0.0");
    request["name"] = json!(config::NETWORK);
    for verb in ["ADD", "DEL"] {
        let traced = format!("/run/lab/{verb}.strace");
        let mut child = scene
            .node
            .command("strace")
            .args(["-f", "-e", "trace=execve,execveat", "-o", &traced])
            .arg(plugin::path()?)
            .env("CNI_COMMAND", verb)
            .env("CNI_CONTAINERID", pod.name())
            .env("CNI_NETNS", pod.netns())
            .env("CNI_IFNAME", "eth0")
            .env("CNI_PATH", "/opt/cni/bin")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        child.stdin.take().context("no pipe")?.write_all(request.to_string().as_bytes())?;
        let output = child.wait_with_output()?;
        ensure!(output.status.success(), "{verb}: {}", String::from_utf8_lossy(&output.stdout));
        let trace = scene.node.read(&traced)?;
        let executed: Vec<_> = trace.lines().filter(|line| line.contains("exec")).collect();
        equal(&format!("programs executed by {verb}, {executed:?}"), executed.len(), 1)?;
    }
    Ok(())
}
