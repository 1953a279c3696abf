//! The FLOWS maps: which packets, and what to do with them. One map per address family, `A` being
//! `u32` for IPv4 and `[u32; 4]` for IPv6, in network byte order.

/// A flow in one direction, as its packets come in.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowKey<A> {
    /// Device the packets come in by.
    pub ifindex: u32,
    /// 6 TCP, 17 UDP.
    pub protocol: u32,
    /// Source address.
    pub saddr: A,
    /// Destination address.
    pub daddr: A,
    /// Source port, network order.
    pub sport: u16,
    /// Destination port, network order.
    pub dport: u16,
}

/// Destination and source MAC, as at the start of an Ethernet header.
pub type Macs = [u16; 6];

/// What the kernel did to a packet of the flow, to be repeated.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flow<A> {
    /// When the kernel did it, `bpf_ktime_get_ns`; 0 means never.
    pub learned_ns: u64,
    /// Epoch of the configuration then.
    pub epoch: u32,
    /// Device the packet left by.
    pub ifindex: u32,
    /// Partial checksum difference of both addresses, see [`crate::checksum`].
    pub address_difference: u32,
    /// Partial checksum difference of both ports.
    pub port_difference: u32,
    /// `skb->mark` on leaving.
    pub mark: u32,
    /// `skb->priority` on leaving.
    pub priority: u32,
    /// L2 addresses it came in with.
    pub macs_in: Macs,
    /// L2 addresses it left with.
    pub macs_out: Macs,
    /// Source address on leaving.
    pub saddr: A,
    /// Destination address on leaving.
    pub daddr: A,
    /// Source port on leaving, network order.
    pub sport: u16,
    /// Destination port on leaving, network order.
    pub dport: u16,
    /// Longest L3 packet the kernel carried since the last renewal, bytes on the wire (of one segment
    /// of a GSO frame).
    pub max_len: u16,
    /// See the `FLOW_` flags.
    pub flags: u8,
    /// What the TTL or hop limit lost.
    pub ttl_step: u8,
    /// DSCP it came in with, in the upper six bits; the lower two are 0.
    pub dscp_in: u8,
    /// DSCP it left with, in the upper six bits; the lower two are 0.
    pub dscp_out: u8,
    /// Always 0.
    pub padding: [u8; 2],
    /// When the first packet of the flow was learned, in s of `bpf_ktime_get_ns`; 0 if that is not known.
    pub since_s: u32,
}

/// The device it left by is a pod's veth (else an uplink).
pub const FLOW_TO_POD: u8 = 1 << 0;
/// The L2 addresses changed.
pub const FLOW_L2: u8 = 1 << 1;
/// An IP address changed.
pub const FLOW_ADDRESS: u8 = 1 << 2;
/// A port changed.
pub const FLOW_PORT: u8 = 1 << 3;
/// TTL or DSCP changed.
pub const FLOW_IP: u8 = 1 << 4;

/// What tells one packet of a flow from the next, and what of it may change on the way.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// L2 addresses.
    pub macs: Macs,
    /// TCP: sequence number. UDP: length and a zero, or as the header has them.
    pub sequence: u32,
    /// TCP: acknowledgement number. UDP: 0.
    pub acknowledgement: u32,
    /// IPv4: identification. IPv6: the low half of the flow label word.
    pub id: u16,
    /// L3 length in the header, bytes.
    pub len: u16,
    /// L3 length on the wire, bytes: of one segment if the packet is a GSO frame.
    pub wire_len: u16,
    /// TTL or hop limit.
    pub ttl: u8,
    /// DSCP in the upper six bits; the lower two are 0.
    pub dscp: u8,
}

const _: () = assert!(size_of::<FlowKey<u32>>() == 20);
const _: () = assert!(size_of::<FlowKey<[u32; 4]>>() == 44);
const _: () = assert!(size_of::<Flow<u32>>() == 80);
const _: () = assert!(size_of::<Flow<[u32; 4]>>() == 104);
const _: () = assert!(size_of::<Seen>() == 28);

#[cfg(feature = "user")]
mod pod {
    use super::*;

    // SAFETY: repr(C), integers only, no implicit padding (sizes asserted above).
    unsafe impl aya::Pod for FlowKey<u32> {}
    // SAFETY: as above.
    unsafe impl aya::Pod for FlowKey<[u32; 4]> {}
    // SAFETY: as above.
    unsafe impl aya::Pod for Flow<u32> {}
    // SAFETY: as above.
    unsafe impl aya::Pod for Flow<[u32; 4]> {}
}
