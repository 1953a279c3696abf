//! The values of the small maps: CONFIG and the per-CPU stash.

use crate::flow::{FlowKey, Seen};

/// The one cell of the CONFIG map. Every field may change while traffic flows.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// How long a learned flow is repeated without asking the kernel again, in ns.
    pub renew_ns: u64,
    /// Events are made until then, `bpf_ktime_get_ns`; 0 is never.
    pub events_until_ns: u64,
    /// Kill switch: 0 leaves every packet to the kernel.
    pub enabled: u32,
    /// Flows learned under another epoch are forgotten.
    pub epoch: u32,
    /// See the `CONFIG_` flags.
    pub flags: u32,
    /// Always 0.
    pub padding: u32,
}

/// TCP may be accelerated: conntrack's window tracking is liberal, or there is no conntrack.
pub const CONFIG_TCP: u32 = 1 << 0;
/// Packets to a pod go by `bpf_redirect` to the host end of its veth rather than by `bpf_redirect_peer`.
pub const CONFIG_PLAIN: u32 = 1 << 1;

/// Bit 15 of `skb->tc_index`: the packet was noted at ingress; the other bits are the note's number.
pub const TAG: u16 = 1 << 15;

/// Notes kept per CPU and family. A packet reaches its egress hook within the softirq run that took it
/// in, so a handful would do.
pub const NOTES: usize = 16;

/// A packet as it came in, kept until it goes out.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Note<A> {
    /// When it came in, by the CPU's [`Clock`].
    pub time_ns: u64,
    /// The flow it belongs to.
    pub key: FlowKey<A>,
    /// What it looked like.
    pub seen: Seen,
    /// Its number with the tag bit, as in `skb->tc_index`.
    pub tag: u32,
    /// Device it left by; 0 until it has.
    pub left: u32,
}

/// One CPU's clock.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    /// The kernel's tick (jiffies) when the time was read.
    pub tick: u64,
    /// `bpf_ktime_get_ns` then.
    pub ns: u64,
}

/// One CPU's notes for one address family.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Stash<A> {
    /// Number of the last note.
    pub last: u32,
    /// Always 0.
    pub padding: u32,
    /// Ring, indexed by the note's number modulo its size.
    pub notes: [Note<A>; NOTES],
}

const _: () = assert!(size_of::<Config>() == 32);
const _: () = assert!(NOTES.is_power_of_two());
const _: () = assert!(size_of::<Note<u32>>() == 64);
const _: () = assert!(size_of::<Note<[u32; 4]>>() == 88);
const _: () = assert!(size_of::<Stash<u32>>() == 8 + NOTES * 64);
const _: () = assert!(size_of::<Stash<[u32; 4]>>() == 8 + NOTES * 88);

#[cfg(feature = "user")]
mod pod {
    use super::*;

    // SAFETY: all three: repr(C), integers only, no padding beyond the named fields (sizes asserted above).
    unsafe impl aya::Pod for Config {}
    // SAFETY: as above.
    unsafe impl aya::Pod for Stash<u32> {}
    // SAFETY: as above.
    unsafe impl aya::Pod for Stash<[u32; 4]> {}
}
