//! A plugin that is killed in the middle (row L8), and what crashes and reboots leave (rows L5, L6, L10).

use std::hash::{DefaultHasher, Hash, Hasher};

use anyhow::{Context, Result, ensure};
use ebpf_bridge_lab::libcni::{Conflist, Container, End, Runtime, exec, exec_killed};
use ebpf_bridge_lab::observe::link;
use ebpf_bridge_lab::{Node, Scene, Snapshot, config, plugin, traffic};
use serde_json::{Value, json};

use crate::check::{equal, eventually, refused};
use crate::suite::Suite;

/// How many points of an execution are tried; an ADD has some thousand. `EBPF_BRIDGE_POINTS` asks for another number.
const POINTS: usize = 30;

pub(crate) fn register(suite: &mut Suite) {
    suite.test("killed: an ADD killed anywhere is cleared by DEL", || add_killed(by_del));
    suite
        .test("killed: an ADD killed anywhere is cleared by the next ADD and its DEL", || add_killed(by_add));
    suite.test("killed: an ADD killed anywhere is cleared by GC", || add_killed(by_gc));
    suite.test("killed: a DEL killed anywhere is completed by another DEL", || del_killed(by_del));
    suite.test("killed: a DEL killed anywhere is completed by GC", || del_killed(by_gc));
    suite.test("killed: an ADD killed anywhere leaves the other pod as it was", other_pod);
    suite.test(
        "crash: a container whose namespace is gone without DEL starts again with its address",
        restarts,
    );
    suite.test("crash: leases from before the boot are reclaimed when the range is full", from_before_boot);
    suite.test("crash: a lease of a pod that is gone is reclaimed when the range is full", from_gone_pod);
    suite.test("crash: leases of unknown owners of this boot are not touched", unknown_owner);
    suite.test("gc: what is not in the list goes, what is in it stays", gc_list);
    suite.test("gc: without the list nothing happens, with an empty one everything goes", gc_all);
    suite.test("gc: a link that no record speaks of goes", gc_orphan);
}

pub(crate) fn request(changes: &Value) -> String {
    let base = config::with(config::bridge("auto"), &json!({"cniVersion": "1.1.0", "name": "n1"}));
    config::with(base, changes).to_string()
}

pub(crate) const ENV: [(&str, &str); 3] =
    [("CNI_CONTAINERID", "pod1"), ("CNI_NETNS", "/run/netns/pod1"), ("CNI_IFNAME", "eth0")];

pub(crate) fn call(node: &Node, verb: &str, stdin: &str) -> Result<()> {
    exec(node, plugin::NAME, verb, &ENV, stdin).map(drop)
}

fn by_del(node: &Node) -> Result<()> {
    call(node, "DEL", &request(&json!({})))
}

fn by_add(node: &Node) -> Result<()> {
    let outcome = exec(node, plugin::NAME, "ADD", &ENV, &request(&json!({})));
    let record = node.read("/run/ebpf-bridge/n1/pod1@eth0")?;
    let record: Value = serde_json::from_str(&record).context("the record")?;
    equal("the record is complete", &record["complete"], &json!(true))?;
    match outcome {
        Ok(_) => {}
        // It was complete but for its answer: it is there, and says so.
        outcome => ensure!(refused(outcome)?.msg.contains("already"), "refused"),
    }
    by_del(node)
}

fn by_gc(node: &Node) -> Result<()> {
    exec(node, plugin::NAME, "GC", &[], &request(&json!({"cni.dev/valid-attachments": []}))).map(drop)
}

/// One point in each of as many intervals as points are wanted, where the seed wills: `EBPF_BRIDGE_SEED`, or else that
/// of this process.
pub(crate) fn points(stops: usize, usual: usize) -> impl Iterator<Item = usize> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<usize>().ok());
    let count = number("EBPF_BRIDGE_POINTS").unwrap_or(usual).clamp(1, stops.max(1));
    let seed = number("EBPF_BRIDGE_SEED").unwrap_or(std::process::id() as usize);
    println!("{count} of {stops} stops, EBPF_BRIDGE_SEED={seed}");
    (0..count).map(move |index| {
        let (first, end) = (index * stops / count, (index + 1) * stops / count);
        let mut hasher = DefaultHasher::new();
        (seed, index).hash(&mut hasher);
        1 + first + hasher.finish() as usize % (end - first)
    })
}

pub(crate) fn stops(node: &Node, verb: &str) -> Result<usize> {
    match exec_killed(node, plugin::NAME, verb, &ENV, &request(&json!({})), usize::MAX)? {
        End::Exited(stops) => Ok(stops),
        End::Killed => unreachable!("there is no such stop"),
    }
}

