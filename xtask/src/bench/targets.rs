//! What we promised ourselves.

use serde_json::{Value, json};

use super::load::Load::{self, Connections, Datagrams, Streams};
use super::results::Results;
use super::route::Route::{ClusterIp, HostPort, Outside, Pod, Ruled};
use super::variant::Variant::{self, Accelerated, Host, Off, Reference, Wire};
use super::workload::Operation::{self, Add, Del};
use super::workload::Workload::{self, Pods, Traffic};
use super::workload::{Crowd, Figure};

/// What a variant of ours is to reach in one workload.
pub(super) struct Target {
    pub(super) workload: Workload,
    pub(super) variant: Variant,
    pub(super) aim: Aim,
}

/// A bound.
#[derive(Clone, Copy)]
pub(super) enum Aim {
    /// At least so many times as good as another variant.
    Times(f64, Variant),
    /// At most so many of the workload's unit.
    AtMost(f64),
    /// At most so many times what another workload takes.
    Flat(f64, Workload),
}

/// A target and what came of it.
pub(super) struct Verdict {
    pub(super) target: &'static Target,
    pub(super) measured: f64,
    pub(super) met: bool,
}

const fn times(workload: Workload, against: Variant, least: f64) -> Target {
    Target { workload, variant: Accelerated, aim: Aim::Times(least, against) }
}

const fn beside(operation: Operation, others: usize) -> Workload {
    Pods(operation, Crowd { others, parallel: false })
}

/// What "flat" means: room for the noise of two measurements minutes apart, not for a second look at every pod.
const fn flat(operation: Operation) -> Target {
    let workload = beside(operation, 500);
    Target { workload, variant: Accelerated, aim: Aim::Flat(1.25, beside(operation, 1)) }
}

const RR: Load = Load::RoundTrips { pinned: true };
const SMALL: Load = Datagrams(64);

/// In the order of the goal they come from.
static TARGETS: [Target; 31] = [
    times(Traffic(SMALL, Pod), Reference, 1.40),
    times(Traffic(SMALL, Pod), Wire, 0.97),
    times(Traffic(RR, Pod), Reference, 1.25),
    times(Traffic(Streams(1), Pod), Reference, 1.20),
    times(Traffic(Streams(4), Pod), Reference, 1.20),
    times(Traffic(Streams(16), Pod), Reference, 1.20),
    times(Traffic(SMALL, Outside), Reference, 1.40),
    times(Traffic(SMALL, Outside), Host, 0.95),
    times(Traffic(RR, Outside), Host, 0.97),
    times(Traffic(Streams(1), Outside), Host, 0.97),
    times(Traffic(Streams(4), Outside), Host, 0.97),
    times(Traffic(Streams(16), Outside), Host, 0.97),
    times(Traffic(SMALL, Ruled), Reference, 1.60),
    times(Traffic(RR, Ruled), Reference, 1.60),
    times(Traffic(Streams(1), Ruled), Reference, 1.60),
    times(Traffic(Connections, Pod), Off, 0.98),
    times(Traffic(Connections, ClusterIp), Off, 0.98),
    times(Traffic(Connections, Outside), Off, 0.98),
    times(Traffic(Connections, HostPort), Off, 0.98),
    times(beside(Add, 0), Reference, 6.0),
    times(beside(Add, 1), Reference, 6.0),
    times(beside(Add, 50), Reference, 6.0),
    times(beside(Add, 200), Reference, 6.0),
    times(beside(Add, 500), Reference, 6.0),
    flat(Add),
    times(beside(Del, 1), Reference, 3.0),
    times(beside(Del, 50), Reference, 3.0),
    times(beside(Del, 200), Reference, 3.0),
    times(beside(Del, 500), Reference, 3.0),
    flat(Del),
    Target { workload: Workload::Execution(Figure::Memory), variant: Accelerated, aim: Aim::AtMost(12.0) },
];

/// The targets of everything that was measured.
pub(super) fn verdicts(results: &Results) -> Vec<Verdict> {
    TARGETS.iter().filter_map(|target| verdict(target, results)).collect()
}

fn verdict(target: &'static Target, results: &Results) -> Option<Verdict> {
    let median = |workload| Some(results.of(workload, target.variant)?.median());
    let (measured, met) = match target.aim {
        Aim::Times(least, against) => {
            let ratio = results.ratio(target.workload, target.variant, against)?;
            (ratio, ratio >= least)
        }
        Aim::AtMost(most) => {
            let value = median(target.workload)?;
            (value, value <= most)
        }
        Aim::Flat(most, than) => {
            let ratio = median(target.workload)? / median(than)?;
            (ratio, ratio <= most)
        }
    };
    Some(Verdict { target, measured, met })
}

/// As an array of the results file.
pub(super) fn json(results: &Results) -> Value {
    let each = |verdict: &Verdict| {
        let (kind, bound, against) = match verdict.target.aim {
            Aim::Times(least, against) => ("ratioAtLeast", least, Some(against.name().into())),
            Aim::AtMost(most) => ("valueAtMost", most, None),
            Aim::Flat(most, than) => ("timesOtherAtMost", most, Some(than.name())),
        };
        json!({
            "workload": verdict.target.workload.name(),
            "variant": verdict.target.variant.name(),
            "kind": kind,
            "bound": bound,
            "against": against,
            "measured": verdict.measured,
            "met": verdict.met,
        })
    };
    verdicts(results).iter().map(each).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::results::Sample;

    #[test]
    fn bounds_are_met_when_reached() {
        let mut results = Results::default();
        let mut push = |workload, variant, value| results.push(workload, variant, Sample::of(value));
        push(Traffic(SMALL, Pod), Accelerated, 140.0);
        push(Traffic(SMALL, Pod), Reference, 100.0);
        push(Traffic(SMALL, Pod), Wire, 145.0);
        push(Workload::Execution(Figure::Memory), Accelerated, 12.5);
        push(beside(Add, 1), Accelerated, 4.0);
        push(beside(Add, 500), Accelerated, 5.0);
        let met: Vec<_> = verdicts(&results).iter().map(|verdict| (verdict.measured, verdict.met)).collect();
        // 140 of 145 is 0.9655.
        assert_eq!(met, [(1.4, true), (140.0 / 145.0, false), (1.25, true), (12.5, false)]);
    }

    #[test]
    fn every_target_is_about_something_that_is_measured() {
        for target in &TARGETS {
            assert!(target.workload.variants().contains(&target.variant));
            assert!(Workload::all().contains(&target.workload));
            if let Aim::Times(_, against) = target.aim {
                assert!(target.workload.variants().contains(&against), "{}", target.workload.name());
            }
        }
    }
}
