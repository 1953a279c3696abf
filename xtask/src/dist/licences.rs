//! The licences of what is linked into the binary and into the programs: their texts must come along.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::process::Captured;
use crate::workspace::Workspace;

const RULE: &str = "\n--------------------------------------------------------------------------------\n\n";

/// A list of the crates with their licences, then each text once with the crates it belongs to.
pub(super) fn collect(workspace: &Workspace) -> Result<String> {
    let mut crates = BTreeMap::new();
    let mut texts: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (manifest, root) in [("Cargo.toml", "ebpf-bridge"), ("ebpf/Cargo.toml", "ebpf-bridge-ebpf")] {
        for package in linked(workspace, manifest, root)? {
            let name = format!("{} {}", text(&package["name"])?, text(&package["version"])?);
            let directory =
                Path::new(text(&package["manifest_path"])?).parent().context("a manifest in no directory")?;
            for licence in texts_in(directory)? {
                texts.entry(licence).or_default().insert(name.clone());
            }
            crates.insert(name, text(&package["license"]).unwrap_or("see below").to_owned());
        }
    }
    let mut page = "The binary and the programs in it contain these crates:\n\n".to_owned();
    for (name, licence) in crates {
        writeln!(page, "{name}: {licence}")?;
    }
    let mut texts: Vec<_> = texts.into_iter().map(|(text, names)| (names, text)).collect();
    texts.sort();
    for (names, text) in texts {
        let names: Vec<_> = names.into_iter().collect();
        write!(page, "{RULE}{}:\n\n{}\n", names.join(", "), text.trim_end())?;
    }
    Ok(page)
}

/// Crates from elsewhere that the package needs to run, not only to be built or tested.
fn linked(workspace: &Workspace, manifest: &str, root: &str) -> Result<Vec<Value>> {
    let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let mut cargo = workspace.cargo("metadata");
    cargo.args(["--format-version=1", "--locked", "--filter-platform", &platform, "--manifest-path"]);
    let metadata = Captured::of(cargo.arg(workspace.root.join(manifest)))?.success()?.stdout;
    let metadata: Value = serde_json::from_str(&metadata).context("cargo metadata is not JSON")?;
    let packages = metadata["packages"].as_array().context("cargo metadata has no packages")?;
    let nodes = metadata["resolve"]["nodes"].as_array().context("cargo metadata has no nodes")?;
    let root = packages.iter().find(|package| package["name"] == root).context("no such package")?;
    let mut found: BTreeSet<&str> = BTreeSet::new();
    let mut next = vec![text(&root["id"])?];
    while let Some(id) = next.pop() {
        if found.insert(id) {
            let node = nodes.iter().find(|node| node["id"] == id).context("a package without a node")?;
            let needed = node["deps"].as_array().into_iter().flatten().filter(|needed| {
                needed["dep_kinds"].as_array().into_iter().flatten().any(|kind| kind["kind"].is_null())
            });
            next.extend(needed.filter_map(|needed| needed["pkg"].as_str()));
        }
    }
    let foreign = |package: &&Value| {
        !package["source"].is_null() && package["id"].as_str().is_some_and(|id| found.contains(id))
    };
    Ok(packages.iter().filter(foreign).cloned().collect())
}

fn texts_in(directory: &Path) -> Result<Vec<String>> {
    let mut texts = Vec::new();
    let entries = fs::read_dir(directory).with_context(|| format!("cannot list {}", directory.display()))?;
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().to_uppercase();
        let is_licence = ["LICENSE", "LICENCE", "COPYING", "NOTICE", "COPYRIGHT"]
            .iter()
            .any(|word| name.starts_with(word));
        if is_licence && entry.path().is_file() {
            texts.push(fs::read_to_string(entry.path())?);
        }
    }
    Ok(texts)
}

fn text(value: &Value) -> Result<&str> {
    value.as_str().with_context(|| format!("not a text in cargo's metadata: {value}"))
}
