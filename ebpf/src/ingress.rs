//! `flow_ingress`: carry the packet, or note it for `flow_egress`.

use aya_ebpf::{
    helpers::{bpf_redirect, generated::bpf_redirect_peer},
    programs::TcContext,
};
use ebpf_bridge_common::{
    flow::{FlowKey, Seen},
    headers::{
        Ethernet, Ip, Ipv4, Ipv6, TCP, TCP_CONTROL, TCP_SYN, TcpRest, Transport, UDP, admit_transport,
    },
    reason::Ingress,
    rewrite::fresh,
    wire::{CONFIG_TCP, Config, NOTES, Note, TAG},
};

use crate::{
    clock,
    maps::{Family, config, copy, count},
    packet::{self, PASS, at},
    repeat::repeat,
    report,
};

/// What becomes of the packet.
pub enum Verdict {
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
    if packet::tc_index(ctx) != tag {
        packet::set_tc_index(ctx.skb.skb, tag);
    }
    match verdict {
        Verdict::Pass { reason, .. } => {
            report::ingress(ctx, reason);
            PASS
        }
        Verdict::Redirect { ifindex, peer } => {
            count(Ingress::Redirected.index());
            // SAFETY: helpers without memory arguments.
            unsafe {
                if peer { bpf_redirect_peer(ifindex, 0) as i32 } else { bpf_redirect(ifindex, 0) as i32 }
            }
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
    if ethernet.is_for_group() {
        return Err(Ingress::Multicast);
    }
    ip.admit(packet::l3_available(ctx))?;
    let protocol = ip.protocol();
    if protocol != TCP && protocol != UDP {
        return Err(Ingress::Protocol);
    }
    let headers = packet::headers(ctx, ethernet, ip).ok_or(Ingress::Malformed)?;
    let key = headers.key(packet::ifindex(ctx));
    if let Some(rest) = headers.rest {
        admit_tcp::<I>(config, rest, &key)?;
    }
    let transport_len = ip.total_len() as u32 - size_of::<I>() as u32;
    admit_transport(transport_len, headers.transport, headers.rest)?;
    let seen = headers.seen(packet::gso_size(ctx));
    let now = clock::now();
    let reason = match I::flows().get_ptr(&key) {
        Some(entry) => {
            let flow = copy(entry);
            match fresh(&flow, &seen, config, now) {
                Ok(()) if flow.seal != flow.seal(&key) => Ingress::Stale,
                Ok(()) => return repeat::<I>(ctx, config, &flow, protocol),
                Err(reason) => reason,
            }
        }
        None => Ingress::NoFlow,
    };
    Ok(Verdict::Pass { reason, tag: note::<I>(key, seen, now) })
}

/// Leaves the start and the end of a connection to the kernel, and forgets what was learned from an earlier
/// connection with the same ports: the kernel may translate this one differently.
#[inline(always)]
fn admit_tcp<I: Family>(config: &Config, rest: &TcpRest, key: &FlowKey<I::Address>) -> Result<(), Ingress> {
    if rest.flags & TCP_CONTROL != 0 {
        if rest.flags & TCP_SYN != 0
            && let Some(flow) = I::flows().get_ptr_mut(key)
        {
            // SAFETY: an aligned 64-bit store into the map value. It breaks the seal, which is as good.
            unsafe { (*flow).learned_ns = 0 };
        }
        return Err(Ingress::TcpFlags);
    }
    if config.flags & CONFIG_TCP == 0 {
        return Err(Ingress::TcpNotLiberal);
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
    stash.notes[number as usize & (NOTES - 1)] = Note { time_ns, key, seen, tag, left: 0 };
    tag
}
