//! The project's own commands: `cargo xtask <verb>`, one file per verb.

mod bench;
mod build;
mod build_ebpf;
mod debian;
mod demo;
mod docs;
mod fault;
mod fuzz;
mod lint;
mod process;
mod setup;
mod test;
mod toolchain;
mod workspace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::fault::Fault;
use crate::workspace::Workspace;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "The project's own commands", disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Find or get a Rust toolchain and a bpf-linker that can build the eBPF programs
    Setup,
    /// Build the eBPF programs to target/ebpf/ebpf-bridge.o
    BuildEbpf,
    /// Build the release plugin, static, with the programs embedded, to target/dist/ebpf-bridge
    Build,
    /// Set up, build, and run unit, lab and runtime tests, or the suite named
    Test(test::Options),
    /// Wire two pods in a lab of namespaces, send real traffic, and show who carried it
    Demo,
    /// Compare speed and cost with the reference bridge, a bare wire and the node's own network
    Bench(bench::Options),
    /// Write what is generated from the plugin's types: the configuration's schema and reference
    Docs,
    /// Look for input that is handled wrongly, or replay what was found
    Fuzz(fuzz::Options),
    /// Check formatting, clippy and dependencies
    Lint,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(&cli.verb) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            if let Some(fault) = error.downcast_ref::<Fault>() {
                eprintln!(" mend: {}", fault.mend);
            }
            ExitCode::FAILURE
        }
    }
}

fn run(verb: &Verb) -> anyhow::Result<ExitCode> {
    let workspace = Workspace::find()?;
    match verb {
        Verb::Setup => setup::run(&workspace)?,
        Verb::BuildEbpf => drop(build_ebpf::run(&workspace)?),
        Verb::Build => drop(build::run(&workspace)?),
        Verb::Test(options) => return test::run(&workspace, options),
        Verb::Demo => return demo::run(&workspace),
        Verb::Bench(options) => bench::run(&workspace, options)?,
        Verb::Docs => docs::run(&workspace)?,
        Verb::Fuzz(options) => fuzz::run(&workspace, options)?,
        Verb::Lint => lint::run(&workspace)?,
    }
    Ok(ExitCode::SUCCESS)
}
