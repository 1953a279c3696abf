//! `on`, `off`, `forget`: the cell that the programs read on every packet.

use std::path::Path;

use serde_json::json;

use super::{Report, SCHEMA_VERSION};
use crate::dataplane::{self, Pins};

/// What to do to the running programs.
#[derive(Clone, Copy)]
pub(super) enum Control {
    On,
    Off,
    Forget,
}

pub(super) fn control(bpffs: &Path, control: Control) -> anyhow::Result<Report> {
    let pins = Pins::under(bpffs);
    anyhow::ensure!(pins.exist(), "the eBPF programs are not loaded: no pod of this node is accelerated");
    let config = dataplane::control(&pins, |config| match control {
        Control::On => config.enabled = 1,
        Control::Off => config.enabled = 0,
        Control::Forget => config.epoch = config.epoch.wrapping_add(1),
    })?;
    let table = match control {
        Control::On => "on: established flows take the fast path\n",
        Control::Off => "off: every packet takes the bridge path, until `ebpf-bridge on`\n",
        Control::Forget => "forgotten: every flow is learned anew from its next packet\n",
    };
    let json =
        json!({ "schemaVersion": SCHEMA_VERSION, "enabled": config.enabled != 0, "epoch": config.epoch });
    Ok(Report { json, table: table.to_owned() })
}
