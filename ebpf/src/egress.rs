//! `flow_egress`: learn from a noted packet what the kernel does to its flow.

use aya_ebpf::programs::TcContext;
use ebpf_bridge_common::{
    flow::FlowKey,
    headers::{Ethernet, Ip, Ipv4, Ipv6, TCP, UDP},
    learn::{After, learn},
    reason::Egress,
    wire::{Config, NOTES, TAG},
};

use crate::{
    clock,
    maps::{Family, config},
    packet::{self, PASS, at},
    report,
};

/// A note this old is of another packet with the same number. Only a packet that waited (for a neighbour, say)
/// takes longer, and it may be learned the next time. Two ticks, at the fewest per second that kernels are built with.
const NOTE_LIFETIME_NS: u64 = 20_000_000;
/// Addresses and ports that come back after a longer time are those of another flow: conntrack's timeout of a UDP
/// stream (`nf_conntrack_udp_timeout_stream`).
const SAME_FLOW_NS: u64 = 120_000_000_000;

#[inline(always)]
pub fn run(ctx: &TcContext, kind: u8) -> i32 {
    let outcome = match observe(ctx, kind) {
        Ok(()) => Egress::Learned,
        Err(reason) => reason,
    };
    report::egress(ctx, outcome);
    PASS
}

#[inline(always)]
fn observe(ctx: &TcContext, kind: u8) -> Result<(), Egress> {
    let tag = packet::tc_index(ctx);
    if tag & TAG as u32 == 0 {
        return Err(Egress::Untagged);
    }
    if packet::vlan_present(ctx) != 0 {
        return Err(Egress::Unrepeatable);
    }
    let config = config().ok_or(Egress::StashGone)?;
    let ethernet = at::<Ethernet>(ctx, 0).ok_or(Egress::Unrepeatable)?;
    // SAFETY: `at` checked the bounds.
    match u16::from_be(unsafe { (*ethernet).ethertype }) {
        Ipv4::ETHERTYPE => family::<Ipv4>(ctx, config, tag, kind),
        Ipv6::ETHERTYPE => family::<Ipv6>(ctx, config, tag, kind),
        _ => Err(Egress::Unrepeatable),
    }
}

/// When the flow began, in s: when it was first learned, unless it has not been seen for so long that it is another one.
#[inline(always)]
fn since<I: Family>(key: &FlowKey<I::Address>, now: u64) -> u32 {
    // SAFETY: the entry may be replaced while it is read; a torn time makes a wrong age, and nothing else.
    let known = unsafe { I::flows().get(key) };
    match known {
        Some(flow) if flow.since_s != 0 && now.saturating_sub(flow.learned_ns) < SAME_FLOW_NS => flow.since_s,
        _ => (now / 1_000_000_000) as u32,
    }
}

#[inline(always)]
fn family<I: Family>(ctx: &TcContext, config: &Config, tag: u32, kind: u8) -> Result<(), Egress> {
    let now = clock::now();
    let stash = I::stash().get_ptr_mut(0).ok_or(Egress::StashGone)?;
    // SAFETY: this CPU's cell, and nothing else runs on it now.
    let note = unsafe { &mut (*stash).notes[tag as usize & (NOTES - 1)] };
    if note.tag != tag || now.saturating_sub(note.time_ns) >= NOTE_LIFETIME_NS {
        return Err(Egress::StashGone);
    }
    let ethernet = at::<Ethernet>(ctx, 0).ok_or(Egress::Unrepeatable)?;
    let ip = at::<I>(ctx, size_of::<Ethernet>()).ok_or(Egress::Unrepeatable)?;
    // SAFETY: `at` checked the bounds of both.
    let (ethernet, ip) = unsafe { (&*ethernet, &*ip) };
    // The TTL may have become 1 on the way; that is repeated too.
    match ip.admit(packet::l3_available(ctx)) {
        Ok(()) | Err(ebpf_bridge_common::reason::Ingress::Ttl) => {}
        Err(_) => return Err(Egress::Unrepeatable),
    }
    if ip.protocol() != TCP && ip.protocol() != UDP {
        return Err(Egress::Unrepeatable);
    }
    let headers = packet::headers(ctx, ethernet, ip).ok_or(Egress::Unrepeatable)?;
    let after = After { seen: headers.seen(packet::gso_size(ctx)), key: headers.key(packet::ifindex(ctx)) };
    let mut flow = learn::<I>(&note.key, &note.seen, &after)?;
    if note.left != 0 {
        // A bridge that does not know the address yet floods, say. What was learned from the first copy goes too.
        let _ = I::flows().remove(&note.key);
        return Err(Egress::Copied);
    }
    note.left = flow.ifindex;
    flow.learned_ns = now;
    flow.since_s = since::<I>(&note.key, now);
    flow.epoch = config.epoch;
    flow.mark = packet::mark(ctx);
    flow.priority = packet::priority(ctx);
    flow.flags |= kind;
    flow.seal = flow.seal(&note.key);
    I::flows().insert(&note.key, &flow, 0).map_err(|_| Egress::MapFull)
}
