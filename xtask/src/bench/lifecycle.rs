//! ADD and DEL: how long they take among other pods, and how much memory.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use ebpf_bridge_lab::libcni::{Conflist, Container};
use ebpf_bridge_lab::{Node, Pod, Scene};
use serde_json::json;

use super::results::{Sample, median};
use super::rig;
use super::variant::Variant;
use super::workload::Operation;

/// A node with pods, and one more pod that comes and goes.
pub(super) struct Site {
    scene: Scene,
    pod: Pod,
}

/// Where plugins are, in a node.
const PLUGINS: &str = "/opt/cni/bin";
/// The plugin under GNU time(1), which starts it from a process smaller than any plugin: the kernel counts the memory
/// of the one that forked too (`ru_maxrss` of getrusage(2) outlives execve(2)).
const WEIGHED: &str = "weighed";
const PEAK: &str = "/run/lab/peak";

impl Site {
    /// With so many other pods.
    pub(super) fn new(variant: Variant, others: usize) -> Result<Self> {
        Self::with(rig::node()?, Conflist::of(rig::plugin(variant)), others)
    }

    /// With one other pod, and a plugin whose memory is noted.
    pub(super) fn weighed(variant: Variant) -> Result<Self> {
        let node = rig::node()?;
        let mut plugin = rig::plugin(variant);
        let name = plugin["type"].as_str().context("a plugin without a type")?;
        let script = format!("#!/bin/sh\nexec time --format=%M --output={PEAK} {PLUGINS}/{name}\n");
        let path = format!("{PLUGINS}/{WEIGHED}");
        node.run_in(|| {
            fs::write(&path, script).with_context(|| format!("writing {path}"))?;
            Ok(fs::set_permissions(&path, Permissions::from_mode(0o755))?)
        })?;
        plugin["type"] = json!(WEIGHED);
        Self::with(node, Conflist::of(plugin), 1)
    }

    fn with(node: Node, list: Conflist, others: usize) -> Result<Self> {
        let pod = node.pod("measured")?;
        let mut scene = Scene::new(node, list);
        for number in 1..=others {
            scene.wire(&format!("other{number}"))?;
        }
        Ok(Self { scene, pod })
    }

    /// The time of an operation in ms, from fork to the plugin's end: the median of some.
    pub(super) fn time(&self, operation: Operation, repeats: u32) -> Result<Sample> {
        let times = (0..repeats).map(|_| self.once(operation)).collect::<Result<Vec<f64>>>()?;
        Ok(Sample { value: median(times.into_iter()), ..Sample::default() })
    }

    /// The most memory the plugin's process had in one ADD, in MB (2^20 bytes).
    pub(super) fn weigh(&self) -> Result<Sample> {
        let container = Container::of(&self.pod);
        self.scene.runtime.add(&self.scene.node, &container)?;
        let peak = self.scene.node.read(PEAK)?;
        self.scene.runtime.del(&self.scene.node, &container)?;
        let kilobytes: f64 = peak.trim().parse().with_context(|| format!("time said {peak:?}"))?;
        ensure!(kilobytes > 0.0, "time measured nothing");
        Ok(Sample { value: kilobytes / 1024.0, ..Sample::default() })
    }

    /// ADD and DEL; returns the time of one of them.
    fn once(&self, operation: Operation) -> Result<f64> {
        let (runtime, node) = (&self.scene.runtime, &self.scene.node);
        let container = Container::of(&self.pod);
        let start = Instant::now();
        runtime.add(node, &container)?;
        let added = start.elapsed();
        let start = Instant::now();
        runtime.del(node, &container)?;
        let deleted = start.elapsed();
        let measured = match operation {
            Operation::Add => added,
            Operation::Del => deleted,
        };
        Ok(measured.as_secs_f64() * 1e3)
    }
}
