//! What the plugin says it has wired, through `ebpf-bridge status` and `ls`.

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::json;

use crate::{Node, operator::operate};

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
        // Whether the node is healthy is for others to ask.
        let devices = operate(node, "status -o json")?.json()?["devices"].take();
        let pods = operate(node, "ls -o json")?.json()?["pods"].take();
        let both = json!({"devices": devices, "pods": pods});
        Status::deserialize(&both)
            .with_context(|| format!("`status` and `ls` answer in another layout: {both}"))
    }
}
