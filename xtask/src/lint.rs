//! `cargo xtask lint`: formatting, clippy with warnings denied, dependencies.

use anyhow::Result;

use crate::build_ebpf;
use crate::fault::Fault;
use crate::process::{Captured, passes, which};
use crate::toolchain::Toolchain;
use crate::workspace::Workspace;

pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    tools(workspace)?;
    let mut failed = Vec::new();
    let mut step = |name: &'static str, passed: bool| failed.extend((!passed).then_some(name));
    step("cargo fmt", format(workspace)?);
    step("cargo clippy", clippy(workspace)?);
    step("cargo clippy of the eBPF programs", clippy_ebpf(workspace)?);
    step("cargo deny", dependencies(workspace)?);
    if failed.is_empty() {
        println!("lint: nothing to say");
        return Ok(());
    }
    let sentence = format!("{} found something, see above", failed.join(", "));
    Err(Fault::new(sentence, "cargo fmt --all && (cd ebpf && cargo fmt) && cargo xtask lint").into())
}

/// Not every toolchain comes with rustfmt and clippy.
fn tools(workspace: &Workspace) -> Result<()> {
    for (verb, mend) in [
        ("fmt", "rustup component add rustfmt || apt-get install rustfmt-web"),
        ("clippy", "rustup component add clippy || apt-get install rust-web-clippy"),
    ] {
        if !Captured::of(workspace.cargo(verb).arg("--version"))?.status.success() {
            return Err(Fault::new(format!("this toolchain has no cargo {verb}"), mend).into());
        }
    }
    Ok(())
}

fn format(workspace: &Workspace) -> Result<bool> {
    let host = passes(workspace.cargo("fmt").args(["--all", "--check"]))?;
    let mut passed = host;
    for manifest in ["ebpf/Cargo.toml", "tests/fuzz/libfuzzer/Cargo.toml"] {
        let manifest = workspace.root.join(manifest);
        passed &= passes(workspace.cargo("fmt").arg("--check").arg("--manifest-path").arg(manifest))?;
    }
    Ok(passed)
}

fn clippy(workspace: &Workspace) -> Result<bool> {
    passes(workspace.cargo("clippy").args([
        "--quiet",
        "--workspace",
        "--all-targets",
        "--",
        "--deny=warnings",
    ]))
}

fn clippy_ebpf(workspace: &Workspace) -> Result<bool> {
    let toolchain = Toolchain::known_or_found(workspace)?;
    if !toolchain.rustc.has_clippy() {
        println!("not linted: the eBPF programs, because {} has no clippy", toolchain.rustc);
        return Ok(true);
    }
    passes(build_ebpf::cargo(workspace, &toolchain, "clippy").args(["--release", "--", "--deny=warnings"]))
}

/// Licences, bans and sources need no network; advisories do, and belong to a scheduled job.
fn dependencies(workspace: &Workspace) -> Result<bool> {
    if which("cargo-deny").is_none() {
        println!(
            "not checked: dependencies, because cargo-deny is missing: cargo install --locked cargo-deny"
        );
        return Ok(true);
    }
    let mut passed = true;
    for manifest in ["Cargo.toml", "ebpf/Cargo.toml"] {
        let mut deny = workspace.cargo("deny");
        // Its configuration is found: where it is given differs from release to release.
        deny.args(["--manifest-path", manifest, "check"]);
        passed &= passes(deny.args(["licenses", "bans", "sources"]))?;
    }
    Ok(passed)
}
