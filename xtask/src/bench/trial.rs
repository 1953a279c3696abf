//! One measurement, of which each variant takes its turn; some measure several workloads at once.

use super::load::Load;
use super::route::Route;
use super::variant::Variant;
use super::workload::{Crowd, Workload};

/// What is done to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trial {
    /// Loads a route.
    Traffic(Load, Route),
    /// ADD and DEL of a pod, or of many at once.
    Pods(Crowd),
    /// Has pods come and go beside two that talk.
    Stall,
    /// Executes the plugin under tools that count.
    Execution,
}

/// Trials that are interleaved.
pub(super) struct Stage {
    pub(super) trials: Vec<Trial>,
    pub(super) rounds: u32,
}

impl Trial {
    pub(super) fn variants(self) -> &'static [Variant] {
        match self {
            Trial::Traffic(_, route) => route.variants(),
            Trial::Pods(_) => &[Variant::Accelerated, Variant::Off, Variant::Reference],
            Trial::Stall | Trial::Execution => &[Variant::Accelerated, Variant::Reference],
        }
    }

    pub(super) fn title(self) -> String {
        match self {
            Trial::Traffic(load, route) => Workload::Traffic(load, route).title(),
            Trial::Pods(Crowd { others, parallel: false }) => format!("ADD and DEL beside {others}"),
            Trial::Pods(Crowd { others, .. }) => format!("ADDs and DELs at once, beside {others}"),
            Trial::Stall => Workload::Stall.title(),
            Trial::Execution => "one execution".into(),
        }
    }

    /// Pods that have to be on the node; none where it has pods of its own for traffic.
    pub(super) fn others(self) -> Option<usize> {
        match self {
            Trial::Traffic(..) => None,
            Trial::Pods(crowd) => Some(crowd.others),
            Trial::Execution => Some(1),
            // The two that talk.
            Trial::Stall => Some(2),
        }
    }

    /// Those that take seconds have fewer rounds.
    fn rounds(self, rounds: u32) -> u32 {
        match self {
            Trial::Stall | Trial::Execution | Trial::Pods(Crowd { parallel: true, .. }) => rounds.min(3),
            Trial::Traffic(..) | Trial::Pods(_) => rounds,
        }
    }
}

impl Stage {
    pub(super) fn title(&self) -> String {
        match self.trials[0].others() {
            None => format!("{} kinds of traffic", self.trials.len()),
            Some(others) => format!("nodes with {others} pods"),
        }
    }
}

/// Puts trials into stages: traffic first, then by the number of pods, which only grows.
pub(super) fn stages(workloads: &[Workload], rounds: u32) -> Vec<Stage> {
    let mut trials: Vec<Trial> = Vec::new();
    for trial in workloads.iter().map(|workload| workload.trial()) {
        if !trials.contains(&trial) {
            trials.push(trial);
        }
    }
    let key = |trial: &Trial| (trial.others(), trial.rounds(rounds));
    trials.sort_by_key(key);
    let same = trials.chunk_by(|one, other| key(one) == key(other));
    same.map(|trials| Stage { trials: trials.to_vec(), rounds: trials[0].rounds(rounds) }).collect()
}

#[cfg(test)]
mod tests {
    use super::stages;
    use crate::bench::workload::Workload;

    #[test]
    fn pods_only_become_more_from_stage_to_stage() {
        let stages = stages(&Workload::all(), 7);
        let others: Vec<_> = stages.iter().map(|stage| stage.trials[0].others()).collect();
        assert!(others.is_sorted(), "{others:?}");
        assert_eq!((others[0], others[others.len() - 1]), (None, Some(500)));
        assert!(stages.iter().all(|stage| stage.rounds == 7 || stage.rounds == 3));
    }
}
