//! STATUS: can ADDs of this network be served?

use super::{VerbError, lease};
use crate::{
    cni::request::Verb,
    config::{Ipam, Network},
    host::{LinuxHost, MAX_PORTS},
    ipam::HostLocal,
    plan::Side,
};

/// Serves a STATUS. That the configuration is valid has been checked before.
pub(super) fn status(network: &Network) -> Result<(), VerbError> {
    range(network)?;
    bridge(network)?;
    lease::forward(network, Verb::Status)
}

fn range(network: &Network) -> Result<(), VerbError> {
    let Ipam::HostLocal(config) = &network.ipam else { return Ok(()) };
    let usage = HostLocal::new(&network.name, config.clone())?.usage()?;
    match usage.into_iter().find(|usage| usage.is_full()) {
        Some(full) => Err(VerbError::Full { pool: full.pool, used: full.used }),
        None => Ok(()),
    }
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
