//! Conntrack's window tracking, which sees only one packet per second of a fast flow and must not mind.

use crate::{host::sysctl, plan::Sysctl};

/// Makes the tracking liberal if `set` says so.
///
/// # Errors
/// In words, why TCP may not be accelerated.
pub(super) fn is_liberal(set: bool) -> Result<(), String> {
    let key = Sysctl::ConntrackLiberal;
    let name = "net.netfilter.nf_conntrack_tcp_be_liberal";
    if set && let Err(error) = sysctl::write(&key, "1") {
        return Err(format!("{name} cannot be set: {error}"));
    }
    match sysctl::read(&key) {
        // No conntrack, no windows. An ADD after conntrack has been loaded looks again.
        Ok(None) => Ok(()),
        Ok(Some(value)) if value == "1" => Ok(()),
        Ok(Some(value)) => Err(format!("{name} is {value} and ebpf.conntrackLiberal is false")),
        Err(error) => Err(format!("{name} cannot be read: {error}")),
    }
}
