//! The maps. Their names are the names of the pins.

use core::mem::MaybeUninit;

use aya_ebpf::{
    macros::map,
    maps::{Array, LruHashMap, PerCpuArray},
};
use ebpf_bridge_common::{
    flow::{Flow, FlowKey},
    headers::{Ip, Ipv4, Ipv6},
    reason::COUNTERS as COUNTER_COUNT,
    wire::{Clock, Config, Stash},
};

/// The loader sets the size (`ebpf.maxFlows`).
#[map]
static FLOWS4: LruHashMap<FlowKey<u32>, Flow<u32>> = LruHashMap::with_max_entries(1024, 0);

#[map]
static FLOWS6: LruHashMap<FlowKey<[u32; 4]>, Flow<[u32; 4]>> = LruHashMap::with_max_entries(1024, 0);

#[map]
static STASH4: PerCpuArray<Stash<u32>> = PerCpuArray::with_max_entries(1, 0);

#[map]
static STASH6: PerCpuArray<Stash<[u32; 4]>> = PerCpuArray::with_max_entries(1, 0);

#[map]
static CONFIG: Array<Config> = Array::with_max_entries(1, 0);

#[map]
pub static CLOCK: PerCpuArray<Clock> = PerCpuArray::with_max_entries(1, 0);

#[map]
static COUNTERS: PerCpuArray<u64> = PerCpuArray::with_max_entries(COUNTER_COUNT, 0);

/// An address family's maps.
pub trait Family: Ip + 'static {
    fn flows() -> &'static LruHashMap<FlowKey<Self::Address>, Flow<Self::Address>>;
    fn stash() -> &'static PerCpuArray<Stash<Self::Address>>;
}

impl Family for Ipv4 {
    #[inline(always)]
    fn flows() -> &'static LruHashMap<FlowKey<u32>, Flow<u32>> {
        &FLOWS4
    }

    #[inline(always)]
    fn stash() -> &'static PerCpuArray<Stash<u32>> {
        &STASH4
    }
}

impl Family for Ipv6 {
    #[inline(always)]
    fn flows() -> &'static LruHashMap<FlowKey<[u32; 4]>, Flow<[u32; 4]>> {
        &FLOWS6
    }

    #[inline(always)]
    fn stash() -> &'static PerCpuArray<Stash<[u32; 4]>> {
        &STASH6
    }
}

/// The configuration; absent only for the verifier.
#[inline(always)]
pub fn config() -> Option<&'static Config> {
    CONFIG.get(0)
}

/// The entry as it is now, each word read once: another CPU may give it to another flow meanwhile, see
/// [`Flow::seal`].
#[inline(always)]
pub fn copy<A>(entry: *const Flow<A>) -> Flow<A> {
    let mut flow = MaybeUninit::<Flow<A>>::uninit();
    let to: *mut u64 = flow.as_mut_ptr().cast();
    for word in 0..size_of::<Flow<A>>() / size_of::<u64>() {
        // SAFETY: a map's value is valid while the program runs and aligned to 8; both are of the same size.
        unsafe { to.add(word).write(entry.cast::<u64>().add(word).read_volatile()) };
    }
    // SAFETY: every word has been written, and any value of it is valid.
    unsafe { flow.assume_init() }
}

/// Counts one packet under an index of the reason tables.
#[inline(always)]
pub fn count(index: u32) {
    if let Some(counter) = COUNTERS.get_ptr_mut(index) {
        // SAFETY: the pointer is to this CPU's cell, and tc programs are not interrupted by one another on a CPU.
        unsafe { *counter += 1 };
    }
}
