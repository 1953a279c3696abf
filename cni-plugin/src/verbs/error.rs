//! What can go wrong in a verb, and its code.

use std::{io, path::PathBuf};

use crate::{
    cni::{
        delegate::DelegateError,
        error::Code,
        request::{RequestError, Verb},
    },
    config::ConfigError,
    dataplane::DataplaneError,
    host::{HostError, NetnsError, iptables::IptablesError, nft::NftError},
    ipam::IpamError,
    plan::PlanError,
    state::StateError,
};

/// Why a verb failed.
#[derive(Debug, thiserror::Error)]
pub enum VerbError {
    /// The environment is wrong.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// A variable that this verb needs is not set.
    #[error("the environment variable {0} is not set")]
    Missing(&'static str),
    /// The configuration is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The protocol version lacks the verb.
    #[error("{} is not part of CNI {version}", .verb.name())]
    NoSuchVerb {
        /// The verb.
        verb: Verb,
        /// The version.
        version: String,
    },
    /// The namespace cannot be used.
    #[error(transparent)]
    Netns(#[from] NetnsError),
    /// The interface is there already.
    #[error("CNI_IFNAME is {ifname:?}, but the container has an interface of that name already")]
    Exists {
        /// Its name.
        ifname: String,
    },
    /// What is on the node is in the way.
    #[error(transparent)]
    Conflict(#[from] PlanError),
    /// The built-in IPAM failed.
    #[error(transparent)]
    Ipam(#[from] IpamError),
    /// An executed IPAM plugin failed.
    #[error(transparent)]
    Delegate(#[from] DelegateError),
    /// An executed IPAM plugin leased what we do not understand.
    #[error("the IPAM plugin {plugin:?} answered with a result that is wrong: {source}")]
    Answer {
        /// Its name.
        plugin: String,
        /// What is wrong.
        source: serde_json::Error,
    },
    /// CHECK without the result of the ADD.
    #[error(
        "the network configuration's key \"prevResult\" is missing; CHECK compares with the result of the ADD"
    )]
    NoPreviousResult,
    /// CHECK of what is not there.
    #[error("container {container_id} has no attachment {ifname} to network {network} on this node")]
    NotAttached {
        /// The network.
        network: String,
        /// The container.
        container_id: String,
        /// The interface.
        ifname: String,
    },
    /// The record does not say by which configuration the attachment was made.
    #[error("its record is of an earlier build and keeps no configuration; delete the pod and make it anew")]
    NoConfiguration,
    /// CHECK found something missing or changed.
    #[error("not as ADD left it: {}", .0.join("; "))]
    Differs(Vec<String>),
    /// The kernel refused.
    #[error(transparent)]
    Host(#[from] HostError),
    /// nf_tables refused.
    #[error(transparent)]
    Masquerade(#[from] NftError),
    /// iptables refused.
    #[error(transparent)]
    Iptables(#[from] IptablesError),
    /// eBPF is required and cannot be had.
    #[error("ebpf.mode is \"required\", but {0}")]
    Ebpf(#[from] DataplaneError),
    /// eBPF could not be taken away.
    #[error("{0}")]
    TearDown(DataplaneError),
    /// STATUS: no address is left.
    #[error("no address is left in {pool}: {used} are leased")]
    Full {
        /// The range, as first-last.
        pool: String,
        /// Leases in it.
        used: u128,
    },
    /// The records failed.
    #[error(transparent)]
    State(#[from] StateError),
    /// The log file cannot be used.
    #[error("logFile is {path:?}, which cannot be opened: {source}")]
    Log {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The result cannot be written.
    #[error("cannot encode the result: {0}")]
    Encode(#[from] serde_json::Error),
    /// Teardown went on after a failure; these are all of them.
    #[error("{}", join(.0))]
    Several(Vec<VerbError>),
}

fn join(errors: &[VerbError]) -> String {
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

impl VerbError {
    /// All failures of a teardown as one, or success if there were none.
    pub(super) fn all(mut errors: Vec<Self>) -> Result<(), Self> {
        match errors.len() {
            0 => Ok(()),
            1 => Err(errors.remove(0)),
            _ => Err(Self::Several(errors)),
        }
    }
}

impl ConfigError {
    pub(super) fn code(&self) -> Code {
        match self {
            Self::NotJson(_) | Self::NotAnObject => Code::Decode,
            Self::Version(_) => Code::IncompatibleVersion,
            Self::Unsupported { .. } => Code::UnsupportedField,
            Self::Type { .. } | Self::Value { .. } | Self::Ipam(_) => Code::InvalidConfig,
        }
    }
}

impl NetnsError {
    pub(super) fn code(&self) -> Code {
        match self {
            Self::Open { .. } => Code::UnknownContainer,
            Self::NotANamespace(_) => Code::InvalidEnvironment,
            Self::IsTheHosts(_) => Code::InvalidNetns,
        }
    }
}
