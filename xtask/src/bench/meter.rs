//! What the kernel counts while a sample is taken.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};
use ebpf_bridge_lab::Place;

/// `USER_HZ`, the unit of /proc/stat: 100 a second on every architecture Linux has now.
const TICK: Duration = Duration::from_millis(10);
/// Columns of /proc/stat that are work: user, nice, system, irq, softirq (proc_stat(5)).
const WORK: [usize; 5] = [0, 1, 2, 5, 6];

/// Counters at one time.
pub(super) struct Meter {
    busy: Duration,
    retransmits: u64,
}

impl Meter {
    /// Reads those of the machine, and of the namespaces of both ends.
    pub(super) fn read(ends: [&Place; 2]) -> Result<Self> {
        let retransmits = ends.into_iter().map(retransmits).sum::<Result<u64>>()?;
        Ok(Self { busy: busy()?, retransmits })
    }

    /// CPU time of the whole machine since an earlier reading.
    pub(super) fn busy_since(&self, before: &Self) -> Duration {
        self.busy.saturating_sub(before.busy)
    }

    /// TCP segments sent again since an earlier reading.
    pub(super) fn retransmits_since(&self, before: &Self) -> u64 {
        self.retransmits.saturating_sub(before.retransmits)
    }
}

fn busy() -> Result<Duration> {
    let stat = fs::read_to_string("/proc/stat").context("reading /proc/stat")?;
    let all = stat.lines().next().and_then(|line| line.strip_prefix("cpu ")).context("/proc/stat is odd")?;
    let columns: Vec<u32> = all.split_whitespace().map_while(|column| column.parse().ok()).collect();
    Ok(WORK.iter().filter_map(|&column| columns.get(column)).map(|&ticks| TICK * ticks).sum())
}

/// RetransSegs of RFC 1213, as /proc/net/snmp has it: a line of names, then a line of values.
fn retransmits(place: &Place) -> Result<u64> {
    let path = "/proc/thread-self/net/snmp";
    let text = place.run_in(|| fs::read_to_string(path).with_context(|| format!("reading {path}")))?;
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Tcp:"));
    let (names, values) = (lines.next().context("no Tcp")?, lines.next().context("no Tcp")?);
    let mut pairs = names.split_whitespace().zip(values.split_whitespace());
    let found = pairs.find(|(name, _)| *name == "RetransSegs").context("no RetransSegs")?;
    Ok(found.1.parse()?)
}
