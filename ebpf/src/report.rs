//! Telling what became of a packet: always a counter, and an event for whoever watches.
//!
//! Events are switched by a time, not by a flag: a watcher keeps moving it ahead, and if it dies they end by
//! themselves. While nobody watches the cost is one comparison with 0, and that only for packets that are passed on.

use aya_ebpf::{bindings::__sk_buff, helpers::bpf_ktime_get_ns, programs::TcContext};
use aya_log_ebpf::info;
use ebpf_bridge_common::{
    headers::{Ethernet, Ip, Ipv4, Transport},
    reason::{Egress, Ingress},
};

use crate::{
    maps::{config, count},
    packet::{self, at},
};

/// Counts an outcome of `flow_ingress`; events are only of packets that were not redirected.
#[inline(always)]
pub fn ingress(ctx: &TcContext, reason: Ingress) {
    count(reason.index());
    if watched() {
        event(ctx.skb.skb, reason.index());
    }
}

/// Counts an outcome of `flow_egress`. Untagged packets are no event: they are the fast path's own, and the host's.
#[inline(always)]
pub fn egress(ctx: &TcContext, reason: Egress) {
    count(reason.index());
    if !matches!(reason, Egress::Untagged) && watched() {
        event(ctx.skb.skb, reason.index());
    }
}

#[inline(always)]
fn watched() -> bool {
    let until = config().map_or(0, |config| config.events_until_ns);
    // SAFETY: a helper without arguments.
    until != 0 && unsafe { bpf_ktime_get_ns() } < until
}

/// `code` is an index of the reason tables: the reader has their names.
#[inline(never)]
fn event(skb: *mut __sk_buff, code: u32) -> i32 {
    let ctx = TcContext::new(skb);
    let device = packet::ifindex(&ctx);
    let Some(ethernet) = at::<Ethernet>(&ctx, 0) else { return 0 };
    // SAFETY: `at` checked the bounds.
    let ethertype = u16::from_be(unsafe { (*ethernet).ethertype });
    let ip = at::<Ipv4>(&ctx, size_of::<Ethernet>());
    let transport = at::<Transport>(&ctx, size_of::<Ethernet>() + size_of::<Ipv4>());
    if let (Ipv4::ETHERTYPE, Some(ip), Some(transport)) = (ethertype, ip, transport) {
        // SAFETY: as above.
        let (ip, transport) = unsafe { (&*ip, &*transport) };
        info!(
            &ctx,
            "{} {} {:i}:{} {:i}:{} {}",
            code,
            device,
            u32::from_be(ip.saddr),
            u16::from_be(transport.sport),
            u32::from_be(ip.daddr),
            u16::from_be(transport.dport),
            ip.protocol
        );
    } else {
        info!(&ctx, "{} {} {:x}", code, device, ethertype);
    }
    0
}
