//! What CHECK wants to know of an accelerated pod.

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

/// What is missing for the pod with this host veth to be accelerated, in words.
///
/// # Errors
/// If the devices cannot be looked at.
pub fn missing(config: &EbpfConfig, host: &LinuxHost, veth: &str) -> Result<Vec<String>, DataplaneError> {
    let pins = Pins::under(&config.bpffs);
    if !pins.exist() {
        return Ok(vec![format!("no eBPF programs are pinned under {}", config.bpffs.display())]);
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
        missing.extend(strict.map(|value| format!("{} is {value}, not 1", Sysctl::ConntrackLiberal)));
    }
    Ok(missing)
}

fn on_device(
    pins: &Pins,
    host: &LinuxHost,
    name: &str,
    programs: [Program; 2],
) -> Result<Vec<String>, DataplaneError> {
    // That the device itself is there is for others to say.
    let Some(link) = host.link(Side::Node, name)?.filter(|link| link.mac.is_some()) else {
        return Ok(Vec::new());
    };
    let attached = attach::attached(pins, host, Device { name, index: link.index });
    let lacks = |program: &Program| !attached.iter().any(|(found, _)| found == program);
    let lacking = programs.into_iter().filter(lacks);
    Ok(lacking.map(|program| format!("the program {} is not attached to {name}", program.name())).collect())
}
