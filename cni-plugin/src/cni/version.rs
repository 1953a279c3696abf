//! Protocol versions, and what the VERSION verb answers.

use serde_json::{Value, json};

use super::request::Verb;

/// Versions we speak, oldest first.
pub const SUPPORTED: &[&str] = &["0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"];

/// What a configuration without `cniVersion` is written in.
pub const UNSTATED: &str = "0.1.0";

/// The version used in errors when the request's own is unknown.
pub const NEWEST: &str = "1.1.0";

/// The layout of a result. Its numbers grow with the versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Layout {
    /// 0.1.0 and 0.2.0: one address per family, as `ip4` and `ip6`.
    PerFamily,
    /// 0.3.0 to 0.4.0: lists, and every address says its family as `version`.
    Lists,
    /// 1.0.0: the family is in the address.
    Plain,
    /// 1.1.0: interfaces have an `mtu`.
    WithMtu,
}

impl Layout {
    /// The layout of a version's results; that of the newest for a version we do not know.
    pub fn of(version: &str) -> Self {
        match version {
            "0.1.0" | "0.2.0" => Self::PerFamily,
            "0.3.0" | "0.3.1" | "0.4.0" => Self::Lists,
            "1.0.0" => Self::Plain,
            _ => Self::WithMtu,
        }
    }
}

/// The VERSION result (specification, section "VERSION: probe plugin version support").
pub fn version_result(requested: Option<&str>) -> Value {
    json!({ "cniVersion": requested.unwrap_or(NEWEST), "supportedVersions": SUPPORTED })
}

/// Whether a verb exists in a protocol version: CHECK came with 0.4.0, GC and STATUS with 1.1.0.
pub fn has_verb(version: &str, verb: Verb) -> bool {
    match verb {
        Verb::Add | Verb::Del | Verb::Version => true,
        Verb::Check => matches!(version, "0.4.0" | "1.0.0" | "1.1.0"),
        Verb::Gc | Verb::Status => version == "1.1.0",
    }
}
