//! The toolchain found last, kept under the target directory and believed only while it is still the same.

use std::env;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::{CARGO, LINKER, RUSTC, Toolchain, linker, rustc::Rustc};
use crate::workspace::Workspace;

/// The recorded toolchain, if compiler, sources and linker are all as they were.
pub(super) fn read(workspace: &Workspace) -> Option<Toolchain> {
    if is_overridden() {
        return None;
    }
    let record: Value = serde_json::from_str(&fs::read_to_string(path(workspace)).ok()?).ok()?;
    let file = |name: &str| record[name].as_str().map(PathBuf::from);
    let rustc = Rustc::ask(&file("rustc")?, &file("cargo")?).ok()?.capable().ok()?;
    let linker = file("linker")?;
    let same = record["identity"] == rustc.identity.as_str();
    (same && linker::llvm_of(&linker).ok()? >= rustc.llvm).then_some(Toolchain { rustc, linker })
}

/// Records `found`, unless the environment named any part of it.
pub(super) fn write(workspace: &Workspace, found: &Toolchain) -> Result<()> {
    if is_overridden() {
        return Ok(());
    }
    let record = json!({
        "rustc": found.rustc.path, "cargo": found.rustc.cargo, "identity": found.rustc.identity,
        "linker": found.linker,
    });
    let path = path(workspace);
    fs::create_dir_all(workspace.target.join("xtask")).context("cannot create the target directory")?;
    fs::write(&path, format!("{record:#}\n")).with_context(|| format!("cannot write {}", path.display()))
}

fn is_overridden() -> bool {
    [RUSTC, CARGO, LINKER].iter().any(|name| env::var_os(name).is_some())
}

fn path(workspace: &Workspace) -> PathBuf {
    workspace.target.join("xtask/toolchain.json")
}
