//! `cargo xtask test kernels`: the core of the lab suite on Debian's kernels, booted in qemu.

mod archive;
mod guest;
mod initramfs;
mod qemu;
mod record;
mod release;
mod table;
mod userland;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};

use anyhow::{Context, Result};
use clap::Args;
use ebpf_bridge_lab::plugin;

use self::archive::Archive;
use self::guest::Guest;
use self::qemu::Qemu;
use self::release::{Kernel, Release};
use self::table::Column;
use self::userland::Userland;
use super::needs;
use super::tally::Tally;
use crate::build;
use crate::fault::Fault;
use crate::workspace::Workspace;

/// Which kernels, and which tests.
#[derive(Args)]
pub(crate) struct Options {
    /// Only the kernels whose version begins with this, such as 5.10
    #[arg(long, value_name = "VERSION", default_value = "")]
    only: String,
    /// Fetch qemu and the kernels anew, also those that are in the cache
    #[arg(long)]
    fresh: bool,
    /// Keep the table in docs/kernels.md and the verifier's work in tests/tests/verifier/budget.txt
    #[arg(long)]
    record: bool,
    /// Run the tests whose name contains this, instead of the core
    filter: Option<String>,
}

/// Boots each kernel in turn and runs the suite in it. The last line is the count, alone.
pub(super) fn run(workspace: &Workspace, options: &Options) -> Result<ExitCode> {
    needs::install();
    let (qemu, kernels) = fetch(workspace, options)?;
    let plugin = match env::var_os(plugin::PATH_VARIABLE) {
        Some(named) => named.into(),
        None => build::run(workspace)?,
    };
    let dir = workspace.target.join("kernels");
    let suite = suite(workspace)?;
    let userland = userland(&dir, &plugin, &suite, options)?;
    let (mut columns, mut tally) = (Vec::new(), Tally::default());
    let (mut skips, mut faults) = (Vec::new(), Vec::new());
    for (release, kernel) in &kernels {
        let initramfs = dir.join("initramfs.cpio");
        initramfs::join(&[&userland, &initramfs::modules(kernel)?], &initramfs)?;
        println!("\nbooting {} of {}", kernel.version, release.suite);
        let outcome = Guest { kernel, cpu: release.cpu, initramfs: &initramfs }.run(&qemu, &dir)?;
        println!("{} took {} s", kernel.version, outcome.took.as_secs());
        faults.extend(outcome.fault.iter().map(|fault| format!("{}: {fault}", kernel.version)));
        outcome.lines.iter().for_each(|line| tally.hear(line));
        skips.extend(tally.skips.drain(..).map(|skip| format!("{}: {skip}", kernel.version)));
        columns.push(Column::of(&kernel.version, &outcome));
        if options.record {
            record::budget(workspace, &kernel.version, &outcome.lines)?;
        }
    }
    if options.filter.is_none() {
        let table = table::markdown(&columns);
        println!("\n{table}");
        // Less than all of it would take the other kernels' columns away.
        if options.record && columns.len() == Release::ALL.len() {
            record::table(workspace, &table)?;
        }
    }
    if options.record {
        record::own_budget(workspace, &plugin, &suite)?;
    }
    skips.iter().for_each(|skip| println!("skipped on {skip}"));
    faults.iter().for_each(|fault| println!("{fault}"));
    println!("{} kernels: {tally}", columns.len());
    let passed = faults.is_empty() && tally.failed == 0 && tally.passed > 0;
    Ok(if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// qemu and the kernels asked for, from the cache or Debian's archive.
fn fetch(workspace: &Workspace, options: &Options) -> Result<(Qemu, Vec<(&'static Release, Kernel)>)> {
    let mut archive = None;
    let qemu = match Qemu::known(workspace).filter(|_| !options.fresh) {
        Some(qemu) => qemu,
        None => Qemu::fetch(workspace, opened(&mut archive, workspace)?)?,
    };
    let mut kernels = Vec::new();
    for release in &Release::ALL {
        let kernel = match release.known(workspace)?.filter(|_| !options.fresh) {
            Some(kernel) => kernel,
            None => release.fetch(workspace, opened(&mut archive, workspace)?)?,
        };
        if kernel.version.starts_with(&options.only) {
            kernels.push((release, kernel));
        }
    }
    if kernels.is_empty() {
        let sentence = format!("no kernel's version begins with {:?}", options.only);
        return Err(Fault::new(sentence, "cargo xtask test kernels").into());
    }
    Ok((qemu, kernels))
}

/// The archive, whose lists take a while and are read when the first package is missing.
fn opened<'a>(archive: &'a mut Option<Archive>, workspace: &Workspace) -> Result<&'a Archive> {
    match archive {
        Some(archive) => Ok(archive),
        None => Ok(archive.insert(Archive::open(workspace)?)),
    }
}

/// The guests' file system, packed.
fn userland(dir: &Path, plugin: &Path, suite: &Path, options: &Options) -> Result<PathBuf> {
    fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
    let (root, archive) = (dir.join("root"), dir.join("userland.cpio"));
    Userland::build(&root, plugin, suite, options.filter.as_deref())?;
    initramfs::pack(&root, &archive)?;
    Ok(archive)
}

/// The lab suite, built for this machine.
fn suite(workspace: &Workspace) -> Result<PathBuf> {
    let mut cargo = workspace.cargo("test");
    cargo.args(["--locked", "--package=ebpf-bridge-lab", "--test=lab", "--no-run", "--message-format=json"]);
    cargo.stderr(Stdio::inherit());
    let said = cargo.output().context("cannot run cargo")?.stdout;
    let said = String::from_utf8_lossy(&said);
    let built = said.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let mut built = built.filter_map(|message| message["executable"].as_str().map(PathBuf::from));
    built
        .next()
        .ok_or_else(|| Fault::new("the lab suite does not build, see above", "cargo test --no-run").into())
}
