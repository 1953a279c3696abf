//! The configuration as meant: typed, defaulted and validated.

use std::{
    net::IpAddr,
    path::{Path, PathBuf},
};

use serde_json::Value;

use super::{
    asked,
    ebpf::EbpfConfig,
    netconf::{ConfigError, NetConf},
    pod_cidr::{self, NodeRoute},
    vlan::{self, Vlans},
};
use crate::{
    cni::{
        request::{self, Environment, Verb, is_name, is_plain_absolute},
        types::Dns,
        version::{SUPPORTED, UNSTATED},
    },
    ipam::HostLocalConfig,
};

/// What address the bridge has, and what the pods make of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Gateway {
    /// No address on the bridge.
    None,
    /// The bridge has the gateway's address (`isGateway`).
    Address,
    /// And the pods' default route goes there (`isDefaultGateway`).
    DefaultRoute,
}

/// Where addresses come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ipam {
    /// No IPAM: an interface without addresses.
    None,
    /// Built in.
    HostLocal(HostLocalConfig),
    /// Another plugin, executed.
    Exec {
        /// `ipam.type`.
        plugin: String,
    },
}

/// Who keeps the masquerade rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MasqueradeBackend {
    /// nf_tables, over netlink.
    Nftables,
    /// The iptables programs.
    Iptables,
}

/// Where and how much to log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogConfig {
    /// `logLevel`.
    pub level: log::LevelFilter,
    /// `logFile`; stderr without one.
    pub file: Option<PathBuf>,
    /// `captureDir`; nothing is captured without one.
    pub captures: Option<PathBuf>,
}

/// A network, ready to be worked with.
#[derive(Debug, Clone)]
pub struct Network {
    /// Protocol version of the request.
    pub cni_version: String,
    /// Name of the network, safe as a path component.
    pub name: String,
    /// Name of the bridge.
    pub bridge: String,
    /// See [`Gateway`].
    pub gateway: Gateway,
    /// Replace a conflicting address on the bridge.
    pub force_address: bool,
    /// Masquerade what leaves the network.
    pub ip_masq: bool,
    /// See [`MasqueradeBackend`].
    pub masquerade_backend: MasqueradeBackend,
    /// MTU of bridge and veth in bytes; `None` leaves the kernel's default.
    pub mtu: Option<u32>,
    /// Let a pod reach itself through the bridge.
    pub hairpin: bool,
    /// Bridge in promiscuous mode.
    pub promiscuous: bool,
    /// VLANs of the pod's port; `None` leaves VLANs alone.
    pub vlans: Option<Vlans>,
    /// The link of the node that has the gateway's address inside the pod's own VLAN, named as in the reference;
    /// `None` where the bridge has it, or nobody.
    pub vlan_gateway: Option<String>,
    /// Drop what a pod sends from another MAC than its own.
    pub mac_spoof_check: bool,
    /// Let the pod's IPv6 addresses pass duplicate address detection (RFC 4862, 5.4) before they are used.
    pub detect_duplicates: bool,
    /// Leave the pod's interface down.
    pub container_interface_down: bool,
    /// Keep the pod from other isolated ports of the bridge.
    pub isolated: bool,
    /// The ways to other nodes' pods.
    pub node_routes: Vec<NodeRoute>,
    /// MAC asked for the pod's interface.
    pub mac: Option<[u8; 6]>,
    /// Addresses asked for.
    pub requested_ips: Vec<IpAddr>,
    /// See [`Ipam`].
    pub ipam: Ipam,
    /// Name resolution to report.
    pub dns: Dns,
    /// True when the pod is given a bandwidth limit, which a fast path would jump over.
    pub bandwidth_limited: bool,
    /// The `ebpf` object.
    pub ebpf: EbpfConfig,
    /// `cni.dev/valid-attachments`, for GC. A missing list is not an empty one.
    pub valid_attachments: Option<Vec<super::AttachmentRef>>,
    /// `CNI_PATH`, where an executed IPAM plugin is found.
    pub cni_path: Vec<PathBuf>,
    /// The configuration as received, for an executed IPAM plugin.
    pub raw: Value,
}

impl Network {
    /// The link of the node that has the gateway's address, if anything has it.
    pub fn gateway_link(&self) -> &str {
        self.vlan_gateway.as_ref().unwrap_or(&self.bridge)
    }

