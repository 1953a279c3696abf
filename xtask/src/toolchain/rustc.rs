//! One Rust compiler, asked what it is.

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::process::{self, Captured};

/// The oldest compiler the workspace supports (`rust-version`), as (major, minor).
pub(super) const OLDEST: Release = Release(1, 88);

/// A compiler's version, the patch level aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Release(u32, u32);

impl Release {
    /// Reads `1.96.0`, `1.97.0-nightly` or a Debian version.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.split('.').map(str::parse);
        Some(Self(numbers.next()?.ok()?, numbers.next()?.ok()?))
    }
}

impl fmt::Display for Release {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}.{}", self.0, self.1)
    }
}

/// A compiler and the cargo that goes with it.
#[derive(Clone, Debug)]
pub(crate) struct Rustc {
    pub(crate) path: PathBuf,
    pub(crate) cargo: PathBuf,
    /// All of `rustc -vV`: when it changes, it is another compiler.
    pub(super) identity: String,
    /// Major version of its LLVM.
    pub(super) llvm: u32,
    release: Release,
    nightly: bool,
    sysroot: PathBuf,
}

impl Rustc {
    pub(super) fn ask(path: &Path, cargo: &Path) -> Result<Self> {
        let said = |args: &[&str]| Captured::of(process::clean(path).args(args))?.success();
        let identity = said(&["-vV"])?.stdout;
        let sysroot = PathBuf::from(said(&["--print", "sysroot"])?.stdout.trim());
        let field = |name: &str| identity.lines().find_map(|line| line.strip_prefix(name));
        let version = field("release: ").context("its version says no release")?;
        let release = Release::parse(version).with_context(|| format!("its release is {version:?}"))?;
        let llvm = field("LLVM version: ").and_then(|version| version.split('.').next()?.parse().ok());
        Ok(Self {
            path: path.to_path_buf(),
            cargo: cargo.to_path_buf(),
            llvm: llvm.context("it does not say which LLVM it has")?,
            release,
            nightly: version.contains("-nightly") || version.contains("-dev"),
            identity,
            sysroot,
        })
    }

    /// Itself, or why it cannot build BPF programs.
    pub(super) fn capable(self) -> Result<Self> {
        if self.release < OLDEST {
            bail!("rustc {} is older than {OLDEST}", self.release);
        }
        if !self.sysroot.join("lib/rustlib/src/rust/library/core/src/lib.rs").is_file() {
            bail!("no library sources");
        }
        if !self.cargo.is_file() {
            bail!("no cargo at {}", self.cargo.display());
        }
        Ok(self)
    }

    /// `-Zbuild-std` is an unstable flag: a stable compiler takes it only with RUSTC_BOOTSTRAP=1.
    pub(crate) fn is_stable(&self) -> bool {
        !self.nightly
    }

    /// Whether `cargo clippy` of this toolchain is there.
    pub(crate) fn has_clippy(&self) -> bool {
        self.path.with_file_name("clippy-driver").is_file()
            && self.path.with_file_name("cargo-clippy").is_file()
    }
}

impl fmt::Display for Rustc {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let channel = if self.nightly { "-nightly" } else { "" };
        write!(out, "rustc {}{channel} (LLVM {}) at {}", self.release, self.llvm, self.path.display())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_compare_as_numbers() {
        assert!(Release::parse("1.100.0-nightly") > Release::parse("1.96.0"));
        assert!(Release::parse("1.63.0+dfsg1-2") < Some(OLDEST));
        assert_eq!(Release::parse("unknown"), None);
    }
}
