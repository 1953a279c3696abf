//! What an ADD that meets a fault of the node says and leaves, for every fault alike.

use anyhow::{Context, Result, ensure};
use ebpf_bridge_lab::libcni::{Conflist, Container, PluginError};
use ebpf_bridge_lab::{Denial, Node, Scene, Snapshot, config, traffic};
use serde_json::Value;

use crate::check::{equal, refused};

/// A fault, made on a node and mended again.
pub(crate) trait Fault {
    /// Makes it.
    fn make(&self, node: &mut Node) -> Result<()>;
    /// Mends it.
    fn mend(&self, node: &mut Node) -> Result<()>;
}

/// System calls that fail.
impl Fault for Vec<Denial> {
    fn make(&self, node: &mut Node) -> Result<()> {
        node.deny(self);
        Ok(())
    }

    fn mend(&self, node: &mut Node) -> Result<()> {
        node.deny(&[]);
        Ok(())
    }
}

/// A command line that makes it, and one that mends it.
impl Fault for (&'static str, &'static str) {
    fn make(&self, node: &mut Node) -> Result<()> {
        shell(node, self.0)
    }

    fn mend(&self, node: &mut Node) -> Result<()> {
        shell(node, self.1)
    }
}

/// Runs a script on the node.
pub(crate) fn shell(node: &Node, script: &str) -> Result<()> {
    let output = node.command("sh").args(["-ec", script]).output()?;
    ensure!(output.status.success(), "`{script}`: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// A scene of version 1.1.0 with no pod yet.
pub(crate) fn scene(mode: &str, changes: &Value) -> Result<Scene> {
    Ok(Scene::new(Node::new()?, Conflist::of(config::with(config::bridge(mode), changes)).version("1.1.0")))
}

/// An ADD that meets the fault fails with `code` and says `words`, leaves the node as it was and the pod that is there
/// in order, whether there is one or not; and once the fault is mended it succeeds.
pub(crate) fn fails_clean(fault: &dyn Fault, scene: Scene, code: u32, words: &[&str]) -> Result<()> {
    fails(fault, scene, 2, code, words)
}

/// The same for a fault that only the first pod of a node can meet.
pub(crate) fn first_fails_clean(fault: &dyn Fault, scene: Scene, code: u32, words: &[&str]) -> Result<()> {
    fails(fault, scene, 1, code, words)
}

fn fails(fault: &dyn Fault, mut scene: Scene, pods: usize, code: u32, words: &[&str]) -> Result<()> {
    for number in 0..pods {
        let name = format!("pod{number}");
        let pod = scene.node.pod(&name)?;
        let container = Container::of(&pod);
        let before = Snapshot::take(&scene.node)?.without_link_local();
        fault.make(&mut scene.node).context("making the fault")?;
        let outcome = scene.runtime.add(&scene.node, &container);
        fault.mend(&mut scene.node).context("mending the fault")?;
        let error = refused(outcome).with_context(|| format!("with {number} pods before"))?;
        says(&error, code, words)?;
        Snapshot::take(&scene.node)?
            .without_link_local()
            .ensure_equals(&before)
            .with_context(|| format!("with {number} pods before, after: {error}"))?;
        in_order(&scene)?;
        let result = scene.runtime.add(&scene.node, &container).context("after mending")?;
        scene.adopt(pod, container, result)?;
    }
    leaves_nothing(&scene)
}

/// Without eBPF the ADD succeeds and the pod is reachable by the bridge path; the log has the `words` why.
pub(crate) fn does_without(fault: &dyn Fault, mut scene: Scene, words: &[&str]) -> Result<()> {
    fault.make(&mut scene.node).context("making the fault")?;
    scene.wire("pod0")?;
    scene.wire("pod1")?;
    fault.mend(&mut scene.node).context("mending the fault")?;
    in_order(&scene)?;
    let log = scene.log()?;
    let why = log.lines().find(|line| line.contains("not accelerated")).unwrap_or_default();
    ensure!(words.iter().all(|word| why.contains(word)), "{words:?} are not in {why:?} of the log:\n{log}");
    let status = scene.status()?;
    ensure!(status.pods.iter().all(|pod| !pod.accelerated && !pod.why.is_empty()), "{status:?}");
    leaves_nothing(&scene)
}

pub(crate) fn says(error: &PluginError, code: u32, words: &[&str]) -> Result<()> {
    equal(&format!("the code of {error}"), error.code, code)?;
    ensure!(words.iter().all(|word| error.msg.contains(word)), "{words:?} are not in: {error}");
    ensure!(!error.msg.contains('\n'), "more than one line: {error}");
    Ok(())
}

/// Every pod passes CHECK and reaches its gateway.
fn in_order(scene: &Scene) -> Result<()> {
    for pod in &scene.pods {
        scene.runtime.check(&scene.node, &pod.container).with_context(|| pod.name().to_owned())?;
        traffic::round_trips(pod, &scene.node, [10, 1, 0, 1].into(), 1).map(drop)?;
    }
    Ok(())
}

/// DEL of all leaves no link but the bridge, no lease, no pin and no record.
fn leaves_nothing(scene: &Scene) -> Result<()> {
    scene.unwire()?;
    for tree in ["/run/ebpf-bridge", "/var/lib/cni/networks", "/sys/fs/bpf/ebpf-bridge"] {
        equal(&format!("left under {tree}"), scene.node.tree(tree)?, Vec::<String>::new())?;
    }
    let links = scene.node.call("ip -o link show type veth")?;
    let left: Vec<&str> = links.lines().filter(|line| line.contains("master br0")).collect();
    equal("ports left", left, Vec::<&str>::new())
}
