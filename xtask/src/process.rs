//! Running other programs: with a clean environment, with their output kept.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use anyhow::{Context, Result};

use crate::fault::Fault;

/// A command that inherits nothing of the cargo and toolchain that run this xtask, only the user's own
/// settings of where cargo and rustup keep and fetch things.
pub(crate) fn clean(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    for (name, _) in env::vars_os() {
        if name.to_str().is_some_and(is_foreign) {
            command.env_remove(name);
        }
    }
    command
}

/// The cargo and toolchain that run this xtask, in an otherwise clean environment.
pub(crate) fn clean_cargo() -> Command {
    let mut command = clean(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    if let Some(toolchain) = env::var_os("RUSTUP_TOOLCHAIN") {
        command.env("RUSTUP_TOOLCHAIN", toolchain);
    }
    command
}

fn is_foreign(name: &str) -> bool {
    let kept = ["CARGO_HOME", "CARGO_HTTP_", "CARGO_NET_", "CARGO_REGISTR", "CARGO_SOURCE_", "CARGO_TERM_"];
    if kept.iter().any(|prefix| name.starts_with(prefix)) {
        return false;
    }
    // `cargo run` puts its toolchain's libraries into LD_LIBRARY_PATH; another rustc must not load them.
    name.starts_with("CARGO")
        || matches!(name, "LD_LIBRARY_PATH" | "LLVM_PREFIX" | "RUSTUP_TOOLCHAIN")
        || (name.starts_with("RUST") && !name.starts_with("RUSTUP"))
}

/// What a finished command said.
pub(crate) struct Captured {
    line: String,
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Captured {
    /// Runs `command` to its end without input.
    pub(crate) fn of(command: &mut Command) -> Result<Self> {
        let line = line(command);
        let output = command.stdin(Stdio::null()).output().with_context(|| format!("cannot run `{line}`"))?;
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Ok(Self { line, status: output.status, stdout: text(output.stdout), stderr: text(output.stderr) })
    }

    /// Itself, or a sentence with the first error the command names, else the last thing it said.
    pub(crate) fn success(self) -> Result<Self> {
        if self.status.success() {
            return Ok(self);
        }
        let said =
            self.stderr.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it said nothing");
        Err(Fault::new(format!("`{}` failed: {}", self.line, said.trim()), &self.line).into())
    }

    /// Keeps everything the command said in `log`.
    pub(crate) fn keep(&self, log: &Path) -> Result<()> {
        let dir = log.parent().context("the log has no directory")?;
        fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
        let text = format!("$ {}\n{}{}({})\n", self.line, self.stdout, self.stderr, self.status);
        fs::write(log, text).with_context(|| format!("cannot write {}", log.display()))
    }
}

/// Shows a command, runs it without input, and tells whether it succeeded.
pub(crate) fn passes(command: &mut Command) -> Result<bool> {
    println!("$ {}", line(command));
    let status = command.stdin(Stdio::null()).status();
    Ok(status.with_context(|| format!("cannot run `{}`", line(command)))?.success())
}

/// The command as one would type it.
pub(crate) fn line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ")
}

/// The first executable called `name` on PATH, or where root's tools live.
pub(crate) fn which(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let sbin = ["/usr/sbin", "/sbin"].into_iter().map(PathBuf::from);
    env::split_paths(&path).chain(sbin).map(|dir| dir.join(name)).find(|file| file.is_file())
}
