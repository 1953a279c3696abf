//! What a plan depends on, as it is before the ADD.

use ipnetwork::IpNetwork;

/// What was found on the node and in the pod.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Observed {
    /// The bridge, if it exists.
    pub bridge: Option<Bridge>,
    /// Addresses of the link that is to have the gateway's.
    pub gateway_addresses: Vec<IpNetwork>,
    /// Routes of the pod's main table: those of interfaces it has already.
    pub pod_routes: Vec<PodRoute>,
    /// Why that link can have no IPv6 address, if it cannot.
    pub no_ipv6: Option<&'static str>,
}

/// A bridge that is there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bridge {
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
