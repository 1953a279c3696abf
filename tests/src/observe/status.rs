//! What the plugin says it has wired, through `ebpf-bridge status`.

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::{Node, plugin};

/// The plugin's own view of a node.
#[derive(Debug, Clone, Deserialize)]
pub struct Status {
    /// The devices with programs.
    pub devices: Vec<Device>,
    /// The pods wired.
    pub pods: Vec<PodStatus>,
}

/// A device with programs.
#[derive(Debug, Clone, Deserialize)]
pub struct Device {
    /// Its name.
    pub ifname: String,
    /// Its index.
    pub ifindex: u32,
    /// `pod` or `uplink`.
    pub kind: String,
    /// `clsact` or `tcx`.
    pub attach: String,
    /// `flow_ingress` and `flow_egress`.
    pub programs: Vec<String>,
}

/// A pod the plugin wired.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodStatus {
    /// The network's name.
    pub network: String,
    /// As the runtime named it.
    pub container_id: String,
    /// The interface in the pod.
    pub ifname: String,
    /// The host's end of the pair.
    pub veth: String,
    /// With prefix lengths.
    pub addresses: Vec<String>,
    /// Whether its flows may take the fast path.
    pub accelerated: bool,
    /// Why not, if not.
    pub why: String,
}

impl Status {
    /// Asks the plugin on `node`.
    pub fn read(node: &Node) -> Result<Status> {
        let json = node.call_json(&format!("{} status -o json", plugin::path()?.display()))?;
        ensure!(json["schemaVersion"] == 1, "`status` answers in another schema: {json}");
        Status::deserialize(&json).with_context(|| format!("`status` answers in another layout: {json}"))
    }
}
