//! One attachment's record.

use std::{net::IpAddr, path::PathBuf};

use ipnetwork::IpNetwork;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::cni::{
    request::Attachment,
    types::{CniResult, Interface, Ip, Route},
};

/// Where an attachment's addresses came from, so that they can be given back when the configuration has
/// changed since.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "type")]
pub enum LeaseSource {
    /// No IPAM.
    None,
    /// The built-in host-local.
    HostLocal {
        /// Its `dataDir`.
        data_dir: PathBuf,
    },
    /// An executed plugin.
    Exec {
        /// Its name.
        plugin: String,
        /// The `ipam` object it leased by.
        ipam: Value,
    },
}

/// An attachment, as made or about to be made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// Name of the network.
    pub network: String,
    /// `CNI_CONTAINERID`.
    pub container_id: String,
    /// `CNI_IFNAME`.
    pub ifname: String,
    /// `CNI_NETNS` of the ADD.
    pub netns: PathBuf,
    /// Name of the bridge.
    pub bridge: String,
    /// Host end of the veth.
    pub veth: String,
    /// Addresses; empty until leased.
    pub addresses: Vec<IpNetwork>,
    /// Gateways of the addresses.
    #[serde(default)]
    pub gateways: Vec<IpAddr>,
    /// Routes made in the pod.
    #[serde(default)]
    pub routes: Vec<Route>,
    /// The configuration of the ADD as it was received, without `prevResult`; null in records of earlier builds.
    #[serde(default)]
    pub conf: Value,
    /// See [`LeaseSource`].
    pub lease: LeaseSource,
    /// Mount point of the BPF file system, if programs may have been pinned there.
    pub bpffs: Option<PathBuf>,
    /// There may be masquerade rules of iptables.
    #[serde(default)]
    pub iptables: bool,
    /// Why the pod is not accelerated; `None` if it is, or if the ADD is not finished.
    pub not_accelerated: Option<String>,
    /// True once the ADD has done everything; false while it is under way, or when it was cut short.
    #[serde(default)]
    pub complete: bool,
    /// Kubernetes namespace and pod name, from `CNI_ARGS`.
    pub pod: Option<(String, String)>,
    /// Start of the ADD, seconds since the Unix epoch.
    pub created: u64,
}

impl Record {
    /// Whose record it is.
    pub fn attachment(&self) -> Attachment {
        Attachment { container_id: self.container_id.clone(), ifname: self.ifname.clone() }
    }

    /// The result of the ADD as far as the record knows it: links without MAC and MTU.
    pub fn result(&self) -> CniResult {
        let interface = |name: &str, sandbox: Option<&PathBuf>| Interface {
            name: name.to_owned(),
            mac: None,
            mtu: None,
            sandbox: sandbox.map(|path| path.to_string_lossy().into_owned()),
        };
        let ip = |address: &IpNetwork| Ip {
            interface: Some(2),
            address: *address,
            gateway: self.gateways.iter().copied().find(|gateway| address.contains(*gateway)),
        };
        CniResult {
            interfaces: vec![
                interface(&self.bridge, None),
                interface(&self.veth, None),
                interface(&self.ifname, Some(&self.netns)),
            ],
            ips: self.addresses.iter().map(ip).collect(),
            routes: self.routes.clone(),
            ..CniResult::default()
        }
    }

    /// The addresses without their prefix lengths.
    pub fn ips(&self) -> Vec<IpAddr> {
        self.addresses.iter().map(IpNetwork::ip).collect()
    }
}
