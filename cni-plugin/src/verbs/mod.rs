//! The CNI verbs, each a story of its own.

mod add;
mod check;
mod del;
mod earlier;
mod error;
mod gc;
mod lease;
mod leftovers;
mod repair;
mod status;

pub use check::Difference;
pub use error::VerbError;
pub use leftovers::{Leftover, leftovers};
pub use repair::Attached;

use serde_json::Value;

use crate::{
    cni::{
        delegate::DelegateError,
        error::{CniError, Code},
        request::{Environment, Verb},
        version,
    },
    config::{ConfigError, LogConfig, NetConf, Network},
    logging,
};

/// What a call prints: exactly one of these becomes one JSON document, or nothing for verbs without a result.
pub type Answer = Result<Option<Value>, CniError>;

/// Serves one call.
pub fn serve(variable: impl Fn(&str) -> Option<String>, stdin: &[u8]) -> Answer {
    run(variable, stdin).map_err(|error| {
        log::error!("{error:#}");
        tell(&error, stdin)
    })
}

/// The error document of a failed call with this standard input.
pub fn tell(error: &VerbError, stdin: &[u8]) -> CniError {
    let mut details = format!("call {}; see the log lines with this id", logging::call_id());
    let mut code = error.code() as u32;
    if let VerbError::Delegate(DelegateError::Refused { plugin, code: theirs, details: more, .. }) = error {
        code = *theirs;
        details = format!("from the IPAM plugin {plugin}: {more}; {details}");
    }
    let msg = logging::one_line(&error.to_string());
    CniError { cni_version: requested_version(stdin), code, msg, details }
}

fn run(variable: impl Fn(&str) -> Option<String>, stdin: &[u8]) -> Result<Option<Value>, VerbError> {
    let environment = Environment::read(variable)?;
    let raw: Result<Value, _> = serde_json::from_slice(stdin);
    if environment.verb == Verb::Version {
        let stated = raw.as_ref().ok().and_then(|raw| raw.get("cniVersion")?.as_str());
        return Ok(Some(version::version_result(stated)));
    }
    let raw = raw.map_err(ConfigError::from)?;
    let conf = NetConf::parse(&raw)?;
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
        Verb::Check => check::check(&network, &environment).map(|()| None),
        Verb::Version => Ok(None),
    }
}

/// The version that errors are told in: the configuration's, whatever else is wrong with it, or our newest.
pub fn requested_version(stdin: &[u8]) -> String {
    let stated = match serde_json::from_slice::<Value>(stdin) {
        Ok(Value::Object(mut keys)) => keys.remove("cniVersion"),
        _ => Some(Value::Null),
    };
    match stated {
        None => version::UNSTATED.to_owned(),
        Some(stated) => stated.as_str().unwrap_or(version::NEWEST).to_owned(),
    }
}

impl VerbError {
    /// The one place that knows which failure has which code.
    pub fn code(&self) -> Code {
        match self {
            Self::Request(_) | Self::Missing(_) => Code::InvalidEnvironment,
            Self::Config(error) => error.code(),
            Self::NoSuchVerb { .. } => Code::IncompatibleVersion,
            Self::Netns(error) => error.code(),
            Self::Exists { .. } | Self::Conflict(_) => Code::InvalidConfig,
            Self::Ipam(error) => lease::code(error),
            Self::Delegate(_) | Self::Answer { .. } => Code::Ipam,
            Self::NoPreviousResult => Code::InvalidConfig,
            Self::NotAttached { .. } | Self::NoConfiguration => Code::UnknownContainer,
            Self::Differs(_) => Code::CheckFailed,
            Self::Host(_) | Self::Masquerade(_) | Self::Iptables(_) => Code::Kernel,
            Self::Ebpf(_) | Self::TearDown(_) => Code::Ebpf,
            Self::Full { .. } => Code::NotAvailable,
            Self::State(_) | Self::Log { .. } | Self::Encode(_) => Code::Io,
            Self::Several(errors) => errors.first().map_or(Code::Io, Self::code),
        }
    }
}