fn same(node: &Node, before: &Snapshot, point: usize) -> Result<()> {
    let now = Snapshot::take(node)?.without_link(config::BRIDGE);
    now.ensure_equals(before).with_context(|| format!("killed at stop {point}"))
}

fn add_killed(clear: fn(&Node) -> Result<()>) -> Result<()> {
    let node = Node::new()?;
    let _pod = node.pod("pod1")?;
    let before = Snapshot::take(&node)?;
    let stops = stops(&node, "ADD")?;
    by_del(&node)?;
    ensure!(stops > 200, "an ADD of {stops} stops?");
    for point in points(stops, POINTS) {
        exec_killed(&node, plugin::NAME, "ADD", &ENV, &request(&json!({})), point)?;
        clear(&node).with_context(|| format!("killed at stop {point}"))?;
        same(&node, &before, point)?;
    }
    Ok(())
}

fn del_killed(clear: fn(&Node) -> Result<()>) -> Result<()> {
    let node = Node::new()?;
    let _pod = node.pod("pod1")?;
    let before = Snapshot::take(&node)?;
    let add = || call(&node, "ADD", &request(&json!({})));
    add()?;
    let stops = stops(&node, "DEL")?;
    for point in points(stops, POINTS) {
        add()?;
        exec_killed(&node, plugin::NAME, "DEL", &ENV, &request(&json!({})), point)?;
        clear(&node).with_context(|| format!("killed at stop {point}"))?;
        same(&node, &before, point)?;
    }
    Ok(())
}

fn other_pod() -> Result<()> {
    let mut scene = Scene::new(Node::new()?, Conflist::of(config::bridge("auto")).version("1.1.0"));
    scene.wire("other")?;
    let _pod = scene.node.pod("pod1")?;
    let stops = stops(&scene.node, "ADD")?;
    by_del(&scene.node)?;
    for point in points(stops, POINTS) {
        exec_killed(&scene.node, plugin::NAME, "ADD", &ENV, &request(&json!({})), point)?;
        by_del(&scene.node).with_context(|| format!("killed at stop {point}"))?;
        let other = &scene.pods[0];
        scene
            .runtime
            .check(&scene.node, &other.container)
            .with_context(|| format!("killed at stop {point}"))?;
        traffic::round_trips(other, &scene.node, [10, 1, 0, 1].into(), 1)?;
    }
    Ok(())
}

/// A range of so many addresses.
fn range_of(count: u8) -> Value {
    let last = format!("10.1.0.{}", 1 + count);
    json!({"ipam": {"ranges": [[{"subnet": "10.1.0.0/24", "rangeStart": "10.1.0.2", "rangeEnd": last}]]}})
}

fn scene(changes: &Value) -> Result<Scene> {
    Ok(Scene::new(Node::new()?, Conflist::of(config::with(config::bridge("auto"), changes)).version("1.1.0")))
}

/// plugins#327: after a crash the same container can never start, "duplicate allocation".
fn restarts() -> Result<()> {
    let mut scene = scene(&range_of(1))?;
    scene.wire("pod1")?;
    for _ in 0..2 {
        let wired = scene.pods.pop().context("the pod")?;
        let address = wired.address();
        wired.pod.destroy()?;
        scene.wire("pod1")?;
        equal("the address", scene.pods[0].address(), address)?;
        traffic::round_trips(&scene.pods[0], &scene.node, [10, 1, 0, 1].into(), 1)?;
    }
    let container = scene.pods[0].container.clone();
    scene.runtime.del(&scene.node, &container)?;
    equal("leases left", scene.node.tree("/var/lib/cni/networks")?, Vec::<String>::new())
}

fn lease(node: &Node, address: &str, owner: &str, age: &str) -> Result<()> {
    let script = format!(
        "mkdir -p /var/lib/cni/networks/n1; cd /var/lib/cni/networks/n1; \
         printf '{owner}\\r\\neth0' >{address}; touch -d {age} {address}"
    );
    let status = node.command("sh").args(["-c", &script]).status()?;
    ensure!(status.success(), "writing a lease: {status}");
    Ok(())
}

/// plugins#252: leases outlive a reboot and fill the range.
fn from_before_boot() -> Result<()> {
    let mut scene = scene(&range_of(2))?;
    for (address, owner) in [("10.1.0.2", "dead1"), ("10.1.0.3", "dead2")] {
        lease(&scene.node, address, owner, "2001-01-01")?;
    }
    scene.wire("pod1")?;
    ensure!(scene.log()?.contains("reclaimed"), "the log does not tell");
    scene.wire("pod2").map(drop)
}

