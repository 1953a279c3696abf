//! Runtimes with all of the reference's chained plugins behind ours: what they are told, in which order, and that it
//! works.

use std::fs;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};

use anyhow::{Context, Result, ensure};
use ebpf_bridge_lab::containerd::{Containerd, PodSpec};
use ebpf_bridge_lab::podman::Podman;
use ebpf_bridge_lab::recorder::{Call, record, recorded};
use ebpf_bridge_lab::{Need, Node, Place, Snapshot, Status, Variant, config, traffic::PATIENCE};
use serde_json::{Value, json};

use crate::check::{equal, eventually};
use crate::suite::Suite;

/// The list, in the order of ADD.
const CHAIN: [&str; 6] = ["ebpf-bridge", "tuning", "firewall", "bandwidth", "portmap", "loopback"];
const HOST_PORT: u16 = 8080;
const MTU: u32 = 1400;
const SERVE: [&str; 3] = ["sh", "-c", "echo here it is >page; exec httpd -f -p 80"];
const SHOW_MTU: [&str; 3] = ["sh", "-c", "read mtu </sys/class/net/eth0/mtu; echo $mtu"];

pub(crate) fn register(suite: &mut Suite) {
    let needs = |tools: &[&'static str]| {
        let tools = tools.iter().chain(&["runc", "busybox", "iptables", "unshare", "nsenter"]);
        let peers = CHAIN[1..].iter().map(|&peer| Need::Peer(peer));
        tools.map(|&tool| Need::Tool(tool)).chain(peers).collect::<Vec<_>>()
    };
    for variant in [Variant::Auto, Variant::Off] {
        suite.test_with(
            &needs(&["podman", "conmon"]),
            format!("runtimes: podman and a chain of six plugins, {variant}"),
            move || podman(variant),
        );
        suite.test_with(
            &needs(&["containerd", "ctr"]),
            format!("runtimes: containerd and a chain of six plugins, {variant}"),
            move || containerd(variant),
        );
    }
    suite.test_with(
        &[&needs(&["containerd", "ctr"])[..], &[Need::Bpf]].concat(),
        "runtimes: a limit that containerd passes on keeps the pod off the fast path, and holds",
        limited,
    );
}

fn list(variant: Variant) -> Value {
    let ours = config::with(config::bridge(variant.mode()), &json!({"capabilities": {"bandwidth": true}}));
    json!({"cniVersion": "1.0.0", "name": config::NETWORK, "plugins": [
        ours,
        {"type": "tuning", "mtu": MTU},
        {"type": "firewall"},
        {"type": "bandwidth", "capabilities": {"bandwidth": true}},
        {"type": "portmap", "capabilities": {"portMappings": true}},
        {"type": "loopback"},
    ]})
}

/// Nothing that comes from the bridge is forwarded unless the firewall plugin allows it.
fn node(variant: Variant) -> Result<Node> {
    let node = variant.node()?;
    node.set_sysctl("net.bridge.bridge-nf-call-iptables", "1")?;
    node.call(&format!("iptables -A FORWARD -i {} -j DROP", config::BRIDGE))?;
    record(&node, &CHAIN)?;
    Ok(node)
}

fn podman(variant: Variant) -> Result<()> {
    let node = node(variant)?;
    let before = Snapshot::take(&node)?;
    let podman = Podman::start(&node, &list(variant))?;
    podman.run("web", &[(HOST_PORT, 80)], &SERVE)?;
    let address = podman.address("web")?;
    is_served(&node, address)?;
    equal("MTU", podman.exec("web", &SHOW_MTU)?.trim(), MTU.to_string().as_str())?;
    let page = podman.run_once("client", &["wget", "-q", "-O", "-", &format!("http://{address}/page")])?;
    equal("what another container gets", page.trim(), "here it is")?;
    podman.remove("web")?;
    let calls = recorded(&node)?;
    let of = |name: &str| of_pod(&calls, name);
    chained(&of("web"), Some(address))?;
    chained(&of("client"), None)?;
    nothing_is_left(&node, &before)
}

fn containerd(variant: Variant) -> Result<()> {
    let node = node(variant)?;
    node.run_in(|| fs::create_dir_all("/var/lib/cni/results").context("making libcni's cache"))?;
    let before = Snapshot::take(&node)?;
    let containerd = Containerd::start(&node, &list(variant))?;
    let spec = PodSpec { name: "web", command: &SERVE, host_ports: &[(HOST_PORT, 80)], annotations: &[] };
    let pod = containerd.run_pod(&spec)?;
    is_served(&node, pod.address)?;
    let fetch = format!("wget -q -O - http://{}/page", pod.address);
    let page = containerd.run_once("client", &["timeout", "60", "sh", "-c", &fetch])?;
    equal("what another container gets", page.trim(), "here it is")?;
    containerd.remove_pod(&pod)?;
    let calls = recorded(&node)?;
    chained(&of_pod(&calls, "web"), Some(pod.address))?;
    let without_pod: Vec<&Call> =
        calls.iter().filter(|call| call.container != pod.id && call.ifname == "eth0").collect();
    chained(&without_pod, None).context("of `ctr run --cni`")?;
    nothing_is_left(&node, &before)
}

