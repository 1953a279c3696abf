//! Unit, lab and runtime tests against the built plugin.

use std::io::{BufRead, BufReader};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result};

use super::needs;
use super::tally::Tally;
use crate::build;
use crate::dist;
use crate::workspace::Workspace;

/// Runs the unit tests and the lab suite against the built plugin. The last line is the count, alone.
pub(super) fn run(workspace: &Workspace, filter: Option<&str>) -> Result<ExitCode> {
    needs::install();
    let plugin = build::run(workspace)?;
    let mut cargo = workspace.cargo("test");
    cargo.args(["--locked", "--workspace", "--no-fail-fast", "--"]).args(filter);
    cargo.env("EBPF_BRIDGE_BIN", &plugin);
    match dist::pack(workspace, &plugin) {
        Ok(archive) => drop(cargo.env("EBPF_BRIDGE_DIST", archive)),
        Err(error) => println!("no archive, so no test of the quick start: {error:#}"),
    }
    count([cargo])
}

/// Runs tests and counts them. The last line is the count, alone.
pub(super) fn count(commands: impl IntoIterator<Item = Command>) -> Result<ExitCode> {
    let mut tally = Tally::default();
    let mut passed = true;
    for command in commands {
        passed &= hear(command, &mut tally)?;
    }
    if !passed && tally.failed == 0 {
        println!(
            "\ncargo test failed without a failed test: a crate does not build or a suite died, see above"
        );
        tally.failed = 1;
    }
    let idle = passed && tally.passed + tally.skipped == 0;
    if idle {
        println!("\nno test has a name like that");
    }
    for skip in &tally.skips {
        println!("skipped: {skip}");
    }
    println!("{tally}");
    Ok(if passed && !idle { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs one command, shows what it says, and tells whether it succeeded.
fn hear(mut command: Command, tally: &mut Tally) -> Result<bool> {
    let mut running =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().context("cannot run cargo")?;
    let stdout = running.stdout.take().context("cargo test has no output")?;
    for line in BufReader::new(stdout).split(b'\n') {
        let line = line.context("cannot read what cargo test says")?;
        let line = String::from_utf8_lossy(&line);
        println!("{line}");
        tally.hear(&line);
    }
    Ok(running.wait().context("cannot wait for cargo test")?.success())
}
