//! STATUS: can ADDs of this network be served?

use super::{VerbError, lease};
use crate::{
    cni::request::Verb,
    config::{Ipam, Network},
    host::{LinuxHost, MAX_PORTS},
    plan::Side,
};

/// Serves a STATUS. That the configuration is valid has been checked before.
pub(super) fn status(network: &Network) -> Result<(), VerbError> {
    if let Ipam::HostLocal(config) = &network.ipam {
        lease::with_room(network, config)?;
    }
    bridge(network)?;
    lease::forward(network, Verb::Status)
}

/// A bridge that is yet to be made has room.
fn bridge(network: &Network) -> Result<(), VerbError> {
    let host = LinuxHost::open(None)?;
    let Some(bridge) = host.link(Side::Node, &network.bridge)? else { return Ok(()) };
    if host.node().ports(bridge.index)? < MAX_PORTS {
        return Ok(());
    }
    Err(VerbError::BridgeFull { bridge: network.bridge.clone() })
}
