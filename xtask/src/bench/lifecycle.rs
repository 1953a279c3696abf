//! ADD and DEL: how long they take among other pods.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use ebpf_bridge_lab::libcni::{Conflist, Container};
use ebpf_bridge_lab::{Pod, Scene};

use super::execution;
use super::results::Sample;
use super::rig;
use super::statistics::median;
use super::trial::Trial;
use super::variant::Variant;
use super::workload::{AT_ONCE, Crowd, Operation, PASSERS_BY, Workload};

/// A node with pods, and more pods that come and go.
pub(super) struct Site {
    pub(super) variant: Variant,
    pub(super) scene: Scene,
    /// Empty namespaces, the first of which is used where one is enough.
    pub(super) passers_by: Vec<Pod>,
}

impl Site {
    /// Without other pods.
    pub(super) fn new(variant: Variant) -> Result<Self> {
        let scene = Scene::new(rig::node()?, Conflist::of(rig::plugin(variant)));
        Ok(Self { variant, scene, passers_by: Vec::new() })
    }

    /// Wires as many other pods as a trial wants, and makes those that will come and go.
    pub(super) fn prepare(&mut self, trial: Trial) -> Result<()> {
        for number in self.scene.pods.len()..trial.others().unwrap_or(0) {
            self.scene.wire(&format!("other{number}"))?;
        }
        let coming = match trial {
            Trial::Pods(Crowd { parallel: true, .. }) => AT_ONCE,
            Trial::Stall => PASSERS_BY,
            _ => 1,
        };
        for number in self.passers_by.len()..coming {
            self.passers_by.push(self.scene.node.pod(&format!("passer-by{number}"))?);
        }
        if trial == Trial::Execution { execution::prepare(&self.scene.node) } else { Ok(()) }
    }

    /// Times of ADD and DEL in ms: the median of some from fork to the plugin's end, or that of as many as run at once, from
    /// the first one's fork to the last one's end.
    pub(super) fn time(&self, crowd: Crowd, repeats: u32) -> Result<Vec<(Workload, Sample)>> {
        let pods = &self.passers_by[..if crowd.parallel { AT_ONCE } else { 1 }];
        let repeats = if crowd.parallel { 1 } else { repeats };
        let (mut adds, mut dels) = (Vec::new(), Vec::new());
        for _ in 0..repeats {
            adds.push(self.all(Operation::Add, pods)?.as_secs_f64() * 1e3);
            dels.push(self.all(Operation::Del, pods)?.as_secs_f64() * 1e3);
        }
        let of = |operation, times: Vec<f64>| {
            (Workload::Pods(operation, crowd), Sample::of(median(times.into_iter())))
        };
        Ok(vec![of(Operation::Add, adds), of(Operation::Del, dels)])
    }

    /// An operation for each of some pods, at once; the time all of it takes.
    fn all(&self, operation: Operation, pods: &[Pod]) -> Result<Duration> {
        let start = Instant::now();
        thread::scope(|scope| {
            let running: Vec<_> = pods.iter().map(|pod| scope.spawn(|| self.one(operation, pod))).collect();
            let ended = running
                .into_iter()
                .map(|one| one.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            ended.collect::<Result<()>>()
        })?;
        Ok(start.elapsed())
    }

    pub(super) fn one(&self, operation: Operation, pod: &Pod) -> Result<()> {
        let (runtime, node, container) = (&self.scene.runtime, &self.scene.node, Container::of(pod));
        let done = match operation {
            Operation::Add => runtime.add(node, &container).map(drop),
            Operation::Del => runtime.del(node, &container),
        };
        done.with_context(|| format!("{} of {}", operation.title(), pod.name()))
    }
}
