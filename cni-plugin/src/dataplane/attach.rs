//! Attaching to tc hooks.
//!
//! Pods' veths get clsact filters: that costs 0.1 ms where a TCX link costs an RCU grace period under RTNL, and
//! they go with the veth. Our priority is a late one, so that foreign filters go on seeing every packet that
//! reaches them, and fixed, like the handle, so that attaching twice does not add a second filter.

use std::os::fd::AsFd;

use aya::programs::{
    LinkOrder, ProgramError, SchedClassifier, TcAttachType, links::FdLink, tc::TcAttachOptions,
};

use super::{error::DataplaneError, load::Program, pins::Pins};
use crate::{
    config::Attach,
    host::{FilterPlace, Hook, LinuxHost},
};

/// Priority of our filters.
const PRIORITY: u16 = 0xeb00;
/// Minor number of our filters' handle.
const HANDLE: u16 = 0xeb;

/// How a program is attached to a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attached {
    /// A filter of the clsact qdisc.
    Clsact,
    /// A TCX link.
    Tcx,
}

/// A device by name and index.
#[derive(Debug, Clone, Copy)]
pub(super) struct Device<'a> {
    pub name: &'a str,
    pub index: u32,
}

/// Where our filter with this program is on a device.
pub(super) fn place(device: Device<'_>, program: Program) -> FilterPlace<'_> {
    let Device { name, index } = device;
    FilterPlace { link: name, index, hook: program.hook(), priority: PRIORITY, handle: HANDLE }
}

/// Attaches both programs to the host end of a pod's veth.
pub(super) fn pod(
    pins: &Pins,
    host: &LinuxHost,
    veth: Device<'_>,
    how: Attach,
) -> Result<(), DataplaneError> {
    let programs = [Program::Ingress, Program::EgressPod];
    match how {
        Attach::Auto | Attach::Clsact => clsact(pins, host, veth, &programs).map(drop),
        Attach::Tcx => programs.into_iter().try_for_each(|program| tcx(pins, veth, program)),
    }
}

/// Adds our filters, and the qdisc they need; that they are there is fine. Returns whether the qdisc was not.
pub(super) fn clsact(
    pins: &Pins,
    host: &LinuxHost,
    device: Device<'_>,
    programs: &[Program],
) -> Result<bool, DataplaneError> {
    let added = host.node().add_clsact(device.name, device.index)?;
    for &program in programs {
        let fd = program.open(pins)?;
        host.node().add_filter(place(device, program), fd.as_fd(), program.name())?;
    }
    Ok(added)
}

/// Removes our filter of one hook; that it is gone is fine.
pub(super) fn remove_clsact(
    host: &LinuxHost,
    device: Device<'_>,
    program: Program,
) -> Result<(), DataplaneError> {
    // A foreign filter may have been put in our place.
    let names = host.node().filters(device.name, device.index, program.hook())?;
    if names.iter().any(|name| name == program.name()) {
        host.node().remove_filter(place(device, program))?;
    }
    Ok(())
}

/// Attaches a TCX link (kernel 6.6) behind all others and pins it: it would detach when its last descriptor is
/// closed.
pub(super) fn tcx(pins: &Pins, device: Device<'_>, program: Program) -> Result<(), DataplaneError> {
    let failed = |error: ProgramError| DataplaneError::attach(program.name(), device.name, error);
    let pin = program.pin(pins);
    let mut loaded =
        SchedClassifier::from_pin(&pin).map_err(|error| DataplaneError::pin("open", pin, error))?;
    let hook = attach_type(program.hook());
    let options = TcAttachOptions::TcxOrder(LinkOrder::last());
    let id = loaded.attach_with_options(device.name, hook, options).map_err(failed)?;
    let link = loaded.take_link(id).map_err(failed)?;
    let link =
        FdLink::try_from(link).map_err(|error| DataplaneError::attach(program.name(), device.name, error))?;
    let path = pins.links().join(format!("{}-{}", device.index, program.name()));
    if path.exists() {
        // Somebody has detached the link by force.
        std::fs::remove_file(&path).map_err(|error| DataplaneError::pin("remove", &path, error))?;
    }
    link.pin(&path).map(drop).map_err(|error| DataplaneError::pin("pin", &path, error))
}

/// True if this kernel has TCX hooks on the device.
pub(super) fn has_tcx(device: Device<'_>) -> bool {
    SchedClassifier::query_tcx(device.name, TcAttachType::Ingress).is_ok()
}

/// True if our very program is on its TCX hook of the device.
pub(super) fn is_on_tcx(pins: &Pins, device: Device<'_>, program: Program) -> bool {
    let Ok((_, programs)) = SchedClassifier::query_tcx(device.name, attach_type(program.hook())) else {
        return false;
    };
    program.id(pins).is_ok_and(|own| programs.iter().any(|program| program.id() == own))
}

fn attach_type(hook: Hook) -> TcAttachType {
    match hook {
        Hook::Ingress => TcAttachType::Ingress,
        Hook::Egress => TcAttachType::Egress,
    }
}

/// Names of others' programs on a device, with their hooks.
pub(super) fn foreign(pins: &Pins, host: &LinuxHost, device: Device<'_>) -> Vec<String> {
    let own: Vec<u32> = Program::ALL.iter().filter_map(|program| program.id(pins).ok()).collect();
    let mut found = Vec::new();
    for (hook, name) in [(Hook::Ingress, "ingress"), (Hook::Egress, "egress")] {
        let filters = host.node().filters(device.name, device.index, hook).unwrap_or_default();
        let foreign = filters.iter().filter(|filter| !Program::ALL.iter().any(|own| own.name() == *filter));
        found.extend(foreign.map(|filter| format!("{filter} ({name}, clsact)")));
        let programs = SchedClassifier::query_tcx(device.name, attach_type(hook));
        let foreign = programs.into_iter().flat_map(|(_, programs)| programs);
        let foreign = foreign.filter(|program| !own.contains(&program.id()));
        found.extend(foreign.map(|program| {
            format!("{} ({name}, tcx)", program.name_as_str().unwrap_or("a program without a name"))
        }));
    }
    found
}

/// Our programs on a device, and how they are attached.
pub(super) fn attached(pins: &Pins, host: &LinuxHost, device: Device<'_>) -> Vec<(Program, Attached)> {
    let mut found = Vec::new();
    for program in Program::ALL {
        if is_on_tcx(pins, device, program) {
            found.push((program, Attached::Tcx));
        }
        let filters = host.node().filters(device.name, device.index, program.hook());
        if filters.is_ok_and(|names| names.iter().any(|name| name == program.name())) {
            found.push((program, Attached::Clsact));
        }
    }
    found
}
