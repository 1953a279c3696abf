//! `cargo xtask build`: the release plugin with the programs embedded, to `target/dist/ebpf-bridge`.

use std::path::PathBuf;
use std::process::Stdio;

use anyhow::{Context, Result};

use crate::build_ebpf;
use crate::fault::Fault;
use crate::process::{self, Captured};
use crate::workspace::Workspace;

/// A CNI plugin is copied onto hosts of any distribution, so it needs no library of theirs; not
/// position-independent, since a static PIE is one more thing old loaders do not know.
const RUSTFLAGS: &str = "-Ctarget-feature=+crt-static\x1f-Crelocation-model=static";

/// Builds the plugin and returns its path.
pub(crate) fn run(workspace: &Workspace) -> Result<PathBuf> {
    let object = build_ebpf::run(workspace)?;
    let host = host(workspace)?;
    println!("building the plugin for {host}");
    let mut cargo = workspace.cargo("build");
    // An explicit target keeps the flags away from proc macros and build scripts, which cannot be static.
    cargo.args([
        "--quiet",
        "--locked",
        "--release",
        "--package=ebpf-bridge",
        "--bin=ebpf-bridge",
        "--target",
        &host,
    ]);
    cargo
        .env("EBPF_BRIDGE_OBJECT", &object)
        .env("CARGO_ENCODED_RUSTFLAGS", RUSTFLAGS)
        .env_remove("RUSTFLAGS");
    let status = cargo.stdin(Stdio::null()).status().context("cannot run cargo")?;
    if !status.success() {
        return Err(Fault::new("the plugin does not build, see above", "cargo xtask build").into());
    }
    let plugin = workspace.plugin();
    build_ebpf::place(&workspace.target.join(&host).join("release/ebpf-bridge"), &plugin)?;
    println!("built {}", plugin.display());
    Ok(plugin)
}

/// The triple of the compiler that runs this xtask.
fn host(workspace: &Workspace) -> Result<String> {
    let mut rustc = process::clean(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    rustc.current_dir(&workspace.root).arg("-vV");
    let said = Captured::of(&mut rustc)?.success()?.stdout;
    let host = said.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc -vV says no host")?.to_owned())
}
