//! Where traffic goes.

use super::load::Load;
use super::variant::Variant;

/// Where traffic goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Route {
    /// Between two pods of a node.
    Pod,
    /// The same, to the address of a Service.
    ClusterIp,
    /// From a pod to a host beyond the node's uplink, masqueraded.
    Outside,
    /// From there to the node's address, translated to a pod's.
    HostPort,
    /// From a pod to outside, on a node with the iptables rules of a cluster.
    Ruled,
}

/// The iptables rules that a node has beyond its plugin's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rules {
    None,
    /// One Service and one host port, in front of a pod.
    Translation,
    /// Those of a cluster, see [`super::rules`].
    Cluster,
}

/// Those measured through the rules of a cluster.
const RULED: [Load; 4] =
    [Load::Datagrams(64), Load::RoundTrips { pinned: true }, Load::Streams(1), Load::Connections];

impl Route {
    pub(super) const ALL: [Route; 5] =
        [Route::Pod, Route::ClusterIp, Route::Outside, Route::HostPort, Route::Ruled];

    pub(super) fn name(self) -> &'static str {
        match self {
            Route::Pod => "pod",
            Route::ClusterIp => "clusterip",
            Route::Outside => "outside",
            Route::HostPort => "hostport",
            Route::Ruled => "ruled",
        }
    }

    /// In reports and charts.
    pub(super) fn title(self) -> &'static str {
        match self {
            Route::Pod => "pod to pod",
            Route::ClusterIp => "pod to ClusterIP",
            Route::Outside => "pod to outside",
            Route::HostPort => "outside to hostPort",
            Route::Ruled => "to outside through rules",
        }
    }

    pub(super) fn loads(self) -> &'static [Load] {
        if self == Route::Ruled { &RULED } else { &Load::ALL }
    }

    /// Who takes part.
    pub(super) fn variants(self) -> &'static [Variant] {
        use Variant::{Accelerated, Host, Off, Ptp, Reference, Wire};
        match self {
            Route::Pod => &[Accelerated, Off, Reference, Ptp, Wire],
            Route::ClusterIp => &[Accelerated, Off, Reference, Ptp],
            Route::Outside | Route::HostPort => &[Accelerated, Off, Reference, Ptp, Host],
            Route::Ruled => &[Accelerated, Reference],
        }
    }

    /// The rules on the node; the node's own network needs no translation.
    pub(super) fn rules(self, variant: Variant) -> Rules {
        match self {
            Route::ClusterIp | Route::HostPort if variant != Variant::Host => Rules::Translation,
            Route::Ruled => Rules::Cluster,
            _ => Rules::None,
        }
    }
}
