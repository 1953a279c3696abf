//! What the user may say.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::workload::Workload;
use crate::fault::Fault;

/// Arguments of `cargo xtask bench`.
#[derive(Args)]
pub(crate) struct Options {
    /// The workloads most targets are about, in short samples: less than 5 minutes
    #[arg(long)]
    quick: bool,
    /// Only the workloads whose name contains this; may be repeated
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// How often everything is measured [default: 7, with --quick 5]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: Option<u32>,
    /// Where results, report and charts go [default: target/bench]
    #[arg(long, value_name = "DIR")]
    pub(super) out: Option<PathBuf>,
    /// Reference plugins to compare with [default: those installed]
    #[arg(long, value_name = "DIR")]
    pub(super) reference: Option<PathBuf>,
    /// Measure nothing: report once more what an earlier run left in this directory
    #[arg(long, value_name = "DIR", conflicts_with_all = ["quick", "only", "rounds", "out", "reference"])]
    pub(super) from: Option<PathBuf>,
    /// Write docs/benchmarks.md, its charts and the README's part as well
    #[arg(long)]
    pub(super) docs: bool,
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
    /// # Errors
    /// If no workload has a name that was given; the message lists those there are.
    pub(super) fn plan(&self) -> Result<Plan, Fault> {
        let all = Workload::all();
        let is_known = |part: &&String| all.iter().any(|workload| workload.name().contains(part.as_str()));
        if let Some(unknown) = self.only.iter().find(|part| !is_known(part)) {
            let names = all.iter().map(|workload| workload.name()).collect::<Vec<_>>().join(", ");
            let sentence = format!("no workload has {unknown:?} in its name");
            return Err(Fault::new(sentence, format!("choose of {names}")));
        }
        let chosen = |workload: &Workload| {
            let name = workload.name();
            let named = self.only.iter().any(|part| name.contains(part.as_str()));
            if self.only.is_empty() { !self.quick || workload.is_quick() } else { named }
        };
        Ok(Plan {
            quick: self.quick,
            rounds: self.rounds.unwrap_or(if self.quick { 5 } else { 7 }),
            workloads: all.iter().copied().filter(chosen).collect(),
            seconds: 1,
            burst: Duration::from_millis(if self.quick { 300 } else { 400 }),
            repeats: 5,
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::Options;
    use crate::bench::workload::Workload;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    fn chosen(line: &str) -> Result<Vec<String>, String> {
        let options = Line::parse_from(format!("bench {line}").split_whitespace()).options;
        let plan = options.plan().map_err(|fault| fault.mend)?;
        Ok(plan.workloads.iter().map(|workload| workload.name()).collect())
    }

    #[test]
    fn names_choose_workloads() {
        assert_eq!(chosen("--only memory --only udp-64-pod"), Ok(vec!["udp-64-pod".into(), "memory".into()]));
        // What is asked for by name need not be quick.
        assert_eq!(chosen("--quick --only stall"), Ok(vec!["stall".into()]));
        assert_eq!(chosen("").map(|names| names.len()), Ok(Workload::all().len()));
    }

    #[test]
    fn an_unknown_name_is_answered_with_all_there_are() {
        let listed = chosen("--only udp-64-pod --only warp").expect_err("no such workload");
        assert!(Workload::all().iter().all(|workload| listed.contains(&workload.name())), "{listed}");
    }
}
