//! `version`: of the plugin, of the protocol, of the programs.

use ebpf_bridge_common::ABI;
use serde_json::json;

use super::{Report, SCHEMA_VERSION};
use crate::{cni::version::SUPPORTED, dataplane};

pub(super) fn version() -> Report {
    let version = env!("CARGO_PKG_VERSION");
    let programs = dataplane::BUILD;
    let json = json!({
        "schemaVersion": SCHEMA_VERSION, "version": version, "architecture": std::env::consts::ARCH,
        "cniVersions": SUPPORTED, "abi": ABI, "programs": programs,
    });
    let programs = programs.unwrap_or("none: built without them, the bridge path only");
    let table = format!(
        "ebpf-bridge {version} {}\nCNI         {}\nmap ABI     {ABI}\nprograms    {programs}\n",
        std::env::consts::ARCH,
        SUPPORTED.join(" "),
    );
    Report { json, table }
}
