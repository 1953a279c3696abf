//! `gc`: takes away what certainly belongs to nobody, without a runtime's list of valid attachments.

use std::path::Path;

use serde_json::json;

use super::{
    Judged, Report, SCHEMA_VERSION,
    node::{Node, Sources},
    paint,
};
use crate::host::LinuxHost;

pub(super) fn gc(bpffs: &Path, sources: &Sources, dry_run: bool) -> anyhow::Result<Judged> {
    let node = Node::look_with(bpffs, sources)?;
    let mut host = LinuxHost::open(None)?;
    let (mut table, mut told, mut healthy) = (String::new(), Vec::new(), true);
    for leftover in node.leftovers()? {
        let error = if dry_run { None } else { leftover.remove(&mut host, bpffs).err() };
        healthy &= error.is_none();
        table.push_str(&match &error {
            Some(error) => format!("{} {leftover}: {error}\n", paint::bad("failed")),
            None if dry_run => format!("would remove {leftover}\n"),
            None => format!("{} {leftover}\n", paint::good("removed")),
        });
        told.push(json!({
            "what": leftover.to_string(), "removed": !dry_run && error.is_none(),
            "error": error.map(|error| error.to_string()),
        }));
    }
    if table.is_empty() {
        table.push_str("nothing to remove\n");
    }
    let json = json!({ "schemaVersion": SCHEMA_VERSION, "dryRun": dry_run, "leftovers": told });
    Ok(Judged { report: Report { json, table }, healthy })
}
