//! IPv6.

use super::Ip;
use crate::{
    checksum::{add, difference},
    flow::Flow,
    reason::Ingress,
};

/// IPv6 header (RFC 8200, section 3); multi-byte fields in network order.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ipv6 {
    /// Version, traffic class and flow label.
    pub version_class_label: [u8; 4],
    /// Length of what follows this header.
    pub payload_len: u16,
    /// First extension header or transport protocol.
    pub next_header: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// Source address.
    pub saddr: [u32; 4],
    /// Destination address.
    pub daddr: [u32; 4],
}

const _: () = assert!(size_of::<Ipv6>() == 40);

impl Ip for Ipv6 {
    type Address = [u32; 4];

    const ETHERTYPE: u16 = 0x86dd;

    #[inline(always)]
    fn admit(&self, available: u32) -> Result<(), Ingress> {
        if self.version_class_label[0] >> 4 != 6 {
            return Err(Ingress::Malformed);
        }
        let payload = u16::from_be(self.payload_len) as u32;
        // A payload length of 0 is a jumbogram or a BIG TCP frame.
        if !(8..=u16::MAX as u32 - 40).contains(&payload) || payload + 40 > available {
            return Err(Ingress::Malformed);
        }
        // ff00::/8 is multicast; link-local (fe80::/10) is not routed and not worth a flow.
        let (source, destination) = (self.saddr[0].to_ne_bytes(), self.daddr[0].to_ne_bytes());
        if destination[0] >= 0xfe || source[0] >= 0xfe {
            return Err(Ingress::Multicast);
        }
        if self.hop_limit <= 1 { Err(Ingress::Ttl) } else { Ok(()) }
    }

    #[inline(always)]
    fn saddr(&self) -> [u32; 4] {
        each(&self.saddr)
    }

    #[inline(always)]
    fn daddr(&self) -> [u32; 4] {
        each(&self.daddr)
    }

    #[inline(always)]
    fn protocol(&self) -> u8 {
        self.next_header
    }

    #[inline(always)]
    fn ttl(&self) -> u8 {
        self.hop_limit
    }

    #[inline(always)]
    fn dscp(&self) -> u8 {
        // Traffic class: low half of the first byte, high half of the second.
        (self.version_class_label[0] << 4 | self.version_class_label[1] >> 4) & 0xfc
    }

    #[inline(always)]
    fn id(&self) -> u16 {
        u16::from_ne_bytes([self.version_class_label[2], self.version_class_label[3]])
    }

    #[inline(always)]
    fn total_len(&self) -> u16 {
        u16::from_be(self.payload_len).wrapping_add(40)
    }

    #[inline(always)]
    fn difference(from: [u32; 4], to: [u32; 4]) -> u32 {
        add(
            add(difference(from[0], to[0]), difference(from[1], to[1])),
            add(difference(from[2], to[2]), difference(from[3], to[3])),
        )
    }

    #[inline(always)]
    fn rewrite(&mut self, flow: &Flow<[u32; 4]>) -> u32 {
        let old = self.changing();
        let [first, second, ..] = self.version_class_label;
        self.version_class_label[0] = first & 0xf0 | flow.dscp_out >> 4;
        self.version_class_label[1] = second & 0x3f | flow.dscp_out << 4;
        self.hop_limit = self.hop_limit.wrapping_sub(flow.ttl_step);
        (self.saddr, self.daddr) = (flow.saddr, flow.daddr);
        add(flow.address_difference, difference(old, self.changing()))
    }
}

/// Word by word: as a whole the programs would have it copied byte by byte, by a function they bring along.
#[inline(always)]
fn each(address: &[u32; 4]) -> [u32; 4] {
    [address[0], address[1], address[2], address[3]]
}

impl Ipv6 {
    /// Partial sum of what a rewrite changes beside the addresses.
    #[inline(always)]
    fn changing(&self) -> u32 {
        let [first, second, ..] = self.version_class_label;
        u16::from_ne_bytes([first, second]) as u32
            + u16::from_ne_bytes([self.next_header, self.hop_limit]) as u32
    }
}