    /// Validates a configuration as received.
    ///
    /// # Errors
    /// The first key that is wrong, with its value and what is allowed.
    pub fn validate(mut conf: NetConf, raw: Value, environment: &Environment) -> Result<Self, ConfigError> {
        let cni_version = version(&conf)?;
        let name = conf.name.clone().unwrap_or_default();
        if !is_name(&name) || name.len() > 200 {
            let allowed = "a letter or digit, then letters, digits, '_', '.' and '-', at most 200 characters";
            return Err(ConfigError::value("name", format!("{name:?}"), allowed));
        }
        pod_cidr::expand(&mut conf)?;
        let ipam = ipam(&conf)?;
        refuse_contradictions(&conf, &ipam)?;
        let (vlans, gateway) = (vlan::vlans(&conf)?, gateway(&conf));
        let bridge = bridge(&conf)?;
        let vlan_gateway = vlan_gateway(&bridge, vlans.as_ref(), gateway)?;
        Ok(Self {
            bridge,
            vlan_gateway,
            mtu: mtu(conf.mtu)?,
            mac: asked::mac(&conf, environment)?,
            requested_ips: asked::ips(&conf, environment)?,
            ipam,
            gateway,
            vlans,
            node_routes: pod_cidr::node_routes(&conf.node_routes)?,
            masquerade_backend: masquerade_backend(&conf)?,
            ebpf: EbpfConfig::validate(&conf.ebpf)?,
            bandwidth_limited: conf
                .runtime_config
                .bandwidth
                .as_ref()
                .is_some_and(|limit| limit.ingress_rate != 0 || limit.egress_rate != 0),
            cni_version,
            name,
            force_address: conf.force_address,
            ip_masq: conf.ip_masq.unwrap_or(false),
            mac_spoof_check: conf.macspoofchk,
            detect_duplicates: conf.enabledad,
            container_interface_down: conf.disable_container_interface,
            isolated: conf.port_isolation,
            hairpin: conf.hairpin_mode,
            promiscuous: conf.promisc_mode,
            dns: conf.dns,
            valid_attachments: conf.valid_attachments,
            cni_path: environment.path.clone(),
            raw,
        })
    }

    /// Reads a configuration that no runtime is calling with: one on file, or that of an earlier call.
    ///
    /// # Errors
    /// The first key that is wrong, with its value and what is allowed.
    pub fn read(raw: Value) -> Result<Self, ConfigError> {
        let nobody = Environment {
            verb: Verb::Status,
            attachment: None,
            netns: None,
            args: Vec::new(),
            path: Vec::new(),
            trace: None,
        };
        let conf = NetConf::parse(&raw)?;
        LogConfig::validate(&conf)?;
        Self::validate(conf, raw, &nobody)
    }
}

impl LogConfig {
    /// Reads only the log keys, so that an error in any other key can be logged.
    ///
    /// # Errors
    /// The one that is wrong.
    pub fn validate(conf: &NetConf) -> Result<Self, ConfigError> {
        let level = match conf.log_level.as_deref() {
            None => log::LevelFilter::Info,
            Some(text) => text.parse().map_err(|_| {
                ConfigError::value("logLevel", format!("{text:?}"), "off, error, warn, info, debug or trace")
            })?,
        };
        let file = place("logFile", conf.log_file.as_deref())?;
        Ok(Self { level, file, captures: capture_dir(conf.capture_dir.as_deref())? })
    }
}

/// `captureDir`, as a path. The configuration as a whole may be one that is refused.
pub(crate) fn capture_dir(value: Option<&str>) -> Result<Option<PathBuf>, ConfigError> {
    place("captureDir", value)
}

/// Where to write something, if it is to be written.
fn place(key: &'static str, value: Option<&str>) -> Result<Option<PathBuf>, ConfigError> {
    match value {
        None | Some("") => Ok(None),
        Some(path) if is_plain_absolute(Path::new(path)) => Ok(Some(PathBuf::from(path))),
        Some(path) => Err(ConfigError::value(key, format!("{path:?}"), "an absolute path without '..'")),
    }
}

/// The protocol version of the request. Without one the specification's oldest is meant, which we do not speak.
fn version(conf: &NetConf) -> Result<String, ConfigError> {
    let version = conf.cni_version.as_deref().unwrap_or(UNSTATED);
    if SUPPORTED.contains(&version) {
        return Ok(version.to_owned());
    }
    Err(ConfigError::Version(version.to_owned()))
}

