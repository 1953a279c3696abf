//! bpf-linker: one that is here and fits, else one built against an LLVM of the right version.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::rustc::Rustc;
use super::{LINKER, report};
use crate::debian;
use crate::fault::Fault;
use crate::process::{self, Captured, which};
use crate::workspace::Workspace;

const VERSION: &str = "0.13.0";
/// The LLVM versions this bpf-linker can be built with, oldest first.
const LLVMS: [u32; 3] = [21, 22, 23];

/// A linker for what `rustc` emits. LLVM reads bitcode of older versions, never of newer ones, so the
/// linker's must not be older than the compiler's.
pub(super) fn find_or_build(workspace: &Workspace, rustc: &Rustc) -> Result<PathBuf> {
    if let Some(named) = env::var_os(LINKER).map(PathBuf::from) {
        return overridden(named);
    }
    report("override", LINKER, "not set");
    let cached = LLVMS.iter().map(|llvm| installed(workspace, *llvm)).filter(|linker| linker.is_file());
    let on_path = which("bpf-linker").map(|linker| ("PATH", linker));
    for (place, linker) in on_path.into_iter().chain(cached.map(|linker| ("cache", linker))) {
        if consider(place, &linker, rustc.llvm) {
            return Ok(linker);
        }
    }
    build(workspace, rustc)
}

/// The major version of the LLVM in `linker`. `bpf-linker --version` does not tell, but it hands LLVM's own
/// options on, and LLVM answers `--version` before it reads the input.
pub(super) fn llvm_of(linker: &Path) -> Result<u32> {
    let mut command = process::clean(linker);
    command.args(["--llvm-args=--version", "--output=/dev/null", "/dev/null"]);
    let said = Captured::of(&mut command)?.success().context("it does not run")?.stdout;
    let major =
        said.split_once("LLVM version ").and_then(|(_, version)| version.split('.').next()?.parse().ok());
    major.context("it does not say which LLVM it has")
}

fn overridden(named: PathBuf) -> Result<PathBuf> {
    if !named.is_file() {
        let sentence = format!("{LINKER} names {}, which is not a file", named.display());
        return Err(Fault::new(sentence, format!("unset {LINKER} && cargo xtask setup")).into());
    }
    report("override", &named.display().to_string(), "taken");
    Ok(named)
}

fn consider(place: &str, linker: &Path, oldest: u32) -> bool {
    let verdict = match llvm_of(linker) {
        Ok(llvm) if llvm >= oldest => Ok(format!("taken, LLVM {llvm}")),
        Ok(llvm) => Err(format!("refused, its LLVM {llvm} is older than {oldest}")),
        Err(error) => Err(format!("refused, {error:#}")),
    };
    report(place, &linker.display().to_string(), verdict.as_ref().unwrap_or_else(|refused| refused));
    verdict.is_ok()
}

/// Where the linker built with `llvm` is kept.
fn installed(workspace: &Workspace, llvm: u32) -> PathBuf {
    workspace.cache.join(format!("bpf-linker-{VERSION}-llvm-{llvm}/bin/bpf-linker"))
}

fn build(workspace: &Workspace, rustc: &Rustc) -> Result<PathBuf> {
    let usable: Vec<u32> = LLVMS.into_iter().filter(|llvm| *llvm >= rustc.llvm).collect();
    if usable.is_empty() {
        return Err(Fault::new(
            format!(
                "bpf-linker {VERSION} knows LLVM up to {}, and {rustc} has a newer one",
                LLVMS[LLVMS.len() - 1]
            ),
            format!("{RUSTC}=<an older rustc with rust-src> cargo xtask setup", RUSTC = super::RUSTC),
        )
        .into());
    }
    let (llvm, prefix) = match usable.iter().find_map(|llvm| Some((*llvm, llvm_prefix(*llvm)?))) {
        Some(found) => found,
        None => install_llvm(&usable).map_err(|error| no_llvm(&usable, &error))?,
    };
    report("LLVM", &prefix.display().to_string(), &format!("taken, LLVM {llvm}"));
    cargo_install(workspace, llvm, &prefix)
}

/// The prefix of an installed LLVM of this major version, told by its llvm-config, which comes with the
/// development files.
fn llvm_prefix(llvm: u32) -> Option<PathBuf> {
    let debian = PathBuf::from(format!("/usr/lib/llvm-{llvm}/bin/llvm-config"));
    let named = [format!("llvm-config-{llvm}"), "llvm-config".to_owned()];
    let all = std::iter::once(debian).chain(named.iter().filter_map(|name| which(name)));
    all.filter(|config| config.is_file()).find_map(|config| {
        let ask =
            |what: &str| Some(Captured::of(process::clean(&config).arg(what)).ok()?.success().ok()?.stdout);
        let prefix = PathBuf::from(ask("--prefix")?.trim());
        let fits = ask("--version")?.split('.').next()? == llvm.to_string();
        (fits && prefix.join("include/llvm-c/Core.h").exists()).then_some(prefix)
    })
}

fn install_llvm(usable: &[u32]) -> Result<(u32, PathBuf)> {
    if let Some(reason) = debian::refusal() {
        bail!("{reason}");
    }
    debian::update()?;
    let package = |llvm: &u32| format!("llvm-{llvm}-dev");
    let llvm = usable.iter().find(|llvm| debian::candidate(&package(llvm)).is_some());
    let llvm = *llvm.context("no package of it")?;
    debian::install(&[&package(&llvm)])?;
    Ok((llvm, llvm_prefix(llvm).context("the package brought no llvm-config")?))
}

fn no_llvm(usable: &[u32], error: &anyhow::Error) -> Fault {
    Fault::new(
        format!("no bpf-linker fits, and there is no LLVM {usable:?} to build one with ({error:#})"),
        "cargo install --locked cargo-binstall && cargo binstall bpf-linker && cargo xtask setup",
    )
}

fn cargo_install(workspace: &Workspace, llvm: u32, prefix: &Path) -> Result<PathBuf> {
    let linker = installed(workspace, llvm);
    let root = linker.ancestors().nth(2).context("the linker has no root")?;
    let mut cargo = process::clean_cargo();
    cargo.args(["install", &format!("bpf-linker@{VERSION}"), "--locked", "--no-default-features"]);
    cargo.arg(format!("--features=llvm-{llvm}")).arg("--root").arg(root).arg("--target-dir");
    cargo.arg(workspace.target.join("bpf-linker")).env("LLVM_PREFIX", prefix);
    println!("  cargo     building bpf-linker {VERSION} with LLVM {llvm}, about a minute");
    let said = Captured::of(&mut cargo)?;
    let log = workspace.log("bpf-linker");
    said.keep(&log)?;
    if !said.status.success() {
        return Err(Fault::new(
            format!(
                "bpf-linker {VERSION} could not be built with {} (all of it: {})",
                prefix.display(),
                log.display()
            ),
            format!("LLVM_PREFIX={} {}", prefix.display(), process::line(&cargo)),
        )
        .into());
    }
    if !consider("built", &linker, llvm) {
        bail!("the bpf-linker just built does not run: see {}", log.display());
    }
    Ok(linker)
}
