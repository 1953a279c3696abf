//! `flow_ingress`: carry the packet, or note it for `flow_egress`.

use aya_ebpf::{
    bindings::{BPF_F_MARK_MANGLED_0, BPF_F_PSEUDO_HDR},
    helpers::{
        bpf_ktime_get_ns, bpf_l4_csum_replace, bpf_redirect, bpf_skb_change_type,
        generated::bpf_redirect_peer,
    },
    programs::TcContext,
};
use ebpf_bridge_common::{
    flow::{FLOW_ADDRESS, FLOW_IP, FLOW_L2, FLOW_PORT, FLOW_TO_POD, Flow, FlowKey, Seen},
    headers::{Ethernet, Ip, Ipv4, Ipv6, TCP, TCP_CONTROL, TCP_SYN, TcpRest, Transport, UDP},
    reason::Ingress,
    rewrite::fresh,
    wire::{CONFIG_PEER, CONFIG_TCP, Config, NOTES, Note, TAG},
};

use crate::{
    maps::{Family, config, count},
    packet::{self, PASS, at},
    report,
};

/// `PACKET_HOST` of `include/uapi/linux/if_packet.h`.
const PACKET_HOST: u32 = 0;

/// What becomes of the packet.
enum Verdict {
    /// Into the device, by the peer rung or not.
    Redirect { ifindex: u32, peer: bool },
    /// To the kernel, with this in `tc_index`.
    Pass { reason: Ingress, tag: u32 },
}

impl From<Ingress> for Verdict {
    fn from(reason: Ingress) -> Self {
        Self::Pass { reason, tag: 0 }
    }
}

#[inline(always)]
pub fn run(ctx: &TcContext) -> i32 {
    let verdict = decide(ctx);
    let tag = if let Verdict::Pass { tag, .. } = verdict { tag } else { 0 };
    packet::set_tc_index(ctx.skb.skb, tag);
    match verdict {
        Verdict::Pass { reason, .. } => {
            report::ingress(ctx, reason);
            PASS
        }
        Verdict::Redirect { ifindex, peer } => {
            count(Ingress::Redirected.index());
            // SAFETY: helpers without memory arguments.
            unsafe { if peer { bpf_redirect_peer(ifindex, 0) as i32 } else { bpf_redirect(ifindex, 0) as i32 } }
        }
    }
}

#[inline(always)]
fn decide(ctx: &TcContext) -> Verdict {
    let Some(config) = config() else { return Ingress::Disabled.into() };
    if config.enabled == 0 {
        return Ingress::Disabled.into();
    }
    if packet::vlan_present(ctx) != 0 {
        return Ingress::Vlan.into();
    }
    let Some(ethernet) = at::<Ethernet>(ctx, 0) else { return Ingress::Malformed.into() };
    // SAFETY: `at` checked the bounds.
    match u16::from_be(unsafe { (*ethernet).ethertype }) {
        Ipv4::ETHERTYPE => family::<Ipv4>(ctx, config),
        Ipv6::ETHERTYPE => family::<Ipv6>(ctx, config),
        _ => Ingress::NotIp.into(),
    }
}

#[inline(always)]
fn family<I: Family>(ctx: &TcContext, config: &Config) -> Verdict {
    match carry::<I>(ctx, config) {
        Ok(verdict) => verdict,
        Err(reason) => reason.into(),
    }
}

