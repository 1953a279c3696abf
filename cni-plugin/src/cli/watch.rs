//! `--watch`: a report again and again, until whoever reads has seen enough.

use std::{
    io::{self, IsTerminal, Write},
    thread,
    time::{Duration, Instant},
};

use clap::Args;

use super::{Output, Report};

/// Once, or again and again.
#[derive(Args, Clone, Copy)]
pub(super) struct Watch {
    /// Again every second; JSON then is one document per line
    #[arg(long)]
    watch: bool,
    /// Stop after so many seconds
    #[arg(long = "for", value_name = "SECONDS", requires = "watch")]
    seconds: Option<u64>,
}

/// From one report to the next.
const PERIOD: Duration = Duration::from_secs(1);
/// To the upper left corner, and clear the screen (ECMA-48, CUP and ED).
const CLEAR: &str = "\x1b[H\x1b[2J";

/// Prints reports. `report` is told how long ago the last one was made.
pub(super) fn watch(
    options: Watch,
    output: Output,
    mut report: impl FnMut(Option<Duration>) -> anyhow::Result<Report>,
) -> anyhow::Result<()> {
    if !options.watch {
        return Ok(super::print(&report(None)?, output)?);
    }
    let (start, mut last) = (Instant::now(), None::<Instant>);
    let limit = options.seconds.map(Duration::from_secs);
    loop {
        let now = Instant::now();
        let made = report(last.map(|last| now - last))?;
        last = Some(now);
        match show(&made, output) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
            shown => shown?,
        }
        if limit.is_some_and(|limit| start.elapsed() + PERIOD > limit) {
            return Ok(());
        }
        thread::sleep(PERIOD);
    }
}

fn show(report: &Report, output: Output) -> io::Result<()> {
    match output {
        Output::Json => writeln!(io::stdout().lock(), "{}", report.json),
        Output::Table => {
            let mut out = anstream::stdout().lock();
            if io::stdout().is_terminal() {
                out.write_all(CLEAR.as_bytes())?;
            }
            writeln!(out, "{}", report.table)
        }
    }
}
