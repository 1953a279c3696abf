//! What is measured, in which unit, and with which variants.

use super::load::Load;
use super::route::Route;
use super::trial::Trial;
use super::variant::Variant;

/// One thing to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Workload {
    /// Traffic, and where it goes.
    Traffic(Load, Route),
    /// The time of an operation on a node with other pods.
    Pods(Operation, Crowd),
    /// The longest time without an answer between two pods while others come and go.
    Stall,
    /// What one execution of the plugin takes.
    Execution(Figure),
}

/// What a runtime asks of a plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Add,
    Del,
}

/// Other pods on the node, and whether 32 operations run at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Crowd {
    /// None means that the first pod brings the bridge.
    pub(super) others: usize,
    pub(super) parallel: bool,
}

/// What is counted of one execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Figure {
    /// From fork to exit of VERSION, which does nothing.
    Start,
    /// Peak memory in ADD.
    Memory,
    /// System calls, of all its processes.
    Calls(Operation),
    /// Programs executed, itself included.
    Programs(Operation),
}

pub(super) const OPERATIONS: [Operation; 2] = [Operation::Add, Operation::Del];
/// Operations at the same time.
pub(super) const AT_ONCE: usize = 32;
/// Pods that come and go in [`Workload::Stall`].
pub(super) const PASSERS_BY: usize = 100;
const OTHERS: [usize; 5] = [0, 1, 50, 200, 500];

impl Workload {
    /// All of them, in the order of the report.
    pub(super) fn all() -> Vec<Workload> {
        let routes = Route::ALL.into_iter();
        let traffic = routes.flat_map(|route| route.loads().iter().map(move |&load| (load, route)));
        let mut all: Vec<_> = traffic.map(|(load, route)| Workload::Traffic(load, route)).collect();
        for operation in OPERATIONS {
            let crowds = OTHERS.map(|others| Crowd { others, parallel: false });
            all.extend(crowds.map(|crowd| Workload::Pods(operation, crowd)));
        }
        for operation in OPERATIONS {
            let crowds = OTHERS[1..].iter().map(|&others| Crowd { others, parallel: true });
            all.extend(crowds.map(|crowd| Workload::Pods(operation, crowd)));
        }
        all.push(Workload::Stall);
        all.extend(Figure::ALL.map(Workload::Execution));
        all
    }

    /// Whether it is part of a quick run: what most targets are about.
    pub(super) fn is_quick(self) -> bool {
        use Load::{Connections, Datagrams, ManyFlows, NewFlows, RoundTrips, Streams};
        match self {
            Workload::Traffic(load, Route::Pod) => {
                matches!(load, Datagrams(64) | RoundTrips { pinned: true } | Streams(1 | 4))
                    || matches!(load, ManyFlows | NewFlows | Connections)
            }
            Workload::Traffic(load, Route::Outside) => {
                matches!(load, Datagrams(64) | RoundTrips { pinned: true } | Streams(1) | Connections)
            }
            Workload::Traffic(load, Route::Ruled) => load != Connections,
            Workload::Traffic(load, _) => load == Datagrams(64),
            Workload::Pods(_, crowd) => [1, 50].contains(&crowd.others) && !crowd.parallel,
            Workload::Stall => false,
            Workload::Execution(_) => true,
        }
    }

    /// What measures it.
    pub(super) fn trial(self) -> Trial {
        match self {
            Workload::Traffic(Load::NewFlows, route) => Trial::Traffic(Load::ManyFlows, route),
            Workload::Traffic(load, route) => Trial::Traffic(load, route),
            Workload::Pods(_, crowd) => Trial::Pods(crowd),
            Workload::Stall => Trial::Stall,
            Workload::Execution(_) => Trial::Execution,
        }
    }

    /// Who takes part.
    pub(super) fn variants(self) -> &'static [Variant] {
        self.trial().variants()
    }

    /// In results, and for `--only`.
    pub(super) fn name(self) -> String {
        match self {
            Workload::Traffic(load, route) => format!("{}-{}", load.name(), route.name()),
            Workload::Pods(operation, crowd) => {
                let parallel = if crowd.parallel { "-parallel" } else { "" };
                format!("{}-{}{parallel}", operation.name(), crowd.others)
            }
            Workload::Stall => "stall".into(),
            Workload::Execution(Figure::Start) => "start".into(),
            Workload::Execution(Figure::Memory) => "memory".into(),
            Workload::Execution(Figure::Calls(operation)) => format!("calls-{}", operation.name()),
            Workload::Execution(Figure::Programs(operation)) => format!("programs-{}", operation.name()),
        }
    }

    /// In reports and charts.
    pub(super) fn title(self) -> String {
        match self {
            Workload::Traffic(load, route) => format!("{}, {}", load.title(), route.title()),
            Workload::Pods(operation, Crowd { others: 0, .. }) => format!("{}, first pod", operation.title()),
            Workload::Pods(operation, Crowd { others, parallel: false }) => {
                format!("{}, beside {others}", operation.title())
            }
            Workload::Pods(operation, Crowd { others, .. }) => {
                format!("{AT_ONCE} {}s at once, beside {others}", operation.title())
            }
            Workload::Stall => format!("Longest stall while {PASSERS_BY} pods come and go"),
            Workload::Execution(Figure::Start) => "VERSION, from start to end".into(),
            Workload::Execution(Figure::Memory) => "ADD, peak memory".into(),
            Workload::Execution(Figure::Calls(operation)) => format!("{}, system calls", operation.title()),
            Workload::Execution(Figure::Programs(operation)) => {
                format!("{}, programs executed", operation.title())
            }
        }
    }

    /// Of its values.
    pub(super) fn unit(self) -> &'static str {
        match self {
            Workload::Traffic(load, _) => load.unit(),
            Workload::Pods(..) | Workload::Stall | Workload::Execution(Figure::Start) => "ms",
            Workload::Execution(Figure::Memory) => "MB",
            Workload::Execution(Figure::Calls(_)) => "calls",
            Workload::Execution(Figure::Programs(_)) => "programs",
        }
    }

    /// Whether a larger value is a better one.
    pub(super) fn more_is_better(self) -> bool {
        matches!(self, Workload::Traffic(..))
    }
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Operation::Add => "add",
            Operation::Del => "del",
        }
    }

    pub(super) fn title(self) -> &'static str {
        match self {
            Operation::Add => "ADD",
            Operation::Del => "DEL",
        }
    }
}

impl Figure {
    const ALL: [Figure; 6] = [
        Figure::Start,
        Figure::Memory,
        Figure::Calls(Operation::Add),
        Figure::Calls(Operation::Del),
        Figure::Programs(Operation::Add),
        Figure::Programs(Operation::Del),
    ];
}
