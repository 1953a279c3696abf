//! The configuration as received: every key with its JSON type, nothing interpreted.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::{
    cni::{types::Dns, version::SUPPORTED},
    ipam::{IpamSpec, RangeSpec},
};

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

/// The keys of the reference `bridge` plugin, and ours. What is said here is also the configuration's schema and its
/// reference for users, see [`super::schema`].
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NetConf {
    /// Version of the CNI specification. In a list the runtime takes it from the list.
    #[schemars(extend("enum" = SUPPORTED))]
    pub(crate) cni_version: Option<String>,
    /// Name of the network: a letter or digit, then letters, digits, `_`, `.` and `-`. In a list the runtime takes it
    /// from the list.
    #[schemars(extend("pattern" = "^[A-Za-z0-9][A-Za-z0-9_.-]*$", "maxLength" = 200))]
    pub(crate) name: Option<String>,
    /// Name of the bridge. It is made by the first pod's ADD.
    #[schemars(extend("default" = "cni0", "pattern" = "^[A-Za-z0-9_.-]{1,15}$"))]
    pub(crate) bridge: Option<String>,
    /// Give the bridge the gateway's address.
    #[schemars(extend("default" = false))]
    pub(crate) is_gateway: Option<bool>,
    /// And make it the pods' default route. Implies `isGateway`. With `podCIDR` the default is true.
    #[schemars(extend("default" = false))]
    pub(crate) is_default_gateway: Option<bool>,
    /// Replace another address of the bridge by the gateway's, instead of failing.
    #[schemars(extend("default" = false))]
    pub(crate) force_address: bool,
    /// Masquerade what leaves the network. With `podCIDR` the default is true.
    #[schemars(extend("default" = false))]
    pub(crate) ip_masq: Option<bool>,
    /// Who keeps the masquerade rules: `nftables` needs no program, `iptables` executes iptables(8).
    #[schemars(extend("enum" = ["nftables", "iptables"], "default" = "nftables"))]
    pub(crate) ip_masq_backend: Option<String>,
    /// MTU of veth and bridge in bytes, from 68 on; 0 joins the MTU of a bridge that exists, or leaves the kernel's.
    #[schemars(extend("minimum" = 0, "maximum" = 65535, "default" = 0))]
    pub(crate) mtu: Option<i64>,
    /// Let a pod reach itself by way of the bridge, as it does through a Service. Not together with `promiscMode`.
    #[schemars(extend("default" = false))]
    pub(crate) hairpin_mode: bool,
    /// Put the bridge in promiscuous mode.
    #[schemars(extend("default" = false))]
    pub(crate) promisc_mode: bool,
    /// VLAN of the pod's port, untagged in the pod; 0 is none. A gateway is on a link inside it, such as `br0.100`.
    #[schemars(extend("minimum" = 0, "maximum" = 4094, "default" = 0))]
    pub(crate) vlan: Option<i64>,
    /// VLANs that reach the pod with their tags.
    pub(crate) vlan_trunk: Option<Vec<VlanTrunk>>,
    /// Leave the port in the bridge's default VLAN beside `vlan` and `vlanTrunk`.
    #[schemars(extend("default" = true))]
    pub(crate) preserve_default_vlan: Option<bool>,
    /// Drop what a pod sends from another MAC than its own.
    #[schemars(extend("default" = false))]
    pub(crate) macspoofchk: bool,
    /// Let the pod's IPv6 addresses pass duplicate address detection before they are used.
    #[schemars(extend("default" = false))]
    pub(crate) enabledad: bool,
    /// Leave the pod's interface down. Not together with `ipam`.
    #[schemars(extend("default" = false))]
    pub(crate) disable_container_interface: bool,
    /// Keep the pod from the other isolated ports of the bridge.
    #[schemars(extend("default" = false))]
    pub(crate) port_isolation: bool,
    /// The pods' subnet, or a list of one for each family. Stands for `isDefaultGateway`, `ipMasq` and `ipam` of type
    /// `host-local`. Not together with `ipam`.
    #[serde(rename = "podCIDR")]
    pub(crate) pod_cidr: Option<OneOrMany>,
    /// Ways to other nodes' pods, unmasqueraded and accelerated; at most 32 of a family. They stay when the last pod goes, until `ebpf-bridge uninstall`.
    pub(crate) node_routes: Vec<NodeRouteConf>,
    /// Where addresses come from. The type `host-local` is built in, any other is executed from `CNI_PATH` with the whole
    /// configuration. Without it the interface gets no address.
    #[schemars(with = "Option<IpamSpec>")]
    pub(crate) ipam: Option<Value>,
    /// Name resolution to report to the runtime.
    pub(crate) dns: Dns,
    /// What the runtime asks for one pod, for the capabilities that the list declares.
    pub(crate) runtime_config: RuntimeConfig,
    /// What an orchestrator asks for one pod.
    pub(crate) args: Args,
    /// Result of the ADD, or of the plugin before. The runtime sets it.
    #[schemars(with = "Option<BTreeMap<String, Value>>")]
    pub(crate) prev_result: Option<Value>,
    /// The fast path.
    pub(crate) ebpf: EbpfConf,
    /// How much to log.
    #[schemars(extend("enum" = ["off", "error", "warn", "info", "debug", "trace"], "default" = "info"))]
    pub(crate) log_level: Option<String>,
    /// Absolute path of the file to log to; at 8 MiB it is put aside as `.1`. Without it the log goes to standard error, which the runtime may keep.
    pub(crate) log_file: Option<String>,
    /// Absolute path of a directory, to keep what goes in and out of each call for `ebpf-bridge replay`; for root alone, the
    /// newest 256 calls. Secrets of an IPAM plugin's configuration are among it.
    pub(crate) capture_dir: Option<String>,
    /// Attachments that a GC is to keep. The runtime sets it.
    #[serde(rename = "cni.dev/valid-attachments")]
    pub(crate) valid_attachments: Option<Vec<AttachmentRef>>,
    #[serde(flatten)]
    #[schemars(skip)]
    pub(crate) rest: BTreeMap<String, Value>,
}

