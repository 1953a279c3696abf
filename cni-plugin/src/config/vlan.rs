//! The VLAN keys: `vlan`, `vlanTrunk` and `preserveDefaultVlan`.

use std::collections::BTreeSet;

use super::netconf::{ConfigError, NetConf, VlanTrunk};

/// VLAN IDs that a port can have (IEEE 802.1Q: 0 and 4095 are reserved).
const ALLOWED: std::ops::RangeInclusive<i64> = 1..=4094;

/// What a pod's port does with VLANs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vlans {
    /// The pod's own VLAN, untagged.
    pub access: Option<u16>,
    /// VLANs that reach the pod tagged, in order, each once.
    pub trunk: Vec<u16>,
    /// The port stays in the bridge's default VLAN, too.
    pub keep_default: bool,
}

/// The VLAN keys, if any is set.
pub(super) fn vlans(conf: &NetConf) -> Result<Option<Vlans>, ConfigError> {
    let access = match conf.vlan {
        None | Some(0) => None,
        Some(id) => Some(vlan("vlan", id)?),
    };
    // A set: many wide elements must not need much memory.
    let mut trunk = BTreeSet::new();
    for element in conf.vlan_trunk.iter().flatten() {
        trunk.extend(ids(element)?);
    }
    if access.is_none() && conf.vlan_trunk.is_none() {
        return Ok(None);
    }
    let trunk = trunk.into_iter().collect();
    Ok(Some(Vlans { access, trunk, keep_default: conf.preserve_default_vlan.unwrap_or(true) }))
}

fn ids(element: &VlanTrunk) -> Result<Vec<u16>, ConfigError> {
    let mut ids = Vec::new();
    match (element.min_id, element.max_id) {
        (None, None) => {}
        (Some(min), Some(max)) => {
            let (min, max) = (vlan("vlanTrunk.minID", min)?, vlan("vlanTrunk.maxID", max)?);
            if min > max {
                return Err(ConfigError::value(
                    "vlanTrunk.minID",
                    min,
                    format!("at most maxID, which is {max}"),
                ));
            }
            ids.extend(min..=max);
        }
        (Some(min), None) => {
            return Err(ConfigError::value("vlanTrunk.minID", min, "only together with maxID"));
        }
        (None, Some(max)) => {
            return Err(ConfigError::value("vlanTrunk.maxID", max, "only together with minID"));
        }
    }
    if let Some(id) = element.id {
        ids.push(vlan("vlanTrunk.id", id)?);
    }
    Ok(ids)
}

fn vlan(key: &'static str, id: i64) -> Result<u16, ConfigError> {
    match u16::try_from(id) {
        Ok(vlan) if ALLOWED.contains(&id) => Ok(vlan),
        _ => Err(ConfigError::value(key, id, "1 to 4094")),
    }
}
