//! CHECK: is everything that ADD made still there? Compares, and changes nothing.

use super::{VerbError, lease};
use crate::{
    cni::{layout, request::Environment, types::CniResult},
    config::{ConfigError, Mode, Network},
    dataplane,
    host::{LinuxHost, Netns},
    plan,
    state::{Record, Records, STATE_DIR},
};

/// Serves a CHECK.
pub(super) fn check(network: &Network, environment: &Environment) -> Result<(), VerbError> {
    let attachment = environment.attachment.as_ref().ok_or(VerbError::Missing("CNI_CONTAINERID"))?;
    let netns = environment.netns.as_deref().ok_or(VerbError::Missing("CNI_NETNS"))?;
    let previous = previous(network)?;
    let mut host = LinuxHost::open(Some(Netns::open(netns)?))?;
    let record = Records::at(STATE_DIR).read(&network.name, attachment)?;
    let record = record.ok_or_else(|| VerbError::NotAttached {
        network: network.name.clone(),
        container_id: attachment.container_id.clone(),
        ifname: attachment.ifname.clone(),
    })?;
    let mut differences = plan::lost(&record, &previous);
    for expected in plan::check(network, &record, &previous)? {
        let found = host.verify(&expected)?;
        differences.extend(found.map(|found| format!("expected {expected}, found: {found}")));
    }
    differences.extend(acceleration(network, &record, &host)?);
    differences.extend(lease::check(network, &record)?);
    if differences.is_empty() { Ok(()) } else { Err(VerbError::Differs(differences)) }
}

/// The result the runtime has kept, in which later plugins may have added things.
fn previous(network: &Network) -> Result<CniResult, VerbError> {
    let previous = network.raw.get("prevResult").filter(|previous| !previous.is_null());
    let previous = previous.ok_or(VerbError::NoPreviousResult)?;
    let wrong = |source| ConfigError::Type { key: "prevResult".into(), source };
    Ok(layout::decode(previous).map_err(wrong)?)
}

/// What is missing of the programs, unless the ADD has done without.
fn acceleration(network: &Network, record: &Record, host: &LinuxHost) -> Result<Vec<String>, VerbError> {
    if network.ebpf.mode == Mode::Off || record.not_accelerated.is_some() {
        return Ok(Vec::new());
    }
    Ok(dataplane::missing(&network.ebpf, host, &record.veth)?)
}
