//! The error document of the CNI specification, section "Error".

use serde::Serialize;

/// Error codes: 1 to 7, 11, 50 and 51 are the specification's, those from 100 on are ours.
///
/// The numbers are part of the protocol and are never given a new meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Code {
    /// The protocol version asked for is not supported, or lacks the verb.
    IncompatibleVersion = 1,
    /// A key of the network configuration is not supported.
    UnsupportedField = 2,
    /// The container does not exist (any more).
    UnknownContainer = 3,
    /// A required environment variable is missing or invalid.
    InvalidEnvironment = 4,
    /// Input or output failed.
    Io = 5,
    /// Standard input is not the JSON it should be.
    Decode = 6,
    /// The network configuration is invalid.
    InvalidConfig = 7,
    /// `CNI_NETNS` is the host's own namespace.
    InvalidNetns = 8,
    /// Try again later.
    TryAgain = 11,
    /// STATUS: no further pod can be added.
    NotAvailable = 50,
    /// STATUS: not available, and existing pods may be limited.
    LimitedConnectivity = 51,
    /// Every address of the network is leased.
    RangeFull = 100,
    /// The kernel refused a step; the message names step and errno.
    Kernel = 101,
    /// eBPF is required by the configuration and could not be set up.
    Ebpf = 102,
    /// The IPAM plugin could not be executed or answered nonsense.
    Ipam = 103,
    /// CHECK found something missing or changed.
    CheckFailed = 104,
    /// A defect of the plugin.
    Internal = 105,
}

/// An error as the runtime gets it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CniError {
    /// Protocol version of the request, or our newest when it could not be read.
    pub cni_version: String,
    /// Numeric code, see [`Code`].
    pub code: u32,
    /// One sentence that names the key or variable, the value and what is allowed.
    pub msg: String,
    /// The id of the call, which its log lines carry too, and the chain of causes.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub details: String,
}
