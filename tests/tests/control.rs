//! Taking hold of the programs while traffic flows: the switch, forgetting, and upgrades. Nothing may be lost.

use std::fs::{self, File};
use std::io::Write;
use std::net::IpAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use aya::maps::{HashMap, Map, MapData};
use ebpf_bridge_common::flow::{Flow, FlowKey};
use ebpf_bridge_lab::libcni::Conflist;
use ebpf_bridge_lab::observe::{Stats, programs};
use ebpf_bridge_lab::traffic::{self, Steady};
use ebpf_bridge_lab::{Need, Node, Place, Scene, UPLINK, Variant, config, plugin};
use nix::fcntl::{Flock, FlockArg};
use tempfile::{NamedTempFile, TempPath};

use crate::check::{equal, eventually};
use crate::suite::Suite;

/// The longest time without an answer that counts as nothing lost: less than one `renew`.
const NOTICEABLE: Duration = Duration::from_millis(900);
/// Where the plugin pins.
const PINS: &str = "/sys/fs/bpf/ebpf-bridge";

pub(crate) fn register(suite: &mut Suite) {
    let bpf = [Need::Bpf, Need::Tool("iperf3")];
    suite.test_with(&bpf, "control: the switch stops and starts the fast path, and nothing is lost", || {
        under_traffic(switch)
    });
    suite.test_with(&bpf, "control: packets get into pods by either way, and nothing is lost", || {
        under_traffic(redirect)
    });
    suite.test_with(&bpf, "control: forgetting sends every flow past the kernel once", || {
        under_traffic(forget)
    });
    suite.test_with(&[Need::Bpf], "control: verbs change the switch in turn", in_turn);
    suite.test_with(&bpf, "control: flushing the flow map costs nothing but learning anew", || {
        under_traffic(flush)
    });
    suite.test_with(&bpf, "control: `monitor` tells why a packet was not redirected", || {
        under_traffic(monitor)
    });
    suite.test_with(&bpf, "control: a new build replaces the programs and keeps what is known", || {
        under_traffic(new_build)
    });
    suite.test_with(&bpf, "control: a new ABI replaces programs and maps and drains the old ones", || {
        under_traffic(new_abi)
    });
    suite.test_with(&bpf, "control: foreign filters on the uplink outlive all of it", foreign_filters);
}

/// TCP and UDP, pod to pod and to outside, fast, and as much TCP as goes; then `change`; then all must have gone on.
fn under_traffic(change: fn(&mut Scene) -> Result<()>) -> Result<()> {
    let mut scene = Scene::with_pods(Variant::Auto, 2)?;
    let (client, outside) = (&scene.pods[0], scene.node.outside());
    let (pod, address) = (&scene.pods[1], scene.pods[1].address());
    let flows = [
        Steady::tcp(client, pod, address)?,
        Steady::udp(client, pod, address)?,
        Steady::tcp(client, outside, outside.address())?,
        Steady::udp(client, outside, outside.address())?,
    ];
    let bulk = Bulk::start(client, pod, address)?;
    fast(&scene).context("before the change")?;
    change(&mut scene)?;
    bulk.finish()?;
    for steady in flows {
        steady.goes_on(100, traffic::PATIENCE)?;
        let report = steady.stop()?;
        ensure!(report.silence < NOTICEABLE, "silent for {:?}: {report:?}", report.silence);
    }
    Ok(())
}

/// As much TCP as goes, for some seconds.
struct Bulk {
    server: Child,
    client: Child,
}

impl Bulk {
    fn start(client: &Place, server: &Place, address: IpAddr) -> Result<Bulk> {
        let quiet = |mut command: Command| command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let mut command = server.command("iperf3");
        command.args(["--server", "--one-off"]);
        let server = quiet(command)?;
        let mut command = client.command("sh");
        // The server may not listen yet.
        let call = format!(
            "for i in 1 2 3 4 5; do iperf3 --client {address} --time 3 && exit; sleep 0.2; done; exit 1"
        );
        command.args(["-c", &call]);
        Ok(Bulk { server, client: quiet(command)? })
    }

    /// Waits for its end; a connection that broke fails.
    fn finish(mut self) -> Result<()> {
        let status = self.client.wait()?;
        ensure!(status.success(), "iperf3: {status}");
        ensure!(self.server.wait()?.success(), "iperf3's server");
        Ok(())
    }
}

impl Drop for Bulk {
    fn drop(&mut self) {
        for child in [&mut self.client, &mut self.server] {
            drop(child.kill());
            drop(child.wait());
        }
    }
}

