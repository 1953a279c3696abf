//! Which CPU a thread runs on.

use std::thread;

use anyhow::{Context, Result};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

/// The CPUs this process may run on.
pub fn cpus() -> Result<Vec<usize>> {
    let allowed = sched_getaffinity(Pid::from_raw(0)).context("asking for the CPUs")?;
    Ok((0..CpuSet::count()).filter(|&cpu| allowed.is_set(cpu) == Ok(true)).collect())
}

/// Keeps the calling thread on one CPU.
pub(super) fn pin(cpu: usize) -> Result<()> {
    let mut cpus = CpuSet::new();
    cpus.set(cpu).with_context(|| format!("CPU {cpu}"))?;
    sched_setaffinity(Pid::from_raw(0), &cpus).with_context(|| format!("going to CPU {cpu}"))
}

/// Does something on a thread that stays on one CPU.
pub(super) fn pinned<T: Send>(cpu: usize, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    thread::scope(|scope| {
        let worker = scope.spawn(|| {
            pin(cpu)?;
            work()
        });
        worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
