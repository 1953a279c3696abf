//! The `ebpf` object, validated.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use super::netconf::{ConfigError, EbpfConf};
use crate::cni::request::is_plain_absolute;

/// What to do when eBPF cannot be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Log why and let the pod run on the bridge path.
    Auto,
    /// Fail the ADD.
    Required,
    /// Do not try.
    Off,
}

/// How programs are attached to pods' host veths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attach {
    /// clsact, which costs no RCU grace period.
    Auto,
    /// TCX links (kernel 6.6).
    Tcx,
    /// clsact filters.
    Clsact,
}

/// The `ebpf` object, with its defaults.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EbpfConfig {
    /// See [`Mode`].
    pub mode: Mode,
    /// Uplinks; `None` means the devices that carry a default route.
    pub uplinks: Option<Vec<String>>,
    /// See [`Attach`].
    pub attach: Attach,
    /// How long a learned flow is repeated.
    pub renew: Duration,
    /// Size of each flow map.
    pub max_flows: u32,
    /// Whether to set `nf_conntrack_tcp_be_liberal`.
    pub conntrack_liberal: bool,
    /// Mount point of the BPF file system.
    pub bpffs: PathBuf,
}

impl EbpfConfig {
    pub(super) fn validate(conf: &EbpfConf) -> Result<Self, ConfigError> {
        Ok(Self {
            mode: match conf.mode.as_deref() {
                None | Some("auto") => Mode::Auto,
                Some("required") => Mode::Required,
                Some("off") => Mode::Off,
                Some(other) => {
                    return Err(ConfigError::value("ebpf.mode", quoted(other), "auto, required or off"));
                }
            },
            uplinks: conf.uplinks.as_ref().map(|names| uplinks(names)).transpose()?,
            attach: match conf.attach.as_deref() {
                None | Some("auto") => Attach::Auto,
                Some("tcx") => Attach::Tcx,
                Some("clsact") => Attach::Clsact,
                Some(other) => {
                    return Err(ConfigError::value("ebpf.attach", quoted(other), "auto, tcx or clsact"));
                }
            },
            renew: conf.renew.as_deref().map_or(Ok(Duration::from_secs(1)), renew)?,
            max_flows: match conf.max_flows {
                None => 262_144,
                Some(count @ 1_024..=16_777_216) => count as u32,
                Some(other) => {
                    return Err(ConfigError::value("ebpf.maxFlows", other, "1024 to 16777216"));
                }
            },
            conntrack_liberal: conf.conntrack_liberal.unwrap_or(true),
            bpffs: bpffs(conf.bpffs.as_deref().unwrap_or("/sys/fs/bpf"))?,
        })
    }
}

fn quoted(text: &str) -> String {
    format!("{text:?}")
}

fn uplinks(names: &[String]) -> Result<Vec<String>, ConfigError> {
    for name in names {
        if !super::network::is_ifname(name) {
            return Err(ConfigError::value("ebpf.uplinks", quoted(name), "a list of interface names"));
        }
    }
    Ok(names.to_vec())
}

/// `250ms` or `1s`, from 10 ms to 60 s.
fn renew(text: &str) -> Result<Duration, ConfigError> {
    let parsed = if let Some(number) = text.strip_suffix("ms") {
        number.parse().ok().map(Duration::from_millis)
    } else {
        text.strip_suffix('s').and_then(|number| number.parse().ok()).map(Duration::from_secs)
    };
    parsed
        .filter(|duration| (Duration::from_millis(10)..=Duration::from_secs(60)).contains(duration))
        .ok_or_else(|| ConfigError::value("ebpf.renew", quoted(text), "\"10ms\" to \"60s\""))
}

fn bpffs(text: &str) -> Result<PathBuf, ConfigError> {
    if is_plain_absolute(Path::new(text)) {
        return Ok(PathBuf::from(text));
    }
    Err(ConfigError::value("ebpf.bpffs", quoted(text), "an absolute path without '..'"))
}