/// As a pod's annotations, which containerd makes the capability of that name.
fn limited() -> Result<()> {
    let node = node(Variant::Auto)?;
    let containerd = Containerd::start(&node, &list(Variant::Auto))?;
    for (name, way) in [("in", "ingress"), ("out", "egress")] {
        let annotation = format!("kubernetes.io/{way}-bandwidth");
        let spec = PodSpec { name, command: &SERVE, host_ports: &[], annotations: &[(&annotation, "10M")] };
        let pod = containerd.run_pod(&spec)?;
        let status = Status::read(&node)?;
        let known = status.pods.iter().find(|known| known.container_id == pod.id);
        let known = known.with_context(|| format!("no pod {} in {status:?}", pod.id))?;
        ensure!(!known.accelerated && known.why.contains("bandwidth"), "{way}: {known:?}");
        ensure!(node.call("tc qdisc show")?.contains("tbf"), "{way}: no limit is set");
        containerd.remove_pod(&pod)?;
    }
    Ok(())
}

/// The calls for the pod that CNI_ARGS name as Kubernetes does.
fn of_pod<'a>(calls: &'a [Call], name: &str) -> Vec<&'a Call> {
    let named = |call: &&Call| call.args.split(';').any(|arg| arg == format!("K8S_POD_NAME={name}"));
    calls.iter().filter(named).filter(|call| call.ifname == "eth0").collect()
}

/// From the node by the pod's address, and from outside by the node's port.
fn is_served(node: &Node, address: IpAddr) -> Result<()> {
    let by_port = SocketAddr::from((node.outside().node_address(), HOST_PORT));
    for (place, to) in [(&**node as &Place, SocketAddr::from((address, 80))), (node.outside(), by_port)] {
        // The server may still be starting.
        eventually(&format!("{to} serves"), PATIENCE, || Ok(get(place, to).is_ok()))?;
        let answer = get(place, to)?;
        ensure!(answer.trim_end().ends_with("here it is"), "{to} answered {answer:?}");
    }
    Ok(())
}

fn get(place: &Place, server: SocketAddr) -> Result<String> {
    place.run_in(|| {
        let mut stream = TcpStream::connect_timeout(&server, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(b"GET /page HTTP/1.0\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    })
}

/// Each plugin was called for ADD and, in reverse, for DEL; each got the result of those before it, and at DEL all that
/// of the last. A pod with an address had the node's port mapped to it.
fn chained(calls: &[&Call], mapped: Option<IpAddr>) -> Result<()> {
    let order: Vec<(&str, &str)> =
        calls.iter().map(|call| (call.verb.as_str(), call.kind.as_str())).collect();
    let added = CHAIN.iter().map(|&kind| ("ADD", kind));
    let deleted = CHAIN.iter().rev().map(|&kind| ("DEL", kind));
    // What comes after is a second DEL, with which containerd makes sure.
    let expected: Vec<_> = added.chain(deleted.clone()).chain(deleted).take(order.len()).collect();
    equal("the calls", order, expected)?;
    ensure!(calls.len() >= 2 * CHAIN.len(), "not all were called for DEL");
    for call in &calls[..2 * CHAIN.len()] {
        let previous = &call.config["prevResult"];
        if call.verb == "ADD" && call.kind == CHAIN[0] {
            equal("what the first is told of others", previous, &Value::Null)?;
            continue;
        }
        let names: Vec<&str> = previous["interfaces"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|i| i["name"].as_str())
            .collect();
        ensure!(
            matches!(names[..], [config::BRIDGE, veth, "eth0", ..] if veth.starts_with("veth")),
            "{} of {} is told of {names:?}",
            call.verb,
            call.kind
        );
        if let Some(address) = mapped {
            let told = previous["ips"][0]["address"].as_str().unwrap_or_default();
            equal("the address it is told", told, format!("{address}/24").as_str())?;
        }
        if mapped.is_some() && call.verb == "ADD" && call.kind == "portmap" {
            let mapping = &call.config["runtimeConfig"]["portMappings"][0];
            // containerd writes names as Go has them, which plugins in Go take for the same.
            let port = mapping.get("hostPort").or(mapping.get("HostPort"));
            equal("the port to map", port, Some(&json!(HOST_PORT)))?;
        }
    }
    Ok(())
}

/// The others keep their tables and chains, and tuning its directory.
fn nothing_is_left(node: &Node, before: &Snapshot) -> Result<()> {
    let changes = Snapshot::take(node)?.without_link(config::BRIDGE).changes_since(before);
    let foreign = [" nft ", "tables-save", "/run/cni/tuning"];
    let ours = |line: &&String| {
        line.contains("ebpf-bridge") || !foreign.iter().any(|foreign| line.contains(foreign))
    };
    let left: Vec<_> = changes.iter().filter(ours).collect();
    ensure!(left.is_empty(), "left: {left:#?}");
    let by_port = SocketAddr::from((node.outside().node_address(), HOST_PORT));
    ensure!(get(node.outside(), by_port).is_err(), "the node's port still answers");
    Ok(())
}
