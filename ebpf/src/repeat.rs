//! Doing to a packet what the kernel did to the one its flow was learned from.

use aya_ebpf::{
    bindings::{BPF_F_MARK_MANGLED_0, BPF_F_PSEUDO_HDR},
    helpers::{bpf_csum_update, bpf_l4_csum_replace, bpf_skb_change_type},
    programs::TcContext,
};
use ebpf_bridge_common::{
    checksum,
    flow::{FLOW_ADDRESS, FLOW_IP, FLOW_L2, FLOW_PORT, FLOW_TO_POD, Flow},
    headers::{Ethernet, Transport, UDP},
    reason::Ingress,
    wire::{CONFIG_PLAIN, Config},
};

use crate::{
    ingress::Verdict,
    maps::Family,
    packet::{self, at},
};

/// `PACKET_HOST` of `include/uapi/linux/if_packet.h`.
const PACKET_HOST: u32 = 0;

/// Does to the packet what the kernel did to the one the flow was learned from.
#[inline(always)]
pub fn repeat<I: Family>(
    ctx: &TcContext,
    config: &Config,
    flow: &Flow<I::Address>,
    protocol: u8,
) -> Result<Verdict, Ingress> {
    // What changes in the sum over the packet; what a checksum makes up for is not in it.
    let mut difference = 0;
    if flow.flags & (FLOW_ADDRESS | FLOW_PORT) != 0 {
        if without_checksum::<I>(ctx, protocol)? {
            difference = flow.port_difference;
        } else {
            transport_checksum::<I>(ctx, flow, protocol)?;
        }
    }
    if flow.flags & (FLOW_L2 | FLOW_ADDRESS | FLOW_PORT | FLOW_IP) != 0 {
        // Taken anew: the checksum helper may have moved the packet.
        let ethernet = at::<Ethernet>(ctx, 0).ok_or(Ingress::RewriteFailed)?;
        let ip = at::<I>(ctx, size_of::<Ethernet>()).ok_or(Ingress::RewriteFailed)?;
        let transport =
            at::<Transport>(ctx, packet::transport_offset::<I>()).ok_or(Ingress::RewriteFailed)?;
        // SAFETY: `at` checked the bounds of all three.
        unsafe {
            (*ethernet).macs = flow.macs_out;
            difference = checksum::add(difference, (*ip).rewrite(flow));
            (*transport).sport = flow.sport;
            (*transport).dport = flow.dport;
        }
        if difference != 0 {
            // Keeps the device's sum over the packet (CHECKSUM_COMPLETE) right; without one it does nothing.
            // SAFETY: a helper on our own skb.
            unsafe { bpf_csum_update(ctx.skb.skb, difference) };
        }
    }
    let peer = flow.flags & FLOW_TO_POD != 0 && config.flags & CONFIG_PLAIN == 0;
    // The kernel takes both off a packet that goes through a veth; bpf_redirect_peer does not.
    let (mark, priority) = if peer { (0, 0) } else { (flow.mark, flow.priority) };
    if packet::mark(ctx) != mark || packet::priority(ctx) != priority {
        packet::set_mark_and_priority(ctx.skb.skb, mark, priority);
    }
    // Before 6.15 bpf_redirect_peer does not do this itself, and a bridged frame comes in as PACKET_OTHERHOST.
    if packet::pkt_type(ctx) != PACKET_HOST {
        // SAFETY: a helper on our own skb.
        unsafe { bpf_skb_change_type(ctx.skb.skb, PACKET_HOST) };
    }
    Ok(Verdict::Redirect { ifindex: flow.ifindex, peer })
}

/// True for UDP that does without a checksum (RFC 768; with IPv6, RFC 6935).
#[inline(always)]
fn without_checksum<I: Family>(ctx: &TcContext, protocol: u8) -> Result<bool, Ingress> {
    let transport = at::<Transport>(ctx, packet::transport_offset::<I>()).ok_or(Ingress::RewriteFailed)?;
    // SAFETY: `at` checked the bounds.
    Ok(protocol == UDP && unsafe { (*transport).word[1] } == 0)
}

/// Corrects the TCP or UDP checksum before the fields change. A size of 0 in the flags means that the last
/// argument is a difference (`bpf_l4_csum_replace` in `net/core/filter.c`). BPF_F_PSEUDO_HDR takes the change of
/// the checksum out of CHECKSUM_COMPLETE, as is right for IPv4; for IPv6, whose header has no checksum that makes
/// up for the addresses, `repeat` puts theirs in (BPF_F_IPV6 would do both, from 6.16 on).
#[inline(always)]
fn transport_checksum<I: Family>(
    ctx: &TcContext,
    flow: &Flow<I::Address>,
    protocol: u8,
) -> Result<(), Ingress> {
    let base = packet::transport_offset::<I>() as u32;
    let (offset, flags) =
        if protocol == UDP { (base + 6, BPF_F_MARK_MANGLED_0 as u64) } else { (base + 16, 0) };
    let replace = |difference: u32, flags: u64| {
        // SAFETY: a helper on our own skb, it checks the offset.
        match unsafe { bpf_l4_csum_replace(ctx.skb.skb, offset, 0, difference as u64, flags) } {
            0 => Ok(()),
            _ => Err(Ingress::RewriteFailed),
        }
    };
    if flow.flags & FLOW_ADDRESS != 0 {
        replace(flow.address_difference, flags | BPF_F_PSEUDO_HDR as u64)?;
    }
    if flow.flags & FLOW_PORT != 0 {
        replace(flow.port_difference, flags)?;
    }
    Ok(())
}
