//! The result types of the CNI specification, sections "Success" and "Shared types" of version 1.1.0.
//!
//! One set of types serves every protocol version; [`super::layout`] writes and reads the layout of each.

use std::net::IpAddr;

use ipnetwork::IpNetwork;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What an ADD reports, and what the runtime passes back as `prevResult`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CniResult {
    /// The protocol version the result is written in.
    #[serde(default)]
    pub cni_version: String,
    /// Interfaces made by this attachment; `Ip::interface` indexes into it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interfaces: Vec<Interface>,
    /// Addresses assigned by this attachment.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ips: Vec<Ip>,
    /// Routes made by this attachment.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<Route>,
    /// Name resolution for the container.
    #[serde(default, skip_serializing_if = "Dns::is_empty")]
    pub dns: Dns,
}

/// One interface made by an attachment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Interface {
    /// Name inside its namespace.
    pub name: String,
    /// Hardware address, colon separated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac: Option<String>,
    /// Maximum transmission unit in bytes (CNI 1.1.0).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u32>,
    /// Path of the namespace for container interfaces, absent for host interfaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<String>,
}

/// One address assigned by an attachment or leased by an IPAM plugin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ip {
    /// Index into `CniResult::interfaces`; absent in an IPAM result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<usize>,
    /// Address with the prefix length of its subnet.
    pub address: IpNetwork,
    /// Gateway of that subnet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<IpAddr>,
}

/// One route, as configured, leased or made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Route {
    /// Destination network.
    #[schemars(with = "String")]
    pub dst: IpNetwork,
    /// Next hop; without one the subnet's gateway is meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gw: Option<IpAddr>,
    /// Path MTU in bytes (CNI 1.1.0).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u32>,
    /// Maximal TCP segment size to advertise, bytes (CNI 1.1.0).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advmss: Option<u32>,
    /// Metric, lower is preferred (CNI 1.1.0).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<u32>,
    /// Routing table number (CNI 1.1.0).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<u32>,
    /// Scope as in rtnetlink: 0 universe, 253 link, 254 host (CNI 1.1.0).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<u8>,
}

impl Route {
    /// A route through a gateway, without attributes of its own.
    pub fn via(dst: IpNetwork, gw: IpAddr) -> Self {
        Self { dst, gw: Some(gw), mtu: None, advmss: None, priority: None, table: None, scope: None }
    }

    /// A route that says nothing but where to.
    pub fn to(dst: IpNetwork) -> Self {
        Self { dst, gw: None, mtu: None, advmss: None, priority: None, table: None, scope: None }
    }
}

/// Name resolution, the well-known `dns` key.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Dns {
    /// Addresses of name servers, in order of preference.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nameservers: Vec<String>,
    /// Local domain for short names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// Search domains, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub search: Vec<String>,
    /// Resolver options.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
}

impl Dns {
    /// True when no key is set.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
