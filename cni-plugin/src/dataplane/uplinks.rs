//! Uplinks: the devices that lead out of the node. They are shared with others, and attached to once.

use aya::programs::{SchedClassifier, TcAttachType};

use super::{
    attach,
    error::DataplaneError,
    load::{EGRESS_OUT, INGRESS, Loaded},
    pins::Pins,
};
use crate::{host::LinuxHost, plan::Side};

/// Attaches to every configured uplink, or to the devices that carry a default route.
pub(super) fn attach(
    pins: &Pins,
    loaded: &mut Loaded,
    configured: Option<&[String]>,
    host: &LinuxHost,
) -> Result<(), DataplaneError> {
    let uplinks = match configured {
        Some(names) => {
            for name in names {
                if host.link(Side::Node, name)?.is_none() {
                    return Err(DataplaneError::NoSuchUplink(name.clone()));
                }
            }
            names.to_vec()
        }
        None => host.default_uplinks()?,
    };
    for uplink in uplinks {
        // Without an Ethernet header there is nothing for the programs to read.
        if host.link(Side::Node, &uplink)?.is_some_and(|link| link.mac.is_some()) {
            one(pins, &mut loaded.ingress, INGRESS, &uplink, TcAttachType::Ingress)?;
            one(pins, &mut loaded.egress_out, EGRESS_OUT, &uplink, TcAttachType::Egress)?;
        }
    }
    Ok(())
}

/// TCX where the kernel has it (6.6): unlike the clsact qdisc it is not shared with anyone.
fn one(
    pins: &Pins,
    program: &mut SchedClassifier,
    name: &'static str,
    uplink: &str,
    hook: TcAttachType,
) -> Result<(), DataplaneError> {
    match attach::tcx(program, name, pins, uplink, hook) {
        Ok(()) => Ok(()),
        Err(error) => {
            log::debug!("no TCX on {uplink}, using clsact: {error}");
            attach::add_clsact(uplink, name)?;
            attach::clsact(program, name, uplink, hook)
        }
    }
}

/// Detaches from every device of the node. TCX links go with their pins.
pub(super) fn detach(pins: &Pins, host: &LinuxHost) -> Vec<DataplaneError> {
    if !pins.exist() {
        return Vec::new();
    }
    let names = match host.link_names() {
        Ok(names) => names,
        Err(error) => return vec![error.into()],
    };
    let programs = [(INGRESS, TcAttachType::Ingress), (EGRESS_OUT, TcAttachType::Egress)];
    names
        .iter()
        .flat_map(|device| programs.map(|(name, hook)| attach::remove_clsact(device, name, hook)))
        .filter_map(Result::err)
        .collect()
}
