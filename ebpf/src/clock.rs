//! The time, as exact as a tick of the kernel: reading the clock costs more than anything else a packet needs.

use aya_ebpf::helpers::{bpf_jiffies64, bpf_ktime_get_ns};

use crate::maps::CLOCK;

/// `bpf_ktime_get_ns` as it was in this tick of the kernel, or a little before: 1 to 10 ms ago at most. The
/// verifier turns `bpf_jiffies64` (5.6) into a load. `bpf_ktime_get_coarse_ns` is for 5.11 and newer, and a call.
#[inline(always)]
pub fn now() -> u64 {
    let Some(clock) = CLOCK.get_ptr_mut(0) else { return 0 };
    // SAFETY: this CPU's cell, and nothing else runs on it now; helpers without arguments.
    unsafe {
        let tick = bpf_jiffies64();
        if (*clock).tick != tick {
            (*clock).tick = tick;
            (*clock).ns = bpf_ktime_get_ns();
        }
        (*clock).ns
    }
}
