//! The toolchains that are here already, in a fixed order: override, rustup, the distribution's.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::rustc::Rustc;
use super::{CARGO, RUSTC, report};
use crate::fault::Fault;
use crate::process::{self, Captured};

/// The first toolchain that can build BPF programs.
///
/// # Errors
/// Only an override that cannot be used: nobody wants another toolchain than the one named.
pub(super) fn search() -> Result<Option<Rustc>> {
    if let Some(rustc) = overridden()? {
        return Ok(Some(rustc));
    }
    Ok(rustup().or_else(system))
}

fn overridden() -> Result<Option<Rustc>> {
    let Some(rustc) = env::var_os(RUSTC).map(PathBuf::from) else {
        report("override", RUSTC, "not set");
        return Ok(None);
    };
    let cargo = env::var_os(CARGO).map_or_else(|| rustc.with_file_name("cargo"), PathBuf::from);
    match consider("override", &rustc, &cargo) {
        Some(taken) => Ok(Some(taken)),
        None => Err(Fault::new(
            format!("{RUSTC} names {}, which cannot build BPF programs", rustc.display()),
            format!("unset {RUSTC} {CARGO} && cargo xtask setup"),
        )
        .into()),
    }
}

/// The rustup toolchains, nightlies first.
pub(super) fn rustup() -> Option<Rustc> {
    let Some(names) = rustup_toolchains() else {
        report("rustup", "rustup", "not here");
        return None;
    };
    let mut seen = Vec::new();
    names.iter().find_map(|name| match rustup_sysroot(name) {
        // One toolchain may go by several names.
        Ok(sysroot) if seen.contains(&sysroot) => None,
        Ok(sysroot) => {
            seen.push(sysroot.clone());
            consider("rustup", &sysroot.join("bin/rustc"), &sysroot.join("bin/cargo"))
        }
        Err(error) => {
            report("rustup", name, &format!("refused, {error:#}"));
            None
        }
    })
}

/// The names rustup lists, nightlies first; `None` without rustup.
pub(super) fn rustup_toolchains() -> Option<Vec<String>> {
    let listed = Captured::of(process::clean("rustup").args(["toolchain", "list"])).ok()?.success().ok()?;
    let first_word = |line: &str| line.split_whitespace().next().map(str::to_owned);
    // Without any toolchain, rustup says so in a sentence.
    let mut names: Vec<String> =
        listed.stdout.lines().filter(|line| !line.starts_with("no ")).filter_map(first_word).collect();
    names.sort_by_key(|name| !name.starts_with("nightly"));
    Some(names)
}

fn rustup_sysroot(toolchain: &str) -> Result<PathBuf> {
    let mut rustup = process::clean("rustup");
    rustup.args(["run", toolchain, "rustc", "--print", "sysroot"]);
    Ok(PathBuf::from(Captured::of(&mut rustup)?.success().context("it does not run")?.stdout.trim()))
}

/// The distribution's compiler, never rustup's stand-in.
pub(super) fn system() -> Option<Rustc> {
    let rustc = Path::new("/usr/bin/rustc");
    if !rustc.is_file() {
        report("system", "/usr/bin/rustc", "not here");
        return None;
    }
    consider("system", rustc, Path::new("/usr/bin/cargo"))
}

fn consider(place: &str, rustc: &Path, cargo: &Path) -> Option<Rustc> {
    let asked = match Rustc::ask(rustc, cargo) {
        Ok(asked) => asked,
        Err(error) => {
            report(place, &rustc.display().to_string(), &format!("refused, {error:#}"));
            return None;
        }
    };
    let what = asked.to_string();
    match asked.capable() {
        Ok(taken) => {
            report(place, &what, "taken");
            Some(taken)
        }
        Err(reason) => {
            report(place, &what, &format!("refused, {reason:#}"));
            None
        }
    }
}