fn from_gone_pod() -> Result<()> {
    let mut scene = scene(&range_of(2))?;
    scene.wire("pod1")?;
    scene.wire("pod2")?;
    let gone = scene.pods.pop().context("the pod")?;
    let address = gone.address();
    let veth = gone.result.veth()?.name.clone();
    gone.pod.destroy()?;
    // The kernel takes a namespace down when it gets to it.
    eventually("its link is gone", traffic::PATIENCE, || {
        Ok(!scene.node.call("ls /sys/class/net")?.lines().any(|name| name == veth))
    })?;
    scene.wire("pod3")?;
    equal("the address", scene.pods[1].address(), address)?;
    // The runtime's late DEL of the gone pod does not take the address from its new owner.
    scene.runtime.del(&scene.node, &gone.container)?;
    let container = scene.pods[1].container.clone();
    scene.runtime.check(&scene.node, &container)?;
    // And the range is really full now.
    equal("the code", refused(scene.wire("pod4").map(|pod| pod.address()))?.code, 100)
}

fn unknown_owner() -> Result<()> {
    let mut scene = scene(&range_of(1))?;
    lease(&scene.node, "10.1.0.2", "stranger", "now")?;
    let error = refused(scene.wire("pod1").map(|pod| pod.address()))?;
    equal("the code", error.code, 100)?;
    ensure!(error.msg.contains("10.1.0.2-10.1.0.2"), "the pool is not named: {error}");
    equal("the lease", scene.node.read("/var/lib/cni/networks/n1/10.1.0.2")?, "stranger\r\neth0".to_owned())
}

pub(crate) fn gc(node: &Node, valid: &Value) -> Result<()> {
    let changes = json!({"cni.dev/valid-attachments": valid});
    exec(node, plugin::NAME, "GC", &[], &request(&changes)).map(drop)
}

fn gc_list() -> Result<()> {
    let mut scene = scene(&json!({}))?;
    scene.wire("pod1")?;
    let one = Snapshot::take(&scene.node)?.without_link_local();
    scene.wire("pod2")?;
    lease(&scene.node, "10.1.0.77", "stranger", "now")?;
    gc(&scene.node, &json!([{"containerID": "pod1", "ifname": "eth0"}]))?;
    scene.runtime.check(&scene.node, &scene.pods[0].container)?;
    traffic::round_trips(&scene.pods[0], &scene.node, [10, 1, 0, 1].into(), 1)?;
    let mut changes = Snapshot::take(&scene.node)?.without_link_local().changes_since(&one);
    // Which address was leased last is remembered, and the bridge's queues are the kernel's.
    changes.retain(|change| !change.contains("last_reserved_ip") && !change.contains("qdisc"));
    equal("changes", changes, Vec::<String>::new())
}

fn gc_all() -> Result<()> {
    let node = Node::new()?;
    let before = Snapshot::take(&node)?;
    let runtime = Runtime::new(Conflist::of(config::bridge("auto")).version("1.1.0"));
    let pods = [node.pod("pod1")?, node.pod("pod2")?];
    for pod in &pods {
        runtime.add(&node, &Container::of(pod))?;
    }
    let wired = Snapshot::take(&node)?.without_link_local();
    exec(&node, plugin::NAME, "GC", &[], &request(&json!({})))?;
    Snapshot::take(&node)?.without_link_local().ensure_equals(&wired).context("without the list")?;
    gc(&node, &json!([]))?;
    Snapshot::take(&node)?.without_link(config::BRIDGE).ensure_equals(&before).context("with an empty list")
}

fn gc_orphan() -> Result<()> {
    let mut scene = scene(&json!({}))?;
    scene.wire("pod1")?;
    scene.wire("pod2")?;
    let orphan = scene.pods[1].result.veth()?.name.clone();
    scene.node.call("rm /run/ebpf-bridge/n1/pod2@eth0")?;
    // Not ours, whatever it looks like: no port of the bridge.
    scene.node.call("ip link add veth0123456789a type veth peer name other")?;
    gc(&scene.node, &json!([{"containerID": "pod1", "ifname": "eth0"}]))?;
    ensure!(link(&scene.node, &orphan).is_err(), "{orphan} is still there");
    link(&scene.node, "veth0123456789a")?;
    scene.runtime.check(&scene.node, &scene.pods[0].container)
}
