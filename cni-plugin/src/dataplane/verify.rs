//! What CHECK wants to know of an accelerated pod.

use std::{fmt, path::PathBuf};

use super::{
    Program,
    attach::{self, Device},
    error::DataplaneError,
    pins::Pins,
    uplinks,
};
use crate::{
    config::EbpfConfig,
    host::LinuxHost,
    plan::{Side, Sysctl},
};

/// One thing that a pod needs to be accelerated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Missing {
    /// Nothing is pinned under this BPF file system.
    Pins(PathBuf),
    /// A program is not on a device.
    Program(Program, String),
    /// conntrack's window tracking is not liberal; its sysctl's value.
    Liberal(String),
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pins(bpffs) => write!(f, "no eBPF programs are pinned under {}", bpffs.display()),
            Self::Program(program, device) => {
                write!(f, "the program {} is not attached to {device}", program.name())
            }
            Self::Liberal(value) => write!(f, "{} is {value}, not 1", Sysctl::ConntrackLiberal),
        }
    }
}

/// What is missing for the pod with this host veth to be accelerated.
///
/// # Errors
/// If the devices cannot be looked at.
pub fn missing(config: &EbpfConfig, host: &LinuxHost, veth: &str) -> Result<Vec<Missing>, DataplaneError> {
    let pins = Pins::under(&config.bpffs);
    if !pins.exist() {
        return Ok(vec![Missing::Pins(config.bpffs.clone())]);
    }
    let mut missing = on_device(&pins, host, veth, [Program::Ingress, Program::EgressPod])?;
    for uplink in uplinks::names(config.uplinks.as_deref(), host)? {
        missing.extend(on_device(&pins, host, &uplink, uplinks::PROGRAMS)?);
    }
    // With conntrackLiberal false, TCP is left to the kernel, as the configuration wants it.
    if config.conntrack_liberal {
        let read = host.sysctls().read(&Sysctl::ConntrackLiberal).unwrap_or_default();
        // No conntrack, no windows.
        let strict = read.filter(|value| value != "1");
        missing.extend(strict.map(Missing::Liberal));
    }
    Ok(missing)
}

fn on_device(
    pins: &Pins,
    host: &LinuxHost,
    name: &str,
    programs: [Program; 2],
) -> Result<Vec<Missing>, DataplaneError> {
    // That the device itself is there is for others to say.
    let Some(link) = host.link(Side::Node, name)?.filter(|link| link.mac.is_some()) else {
        return Ok(Vec::new());
    };
    let attached = attach::attached(pins, host, Device { name, index: link.index });
    let lacks = |program: &Program| !attached.iter().any(|(found, _)| found == program);
    let lacking = programs.into_iter().filter(lacks);
    Ok(lacking.map(|program| Missing::Program(program, name.to_owned())).collect())
}
