//! Ethernet, IP and transport headers as they lie in the packet, and which of them the fast path takes.

mod ipv4;
mod ipv6;
mod transport;

use crate::{
    flow::{Flow, Macs},
    reason::Ingress,
};

pub use ipv4::Ipv4;
pub use ipv6::Ipv6;
pub use transport::{TCP, TCP_ACK, TCP_CONTROL, TCP_SYN, TcpRest, Transport, UDP, admit_transport};

/// Ethernet header (IEEE 802.3), without a VLAN tag.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ethernet {
    /// Destination, then source.
    pub macs: Macs,
    /// EtherType, network order.
    pub ethertype: u16,
}

impl Ethernet {
    /// Whether it is for more than one host: the group bit of the destination, the first on the wire (IEEE 802).
    #[inline(always)]
    pub fn is_for_group(&self) -> bool {
        self.macs[0].to_ne_bytes()[0] & 1 != 0
    }
}

const _: () = assert!(size_of::<Ethernet>() == 14);

/// What the two IP headers have in common for us.
pub trait Ip: Copy {
    /// `u32` or `[u32; 4]`, network order.
    type Address: Copy + PartialEq;

    /// EtherType, host order.
    const ETHERTYPE: u16;

    /// Refuses what is always the kernel's: options, fragments, other protocols, multicast, a wrong
    /// header checksum, a TTL that ends here (which comes last). `available` is what the frame holds after its L2 header, in bytes.
    fn admit(&self, available: u32) -> Result<(), Ingress>;
    /// Source address.
    fn saddr(&self) -> Self::Address;
    /// Destination address.
    fn daddr(&self) -> Self::Address;
    /// Transport protocol.
    fn protocol(&self) -> u8;
    /// TTL or hop limit.
    fn ttl(&self) -> u8;
    /// DSCP in the upper six bits; the lower two are 0.
    fn dscp(&self) -> u8;
    /// Identification, or the low half of the flow label.
    fn id(&self) -> u16;
    /// L3 length in bytes, header included; wraps for jumbograms, which never are admitted.
    fn total_len(&self) -> u16;
    /// Partial checksum difference from one address to another.
    fn difference(from: Self::Address, to: Self::Address) -> u32;
    /// Takes `ttl_step` off the TTL, replaces the DSCP (never ECN) and the addresses, and keeps the header checksum right.
    /// Returns the partial difference this makes to a checksum over the whole header.
    fn rewrite(&mut self, flow: &Flow<Self::Address>) -> u32;
}
