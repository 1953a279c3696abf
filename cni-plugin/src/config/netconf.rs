//! The configuration as received: every key with its JSON type, nothing interpreted.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::cni::types::Dns;

/// What is wrong with a configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// Not JSON at all.
    #[error("standard input is not a JSON object: {0}")]
    NotJson(#[from] serde_json::Error),
    /// JSON, but a list or a number.
    #[error("standard input is JSON, but not an object")]
    NotAnObject,
    /// A key of the wrong JSON type.
    #[error("the network configuration's key {key:?} is wrong: {source}")]
    Type {
        /// Path of the key.
        key: String,
        /// What was found and expected.
        source: serde_json::Error,
    },
    /// A key with a value that is not allowed.
    #[error("the network configuration's key {key:?} is {value}; allowed is {allowed}")]
    Value {
        /// Path of the key.
        key: &'static str,
        /// Its value, as JSON or in words.
        value: String,
        /// The rule.
        allowed: String,
    },
    /// A key that this build cannot honour.
    #[error("the network configuration's key {key:?} is {value}, which is not supported: {why}")]
    Unsupported {
        /// Path of the key.
        key: &'static str,
        /// Its value.
        value: String,
        /// What is missing.
        why: &'static str,
    },
    /// The protocol version is not one of ours.
    #[error("cniVersion is {0:?}; supported are {list}", list = crate::cni::version::SUPPORTED.join(", "))]
    Version(String),
    /// The `ipam` object.
    #[error(transparent)]
    Ipam(#[from] crate::ipam::ConfigError),
}

impl ConfigError {
    pub(super) fn value(key: &'static str, value: impl ToString, allowed: impl ToString) -> Self {
        Self::Value { key, value: value.to_string(), allowed: allowed.to_string() }
    }
}

/// The keys of the reference `bridge` plugin, and ours.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NetConf {
    pub(crate) cni_version: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) bridge: Option<String>,
    pub(crate) is_gateway: Option<bool>,
    pub(crate) is_default_gateway: Option<bool>,
    pub(crate) force_address: bool,
    pub(crate) ip_masq: Option<bool>,
    pub(crate) ip_masq_backend: Option<String>,
    pub(crate) mtu: Option<i64>,
    pub(crate) hairpin_mode: bool,
    pub(crate) promisc_mode: bool,
    pub(crate) vlan: Option<i64>,
    pub(crate) vlan_trunk: Option<Vec<VlanTrunk>>,
    pub(crate) preserve_default_vlan: Option<bool>,
    pub(crate) macspoofchk: bool,
    pub(crate) enabledad: bool,
    pub(crate) disable_container_interface: bool,
    pub(crate) port_isolation: bool,
    #[serde(rename = "podCIDR")]
    pub(crate) pod_cidr: Option<OneOrMany>,
    pub(crate) node_routes: Vec<NodeRouteConf>,
    pub(crate) ipam: Option<Value>,
    pub(crate) dns: Dns,
    pub(crate) runtime_config: RuntimeConfig,
    pub(crate) args: Args,
    pub(crate) prev_result: Option<Value>,
    pub(crate) ebpf: EbpfConf,
    pub(crate) log_level: Option<String>,
    pub(crate) log_file: Option<String>,
    #[serde(rename = "cni.dev/valid-attachments")]
    pub(crate) valid_attachments: Option<Vec<AttachmentRef>>,
    #[serde(flatten)]
    pub(crate) rest: BTreeMap<String, Value>,
}

/// An element of `vlanTrunk`: one VLAN or a range of them.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(crate) struct VlanTrunk {
    pub(crate) id: Option<i64>,
    #[serde(rename = "minID")]
    pub(crate) min_id: Option<i64>,
    #[serde(rename = "maxID")]
    pub(crate) max_id: Option<i64>,
}

/// `podCIDR`: a range, or one for each family.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged, expecting = "expected a subnet such as \"10.244.1.0/24\", or a list of them")]
pub(crate) enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

/// An element of `nodeRoutes`. All of its keys are ours.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NodeRouteConf {
    #[serde(rename = "podCIDR")]
    pub(crate) pod_cidr: String,
    pub(crate) via: String,
}

/// Values of the declared capabilities.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct RuntimeConfig {
    pub(crate) mac: Option<String>,
    pub(crate) ips: Vec<String>,
    pub(crate) ip_ranges: Option<Value>,
    pub(crate) bandwidth: Option<Bandwidth>,
}

/// The well-known `bandwidth` capability, in bits per second; 0 is no limit.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Bandwidth {
    pub(crate) ingress_rate: u64,
    pub(crate) egress_rate: u64,
}

/// The well-known `args` object.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Args {
    pub(crate) cni: CniArgs,
}

/// `args.cni`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct CniArgs {
    pub(crate) mac: Option<String>,
    pub(crate) ips: Vec<String>,
}

/// Our `ebpf` object. All of its keys are ours, so one we do not know is a mistake.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(crate) struct EbpfConf {
    pub(crate) mode: Option<String>,
    pub(crate) uplinks: Option<Vec<String>>,
    pub(crate) attach: Option<String>,
    pub(crate) renew: Option<String>,
    pub(crate) max_flows: Option<i64>,
    pub(crate) conntrack_liberal: Option<bool>,
    pub(crate) bpffs: Option<String>,
}

/// An element of `cni.dev/valid-attachments`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct AttachmentRef {
    /// `containerID`.
    #[serde(rename = "containerID")]
    pub container_id: String,
    /// `ifname`.
    pub ifname: String,
}

impl NetConf {
    /// Reads the types of the keys.
    ///
    /// # Errors
    /// The first key that is of another type.
    pub fn parse(raw: &Value) -> Result<Self, ConfigError> {
        if !raw.is_object() {
            return Err(ConfigError::NotAnObject);
        }
        serde_path_to_error::deserialize(raw)
            .map_err(|error| ConfigError::Type { key: error.path().to_string(), source: error.into_inner() })
    }

    /// Keys that neither we nor the specification know: mistyped, most likely.
    pub fn unknown_keys(&self) -> impl Iterator<Item = &str> {
        const RESERVED: &[&str] = &["type", "capabilities", "cniVersions", "disableCheck", "disableGC"];
        let known = |key: &str| RESERVED.contains(&key) || key.starts_with("cni.dev/");
        self.rest.keys().map(String::as_str).filter(move |key| !known(key))
    }
}
