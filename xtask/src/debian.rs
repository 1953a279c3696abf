//! Packages of Debian and its relatives, installed only when this is one and we are root.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::process::Command;

use anyhow::Result;

use crate::process::{self, Captured};

/// Whether /etc/os-release names Debian or something like it.
pub(crate) fn is_debian() -> bool {
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    release.lines().any(|line| {
        let value = line.strip_prefix("ID=").or_else(|| line.strip_prefix("ID_LIKE="));
        value.is_some_and(|value| value.trim_matches('"').split(' ').any(|id| id == "debian"))
    })
}

pub(crate) fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|itself| itself.uid() == 0)
}

/// Why packages cannot be installed here, if they cannot.
pub(crate) fn refusal() -> Option<&'static str> {
    match (is_debian(), is_root()) {
        (false, _) => Some("this is not Debian"),
        (true, false) => Some("not root"),
        (true, true) => None,
    }
}

pub(crate) fn update() -> Result<()> {
    Captured::of(apt_get().arg("update"))?.success().map(drop)
}

/// Installs `packages`, and fails rather than removing any other.
pub(crate) fn install(packages: &[&str]) -> Result<()> {
    println!("  apt-get   installing {}", packages.join(" "));
    let mut command = apt_get();
    command.args(["install", "--yes", "--no-remove", "--no-install-recommends"]).args(packages);
    Captured::of(&mut command)?.success().map(drop)
}

/// The version `apt-get install` would install, without its epoch; `None` for an unknown package.
pub(crate) fn candidate(package: &str) -> Option<String> {
    let policy =
        Captured::of(process::clean("apt-cache").args(["policy", package]).env("LC_ALL", "C")).ok()?;
    let version = policy.stdout.lines().find_map(|line| line.trim().strip_prefix("Candidate: "))?;
    (version != "(none)").then(|| version.split_once(':').map_or(version, |(_, rest)| rest).to_owned())
}

pub(crate) fn is_installed(package: &str) -> bool {
    let mut query = process::clean("dpkg-query");
    query.args(["--show", "--showformat=${db:Status-Status}", package]);
    Captured::of(&mut query).is_ok_and(|said| said.stdout == "installed")
}

fn apt_get() -> Command {
    let mut command = process::clean("apt-get");
    command.env("DEBIAN_FRONTEND", "noninteractive").env("LC_ALL", "C");
    command.args(["-qq", "-o", "DPkg::Lock::Timeout=300"]);
    command
}
