//! What the user may say.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::workload::Workload;

/// Arguments of `cargo xtask bench`.
#[derive(Args)]
pub(crate) struct Options {
    /// Short samples and few rounds: all of it in less than 5 minutes
    #[arg(long)]
    quick: bool,
    /// Only the workloads whose name contains this; may be repeated
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// How often everything is measured [default: 11, with --quick 5]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: Option<u32>,
    /// Where results, report and charts go [default: target/bench]
    #[arg(long, value_name = "DIR")]
    pub(super) out: Option<PathBuf>,
    /// Reference plugins to compare with [default: those installed]
    #[arg(long, value_name = "DIR")]
    pub(super) reference: Option<PathBuf>,
}

/// How much is measured.
pub(super) struct Plan {
    pub(super) quick: bool,
    pub(super) rounds: u32,
    pub(super) workloads: Vec<Workload>,
    /// Of one sample by a tool, which counts in whole seconds.
    pub(super) seconds: u32,
    /// Of one sample by our own generators.
    pub(super) burst: Duration,
    /// Operations whose median is one sample.
    pub(super) repeats: u32,
}

impl Options {
    pub(super) fn plan(&self) -> Plan {
        let chosen = |workload: &Workload| {
            let name = workload.name();
            self.only.is_empty() || self.only.iter().any(|part| name.contains(part.as_str()))
        };
        let millis = if self.quick { 400 } else { 2000 };
        Plan {
            quick: self.quick,
            rounds: self.rounds.unwrap_or(if self.quick { 5 } else { 11 }),
            workloads: Workload::all().into_iter().filter(chosen).collect(),
            seconds: if self.quick { 1 } else { 3 },
            burst: Duration::from_millis(millis),
            repeats: if self.quick { 3 } else { 9 },
        }
    }
}
