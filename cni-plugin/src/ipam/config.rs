//! The `ipam` object of type host-local: as received, and as meant.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use thiserror::Error;

use super::range::{Range, RangeError, RangeSpec};
use super::set::{RangeSet, SetError};
use crate::cni::{request::is_plain_absolute, types::Route};

#[cfg(test)]
mod tests;

/// Where leases live unless `dataDir` says otherwise; the reference's directory, so either finds the other's.
pub const DEFAULT_DATA_DIR: &str = "/var/lib/cni/networks";

/// Why an `ipam` object is refused.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// A value of the wrong JSON type.
    #[error("{key} is {value}, but must be {allowed}")]
    WrongType {
        /// Path of the key.
        key: String,
        /// The value as received, in JSON.
        value: String,
        /// The type that is allowed.
        allowed: &'static str,
        /// What the decoder said.
        source: serde_json::Error,
    },
    /// No range at all.
    #[error("ipam.ranges holds no range, but must hold one, or ipam.subnet be set")]
    NoRanges,
    /// A single range is wrong.
    #[error(transparent)]
    Range(#[from] RangeError),
    /// The ranges do not fit together.
    #[error(transparent)]
    Set(#[from] SetError),
    /// A path that could lead anywhere.
    #[error("{key} is {value:?}, but must be an absolute path without \"..\"")]
    Path {
        /// Path of the key.
        key: &'static str,
        /// The value as received.
        value: PathBuf,
    },
}

/// A validated host-local configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostLocalConfig {
    /// One address is leased from each set. Never empty, and no address is in two sets.
    pub ranges: Vec<RangeSet>,
    /// Routes to report, in the order of the configuration.
    pub routes: Vec<Route>,
    /// Resolver configuration to report, if any.
    pub resolv_conf: Option<PathBuf>,
    /// Directory with one directory of leases per network.
    pub data_dir: PathBuf,
}

/// The keys we read; others are tolerated, since `ipam` belongs to whichever plugin reads it.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Spec {
    /// `host-local`, which is built in and has the keys below, or the name of another IPAM plugin.
    #[serde(rename = "type")]
    #[schemars(with = "String")]
    _type: Value,
    /// Sets of ranges; a pod gets one address of each set.
    #[schemars(with = "Option<Vec<Vec<RangeSpec>>>")]
    ranges: Value,
    /// Routes of the pod; without `gw` through the range's gateway.
    #[schemars(with = "Option<Vec<Route>>")]
    routes: Value,
    /// A file in the format of resolv.conf(5) to report to the runtime.
    #[schemars(with = "Option<String>")]
    resolv_conf: Value,
    /// Where the leases are.
    #[schemars(with = "Option<String>", extend("default" = DEFAULT_DATA_DIR))]
    data_dir: Value,
    /// The form with a single range, its keys beside the others.
    #[serde(flatten)]
    legacy: RangeSpec,
}

impl HostLocalConfig {
    /// Validates `ipam`. `ip_ranges` is `runtimeConfig.ipRanges`; its sets come before the configured ones.
    pub fn parse(ipam: &Value, ip_ranges: Option<&Value>) -> Result<Self, ConfigError> {
        let spec: Spec = decode("ipam", ipam, "an object")?;
        Ok(Self {
            ranges: range_sets(&spec, ip_ranges)?,
            routes: routes(&spec.routes)?,
            resolv_conf: path("ipam.resolvConf", &spec.resolv_conf)?,
            data_dir: data_dir(&spec.data_dir)?,
        })
    }

    /// The data directory alone: all that DEL and GC need of a configuration that has become invalid.
    pub fn data_dir_of(ipam: &Value) -> Result<PathBuf, ConfigError> {
        data_dir(ipam.get("dataDir").unwrap_or(&Value::Null))
    }
}

/// The sets in the order the reference numbers them, which is the N of `last_reserved_ip.N`: the runtime's,
/// the legacy range, the configured ones.
fn range_sets(spec: &Spec, ip_ranges: Option<&Value>) -> Result<Vec<RangeSet>, ConfigError> {
    let mut sets: Vec<(String, RangeSet)> = Vec::new();
    if let Some(value) = ip_ranges {
        sets.extend(list_of_sets("runtimeConfig.ipRanges", value)?);
    }
    if spec.legacy.subnet.as_ref().is_some_and(|subnet| !subnet.is_null()) {
        let range = Range::new("ipam", &spec.legacy)?;
        sets.push(("ipam.subnet".to_owned(), RangeSet::new("ipam.subnet", vec![range])?));
    }
    sets.extend(list_of_sets("ipam.ranges", &spec.ranges)?);
    if sets.is_empty() {
        return Err(ConfigError::NoRanges);
    }
    for (i, (key, set)) in sets.iter().enumerate() {
        for (other_key, other) in &sets[..i] {
            set.disjoint(key, other, other_key)?;
        }
    }
    Ok(sets.into_iter().map(|(_, set)| set).collect())
}

fn list_of_sets(key: &str, value: &Value) -> Result<Vec<(String, RangeSet)>, ConfigError> {
    let lists: Option<Vec<Vec<RangeSpec>>> = decode(key, value, "a list of lists of ranges")?;
    let mut sets = Vec::new();
    for (i, specs) in lists.unwrap_or_default().iter().enumerate() {
        let key = format!("{key}[{i}]");
        let ranges: Result<Vec<_>, _> =
            specs.iter().enumerate().map(|(j, spec)| Range::new(&format!("{key}[{j}]"), spec)).collect();
        let set = RangeSet::new(&key, ranges?)?;
        sets.push((key, set));
    }
    Ok(sets)
}

fn routes(value: &Value) -> Result<Vec<Route>, ConfigError> {
    let list: Option<Vec<Value>> = decode("ipam.routes", value, "a list of routes")?;
    list.unwrap_or_default()
        .iter()
        .enumerate()
        .map(|(i, route)| {
            decode(&format!("ipam.routes[{i}]"), route, "a route such as {\"dst\":\"0.0.0.0/0\"}")
        })
        .collect()
}

fn path(key: &str, value: &Value) -> Result<Option<PathBuf>, ConfigError> {
    let text: Option<String> = decode(key, value, "a string")?;
    Ok(text.filter(|text| !text.is_empty()).map(PathBuf::from))
}

/// The data directory. Root creates and deletes files in it.
fn data_dir(value: &Value) -> Result<PathBuf, ConfigError> {
    let key = "ipam.dataDir";
    let value = path(key, value)?.unwrap_or_else(|| DEFAULT_DATA_DIR.into());
    if !is_plain_absolute(&value) {
        return Err(ConfigError::Path { key, value });
    }
    Ok(value)
}

fn decode<'a, T: Deserialize<'a>>(
    key: &str,
    value: &'a Value,
    allowed: &'static str,
) -> Result<T, ConfigError> {
    T::deserialize(value).map_err(|source| ConfigError::WrongType {
        key: key.to_owned(),
        value: value.to_string(),
        allowed,
        source,
    })
}
