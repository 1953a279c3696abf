//! The eBPF programs on crafted packets: one test for each reason and for each rewrite.
//!
//! Two reasons have none. `rewrite_failed` needs a packet that ends before its checksum, and such a packet is
//! refused as `malformed` before; `map_full` needs an LRU map without memory.

mod borrow;
mod chain;
mod edit;
mod egress;
mod family;
mod ingress;
mod reused;
mod rewrite;

use anyhow::Result;
use ebpf_bridge_common::headers::{Ethernet, Ipv4, Ipv6};
use ebpf_bridge_common::wire::{CONFIG_TCP, Config};
use ebpf_bridge_lab::Need;
use ebpf_bridge_lab::frame::{Frame, Transport};
use nix::time::{ClockId, clock_gettime};

use self::borrow::bench;
use self::family::Family;
use crate::suite::Suite;

/// What a program returns that passes a packet on (`TC_ACT_UNSPEC`) and one that redirects it.
const PASS: i32 = -1;
const REDIRECT: i32 = 7;

/// Offset of the IP header.
const IP: usize = size_of::<Ethernet>();

/// As a loaded node has it, but with a `renew` no test outlasts.
const CONFIG: Config = Config {
    renew_ns: 600_000_000_000,
    enabled: 1,
    epoch: 5,
    flags: CONFIG_TCP,
    padding: 0,
    events_until_ns: 0,
};

const TCP: Transport = Transport::Tcp { sequence: 0x0102_0304, acknowledgement: 0x0506_0708 };
const UDP: Transport = Transport::Udp { checksum: true };
const UDP_BARE: Transport = Transport::Udp { checksum: false };

pub(crate) fn register(suite: &mut Suite) {
    ingress::register(suite);
    reused::register(suite);
    egress::register(suite);
    rewrite::register(suite);
    chain::register(suite);
}

/// A test of the programs for both families.
trait Case: Copy + Send + 'static {
    fn run<I: Family>(self) -> Result<()>;
}

fn register_both(suite: &mut Suite, needs: &[Need], name: &str, case: impl Case) {
    let needs = [&[Need::Object], needs].concat();
    suite.test_with(&needs, format!("programs: {name}, IPv4"), move || case.run::<Ipv4>());
    suite.test_with(&needs, format!("programs: {name}, IPv6"), move || case.run::<Ipv6>());
}

/// A packet a pod sends.
fn packet<I: Family>(transport: Transport) -> Frame {
    Frame {
        macs: [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]],
        addresses: [I::address(1, 2), I::address(2, 3)],
        ttl: 64,
        dscp: 0,
        ecn: 1,
        id: 0x1234,
        dont_fragment: true,
        ports: [40_000, 443],
        transport,
        payload: (0..101).collect(),
    }
}

/// Time as the programs have it, ns.
fn now() -> Result<u64> {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC)?;
    Ok(now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64)
}
