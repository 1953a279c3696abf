//! The verifier's work with the programs: what it was when somebody last looked, and no jump since. A change that
//! doubles it today is refused by an older or stricter kernel tomorrow.

use anyhow::{Context, Result, ensure};
use ebpf_bridge_lab::Need;
use ebpf_bridge_lab::bpf::{self, Series};

use crate::suite::Suite;

/// Lines of a kernel's series, a program, and the instructions processed. `cargo xtask test kernels --record` writes it.
const BUDGET: &str = include_str!("verifier/budget.txt");
/// How much more than recorded is no jump, in hundredths.
const TOLERANCE: u64 = 10;

pub(crate) fn register(suite: &mut Suite) {
    suite.test_with(
        &[Need::Object],
        "verifier: each program costs at most 10 % more than recorded",
        within_budget,
    );
}

fn within_budget() -> Result<()> {
    let budget = Budget::parse(BUDGET)?;
    let series = budget.nearest(Series::running()?).context("no budget is recorded")?;
    let counts = bpf::verified()?;
    // For whoever records it.
    for (program, count) in &counts {
        println!("verifier processed {count} instructions of {program}");
    }
    for (program, count) in counts {
        let recorded = budget.of(series, program);
        let recorded = recorded.with_context(|| format!("no budget for {program}"))?;
        ensure!(
            u64::from(count) * 100 <= u64::from(recorded) * (100 + TOLERANCE),
            "the verifier processes {count} instructions of {program}, recorded are {recorded} for {series:?}"
        );
    }
    Ok(())
}

struct Budget<'a>(Vec<(Series, &'a str, u32)>);

impl<'a> Budget<'a> {
    fn parse(text: &'a str) -> Result<Budget<'a>> {
        let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let entry = |line: &'a str| {
            let mut words = line.split_whitespace();
            let (Some(series), Some(program), Some(count)) = (words.next(), words.next(), words.next())
            else {
                anyhow::bail!("no budget: {line:?}");
            };
            Ok((Series::parse(series)?, program, count.parse()?))
        };
        lines.map(entry).collect::<Result<_>>().map(Budget)
    }

    /// The newest series that is not newer than `running`, else the oldest.
    fn nearest(&self, running: Series) -> Option<Series> {
        let known = || self.0.iter().map(|entry| entry.0);
        known().filter(|&series| series <= running).max().or_else(|| known().min())
    }

    fn of(&self, series: Series, program: &str) -> Option<u32> {
        self.0.iter().find(|entry| entry.0 == series && entry.1 == program).map(|entry| entry.2)
    }
}
