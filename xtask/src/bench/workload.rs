//! What is measured, in which unit, and with which variants.

use super::variant::Variant;

/// One thing to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Workload {
    /// Traffic, and where it goes.
    Traffic(Load, Route),
    /// The time of one operation while so many other pods are on the node.
    Pods(Operation, usize),
    /// Peak memory of the plugin's process in one ADD.
    Memory,
}

/// A kind of traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Load {
    /// TCP in bulk, over so many connections.
    Streams(u8),
    /// TCP requests of 64 bytes over one connection, each after the answer to the one before, both ends on one CPU.
    RoundTrips,
    /// UDP datagrams of 64 bytes payload, counted where they arrive.
    Datagrams,
    /// TCP connections: made, used for one request, closed.
    Connections,
}

/// Where traffic goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Route {
    /// Between two pods of a node.
    Pod,
    /// From a pod to a host beyond the node's uplink, masqueraded.
    Outside,
    /// The same on a node with the iptables rules of a cluster.
    Ruled,
}

/// What a runtime asks of a plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Add,
    Del,
}

const LOADS: [Load; 5] =
    [Load::Datagrams, Load::RoundTrips, Load::Streams(1), Load::Streams(4), Load::Connections];
/// Those measured through rules as well.
const RULED: [Load; 4] = [Load::Datagrams, Load::RoundTrips, Load::Streams(1), Load::Connections];
/// Pods that are on the node besides the one measured; none means that the first one brings the bridge.
pub(super) const OTHERS: [usize; 3] = [0, 1, 50];

impl Workload {
    /// All of them, in the order of the report.
    pub(super) fn all() -> Vec<Workload> {
        let routes = [Route::Pod, Route::Outside];
        let traffic = routes.map(|route| LOADS.map(|load| Workload::Traffic(load, route)));
        let operations = [Operation::Add, Operation::Del];
        let pods = operations.map(|operation| OTHERS.map(|others| Workload::Pods(operation, others)));
        let mut all = traffic.concat();
        all.extend(RULED.map(|load| Workload::Traffic(load, Route::Ruled)));
        all.extend(pods.concat());
        all.push(Workload::Memory);
        all
    }

    /// In results, and for `--only`.
    pub(super) fn name(self) -> String {
        match self {
            Workload::Traffic(load, route) => format!("{}-{}", load.name(), route.name()),
            Workload::Pods(Operation::Add, others) => format!("add-{others}"),
            Workload::Pods(Operation::Del, others) => format!("del-{others}"),
            Workload::Memory => "memory".into(),
        }
    }

    /// In reports and charts.
    pub(super) fn title(self) -> String {
        match self {
            Workload::Traffic(load, route) => format!("{}, {}", load.title(), route.title()),
            Workload::Pods(operation, 0) => format!("{}, first pod", operation.title()),
            Workload::Pods(operation, others) => format!("{}, beside {others}", operation.title()),
            Workload::Memory => "One ADD, peak memory".into(),
        }
    }

    /// Of its values.
    pub(super) fn unit(self) -> &'static str {
        match self {
            Workload::Traffic(load, _) => load.unit(),
            Workload::Pods(..) => "ms",
            Workload::Memory => "MB",
        }
    }

    /// Whether a larger value is a better one.
    pub(super) fn more_is_better(self) -> bool {
        matches!(self, Workload::Traffic(..))
    }

    /// Who takes part.
    pub(super) fn variants(self) -> &'static [Variant] {
        use Variant::{Accelerated, Host, Off, Reference, Wire};
        match self {
            Workload::Traffic(_, Route::Pod) => &[Accelerated, Off, Reference, Wire],
            Workload::Traffic(_, Route::Outside) => &[Accelerated, Off, Reference, Host],
            Workload::Traffic(_, Route::Ruled) | Workload::Pods(..) | Workload::Memory => {
                &[Accelerated, Reference]
            }
        }
    }
}

impl Load {
    fn name(self) -> String {
        match self {
            Load::Streams(count) => format!("tcp-stream-{count}"),
            Load::RoundTrips => "tcp-rr".into(),
            Load::Datagrams => "udp-64".into(),
            Load::Connections => "connect".into(),
        }
    }

    /// In reports and charts.
    pub(super) fn title(self) -> String {
        match self {
            Load::Streams(1) => "TCP stream".into(),
            Load::Streams(count) => format!("TCP, {count} streams"),
            Load::RoundTrips => "TCP RR, one CPU".into(),
            Load::Datagrams => "UDP 64 B".into(),
            Load::Connections => "Connections".into(),
        }
    }

    fn unit(self) -> &'static str {
        match self {
            Load::Streams(_) => "Gbit/s",
            Load::RoundTrips => "transactions/s",
            Load::Datagrams => "packets/s",
            Load::Connections => "connections/s",
        }
    }

    /// What the machine's CPU time is divided by.
    pub(super) fn cpu_unit(self) -> &'static str {
        match self {
            Load::Streams(_) => "MB",
            Load::RoundTrips => "transaction",
            Load::Datagrams => "packet",
            Load::Connections => "connection",
        }
    }
}

impl Route {
    fn name(self) -> &'static str {
        match self {
            Route::Pod => "pod",
            Route::Outside => "outside",
            Route::Ruled => "ruled",
        }
    }

    /// In reports and charts.
    pub(super) fn title(self) -> &'static str {
        match self {
            Route::Pod => "pod to pod",
            Route::Outside => "pod to outside",
            Route::Ruled => "to outside through rules",
        }
    }
}

impl Operation {
    fn title(self) -> &'static str {
        match self {
            Operation::Add => "ADD",
            Operation::Del => "DEL",
        }
    }
}
