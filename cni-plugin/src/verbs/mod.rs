//! The CNI verbs, each a story of its own.

mod add;
mod del;
mod error;
mod gc;
mod lease;
mod status;

pub use error::VerbError;

use serde_json::Value;

use crate::{
    cni::{
        error::{CniError, Code},
        request::{Environment, Verb},
        version,
    },
    config::{LogConfig, NetConf, Network},
    logging,
};

/// What a call prints: exactly one of these becomes one JSON document, or nothing for verbs without a result.
pub type Answer = Result<Option<Value>, CniError>;

/// Serves one call.
pub fn serve(variable: impl Fn(&str) -> Option<String>, stdin: &[u8]) -> Answer {
    let call = logging::call_id();
    let mut version = version::NEWEST.to_owned();
    run(variable, stdin, &mut version).map_err(|error| {
        log::error!("{error:#}");
        let details = format!("call {call}; see the log lines with this id");
        CniError { cni_version: version, code: error.code() as u32, msg: error.to_string(), details }
    })
}

fn run(
    variable: impl Fn(&str) -> Option<String>,
    stdin: &[u8],
    version: &mut String,
) -> Result<Option<Value>, VerbError> {
    let environment = Environment::read(variable)?;
    if environment.verb == Verb::Version {
        let requested: Option<Value> = serde_json::from_slice(stdin).ok();
        let requested = requested.as_ref().and_then(|conf| conf.get("cniVersion")?.as_str());
        return Ok(Some(version::version_result(requested)));
    }
    let (conf, raw) = NetConf::parse(stdin)?;
    if let Some(asked) = conf.cni_version.as_deref() {
        *version = asked.to_owned();
    }
    logging::start(&LogConfig::validate(&conf)?, &environment)?;
    for key in conf.unknown_keys() {
        log::warn!("the network configuration's key {key:?} is not known and has no effect");
    }
    let network = Network::validate(conf, raw, &environment)?;
    if !version::has_verb(&network.cni_version, environment.verb) {
        return Err(VerbError::NoSuchVerb { verb: environment.verb, version: network.cni_version });
    }
    match environment.verb {
        Verb::Add => add::add(&network, &environment).map(Some),
        Verb::Del => del::del(&network, &environment).map(|()| None),
        Verb::Gc => gc::gc(&network).map(|()| None),
        Verb::Status => status::status(&network).map(|()| None),
        Verb::Check => Err(VerbError::NotImplemented(environment.verb)),
        Verb::Version => Ok(None),
    }
}

impl VerbError {
    /// The one place that knows which failure has which code.
    pub fn code(&self) -> Code {
        match self {
            Self::Request(_) | Self::Missing(_) => Code::InvalidEnvironment,
            Self::Config(error) => error.code(),
            Self::NoSuchVerb { .. } => Code::IncompatibleVersion,
            Self::NotImplemented(_) => Code::InvalidEnvironment,
            Self::Netns(error) => error.code(),
            Self::Exists { .. } | Self::Conflict(_) => Code::InvalidConfig,
            Self::Ipam(error) => lease::code(error),
            Self::NoIpamPlugin { .. } => Code::Ipam,
            Self::Host(_) | Self::Masquerade(_) | Self::Iptables(_) => Code::Kernel,
            Self::Ebpf(_) | Self::TearDown(_) => Code::Ebpf,
            Self::Full { .. } => Code::NotAvailable,
            Self::State(_) | Self::Log { .. } | Self::Encode(_) => Code::Io,
            Self::Several(errors) => errors.first().map_or(Code::Io, Self::code),
        }
    }
}
