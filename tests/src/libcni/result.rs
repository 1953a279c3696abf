//! What ADD answers, in the layout of versions 0.3.0 to 1.1.0.

use std::net::IpAddr;

use anyhow::{Context, Result};
use ipnetwork::IpNetwork;
use serde::Deserialize;
use serde_json::Value;

/// The success result of ADD. Members the specification does not name are refused.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AddResult {
    /// The version of the configuration.
    pub cni_version: String,
    /// The interfaces made, on the host and in the container.
    #[serde(default)]
    pub interfaces: Vec<Interface>,
    /// The addresses given.
    #[serde(default)]
    pub ips: Vec<IpConfig>,
    /// The routes made.
    #[serde(default)]
    pub routes: Vec<Route>,
    /// Name servers and the like, as given.
    #[serde(default)]
    pub dns: Value,
}

/// An interface of the result.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its hardware address.
    pub mac: Option<String>,
    /// Its MTU in bytes (1.1.0).
    pub mtu: Option<u64>,
    /// The container's namespace, for an interface that is in one.
    pub sandbox: Option<String>,
}

/// An address of the result.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct IpConfig {
    /// 4 or 6, before 1.0.0.
    pub version: Option<String>,
    /// With its prefix length.
    pub address: IpNetwork,
    /// The default gateway of the subnet.
    pub gateway: Option<IpAddr>,
    /// Index in [`AddResult::interfaces`].
    pub interface: Option<usize>,
}

/// A route of the result.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Route {
    /// Where to.
    pub dst: IpNetwork,
    /// Through whom.
    pub gw: Option<IpAddr>,
    /// Of this path, in bytes (1.1.0).
    pub mtu: Option<u32>,
    /// Largest TCP segment to ask for, in bytes (1.1.0).
    pub advmss: Option<u32>,
    /// Lower is preferred (1.1.0).
    pub priority: Option<u32>,
    /// Routing table (1.1.0).
    pub table: Option<u32>,
    /// As in rtnetlink(7) (1.1.0).
    pub scope: Option<u32>,
}

impl AddResult {
    /// Reads a result document.
    pub fn parse(document: &Value) -> Result<AddResult> {
        AddResult::deserialize(document)
            .with_context(|| format!("not a result of CNI 0.3.0 or newer: {document}"))
    }

    /// The first address.
    pub fn address(&self) -> Result<IpAddr> {
        Ok(self.ips.first().context("no address in the result")?.address.ip())
    }

    /// The interface in the container.
    pub fn inside(&self) -> Result<&Interface> {
        self.interfaces
            .iter()
            .find(|i| i.sandbox.is_some())
            .context("no interface with a sandbox in the result")
    }

    /// The host's end of the pair: the last interface before the pod's. Bridges come first, gateways inside VLANs last.
    pub fn veth(&self) -> Result<&Interface> {
        let on_host = self.interfaces.iter().take_while(|i| i.sandbox.is_none());
        on_host.last().context("no interface of the host in the result")
    }
}
