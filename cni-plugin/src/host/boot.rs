//! When this machine was booted.

use std::{
    fs,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// The time of the boot, if it can be told: what was made before is certainly older.
///
/// `btime` of /proc/stat is the present time less the time since the boot. Where the clock was set only after the boot
/// (no battery), files from in between look older than they are: the birth of a device node, which the kernel makes
/// at boot by the clock of then, is the earlier bound.
pub fn time() -> Option<SystemTime> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    let seconds = stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()?;
    let computed = UNIX_EPOCH + Duration::from_secs(seconds);
    let by_the_clock_of_then = fs::metadata("/dev/null").and_then(|metadata| metadata.created()).ok();
    Some(by_the_clock_of_then.map_or(computed, |made| made.min(computed)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_boot_was_before_this_process_and_after_the_kernel_was_built() {
        let boot = time().unwrap();
        assert!(boot < SystemTime::now());
        assert!(boot > UNIX_EPOCH);
    }
}
