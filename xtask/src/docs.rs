//! `cargo xtask docs`: the configuration's schema and its reference for users, from the types that read it.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use ebpf_bridge::config::schema;
use serde_json::Value;

use crate::workspace::Workspace;

const SCHEMA: &str = "conf/schema/ebpf-bridge.schema.json";
const REFERENCE: &str = "docs/configuration.md";
const HEAD: &str = "\
# Configuration

<!-- Written by `cargo xtask docs` from the types in cni-plugin/src/config; a test compares. -->

These are the keys of a plugin of `type` `ebpf-bridge` in a network configuration list. They are those of the reference
`bridge` and `host-local`, with the same meaning but for [what is listed](differences.md), and `podCIDR`, `nodeRoutes`, `ebpf` and
the log keys. The same as a JSON schema for editors: [conf/schema](../conf/schema/ebpf-bridge.schema.json). Whole
configurations are in [conf](../conf).

A value that is not allowed fails the call with code 7 and a sentence that names the key, the value and what is allowed. Keys
that nobody knows are named in the log; inside `ebpf`, `nodeRoutes` and `vlanTrunk` they fail the call.
";

/// Writes both files.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    for (path, text) in files()? {
        let file = workspace.root.join(path);
        fs::create_dir_all(file.parent().unwrap_or(Path::new(".")))?;
        fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
        println!("wrote {path}");
    }
    Ok(())
}

fn files() -> Result<[(&'static str, String); 2]> {
    let schema = schema();
    let mut reference = HEAD.to_owned();
    object(&mut reference, "", &schema)?;
    Ok([(SCHEMA, format!("{schema:#}\n")), (REFERENCE, reference)])
}

/// A table of an object's keys, then the objects among them.
fn object(out: &mut String, path: &str, schema: &Value) -> Result<()> {
    let keys = schema["properties"].as_object().context("an object without properties")?;
    if !path.is_empty() {
        writeln!(out, "\n## `{path}`")?;
    }
    writeln!(out, "\n| key | type | default | |\n|---|---|---|---|")?;
    for (name, key) in keys {
        let default = key.get("default").map_or_else(String::new, |value| format!("`{value}`"));
        writeln!(out, "| `{name}` | {} | {default} | {} |", kind(key), text(key))?;
    }
    for (name, key) in keys {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        if let Some((suffix, object_schema)) = inner(key) {
            object(out, &format!("{path}{suffix}"), object_schema)?;
        }
    }
    Ok(())
}

/// The object with keys of its own that a key holds, maybe in a list.
fn inner(key: &Value) -> Option<(String, &Value)> {
    if key.get("properties").is_some() {
        return Some((String::new(), key));
    }
    let (suffix, found) = inner(key.get("items")?)?;
    Some((format!("[]{suffix}"), found))
}

fn kind(key: &Value) -> String {
    if let Some(allowed) = key["enum"].as_array() {
        return allowed.iter().map(|value| format!("`{value}`")).collect::<Vec<_>>().join(" ");
    }
    if let Some(choices) = key["anyOf"].as_array() {
        return choices.iter().map(kind).collect::<Vec<_>>().join(" or ");
    }
    if let Some(value) = key.get("const") {
        return format!("`{value}`");
    }
    match (key["type"].as_str(), key["minimum"].as_i64(), key["maximum"].as_i64()) {
        (Some("array"), ..) => format!("list of {}", kind(&key["items"])),
        (Some("integer"), Some(from), Some(to)) => format!("{from} to {to}"),
        (Some(kind), ..) => kind.to_owned(),
        (None, ..) => "any".to_owned(),
    }
}

fn text(key: &Value) -> &str {
    key["description"].as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_and_the_reference_are_current() {
        let workspace = Workspace::find().unwrap();
        for (path, text) in files().unwrap() {
            let found = fs::read_to_string(workspace.root.join(path)).unwrap_or_default();
            assert!(found == text, "{path} is out of date: cargo xtask docs");
        }
    }
}
