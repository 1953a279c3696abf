//! The operator's tool: one file per verb. Exit codes: 0 fine, 1 failed, 2 usage.

mod control;
mod install;
mod manual;
mod monitor;
mod replace;
mod stats;
mod status;
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
    /// Pods of this node, and which programs are on which device
    Status,
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
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "ebpf-bridge: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn serve(cli: &Cli) -> anyhow::Result<()> {
    let report = match &cli.verb {
        Verb::On => control(&cli.bpffs, Control::On)?,
        Verb::Off => control(&cli.bpffs, Control::Off)?,
        Verb::Forget => control(&cli.bpffs, Control::Forget)?,
        Verb::Redirect { rung } => control(&cli.bpffs, Control::Redirect(*rung))?,
        Verb::Monitor { reason, seconds } => {
            return monitor::monitor(&cli.bpffs, reason.as_deref(), seconds.map(Duration::from_secs));
        }
        Verb::Stats => stats::stats(&cli.bpffs)?,
        Verb::Status => status::status(&cli.bpffs)?,
        Verb::Install(options) => install::install(options)?,
        Verb::Uninstall(place) => uninstall::uninstall(place, &cli.bpffs)?,
        Verb::Version => version::version(),
        Verb::Completions { shell } => return Ok(write(&manual::completions(*shell))?),
        Verb::Man { verb } => return Ok(write(&manual::man(verb.as_deref())?)?),
    };
    Ok(print(&report, cli.output)?)
}

fn print(report: &Report, output: Output) -> io::Result<()> {
    match output {
        Output::Table => write(report.table.as_bytes()),
        Output::Json => write(format!("{:#}\n", report.json).as_bytes()),
    }
}

fn write(text: &[u8]) -> io::Result<()> {
    match io::stdout().lock().write_all(text) {
        // Whoever reads has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}
