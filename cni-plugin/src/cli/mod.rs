//! The operator's tool: one file per verb. Exit codes: 0 fine, 1 unhealthy or failed, 2 usage.

mod confs;
mod control;
mod doctor;
mod gc;
mod install;
mod ls;
mod manual;
mod monitor;
mod node;
mod paint;
mod repair;
mod replace;
mod stats;
mod status;
mod table;
mod uninstall;
mod version;

use std::{
    ffi::OsString,
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
    time::Duration,
};

use clap::{Parser, Subcommand, ValueEnum};
use serde_json::Value;

use self::control::{Control, Rung, control};

/// Version of every JSON document the tool prints.
pub(crate) const SCHEMA_VERSION: u32 = 1;

/// What this is, in words by which a binary is known to be it.
const ABOUT: &str = "A CNI bridge plugin whose established flows are carried by eBPF";

#[derive(Parser)]
#[command(
    name = "ebpf-bridge",
    version,
    about = ABOUT
)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
    /// How to print
    #[arg(short, long, global = true, value_enum, default_value = "table")]
    output: Output,
    /// Mount point of the BPF file system, as in the configuration
    #[arg(long, global = true, default_value = "/sys/fs/bpf")]
    bpffs: PathBuf,
}

#[derive(Clone, Copy, ValueEnum)]
enum Output {
    Table,
    Json,
}

#[derive(Subcommand)]
enum Verb {
    /// Let established flows take the fast path (again)
    On,
    /// Let every packet take the bridge path, at once and until `on`
    Off,
    /// Forget everything that was learned, and learn it anew
    Forget,
    /// Choose how packets get into pods, at once and until told otherwise
    Redirect {
        /// Which way
        #[arg(value_enum)]
        rung: Rung,
    },
    /// Packets that are not redirected, and why, as they pass
    Monitor {
        /// Only this reason
        #[arg(long)]
        reason: Option<String>,
        /// Stop after so many seconds
        #[arg(long = "for", value_name = "SECONDS")]
        seconds: Option<u64>,
    },
    /// Packets by program and reason
    Stats,
    /// One line for each thing that must work, fine or with the command that mends it
    Status {
        #[command(flatten)]
        sources: node::Sources,
        /// One line for all
        #[arg(long)]
        brief: bool,
    },
    /// Pods of this node, and whether their flows may take the fast path
    Ls {
        /// Only this one: [namespace/]name, or the beginning of a container id
        pod: Option<String>,
    },
    /// Look for everything that may be wrong, with the command that mends it
    Doctor {
        #[command(flatten)]
        sources: node::Sources,
        /// Write the findings, and what they are based on, to a tar archive without secrets
        #[arg(long, value_name = "FILE")]
        bundle: Option<PathBuf>,
    },
    /// Restore what has been lost of what the pods' ADDs made
    Repair,
    /// Take away what certainly belongs to no pod
    Gc {
        #[command(flatten)]
        sources: node::Sources,
        /// Only tell
        #[arg(long)]
        dry_run: bool,
    },
    /// Put this binary, and a network configuration, where the container runtime looks for them
    Install(install::Install),
    /// Take away what `install` and the plugin have made, as far as no pod needs it
    Uninstall(install::Place),
    /// Version of the plugin, of the protocol and of the programs
    Version,
    /// A completion script for a shell
    Completions {
        /// The shell
        #[arg(value_enum)]
        shell: clap_complete::Shell,
    },
    /// The manual page, for man(1)
    Man {
        /// Of this verb
        verb: Option<String>,
    },
}

/// A document and the same for people.
struct Report {
    json: Value,
    table: String,
}

/// A report that says whether all is well.
struct Judged {
    report: Report,
    healthy: bool,
}

/// Runs the tool.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are "errors" that go to stdout and exit with 0.
            let _ = error.print();
            return ExitCode::from(error.exit_code() as u8);
        }
    };
    match serve(&cli) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            let _ = writeln!(io::stderr(), "ebpf-bridge: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn judge(cli: &Cli) -> anyhow::Result<Judged> {
    match &cli.verb {
        Verb::Status { sources, brief } => status::status(&cli.bpffs, sources, *brief),
        Verb::Doctor { sources, bundle } => doctor::doctor(&cli.bpffs, sources, bundle.as_deref()),
        Verb::Gc { sources, dry_run } => gc::gc(&cli.bpffs, sources, *dry_run),
        _ => repair::repair(&cli.bpffs),
    }
}

/// Returns whether all is well.
fn serve(cli: &Cli) -> anyhow::Result<bool> {
    let report = match &cli.verb {
        Verb::On => control(&cli.bpffs, Control::On)?,
        Verb::Off => control(&cli.bpffs, Control::Off)?,
        Verb::Forget => control(&cli.bpffs, Control::Forget)?,
        Verb::Redirect { rung } => control(&cli.bpffs, Control::Redirect(*rung))?,
        Verb::Monitor { reason, seconds } => {
            monitor::monitor(&cli.bpffs, reason.as_deref(), seconds.map(Duration::from_secs))?;
            return Ok(true);
        }
        Verb::Stats => stats::stats(&cli.bpffs)?,
        Verb::Ls { pod } => ls::ls(&cli.bpffs, pod.as_deref())?,
        Verb::Status { .. } | Verb::Doctor { .. } | Verb::Repair | Verb::Gc { .. } => {
            let judged = judge(cli)?;
            print(&judged.report, cli.output)?;
            return Ok(judged.healthy);
        }
        Verb::Install(options) => install::install(options)?,
        Verb::Uninstall(place) => uninstall::uninstall(place, &cli.bpffs)?,
        Verb::Version => version::version(),
        Verb::Completions { shell } => return Ok(write(&manual::completions(*shell)).map(|()| true)?),
        Verb::Man { verb } => return Ok(write(&manual::man(verb.as_deref())?).map(|()| true)?),
    };
    Ok(print(&report, cli.output).map(|()| true)?)
}

fn print(report: &Report, output: Output) -> io::Result<()> {
    match output {
        // Takes colours out unless they will be seen, which NO_COLOR also decides.
        Output::Table => finish(anstream::stdout().lock().write_all(report.table.as_bytes())),
        Output::Json => write(format!("{:#}\n", report.json).as_bytes()),
    }
}

fn write(text: &[u8]) -> io::Result<()> {
    finish(io::stdout().lock().write_all(text))
}

fn finish(written: io::Result<()>) -> io::Result<()> {
    match written {
        // Whoever reads has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}
