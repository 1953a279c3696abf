//! STATUS: can ADDs of this network be served?

use super::{VerbError, lease};
use crate::{
    cni::request::Verb,
    config::{Ipam, Network},
    ipam::HostLocal,
};

/// Serves a STATUS. That the configuration is valid has been checked before.
pub(super) fn status(network: &Network) -> Result<(), VerbError> {
    if let Ipam::HostLocal(config) = &network.ipam {
        let usage = HostLocal::new(&network.name, config.clone())?.usage()?;
        if let Some(full) = usage.into_iter().find(|usage| usage.is_full()) {
            return Err(VerbError::Full { pool: full.pool, used: full.used });
        }
    }
    lease::forward(network, Verb::Status)
}
