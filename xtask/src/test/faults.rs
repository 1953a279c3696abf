//! Faults of the node and of the machine: what the ordinary suite tries at a few points, at many.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;

use super::{everything, needs};
use crate::build;
use crate::workspace::Workspace;

/// Options of `cargo xtask test faults`.
#[derive(Args)]
pub(crate) struct Options {
    /// At how many system calls of an execution something happens
    #[arg(long, value_name = "N", default_value_t = 120)]
    points: usize,
    /// Where, by chance that can be repeated
    #[arg(long, value_name = "N")]
    seed: Option<u32>,
}

pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<ExitCode> {
    needs::install();
    let plugin = build::run(workspace)?;
    let seed = options.seed.unwrap_or_else(std::process::id);
    println!("{} points of each execution; again with --seed {seed}", options.points);
    everything::count(["fault:", "killed:", "crash:"].map(|filter| {
        let mut cargo = workspace.cargo("test");
        cargo.args(["--locked", "--package", "ebpf-bridge-lab", "--test", "lab", "--", filter]);
        cargo.env("EBPF_BRIDGE_BIN", &plugin);
        cargo.env("EBPF_BRIDGE_POINTS", options.points.to_string()).env("EBPF_BRIDGE_SEED", seed.to_string());
        cargo
    }))
}
