//! Getting a toolchain when none is here: rustup's library sources first, then Debian packages.

use anyhow::{Result, bail};

use super::rustc::{OLDEST, Release, Rustc};
use super::{candidates, nothing, report};
use crate::debian;
use crate::process::{self, Captured};

/// Debian's names for a compiler, its cargo and its library sources. A stable release carries a newer
/// compiler for browsers beside its own.
const PACKAGES: [[&str; 3]; 2] = [["rustc-web", "cargo-web", "rust-web-src"], ["rustc", "cargo", "rust-src"]];

/// Fetches a toolchain, or says what was tried and what to type.
pub(super) fn rustc() -> Result<Rustc> {
    println!("none is here, getting one:");
    let mut refusals = Vec::new();
    for (name, get) in [("rustup", from_rustup as fn() -> Result<Rustc>), ("Debian packages", from_debian)] {
        match get() {
            Ok(rustc) => return Ok(rustc),
            Err(error) => {
                report("get", name, &format!("refused, {error:#}"));
                refusals.push(format!("{name}: {error:#}"));
            }
        }
    }
    Err(nothing(&refusals.join("; ")).into())
}

fn from_rustup() -> Result<Rustc> {
    let Some(names) = candidates::rustup_toolchains() else { bail!("it is not here") };
    let mut rustup = process::clean("rustup");
    match names.iter().find(|name| name.starts_with("nightly")) {
        // Only the sources: updating the user's nightly is not ours to do.
        Some(nightly) => rustup.args(["component", "add", "rust-src", "--toolchain", nightly]),
        None => rustup.args([
            "toolchain",
            "install",
            "nightly",
            "--profile",
            "minimal",
            "--component",
            "rust-src",
        ]),
    };
    println!("  rustup    {}", process::line(&rustup));
    Captured::of(&mut rustup)?.success()?;
    match candidates::rustup() {
        Some(rustc) => Ok(rustc),
        None => bail!("what it installed cannot build BPF programs"),
    }
}

fn from_debian() -> Result<Rustc> {
    if let Some(reason) = debian::refusal() {
        bail!("{reason}");
    }
    debian::update()?;
    let new_enough =
        |package: &str| Release::parse(&debian::candidate(package)?).filter(|release| *release >= OLDEST);
    let Some(packages) = PACKAGES.iter().find(|set| set.iter().all(|package| new_enough(package).is_some()))
    else {
        bail!("its rustc packages are all older than {OLDEST}");
    };
    debian::install(packages)?;
    match candidates::system() {
        Some(rustc) => Ok(rustc),
        None => bail!("what they installed cannot build BPF programs"),
    }
}