#[inline(always)]
fn carry<I: Family>(ctx: &TcContext, config: &Config) -> Result<Verdict, Ingress> {
    packet::linearize(ctx, packet::transport_offset::<I>() + size_of::<Transport>());
    let ethernet = at::<Ethernet>(ctx, 0).ok_or(Ingress::Malformed)?;
    let ip = at::<I>(ctx, size_of::<Ethernet>()).ok_or(Ingress::Malformed)?;
    // SAFETY: `at` checked the bounds of both.
    let (ethernet, ip) = unsafe { (&*ethernet, &*ip) };
    ip.admit(packet::l3_available(ctx))?;
    let protocol = ip.protocol();
    if protocol != TCP && protocol != UDP {
        return Err(Ingress::Protocol);
    }
    let headers = packet::headers(ctx, ethernet, ip).ok_or(Ingress::Malformed)?;
    let key = headers.key(packet::ifindex(ctx));
    let flow = I::flows().get_ptr_mut(&key);
    if let Some(rest) = headers.rest {
        admit_tcp(config, rest, flow)?;
    }
    let seen = headers.seen(packet::gso_size(ctx));
    // SAFETY: a helper without arguments.
    let now = unsafe { bpf_ktime_get_ns() };
    let reason = match flow {
        // SAFETY: an LRU value may be reused while we read it. Then its learned time, addresses or ports
        // belong to another flow that the kernel carries within the same second: at worst one packet goes astray.
        Some(flow) => match fresh(unsafe { &*flow }, &seen, config, now) {
            // SAFETY: as above.
            Ok(()) => return repeat::<I>(ctx, config, unsafe { &*flow }, protocol),
            Err(reason) => reason,
        },
        None => Ingress::NoFlow,
    };
    Ok(Verdict::Pass { reason, tag: note::<I>(key, seen, now) })
}

/// Leaves the start and the end of a connection to the kernel, and forgets what was learned from an earlier
/// connection with the same ports: the kernel may translate this one differently.
#[inline(always)]
fn admit_tcp<A>(config: &Config, rest: &TcpRest, flow: Option<*mut Flow<A>>) -> Result<(), Ingress> {
    if rest.flags & TCP_CONTROL != 0 {
        if rest.flags & TCP_SYN != 0
            && let Some(flow) = flow
        {
            // SAFETY: an aligned 64-bit store into the map value; readers see the old or the new time.
            unsafe { (*flow).learned_ns = 0 };
        }
        return Err(Ingress::TcpFlags);
    }
    if config.flags & CONFIG_TCP == 0 {
        return Err(Ingress::TcpNotLiberal);
    }
    Ok(())
}

/// Does to the packet what the kernel did to the one the flow was learned from.
#[inline(always)]
fn repeat<I: Family>(
    ctx: &TcContext,
    config: &Config,
    flow: &Flow<I::Address>,
    protocol: u8,
) -> Result<Verdict, Ingress> {
    if flow.flags & (FLOW_ADDRESS | FLOW_PORT) != 0 {
        transport_checksum::<I>(ctx, flow, protocol)?;
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
            (*ip).rewrite(flow);
            (*transport).sport = flow.sport;
            (*transport).dport = flow.dport;
        }
    }
    let to_pod = flow.flags & FLOW_TO_POD != 0;
    packet::set_mark_and_priority(ctx.skb.skb, flow.mark, flow.priority);
    // Before 6.15 bpf_redirect_peer does not do this itself, and a bridged frame comes in as PACKET_OTHERHOST.
    // SAFETY: a helper on our own skb.
    unsafe { bpf_skb_change_type(ctx.skb.skb, PACKET_HOST) };
    Ok(Verdict::Redirect { ifindex: flow.ifindex, peer: to_pod && config.flags & CONFIG_PEER != 0 })
}

/// Corrects the TCP or UDP checksum before the fields change. A size of 0 in the flags means that the last
/// argument is a difference (`bpf_l4_csum_replace` in `net/core/filter.c`).
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

/// Keeps the packet's appearance on this CPU and returns the tag that leads to it.
#[inline(always)]
fn note<I: Family>(key: FlowKey<I::Address>, seen: Seen, time_ns: u64) -> u32 {
    let Some(stash) = I::stash().get_ptr_mut(0) else { return 0 };
    // SAFETY: this CPU's cell, and nothing else runs on it now.
    let stash = unsafe { &mut *stash };
    let number = stash.last.wrapping_add(1);
    stash.last = number;
    let tag = number & (TAG as u32 - 1) | TAG as u32;
    stash.notes[number as usize & (NOTES - 1)] = Note { time_ns, key, seen, tag, padding: 0 };
    tag
}
