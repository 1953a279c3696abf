//! Attaching to tc hooks.
//!
//! Pods' veths get clsact filters: that costs 0.1 ms where a TCX link costs an RCU grace period under RTNL, and
//! they go with the veth. Our priority is a late one, so that foreign filters go on seeing every packet that
//! reaches them, and fixed, like the handle, so that attaching twice does not add a second filter.

use aya::programs::{
    LinkOrder, ProgramError, ProgramInfo, SchedClassifier, TcAttachType,
    links::FdLink,
    tc::{NlOptions, TcAttachOptions, TcError, TcHandle, qdisc_add_clsact, qdisc_detach_program},
};
use nix::libc;

use super::{
    error::DataplaneError,
    load::{EGRESS_OUT, EGRESS_POD, INGRESS, Loaded},
    pins::Pins,
};
use crate::{config::Attach, host::LinuxHost};

/// Priority of our filters.
const PRIORITY: u16 = 0xeb00;
/// Handle of our filters.
const HANDLE: TcHandle = TcHandle::new(0, 0xeb);

/// How a program is attached to a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attached {
    /// A filter of the clsact qdisc.
    Clsact,
    /// A TCX link.
    Tcx,
}

/// Attaches both programs to the host end of a pod's veth.
pub(super) fn pod(loaded: &mut Loaded, pins: &Pins, veth: &str, how: Attach) -> Result<(), DataplaneError> {
    let programs = [
        (&mut loaded.ingress, INGRESS, TcAttachType::Ingress),
        (&mut loaded.egress_pod, EGRESS_POD, TcAttachType::Egress),
    ];
    if how == Attach::Tcx {
        for (program, name, hook) in programs {
            tcx(program, name, pins, veth, hook)?;
        }
        return Ok(());
    }
    add_clsact(veth, INGRESS)?;
    for (program, name, hook) in programs {
        clsact(program, name, veth, hook)?;
    }
    Ok(())
}

/// Takes both programs off a pod's veth, as far as they are there.
pub(super) fn leave(veth: &str) {
    for (name, hook) in [(INGRESS, TcAttachType::Ingress), (EGRESS_POD, TcAttachType::Egress)] {
        if let Err(error) = remove_clsact(veth, name, hook) {
            log::debug!("{error}");
        }
    }
}

/// Adds the clsact qdisc; that it is there is fine.
pub(super) fn add_clsact(device: &str, program: &'static str) -> Result<(), DataplaneError> {
    match qdisc_add_clsact(device) {
        Ok(()) | Err(TcError::AlreadyAttached) => Ok(()),
        Err(TcError::NetlinkError(error)) if error.raw_os_error() == Some(libc::EEXIST) => Ok(()),
        Err(error) => Err(failed(ATTACH, program, device, error)),
    }
}

/// Adds our filter; that it is there is fine.
pub(super) fn clsact(
    program: &mut SchedClassifier,
    name: &'static str,
    device: &str,
    hook: TcAttachType,
) -> Result<(), DataplaneError> {
    let options = NlOptions { priority: PRIORITY, handle: HANDLE, classid: None };
    let id = match program.attach_with_options(device, hook, TcAttachOptions::Netlink(options)) {
        Ok(id) => id,
        Err(ProgramError::TcError(TcError::NetlinkError(error)))
            if error.raw_os_error() == Some(libc::EEXIST) =>
        {
            return Ok(());
        }
        Err(error) => return Err(failed(ATTACH, name, device, error)),
    };
    let link = program.take_link(id).map_err(|error| failed(ATTACH, name, device, error))?;
    // Dropped, it would detach the filter.
    std::mem::forget(link);
    Ok(())
}

/// Removes our filter; that it is gone is fine.
pub(super) fn remove_clsact(
    device: &str,
    name: &'static str,
    hook: TcAttachType,
) -> Result<(), DataplaneError> {
    match qdisc_detach_program(device, hook, name) {
        Ok(()) => Ok(()),
        Err(TcError::IoError(error)) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        // The device is gone, or has no clsact.
        Err(TcError::NetlinkError(error))
            if matches!(error.raw_os_error(), Some(libc::ENODEV | libc::EINVAL | libc::ENOENT)) =>
        {
            Ok(())
        }
        Err(error) => Err(failed("detach", name, device, error)),
    }
}

/// Attaches a TCX link behind all others and pins it: it would detach when its last descriptor is closed.
pub(super) fn tcx(
    program: &mut SchedClassifier,
    name: &'static str,
    pins: &Pins,
    device: &str,
    hook: TcAttachType,
) -> Result<(), DataplaneError> {
    if is_on_tcx(program, device, hook) {
        return Ok(());
    }
    let fail = |error: ProgramError| failed(ATTACH, name, device, error);
    let options = TcAttachOptions::TcxOrder(LinkOrder::last());
    let id = program.attach_with_options(device, hook, options).map_err(fail)?;
    let link = program.take_link(id).map_err(fail)?;
    let link = FdLink::try_from(link).map_err(|error| failed(ATTACH, name, device, error))?;
    let path = pins.links().join(format!("{device}-{name}"));
    // A link that is no more on the device: the device was made anew, or somebody detached it.
    if path.exists() {
        std::fs::remove_file(&path).map_err(|error| DataplaneError::pin("remove", &path, error))?;
    }
    link.pin(&path).map(drop).map_err(|error| DataplaneError::pin("pin", &path, error))
}

/// True if this very program is on a TCX hook of the device.
fn is_on_tcx(program: &SchedClassifier, device: &str, hook: TcAttachType) -> bool {
    let Ok(own) = program.info() else { return false };
    let Ok((_, infos)) = SchedClassifier::query_tcx(device, hook) else { return false };
    infos.iter().any(|info| info.id() == own.id())
}

/// Names of our programs on a device, and how they are attached.
pub fn attached(device: &str, index: u32, host: &LinuxHost) -> Vec<(&'static str, Attached)> {
    let mut found = Vec::new();
    for (hook, names) in
        [(TcAttachType::Ingress, &[INGRESS][..]), (TcAttachType::Egress, &[EGRESS_POD, EGRESS_OUT])]
    {
        if let Ok((_, infos)) = SchedClassifier::query_tcx(device, hook) {
            let ours = names.iter().filter(|name| infos.iter().any(|info| is_named(info, name)));
            found.extend(ours.map(|name| (*name, Attached::Tcx)));
        }
        let filters = host.filters(index, hook == TcAttachType::Egress).unwrap_or_default();
        let ours = names.iter().filter(|name| filters.iter().any(|filter| filter == *name));
        found.extend(ours.map(|name| (*name, Attached::Clsact)));
    }
    found
}

/// The kernel keeps the first 15 bytes of a program's name (`BPF_OBJ_NAME_LEN`).
fn is_named(info: &ProgramInfo, name: &str) -> bool {
    let kept = &name.as_bytes()[..name.len().min(15)];
    info.name() == kept
}

const ATTACH: &str = "attach";

fn failed(
    action: &'static str,
    program: &'static str,
    device: &str,
    source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> DataplaneError {
    DataplaneError::Attach { action, program, device: device.to_owned(), source: source.into() }
}
