//! Conntrack sees one packet per second and direction of a fast TCP flow, and must not draw conclusions from that.
//!
//! - Its window tracking would find the packets it sees out of window, hence invalid: it must be liberal.
//! - The last data it sees is acknowledged by a packet it does not see. It would give an idle flow up after
//!   `timeout_unacknowledged` (300 s), and what the far end then sends first would be lost: that timeout must not be
//!   shorter than the one of established flows.

use crate::{
    host::sysctl::{self, Sysctls},
    plan::Sysctl,
};

/// Prepares conntrack for fast TCP flows if `set` says so, and tells whether it is prepared.
///
/// # Errors
/// In words, why TCP may not be accelerated.
pub(super) fn prepare(sysctls: &Sysctls, set: bool) -> Result<(), String> {
    liberal(sysctls, set)?;
    if set && let Err(why) = patient(sysctls) {
        log::warn!("idle TCP flows may be forgotten early: {why}");
    }
    Ok(())
}

fn liberal(sysctls: &Sysctls, set: bool) -> Result<(), String> {
    let key = Sysctl::ConntrackLiberal;
    let name = sysctl::path(&key).display().to_string();
    if set {
        let written = sysctls.write(&key, "1");
        return written.map(drop).map_err(|error| format!("{name} cannot be set: {error}"));
    }
    match sysctls.read(&key) {
        // No conntrack, no windows. An ADD after conntrack has been loaded looks again.
        Ok(None) => Ok(()),
        Ok(Some(value)) if value == "1" => Ok(()),
        Ok(Some(value)) => Err(format!("{name} is {value} and ebpf.conntrackLiberal is false")),
        Err(error) => Err(format!("{name} cannot be read: {error}")),
    }
}

/// Raises `timeout_unacknowledged` to `timeout_established`; never lowers it.
fn patient(sysctls: &Sysctls) -> Result<(), String> {
    let seconds = |key: &Sysctl| -> Result<Option<u64>, String> {
        let text = sysctls.read(key).map_err(|error| format!("{}: {error}", sysctl::path(key).display()))?;
        Ok(text.and_then(|text| text.parse().ok()))
    };
    let key = Sysctl::ConntrackUnacknowledged;
    match (seconds(&key)?, seconds(&Sysctl::ConntrackEstablished)?) {
        (Some(now), Some(established)) if now < established => {
            let written = sysctls.write(&key, &established.to_string());
            written.map(drop).map_err(|error| format!("{}: {error}", sysctl::path(&key).display()))
        }
        _ => Ok(()),
    }
}
