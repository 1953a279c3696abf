//! CHECK: is everything that ADD made still there? Compares, and changes nothing.

use std::{fmt, net::IpAddr};

use super::{VerbError, lease};
use crate::{
    cni::{
        layout,
        request::{Environment, Verb},
        types::CniResult,
    },
    config::{ConfigError, Mode, Network},
    dataplane::{self, Missing},
    host::{LinuxHost, Netns},
    plan::{self, Expectation},
    state::{Record, Records, STATE_DIR},
};

/// One thing that is not as ADD left it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Difference {
    /// In the kernel: what was expected, and what is there.
    Kernel(Expectation, String),
    /// Of the fast path.
    Programs(Missing),
    /// An address that is not leased to the attachment.
    Lease(IpAddr),
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kernel(expected, found) => write!(f, "expected {expected}, found: {found}"),
            Self::Programs(missing) => missing.fmt(f),
            Self::Lease(ip) => write!(f, "{ip} is not leased to it"),
        }
    }
}

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
    let mut told = plan::lost(&record, &previous);
    told.extend(differences(network, &record, &previous, &mut host)?.iter().map(ToString::to_string));
    lease::forward(network, Verb::Check)?;
    if told.is_empty() { Ok(()) } else { Err(VerbError::Differs(told)) }
}

/// What is not as the ADD of an attachment left it.
pub(super) fn differences(
    network: &Network,
    record: &Record,
    previous: &CniResult,
    host: &mut LinuxHost,
) -> Result<Vec<Difference>, VerbError> {
    let mut differences = Vec::new();
    for expected in plan::check(network, record, previous)? {
        let found = host.verify(&expected)?;
        differences.extend(found.map(|found| Difference::Kernel(expected, found)));
    }
    differences.extend(acceleration(network, record, host)?.into_iter().map(Difference::Programs));
    differences.extend(lease::lost(network, record)?.into_iter().map(Difference::Lease));
    Ok(differences)
}

/// The result the runtime has kept, in which later plugins may have added things.
fn previous(network: &Network) -> Result<CniResult, VerbError> {
    let previous = network.raw.get("prevResult").filter(|previous| !previous.is_null());
    let previous = previous.ok_or(VerbError::NoPreviousResult)?;
    let wrong = |source| ConfigError::Type { key: "prevResult".into(), source };
    Ok(layout::decode(previous).map_err(wrong)?)
}

/// What is missing of the programs, unless the ADD has done without.
fn acceleration(network: &Network, record: &Record, host: &LinuxHost) -> Result<Vec<Missing>, VerbError> {
    if network.ebpf.mode == Mode::Off || record.not_accelerated.is_some() {
        return Ok(Vec::new());
    }
    Ok(dataplane::missing(&network.ebpf, host, &record.veth)?)
}
