//! What a plan depends on, as it is before the ADD.

use ipnetwork::IpNetwork;

/// What was found on the node and in the pod.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Observed {
    /// The bridge, if it exists.
    pub bridge: Option<Bridge>,
    /// Routes of the pod's main table: those of interfaces it has already.
    pub pod_routes: Vec<PodRoute>,
    /// Why the bridge can have no IPv6 address, if it cannot.
    pub no_ipv6: Option<&'static str>,
}

/// A bridge that is there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bridge {
    /// Its addresses.
    pub addresses: Vec<IpNetwork>,
    /// Its MTU, bytes.
    pub mtu: u32,
}

/// A route that is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PodRoute {
    /// Destination.
    pub dst: IpNetwork,
    /// Metric, lower is preferred.
    pub priority: u32,
}
