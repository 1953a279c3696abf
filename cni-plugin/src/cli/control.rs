//! `on`, `off`, `forget`, `redirect`: the cell that the programs read on every packet.

use std::path::Path;

use clap::ValueEnum;
use ebpf_bridge_common::wire::CONFIG_PLAIN;
use serde_json::json;

use super::{Report, SCHEMA_VERSION, node::loaded};
use crate::dataplane;

/// What to do to the running programs.
#[derive(Clone, Copy)]
pub(super) enum Control {
    On,
    Off,
    Forget,
    Redirect(Rung),
}

/// How packets get into a pod.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Rung {
    /// Straight into its namespace (`bpf_redirect_peer`)
    Peer,
    /// By the host end of its veth (`bpf_redirect`), which cannot reorder
    Plain,
}

pub(super) fn control(bpffs: &Path, control: Control) -> anyhow::Result<Report> {
    let pins = loaded(bpffs)?;
    let config = dataplane::control(&pins, |config| match control {
        Control::On => config.enabled = 1,
        Control::Off => config.enabled = 0,
        Control::Forget => config.epoch = config.epoch.wrapping_add(1),
        Control::Redirect(Rung::Peer) => config.flags &= !CONFIG_PLAIN,
        Control::Redirect(Rung::Plain) => config.flags |= CONFIG_PLAIN,
    })?;
    let table = match control {
        Control::On => "on: established flows take the fast path\n",
        Control::Off => "off: every packet takes the bridge path, until `ebpf-bridge on`\n",
        Control::Forget => "forgotten: every flow is learned anew from its next packet\n",
        Control::Redirect(Rung::Peer) => "peer: packets go straight into the pod\n",
        Control::Redirect(Rung::Plain) => "plain: packets go by the host end of the pod's veth\n",
    };
    let json =
        json!({ "schemaVersion": SCHEMA_VERSION, "enabled": config.enabled != 0, "epoch": config.epoch });
    Ok(Report { json, table: table.to_owned() })
}
