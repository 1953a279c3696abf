//! `cargo xtask test`: set up, build, run every test, count; or one of the suites that are too long or need too much
//! for every change.

mod everything;
mod faults;
mod kernels;
mod load;
mod needs;
mod tally;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand};

use crate::workspace::Workspace;

/// What to test. A word that is no suite's name is a filter.
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Options {
    #[command(subcommand)]
    suite: Option<Suite>,
    /// Run only the tests whose name contains this
    filter: Option<String>,
}

/// Suites that run only when asked for by name.
#[derive(Subcommand)]
enum Suite {
    /// Make disks, eBPF and the node fail, and kill the plugin, at many points
    Faults(faults::Options),
    /// Let pods come and go on a full node while others stream
    Load(load::Options),
    /// Boot Debian's kernels in qemu and run the core of the lab in each
    Kernels(kernels::Options),
}

/// Runs what was asked for. The exit code tells whether all of it passed.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<ExitCode> {
    match &options.suite {
        None => everything::run(workspace, options.filter.as_deref()),
        Some(Suite::Faults(options)) => faults::run(workspace, options),
        Some(Suite::Load(options)) => load::run(workspace, options),
        Some(Suite::Kernels(options)) => kernels::run(workspace, options),
    }
}