/// Keys that exclude each other, as in the reference.
fn refuse_contradictions(conf: &NetConf, ipam: &Ipam) -> Result<(), ConfigError> {
    if conf.hairpin_mode && conf.promisc_mode {
        return Err(ConfigError::value("promiscMode", true, "false when hairpinMode is true"));
    }
    if conf.disable_container_interface && *ipam != Ipam::None {
        return Err(ConfigError::value("disableContainerInterface", true, "false when ipam is given"));
    }
    Ok(())
}

fn vlan_gateway(
    bridge: &str,
    vlans: Option<&Vlans>,
    gateway: Gateway,
) -> Result<Option<String>, ConfigError> {
    let Some(vlan) = vlans.and_then(|vlans| vlans.access) else { return Ok(None) };
    if gateway == Gateway::None {
        return Ok(None);
    }
    let name = format!("{bridge}.{vlan}");
    if is_ifname(&name) {
        return Ok(Some(name));
    }
    let allowed =
        format!("short enough that {name}, which has the gateway's address, is at most 15 characters");
    Err(ConfigError::value("bridge", format!("{bridge:?}"), allowed))
}

fn gateway(conf: &NetConf) -> Gateway {
    match (conf.is_default_gateway, conf.is_gateway) {
        (Some(true), _) => Gateway::DefaultRoute,
        (_, Some(true)) => Gateway::Address,
        _ => Gateway::None,
    }
}

fn masquerade_backend(conf: &NetConf) -> Result<MasqueradeBackend, ConfigError> {
    match conf.ip_masq_backend.as_deref() {
        None | Some("" | "nftables") => Ok(MasqueradeBackend::Nftables),
        Some("iptables") => Ok(MasqueradeBackend::Iptables),
        Some(other) => Err(ConfigError::value("ipMasqBackend", format!("{other:?}"), "nftables or iptables")),
    }
}

fn bridge(conf: &NetConf) -> Result<String, ConfigError> {
    let name = conf.bridge.clone().unwrap_or_else(|| "cni0".to_owned());
    if is_ifname(&name) {
        return Ok(name);
    }
    Err(ConfigError::value(
        "bridge",
        format!("{name:?}"),
        "1 to 15 letters, digits, '_', '.' and '-', and not 'all' or 'default'",
    ))
}

/// Interface names we make or open on the node: stricter than for the pod's.
pub(super) fn is_ifname(name: &str) -> bool {
    request::is_ifname(name)
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-'))
}

fn mtu(mtu: Option<i64>) -> Result<Option<u32>, ConfigError> {
    match mtu {
        None | Some(0) => Ok(None),
        // ETH_MIN_MTU and ETH_MAX_MTU of linux/if_ether.h.
        Some(mtu @ 68..=65535) => Ok(Some(mtu as u32)),
        Some(other) => Err(ConfigError::value("mtu", other, "68 to 65535 bytes, or 0 for the default")),
    }
}

fn ipam(conf: &NetConf) -> Result<Ipam, ConfigError> {
    let Some(ipam) = conf.ipam.as_ref().filter(|ipam| !ipam.is_null()) else { return Ok(Ipam::None) };
    let kind = match (ipam, ipam.get("type")) {
        (Value::Object(_), None | Some(Value::Null)) => "",
        (Value::Object(_), Some(Value::String(kind))) => kind,
        (Value::Object(_), Some(other)) => {
            return Err(ConfigError::value("ipam.type", other, "the file name of an IPAM plugin"));
        }
        (other, _) => return Err(ConfigError::value("ipam", other, "an object")),
    };
    match kind {
        "" => Ok(Ipam::None),
        "host-local" => {
            Ok(Ipam::HostLocal(HostLocalConfig::parse(ipam, conf.runtime_config.ip_ranges.as_ref())?))
        }
        // The name becomes a file name under CNI_PATH (NAME_MAX of linux/limits.h).
        plugin if is_name(plugin) && plugin.len() <= 255 => Ok(Ipam::Exec { plugin: plugin.to_owned() }),
        other => {
            Err(ConfigError::value("ipam.type", format!("{other:?}"), "the file name of an IPAM plugin"))
        }
    }
}
