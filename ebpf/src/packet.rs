//! Access to the packet and its metadata.

use aya_ebpf::{bindings::__sk_buff, helpers::bpf_skb_pull_data, programs::TcContext};
use ebpf_bridge_common::{
    flow::{FlowKey, Seen},
    headers::{Ethernet, TcpRest, Transport},
    learn::{has_rest, see, wire_len},
};

use crate::maps::Family;

/// What a program returns to let the packet go on: `TC_ACT_UNSPEC`, `TCX_NEXT`.
pub const PASS: i32 = -1;

/// Offset of the transport header.
#[inline(always)]
pub fn transport_offset<I: Family>() -> usize {
    size_of::<Ethernet>() + size_of::<I>()
}

/// A pointer to the header at `offset`, if the linear part of the packet holds it.
#[inline(always)]
pub fn at<T>(ctx: &TcContext, offset: usize) -> Option<*mut T> {
    let start = ctx.data() + offset;
    (start + size_of::<T>() <= ctx.data_end()).then_some(start as *mut T)
}

/// Makes the first bytes of the packet linear. Senders build headers into the linear part, so this
/// copies only for drivers that leave them in fragments.
#[inline(always)]
pub fn linearize(ctx: &TcContext, bytes: usize) {
    if ctx.data() + bytes > ctx.data_end() && ctx.len() as usize >= bytes {
        // SAFETY: the helper takes any skb; packet pointers are taken anew after it.
        unsafe { bpf_skb_pull_data(ctx.skb.skb, bytes as u32) };
    }
}

/// The headers of a TCP or UDP packet.
pub struct Headers<'a, I> {
    pub ethernet: &'a Ethernet,
    pub ip: &'a I,
    pub transport: &'a Transport,
    pub rest: Option<&'a TcpRest>,
}

/// The transport header, which is there only if the packet is long enough; the IP header must be checked before.
#[inline(always)]
pub fn headers<'a, I: Family>(
    ctx: &'a TcContext,
    ethernet: &'a Ethernet,
    ip: &'a I,
) -> Option<Headers<'a, I>> {
    let offset = transport_offset::<I>();
    let transport = at::<Transport>(ctx, offset)?;
    let rest = if has_rest(ip.protocol()) {
        // SAFETY: `at` checked the bounds; packet memory is ours while the program runs.
        Some(unsafe { &*at::<TcpRest>(ctx, offset + size_of::<Transport>())? })
    } else {
        None
    };
    // SAFETY: as above.
    Some(Headers { ethernet, ip, transport: unsafe { &*transport }, rest })
}

impl<I: Family> Headers<'_, I> {
    /// Key of the packet's flow, for the device with this index.
    #[inline(always)]
    pub fn key(&self, ifindex: u32) -> FlowKey<I::Address> {
        FlowKey {
            ifindex,
            protocol: self.ip.protocol() as u32,
            saddr: self.ip.saddr(),
            daddr: self.ip.daddr(),
            sport: self.transport.sport,
            dport: self.transport.dport,
        }
    }

    /// The packet's appearance.
    #[inline(always)]
    pub fn seen(&self, gso_size: u32) -> Seen {
        let wire_len = wire_len(self.ip, self.rest, gso_size);
        see(&self.ethernet.macs, self.ip, self.transport, self.rest, wire_len)
    }
}

/// Bytes of the packet after its Ethernet header.
#[inline(always)]
pub fn l3_available(ctx: &TcContext) -> u32 {
    ctx.len().saturating_sub(size_of::<Ethernet>() as u32)
}

macro_rules! metadata {
    ($($(#[$doc:meta])* $name:ident: $field:ident;)*) => {
        $(
            $(#[$doc])*
            #[inline(always)]
            pub fn $name(ctx: &TcContext) -> u32 {
                // SAFETY: the context is valid while the program runs; the verifier turns this into a
                // load from the sk_buff. Volatile, so that the compiler does not merge it with others
                // into an access the verifier does not know.
                unsafe { core::ptr::read_volatile(&raw const (*ctx.skb.skb).$field) }
            }
        )*
    };
}

metadata! {
    /// Index of the device the hook is on.
    ifindex: ifindex;
    /// Payload per segment of a GSO frame, bytes; 0 for any other packet.
    gso_size: gso_size;
    /// 1 if a VLAN tag is kept beside the packet.
    vlan_present: vlan_present;
    /// Our tag, or anything.
    tc_index: tc_index;
    /// fwmark.
    mark: mark;
    /// Queueing priority.
    priority: priority;
    /// For whom the packet is, as the device found.
    pkt_type: pkt_type;
}

/// Sets what the packet is queued and routed by from here on.
#[inline(never)]
pub fn set_mark_and_priority(skb: *mut __sk_buff, mark: u32, priority: u32) -> i32 {
    // SAFETY: the caller's context; the verifier allows both fields to be written.
    unsafe {
        core::ptr::write_volatile(&raw mut (*skb).mark, mark);
        core::ptr::write_volatile(&raw mut (*skb).priority, priority);
    }
    0
}

/// Writes the tag. A function of its own, and the only writer: merged with other accesses to the
/// context it would become one through a modified pointer, which the verifier refuses.
#[inline(never)]
pub fn set_tc_index(skb: *mut __sk_buff, value: u32) -> i32 {
    // SAFETY: the caller's context; the verifier allows this field to be written.
    unsafe { core::ptr::write_volatile(&raw mut (*skb).tc_index, value) };
    0
}
