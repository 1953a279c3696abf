//! Protocol versions, and what the VERSION verb answers.

use serde_json::{Value, json};

use super::request::Verb;

/// Versions we speak, oldest first.
pub const SUPPORTED: &[&str] = &["1.0.0", "1.1.0"];

/// The version used in errors when the request's own is unknown.
pub const NEWEST: &str = "1.1.0";

/// The VERSION result (specification, section "VERSION: probe plugin version support").
pub fn version_result(requested: Option<&str>) -> Value {
    json!({ "cniVersion": requested.unwrap_or(NEWEST), "supportedVersions": SUPPORTED })
}

/// Whether a verb exists in a protocol version: GC and STATUS came with 1.1.0.
pub fn has_verb(version: &str, verb: Verb) -> bool {
    match verb {
        Verb::Gc | Verb::Status => version == "1.1.0",
        Verb::Add | Verb::Del | Verb::Check | Verb::Version => true,
    }
}
