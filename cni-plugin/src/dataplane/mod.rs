//! The eBPF side: programs and maps loaded once per node and pinned, attached to pods' veths and uplinks.
//!
//! Nothing here may break a pod. Whoever calls decides, by `ebpf.mode`, what a failure means.

mod attach;
mod bpffs;
mod conntrack;
mod error;
mod flows;
mod leftovers;
mod load;
mod maps;
mod object;
mod pins;
mod replace;
mod uplinks;
mod verify;

use std::path::Path;

use ebpf_bridge_common::wire::{CONFIG_PLAIN, CONFIG_TCP, Config};

use attach::Device;

pub use attach::Attached;
pub use bpffs::is_mounted;
pub use error::{Cause, DataplaneError};
pub use flows::{Learned, flows};
pub use leftovers::{leftover_pins, remove_pin};
pub use load::Program;
pub use maps::Counters;
pub use object::{BUILD, OBJECT};
pub use pins::Pins;
pub use verify::{Missing, missing};

use crate::{config::EbpfConfig, host::LinuxHost};

/// How often another build may replace our programs while one ADD attaches them; during an upgrade two take turns.
const REPLACED: u32 = 10;

/// Accelerates a pod: loads what is not loaded, attaches to the uplinks what is not attached, and attaches to
/// the pod's host veth.
///
/// # Errors
/// The first thing that failed. The veth's filters go with the veth; what is pinned is for the other pods too.
pub fn accelerate(config: &EbpfConfig, host: &LinuxHost, veth: &str) -> Result<(), DataplaneError> {
    bpffs::ensure_mounted(&config.bpffs)?;
    let pins = Pins::under(&config.bpffs);
    for _ in 0..REPLACED {
        load::ensure_loaded(&pins, host, config.max_flows)?;
        match attach(&pins, config, host, veth) {
            Err(error) if !pins.are_ours() => log::info!("once more, another build came by: {error}"),
            outcome => return outcome,
        }
    }
    attach(&pins, config, host, veth)
}

/// Attaches what is loaded.
fn attach(pins: &Pins, config: &EbpfConfig, host: &LinuxHost, veth: &str) -> Result<(), DataplaneError> {
    configure(pins, config, host)?;
    uplinks::attach(pins, config.uplinks.as_deref(), host)?;
    let index = host.node().index(veth)?;
    attach::pod(pins, host, Device { name: veth, index }, config.attach)
}

/// Takes our filters off a veth again, after an attach that failed half-way.
pub fn leave(host: &LinuxHost, veth: &str) {
    let Ok(Some(link)) = host.node().link(veth) else { return };
    for program in [Program::Ingress, Program::EgressPod] {
        if let Err(error) = attach::remove_clsact(host, Device { name: veth, index: link.index }, program) {
            log::warn!("{error}");
        }
    }
}

/// Our programs on a device, and how they are attached.
pub fn attached(pins: &Pins, host: &LinuxHost, name: &str, index: u32) -> Vec<(Program, Attached)> {
    attach::attached(pins, host, Device { name, index })
}

/// Names of others' programs on a device, with their hooks.
pub fn foreign(pins: &Pins, host: &LinuxHost, name: &str, index: u32) -> Vec<String> {
    attach::foreign(pins, host, Device { name, index })
}

/// Counters of this node; `None` if nothing is loaded.
pub fn counters(pins: &Pins) -> Result<Option<Counters>, DataplaneError> {
    if pins.exist() { maps::counters(pins).map(Some) } else { Ok(None) }
}

/// Takes away everything eBPF on the node. Call it only when no pod is left.
///
/// # Errors
/// What could not be removed; the rest has been.
pub fn tear_down(bpffs: &Path, host: &LinuxHost) -> Vec<DataplaneError> {
    let pins = Pins::under(bpffs);
    let mut errors = uplinks::detach(&pins, host);
    errors.extend(pins.remove().err());
    errors
}

/// The kernel's id of a loaded program.
pub fn program_id(pins: &Pins, program: Program) -> Result<u32, DataplaneError> {
    program.id(pins)
}

/// The node's configuration cell; `None` if nothing is loaded.
pub fn settings(pins: &Pins) -> Result<Option<Config>, DataplaneError> {
    if pins.exist() { maps::config(pins).and_then(|map| maps::read(&map)).map(Some) } else { Ok(None) }
}

/// Changes the node's configuration cell and returns what it has become. Takes effect with the next packet.
pub fn control(pins: &Pins, change: impl FnOnce(&mut Config)) -> Result<Config, DataplaneError> {
    let mut map = maps::config(pins)?;
    // The cell is read and written as a whole: without the lock the last to write would undo the others' changes.
    let _lock = pins.lock()?;
    let mut config = maps::read(&map)?;
    change(&mut config);
    maps::write(&mut map, config)?;
    Ok(config)
}

/// Writes the node's configuration cell if it has changed. The kill switch and the epoch are the operator's.
fn configure(pins: &Pins, config: &EbpfConfig, host: &LinuxHost) -> Result<(), DataplaneError> {
    let tcp = conntrack::prepare(host.sysctls(), config.conntrack_liberal);
    if let Err(why) = &tcp {
        log::warn!("TCP is not accelerated: {why}");
    }
    let mut map = maps::config(pins)?;
    let _lock = pins.lock()?;
    let old = maps::read(&map)?;
    let new = Config {
        renew_ns: config.renew.as_nanos() as u64,
        events_until_ns: old.events_until_ns,
        enabled: if old.renew_ns == 0 { 1 } else { old.enabled },
        epoch: old.epoch,
        flags: old.flags & CONFIG_PLAIN | if tcp.is_ok() { CONFIG_TCP } else { 0 },
        padding: 0,
    };
    if new == old { Ok(()) } else { maps::write(&mut map, new) }
}
