//! Uplinks: the devices that lead out of the node. They are shared with others, and attached to once.

use super::{
    attach::{self, Device},
    error::DataplaneError,
    load::Program,
    pins::{Pins, make_directory},
};
use crate::{host::LinuxHost, plan::Side};

/// How the name of a mark begins that says that the clsact qdisc of a device is ours.
pub(super) const CLSACT: &str = "clsact-";

pub(super) const PROGRAMS: [Program; 2] = [Program::Ingress, Program::EgressOut];

/// Attaches to every configured uplink, or to the devices that carry a default route.
pub(super) fn attach(
    pins: &Pins,
    configured: Option<&[String]>,
    host: &LinuxHost,
) -> Result<(), DataplaneError> {
    for name in names(configured, host)? {
        let Some(link) = host.link(Side::Node, &name)? else {
            return Err(DataplaneError::NoSuchUplink(name));
        };
        if link.mac.is_none() {
            log::warn!("the uplink {name} has no Ethernet header and is not accelerated");
            continue;
        }
        one(pins, host, Device { name: &name, index: link.index })?;
    }
    Ok(())
}

/// Names of the uplinks: those configured, or the devices that carry a default route.
pub(super) fn names(configured: Option<&[String]>, host: &LinuxHost) -> Result<Vec<String>, DataplaneError> {
    match configured {
        Some(names) => Ok(names.to_vec()),
        None => Ok(host.default_uplinks()?),
    }
}

/// TCX where the kernel has it (6.6): unlike the clsact qdisc it is not shared with anyone.
fn one(pins: &Pins, host: &LinuxHost, uplink: Device<'_>) -> Result<(), DataplaneError> {
    if !attach::has_tcx(uplink) {
        if attach::clsact(pins, host, uplink, &PROGRAMS)? {
            // The qdisc is ours to remove, which a directory among the links says: bpffs has no plain files.
            make_directory(&pins.links().join(format!("{CLSACT}{}", uplink.index)))?;
        }
        return Ok(());
    }
    let missing = |program: &Program| !attach::is_on_tcx(pins, uplink, *program);
    if PROGRAMS.iter().any(missing) {
        let _lock = pins.lock()?;
        // Somebody may have been faster.
        for program in PROGRAMS.into_iter().filter(missing) {
            attach::tcx(pins, uplink, program)?;
        }
    }
    Ok(())
}

/// Detaches from every device of the node. TCX links go with their pins.
pub(super) fn detach(pins: &Pins, host: &LinuxHost) -> Vec<DataplaneError> {
    if !pins.exist() {
        return Vec::new();
    }
    let links = match host.node().links() {
        Ok(links) => links,
        Err(error) => return vec![error.into()],
    };
    let devices = links.iter().map(|(name, link)| Device { name, index: link.index });
    devices.filter_map(|device| one_off(pins, host, device).err()).collect()
}

fn one_off(pins: &Pins, host: &LinuxHost, device: Device<'_>) -> Result<(), DataplaneError> {
    for program in PROGRAMS {
        attach::remove_clsact(host, device, program)?;
    }
    if pins.links().join(format!("{CLSACT}{}", device.index)).exists() {
        host.node().remove_unused_clsact(device.name, device.index)?;
    }
    Ok(())
}
