//! Where things are: the repository, cargo's target directory, the per-user cache.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::process::Captured;

/// The directories every verb works in.
pub(crate) struct Workspace {
    pub(crate) root: PathBuf,
    pub(crate) target: PathBuf,
    /// Tools that outlive a clone: `$XDG_CACHE_HOME/ebpf-bridge`.
    pub(crate) cache: PathBuf,
}

impl Workspace {
    pub(crate) fn find() -> Result<Self> {
        let manifest = env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
        let root = Path::new(&manifest).parent().context("xtask is not inside the repository")?.to_path_buf();
        let target = target_dir(&root)?;
        Ok(Self { root, target, cache: cache_dir()? })
    }

    /// The cargo that runs this xtask, with `verb`, for the host crates.
    pub(crate) fn cargo(&self, verb: &str) -> Command {
        let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.current_dir(&self.root).arg(verb);
        // A relative CARGO_TARGET_DIR means the directory the user stands in, not the root.
        if env::var_os("CARGO_TARGET_DIR").is_some() {
            command.env("CARGO_TARGET_DIR", &self.target);
        }
        command
    }

    /// The object `build-ebpf` leaves.
    pub(crate) fn object(&self) -> PathBuf {
        self.target.join("ebpf/ebpf-bridge.o")
    }

    /// The plugin `build` leaves.
    pub(crate) fn plugin(&self) -> PathBuf {
        self.target.join("dist/ebpf-bridge")
    }

    /// Where the full output of a failed step `name` is kept.
    pub(crate) fn log(&self, name: &str) -> PathBuf {
        self.target.join("xtask").join(format!("{name}.log"))
    }
}

/// Asks cargo, since `CARGO_TARGET_DIR` is only one of the ways to set it.
fn target_dir(root: &Path) -> Result<PathBuf> {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .args(["metadata", "--no-deps", "--format-version=1", "--manifest-path"])
        .arg(root.join("Cargo.toml"));
    let text = Captured::of(&mut cargo)?.success()?.stdout;
    let metadata: serde_json::Value = serde_json::from_str(&text).context("cargo metadata is not JSON")?;
    let target = metadata["target_directory"].as_str().context("cargo metadata names no target directory")?;
    Ok(PathBuf::from(target))
}

fn cache_dir() -> Result<PathBuf> {
    let absolute = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")));
    Ok(base.context("neither XDG_CACHE_HOME nor HOME is set: export HOME")?.join("ebpf-bridge"))
}
