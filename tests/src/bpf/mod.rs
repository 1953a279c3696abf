//! The eBPF programs on their own: loaded without pins, run on one packet at a time by the kernel's
//! `BPF_PROG_TEST_RUN`.

mod bench;
mod entry;
mod syscall;
mod verified;

use nix::libc;

pub use bench::{Bench, Device, Input, Output};
pub use verified::{Series, verified};

/// Why a program cannot be run here on a packet with a device's checksum, if it cannot.
pub(crate) fn device_checksum_missing() -> Option<String> {
    let tried = entry::nothing().and_then(|program| {
        syscall::test_run(&program, syscall::CHECKSUM_COMPLETE, 1, &[0; 64], &entry::Context::default())
            .map(drop)
    });
    match tried {
        Ok(()) => None,
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            Some("the kernel's test runs know no CHECKSUM_COMPLETE".into())
        }
        Err(error) => Some(format!("no test runs here: {error}")),
    }
}