/// An element of `vlanTrunk`: one VLAN or a range of them.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(crate) struct VlanTrunk {
    /// One VLAN.
    #[schemars(extend("minimum" = 1, "maximum" = 4094))]
    pub(crate) id: Option<i64>,
    /// The first of a range.
    #[serde(rename = "minID")]
    #[schemars(extend("minimum" = 1, "maximum" = 4094))]
    pub(crate) min_id: Option<i64>,
    /// The last of it.
    #[serde(rename = "maxID")]
    #[schemars(extend("minimum" = 1, "maximum" = 4094))]
    pub(crate) max_id: Option<i64>,
}

/// `podCIDR`: a range, or one for each family.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "expected a subnet such as \"10.244.1.0/24\", or a list of them")]
pub(crate) enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

/// An element of `nodeRoutes`. All of its keys are ours.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NodeRouteConf {
    /// The other node's pods.
    #[serde(rename = "podCIDR")]
    pub(crate) pod_cidr: String,
    /// The other node's address, of the same family.
    pub(crate) via: String,
}

/// Values of the declared capabilities.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct RuntimeConfig {
    /// MAC of the pod's interface (capability `mac`).
    pub(crate) mac: Option<String>,
    /// Addresses of the pod (capability `ips`).
    pub(crate) ips: Vec<String>,
    /// Ranges before those of `ipam.ranges`, of the same form (capability `ipRanges`).
    #[schemars(with = "Option<Vec<Vec<RangeSpec>>>")]
    pub(crate) ip_ranges: Option<Value>,
    /// Limits of the pod (capability `bandwidth`). A pod with a limit is not accelerated.
    pub(crate) bandwidth: Option<Bandwidth>,
}

/// The well-known `bandwidth` capability, in bits per second; 0 is no limit. containerd writes the keys as its Go
/// structure has them (go-cni, `BandWidth`), as it does those of `ipRanges`.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Bandwidth {
    /// Towards the pod, bits per second; 0 is no limit.
    #[serde(alias = "IngressRate")]
    #[schemars(extend("default" = 0))]
    pub(crate) ingress_rate: u64,
    /// From the pod, bits per second; 0 is no limit.
    #[serde(alias = "EgressRate")]
    #[schemars(extend("default" = 0))]
    pub(crate) egress_rate: u64,
}

/// The well-known `args` object.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct Args {
    /// The specification's own arguments.
    pub(crate) cni: CniArgs,
}

/// `args.cni`.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct CniArgs {
    /// MAC of the pod's interface.
    pub(crate) mac: Option<String>,
    /// Addresses of the pod.
    pub(crate) ips: Vec<String>,
}

/// Our `ebpf` object. All of its keys are ours, so one we do not know is a mistake.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(crate) struct EbpfConf {
    /// `auto`: if anything about eBPF fails, say why and use the bridge path. `required`: fail the ADD. `off`: do not try.
    #[schemars(extend("enum" = ["auto", "required", "off"], "default" = "auto"))]
    pub(crate) mode: Option<String>,
    /// Devices where flows leave the node. Without it, those with a default route.
    pub(crate) uplinks: Option<Vec<String>>,
    /// How the programs are attached to pods' veths; `auto` is `clsact`.
    #[schemars(extend("enum" = ["auto", "tcx", "clsact"], "default" = "auto"))]
    pub(crate) attach: Option<String>,
    /// How long a flow is carried before the kernel is asked again, from 10ms to 60s.
    #[schemars(extend("pattern" = "^[0-9]+(ms|s)$", "default" = "1s"))]
    pub(crate) renew: Option<String>,
    /// Flows remembered, per address family. Counts when the programs are loaded, by the node's first pod.
    #[schemars(extend("minimum" = 1024, "maximum" = 16_777_216, "default" = 262_144))]
    pub(crate) max_flows: Option<i64>,
    /// Set `net.netfilter.nf_conntrack_tcp_be_liberal`, without which TCP is not accelerated.
    #[schemars(extend("default" = true))]
    pub(crate) conntrack_liberal: Option<bool>,
    /// Where the BPF file system is; it is mounted there if it is not.
    #[schemars(extend("default" = "/sys/fs/bpf"))]
    pub(crate) bpffs: Option<String>,
}

/// An element of `cni.dev/valid-attachments`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
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
