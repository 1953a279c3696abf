//! A real runtime: containerd runs containers on the network that `conf/10-ebpf-bridge.conflist` describes.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use ebpf_bridge_lab::containerd::{Containerd, PodSpec, RunningPod};
use ebpf_bridge_lab::libcni::exec;
use ebpf_bridge_lab::{Need, Node, Place, Snapshot, Stats, Status, Variant, plugin, traffic::PATIENCE};
use serde_json::{Value, json};

use crate::suite::Suite;

const CONFLIST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../conf/10-ebpf-bridge.conflist");
const QUICK_START: &str = include_str!("../../docs/quick-start.md");
const BRIDGE: &str = "cni0";
const HOST_PORT: u16 = 8080;
const PAGE: &str = "served from a pod";
/// The size of the file `blob` that the pod serves, in bytes.
const BLOB: u64 = 16 << 20;
const SERVE: &str =
    "echo served from a pod >page; dd if=/dev/zero of=blob bs=1M count=16; exec httpd -f -p 80";
const WEB: PodSpec<'static> =
    PodSpec { name: "web", command: &["sh", "-c", SERVE], host_ports: &[(HOST_PORT, 80)], annotations: &[] };

const NEEDS: [Need; 9] = [
    Need::Tool("containerd"),
    Need::Tool("ctr"),
    Need::Tool("runc"),
    Need::Tool("busybox"),
    Need::Tool("iptables"),
    Need::Tool("unshare"),
    Need::Tool("nsenter"),
    Need::Peer("portmap"),
    Need::Peer("loopback"),
];

pub(crate) fn register(suite: &mut Suite) {
    // A node that forbids mounts, as the third variant's does, can run no container.
    for variant in [Variant::Auto, Variant::Off] {
        suite.test_with(
            &NEEDS,
            format!(
                "containerd: its pods are reached by address and host port and leave no trace, {variant}"
            ),
            move || runs_pods(variant),
        );
    }
    suite.test_with(
        &[&NEEDS[..], &[Need::Bpf, Need::Release]].concat(),
        "containerd: who follows the quick start from the archive has a pod on the fast path, and gets rid of it all",
        quick_start,
    );
}

/// What a person types who follows the quick start, word for word, from the archive on.
fn quick_start() -> Result<()> {
    let node = Variant::Auto.node()?;
    leave_what_others_leave(&node)?;
    let before = Snapshot::take(&node)?;
    // The lab's own; the person brings the archive's.
    node.call("rm /opt/cni/bin/ebpf-bridge")?;
    let archive = plugin::release().context("no archive")?;
    node.call("mkdir /run/download")?;
    node.call(&format!("cp {} /run/download/", archive.display()))?;
    let directory = "/run/download/ebpf-bridge-*/";
    type_in(&node, "/run/download", commands("# Quick start", 0)?)?;
    type_in(&node, directory, commands("## containerd", 0)?)?;

    let containerd = Containerd::start_configured(&node)?;
    let pod = containerd.run_pod(&WEB)?;
    is_reachable(&node, &containerd, &pod)?;
    is_accelerated(&node, &containerd, &pod)?;
    let said =
        type_in(&node, "/opt/cni/bin", &format!("PATH=$PWD:$PATH; {}", commands("## Is it working?", 0)?))?;
    let row =
        said.lines().find(|line| line.contains("default/web") && line.contains(&pod.address.to_string()));
    ensure!(row.is_some_and(|row| row.ends_with("fast")), "`ls` says {said:?}");

    containerd.remove_pod(&pod)?;
    type_in(&node, "/", commands("## Away again", 0)?)?;
    nothing_is_left(&node, &containerd, &before)?;
    ensure!(!node.tree("/opt/cni/bin")?.contains(&"ebpf-bridge".into()), "the binary is left");
    ensure!(node.tree("/etc/cni/net.d")?.is_empty(), "the configuration is left");
    Ok(())
}

/// The commands of a section of the quick start, by their number.
fn commands(section: &str, number: usize) -> Result<&'static str> {
    let text = QUICK_START.split(section).nth(1).with_context(|| format!("no section {section}"))?;
    let block = text.split("```sh\n").nth(number + 1).and_then(|rest| rest.split("```").next());
    block.with_context(|| format!("no commands in {section}"))
}

fn type_in(node: &Node, directory: &str, commands: &str) -> Result<String> {
    let script = format!("cd {directory} && set -e && {commands}");
    let output = node.command("sh").args(["-c", &script]).output()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(output.status.success(), "`{commands}`: {said}{}", String::from_utf8_lossy(&output.stderr));
    Ok(said)
}

fn runs_pods(variant: Variant) -> Result<()> {
    let node = variant.node()?;
    leave_what_others_leave(&node)?;
    let before = Snapshot::take(&node)?;

    let containerd = Containerd::start(&node, &conflist(variant)?)?;
    let pod = containerd.run_pod(&WEB)?;
    is_reachable(&node, &containerd, &pod)?;
    if variant == Variant::Auto && Need::Bpf.missing().is_none() {
        is_accelerated(&node, &containerd, &pod)?;
    }

    containerd.remove_pod(&pod)?;
    nothing_is_left(&node, &containerd, &before)
}

