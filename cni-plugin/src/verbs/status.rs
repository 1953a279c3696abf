//! STATUS: can ADDs of this network be served?

use super::{VerbError, lease};
use crate::{
    cni::request::Verb,
    config::{Ipam, Network},
    host::LinuxHost,
    ipam::HostLocal,
};

/// As many as the kernel gives a bridge: `BR_MAX_PORTS` of `net/bridge/br_private.h` less the number 0.
const MAX_PORTS: usize = 1023;

/// Serves a STATUS. That the configuration is valid has been checked before.
pub(super) fn status(network: &Network) -> Result<(), VerbError> {
    if let Ipam::HostLocal(config) = &network.ipam {
        let usage = HostLocal::new(&network.name, config.clone())?.usage()?;
        if let Some(full) = usage.into_iter().find(|usage| usage.is_full()) {
            return Err(VerbError::Full { pool: full.pool, used: full.used });
        }
    }
    let ports = LinuxHost::open(None)?.node().ports(&network.bridge)?;
    if ports >= MAX_PORTS {
        return Err(VerbError::BridgeFull { bridge: network.bridge.clone(), ports });
    }
    lease::forward(network, Verb::Status)
}