/// Waits until packets are redirected.
fn fast(scene: &Scene) -> Result<()> {
    let before = Stats::read(&scene.node)?.redirected();
    eventually("the flows are fast", traffic::PATIENCE, || {
        Ok(Stats::read(&scene.node)?.redirected() > before + 100)
    })
}

fn operate(node: &Node, verb: &str) -> Result<()> {
    let output = node.command(plugin::path()?).args([verb, "-o", "json"]).output()?;
    ensure!(output.status.success(), "{verb}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

fn switch(scene: &mut Scene) -> Result<()> {
    operate(&scene.node, "off")?;
    let off = Stats::read(&scene.node)?;
    eventually("packets are counted as disabled", traffic::PATIENCE, || {
        Ok(Stats::read(&scene.node)?.ingress("disabled") > off.ingress("disabled") + 100)
    })?;
    equal("redirected while off", Stats::read(&scene.node)?.redirected(), off.redirected())?;
    // An ADD must not turn it on again.
    scene.wire("late")?;
    equal("redirected after an ADD", Stats::read(&scene.node)?.redirected(), off.redirected())?;
    operate(&scene.node, "on")?;
    fast(scene)
}

fn redirect(scene: &mut Scene) -> Result<()> {
    for rung in ["plain", "peer"] {
        let output = scene.node.command(plugin::path()?).args(["redirect", rung]).output()?;
        ensure!(output.status.success(), "{rung}: {}", String::from_utf8_lossy(&output.stderr));
        fast(scene).context(rung)?;
        // An ADD leaves it as it is.
        scene.wire(rung)?;
        fast(scene).context(rung)?;
    }
    Ok(())
}

fn forget(scene: &mut Scene) -> Result<()> {
    let before = Stats::read(&scene.node)?;
    operate(&scene.node, "forget")?;
    fast(scene)?;
    let learned = Stats::read(&scene.node)?.egress("learned") - before.egress("learned");
    // Four flows in two directions.
    ensure!(learned >= 8, "only {learned} flows were learned anew");
    Ok(())
}

/// Each reads the cell, and writes it changed: one that does not wait for another undoes what that one does.
fn in_turn() -> Result<()> {
    let scene = Scene::with_pods(Variant::Auto, 1)?;
    let program = plugin::path()?;
    for verb in [&["off"][..], &["forget"], &["redirect", "plain"], &["on"]] {
        let lock = scene.node.run_in(|| {
            let locked = Flock::lock(File::open(PINS)?, FlockArg::LockExclusive);
            locked.map_err(|(_, errno)| anyhow::Error::from(errno))
        })?;
        let mut waiting = scene.node.command(&program).args(verb).stdout(Stdio::null()).spawn()?;
        thread::sleep(Duration::from_millis(200));
        let ended = waiting.try_wait()?;
        drop(lock);
        ensure!(waiting.wait()?.success() && ended.is_none(), "{verb:?} did not wait: {ended:?}");
    }
    Ok(())
}

fn flush(scene: &mut Scene) -> Result<()> {
    let before = Stats::read(&scene.node)?;
    let flushed = scene.node.run_in(|| {
        let pin = MapData::from_pin(format!("{PINS}/v1/FLOWS4"))?;
        let mut flows: HashMap<_, FlowKey<u32>, Flow<u32>> = Map::LruHashMap(pin).try_into()?;
        let keys: Vec<_> = flows.keys().collect::<Result<_, _>>()?;
        keys.iter().try_for_each(|key| flows.remove(key))?;
        Ok(keys.len())
    })?;
    ensure!(flushed >= 8, "only {flushed} flows were known");
    fast(scene)?;
    let missed = Stats::read(&scene.node)?.ingress("no_flow") - before.ingress("no_flow");
    ensure!(missed >= 8, "only {missed} packets found no flow");
    Ok(())
}

/// The programs were loaded by the plugin, which is long gone; whoever asks later gets the events.
fn monitor(scene: &mut Scene) -> Result<()> {
    let output =
        scene.node.command(plugin::path()?).args(["monitor", "--for", "3", "--reason", "stale"]).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let pair = format!("{}:", scene.pods[0].address());
    let told = text.lines().filter(|line| line.contains("flow_ingress stale") && line.contains(&pair));
    // Four flows in two directions are renewed once a second.
    ensure!(told.count() >= 8, "too few events: {text}");
    Ok(())
}

fn new_build(scene: &mut Scene) -> Result<()> {
    let before = Stats::read(&scene.node)?;
    let old = directories(&scene.node, "v1")?;
    let other = other_build()?;
    wire_with(scene, &other, "late")?;
    let new = directories(&scene.node, "v1")?;
    ensure!(old.len() == 1 && new.len() == 1 && old != new, "programs were {old:?} and are {new:?}");
    ensure!(Stats::read(&scene.node)?.redirected() >= before.redirected(), "the counters did not survive");
    all_attached(scene)?;
    fast(scene)
}

fn new_abi(scene: &mut Scene) -> Result<()> {
    scene.node.call(&format!("mv {PINS}/v1 {PINS}/v0"))?;
    scene.wire("late")?;
    equal("directories", directories(&scene.node, "")?, ["v1"])?;
    all_attached(scene)?;
    fast(scene)
}

/// Names of the pins' directories that hold programs, or of all at the top.
fn directories(node: &Node, below: &str) -> Result<Vec<String>> {
    let listed = node.call(&format!("ls {PINS}/{below}"))?;
    let names = listed.lines().map(str::to_owned);
    Ok(names.filter(|name| below.is_empty() || name.starts_with("programs-")).collect())
}

/// The plugin under test as another build would be: the identity of its object, which is in the name of the
/// programs' directory, differs.
pub(crate) fn other_build() -> Result<TempPath> {
    const MARK: &[u8] = b"programs-";
    let mut binary = fs::read(plugin::path()?)?;
    let hex = |bytes: &[u8]| bytes.len() == 16 && bytes.iter().all(u8::is_ascii_hexdigit);
    let marks = (0..binary.len() - MARK.len() - 16).filter(|&at| binary[at..].starts_with(MARK));
    let found: Vec<usize> = marks.map(|at| at + MARK.len()).filter(|&at| hex(&binary[at..at + 16])).collect();
    ensure!(!found.is_empty(), "the binary names no directory of programs");
    for at in found {
        binary[at] = if binary[at] == b'0' { b'1' } else { b'0' };
    }
    let mut patched = NamedTempFile::new()?;
    patched.write_all(&binary)?;
    // Copied by another process: what a test running beside this one forks would inherit our descriptor for writing,
    // and while it lives the kernel executes no such file.
    let path = NamedTempFile::new()?.into_temp_path();
    let copied = Command::new("install").args(["-m", "755"]).arg(patched.path()).arg(&path).status()?;
    ensure!(copied.success(), "install failed");
    Ok(path)
}

/// ADD of one more pod by another binary.
fn wire_with(scene: &mut Scene, binary: &Path, name: &str) -> Result<()> {
    let link = "/opt/cni/bin/ebpf-bridge";
    scene.node.call(&format!("ln -sf {} {link}", binary.display()))?;
    let wired = scene.wire(name).map(drop);
    scene.node.call(&format!("ln -sf {} {link}", plugin::path()?.display()))?;
    wired
}

/// Both programs are on every veth and on the uplink.
fn all_attached(scene: &Scene) -> Result<()> {
    let mut devices = vec![UPLINK.to_owned()];
    for pod in &scene.pods {
        devices.push(pod.result.veth()?.name.clone());
    }
    for device in devices {
        let found = programs(&scene.node, &device)?;
        let directions: Vec<_> = found.iter().map(|program| program.direction.as_str()).collect();
        equal(&format!("the programs of {device}"), directions, ["ingress", "egress"])?;
    }
    Ok(())
}

/// A clsact qdisc and a filter of somebody else, on the uplink and on a veth: ADD, an upgrade and DEL leave them.
fn foreign_filters() -> Result<()> {
    let mut scene = Scene::new(Variant::Auto.node()?, Conflist::of(config::bridge("auto")));
    let filter = "u32 match u32 0 0 flowid 1:1";
    scene.node.call(&format!("tc qdisc add dev {UPLINK} clsact"))?;
    for hook in ["ingress", "egress"] {
        scene.node.call(&format!("tc filter add dev {UPLINK} {hook} pref 7 protocol ip {filter}"))?;
    }
    let shown = |node: &Node| -> Result<Vec<String>> {
        ["ingress", "egress"]
            .map(|hook| node.call(&format!("tc filter show dev {UPLINK} {hook}")))
            .into_iter()
            .collect()
    };
    let before = shown(&scene.node)?;
    scene.wire("pod1")?;
    let other = other_build()?;
    wire_with(&mut scene, &other, "pod2")?;
    equal("the filters after two ADDs", &shown(&scene.node)?, &before)?;
    scene.unwire()?;
    equal("the filters after all DELs", &shown(&scene.node)?, &before)
}