/// The conflist that users get, the mode apart.
fn conflist(variant: Variant) -> Result<Value> {
    let text = fs::read_to_string(CONFLIST).with_context(|| format!("reading {CONFLIST}"))?;
    let mut list: Value = serde_json::from_str(&text).with_context(|| format!("parsing {CONFLIST}"))?;
    ensure!(list["plugins"][0]["ebpf"]["mode"] == "auto", "{CONFLIST} has another mode than auto");
    list["plugins"][0]["ebpf"]["mode"] = variant.mode().into();
    Ok(list)
}

fn is_reachable(node: &Node, containerd: &Containerd, pod: &RunningPod) -> Result<()> {
    serves(node, (pod.address, 80).into()).context("from the node")?;
    serves(node.outside(), host_port(node)).context("from the outside host, by the host port")?;
    let page =
        fetch_in_container(containerd, "client", &format!("wget -q -O - http://{}/page", pod.address))?;
    ensure!(page.trim() == PAGE, "another container got {page:?}");
    Ok(())
}

/// Tries again while the server starts.
fn serves(place: &Place, server: SocketAddr) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match get(place, server) {
            Ok(answer) => {
                ensure!(answer.trim_end().ends_with(PAGE), "{server} answered {answer:?}");
                return Ok(());
            }
            Err(error) if Instant::now() > deadline => return Err(error),
            Err(_) => thread::sleep(Duration::from_millis(50)),
        }
    }
}

/// The page as the server sends it, headers and all.
fn get(place: &Place, server: SocketAddr) -> Result<String> {
    place.run_in(|| {
        let mut stream = TcpStream::connect_timeout(&server, PATIENCE)
            .with_context(|| format!("connecting to {server}"))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(b"GET /page HTTP/1.0\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).with_context(|| format!("reading from {server}"))?;
        Ok(answer)
    })
}

/// What a shell's command line prints in a container of its own. wget's own -T crashes in Debian's static busybox.
fn fetch_in_container(containerd: &Containerd, id: &str, line: &str) -> Result<String> {
    containerd.run_once(id, &["timeout", "60", "sh", "-c", line])
}

fn host_port(node: &Node) -> SocketAddr {
    (node.outside().node_address(), HOST_PORT).into()
}

/// The pod says so, and most of a download by another container takes the fast path.
fn is_accelerated(node: &Node, containerd: &Containerd, pod: &RunningPod) -> Result<()> {
    let status = Status::read(node)?;
    let known = status.pods.iter().find(|known| known.container_id == pod.id);
    let known = known.with_context(|| format!("`status` does not list the pod {}: {status:?}", pod.id))?;
    ensure!(known.accelerated, "the pod is not accelerated: {}", known.why);

    let before = Stats::read(node)?;
    let download = format!("wget -q -O - http://{}/blob | wc -c", pod.address);
    let received = fetch_in_container(containerd, "download", &download)?;
    ensure!(received.trim() == BLOB.to_string(), "{received:?} bytes of {BLOB} arrived");
    let during = &Stats::read(node)? - &before;
    ensure!(during.fast_share() > 0.9, "a download went through the kernel: {during:?}");
    Ok(())
}

/// portmap keeps its chains and libcni the directory of its cache when the last pod is gone; neither is the plugin's.
fn leave_what_others_leave(node: &Node) -> Result<()> {
    node.run_in(|| fs::create_dir_all("/var/lib/cni/results").context("making libcni's cache"))?;
    let request = json!({
        "cniVersion": "1.0.0",
        "name": "nobody",
        "type": "portmap",
        "runtimeConfig": { "portMappings": [{ "hostPort": 1, "containerPort": 1, "protocol": "tcp" }] },
        "prevResult": { "cniVersion": "1.0.0", "ips": [{ "address": "10.88.255.254/16" }] },
    });
    for verb in ["ADD", "DEL"] {
        let environment = [("CNI_CONTAINERID", "nobody"), ("CNI_NETNS", "/nowhere"), ("CNI_IFNAME", "eth0")];
        exec(node, "portmap", verb, &environment, &request.to_string())?;
    }
    Ok(())
}

fn nothing_is_left(node: &Node, containerd: &Containerd, before: &Snapshot) -> Result<()> {
    Snapshot::take(node)?.without_link(BRIDGE).ensure_equals(before)?;
    let netns = node.tree("/run/netns")?;
    ensure!(netns.is_empty(), "network namespaces are left: {netns:?}");
    let shims = containerd.shims()?;
    ensure!(shims.is_empty(), "shims are left: {shims:?}");
    ensure!(get(node.outside(), host_port(node)).is_err(), "the host port still answers");
    Ok(())
}
