//! What we promised ourselves.

use serde_json::{Value, json};

use super::results::Results;
use super::variant::Variant::{self, Accelerated, Host, Off, Reference, Wire};
use super::workload::Load::{Connections, Datagrams, RoundTrips, Streams};
use super::workload::Operation::{Add, Del};
use super::workload::Route::{Outside, Pod, Ruled};
use super::workload::Workload::{self, Memory, Pods, Traffic};

/// What the accelerated variant is to reach in one workload.
pub(super) struct Target {
    pub(super) workload: Workload,
    pub(super) aim: Aim,
}

/// A bound.
#[derive(Clone, Copy)]
pub(super) enum Aim {
    /// At least so many times as good as another variant.
    Times(f64, Variant),
    /// At most so many of the workload's unit.
    AtMost(f64),
}

/// A target and what came of it.
pub(super) struct Verdict {
    pub(super) target: &'static Target,
    pub(super) measured: f64,
    pub(super) met: bool,
}

const fn times(workload: Workload, against: Variant, least: f64) -> Target {
    Target { workload, aim: Aim::Times(least, against) }
}

/// In the order of the goal they come from.
static TARGETS: [Target; 20] = [
    times(Traffic(Datagrams, Pod), Reference, 1.40),
    times(Traffic(Datagrams, Pod), Wire, 0.97),
    times(Traffic(RoundTrips, Pod), Reference, 1.25),
    times(Traffic(Streams(1), Pod), Reference, 1.20),
    times(Traffic(Streams(4), Pod), Reference, 1.20),
    times(Traffic(Datagrams, Outside), Reference, 1.40),
    times(Traffic(Datagrams, Outside), Host, 0.95),
    times(Traffic(RoundTrips, Outside), Host, 0.97),
    times(Traffic(Streams(1), Outside), Host, 0.97),
    times(Traffic(Streams(4), Outside), Host, 0.97),
    times(Traffic(Datagrams, Ruled), Reference, 1.60),
    times(Traffic(RoundTrips, Ruled), Reference, 1.60),
    times(Traffic(Streams(1), Ruled), Reference, 1.60),
    times(Traffic(Connections, Pod), Off, 0.98),
    times(Traffic(Connections, Outside), Off, 0.98),
    times(Pods(Add, 1), Reference, 6.0),
    times(Pods(Add, 50), Reference, 6.0),
    times(Pods(Del, 1), Reference, 3.0),
    times(Pods(Del, 50), Reference, 3.0),
    Target { workload: Memory, aim: Aim::AtMost(12.0) },
];

/// The targets of everything that was measured.
pub(super) fn verdicts(results: &Results) -> Vec<Verdict> {
    TARGETS.iter().filter_map(|target| verdict(target, results)).collect()
}

fn verdict(target: &'static Target, results: &Results) -> Option<Verdict> {
    let (measured, met) = match target.aim {
        Aim::Times(least, against) => {
            let ratio = results.ratio(target.workload, Accelerated, against)?;
            (ratio, ratio >= least)
        }
        Aim::AtMost(most) => {
            let value = results.of(target.workload, Accelerated)?.median();
            (value, value <= most)
        }
    };
    Some(Verdict { target, measured, met })
}

/// As an array of the results file.
pub(super) fn json(results: &Results) -> Value {
    let each = |verdict: &Verdict| {
        let (kind, bound, against) = match verdict.target.aim {
            Aim::Times(least, against) => ("ratioAtLeast", least, Some(against.name())),
            Aim::AtMost(most) => ("valueAtMost", most, None),
        };
        json!({
            "workload": verdict.target.workload.name(),
            "kind": kind,
            "bound": bound,
            "against": against,
            "measured": verdict.measured,
            "met": verdict.met,
        })
    };
    verdicts(results).iter().map(each).collect()
}
