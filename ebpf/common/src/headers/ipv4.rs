//! IPv4.

use super::Ip;
use crate::{
    checksum::{add, difference, update},
    flow::Flow,
    reason::Ingress,
};

/// IPv4 header without options (RFC 791, section 3.1); multi-byte fields in network order.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ipv4 {
    /// Version and header length in 32-bit words.
    pub version_ihl: u8,
    /// DSCP and ECN (RFC 2474, RFC 3168).
    pub tos: u8,
    /// Total length.
    pub total_len: u16,
    /// Identification.
    pub id: u16,
    /// Flags and fragment offset.
    pub fragment: u16,
    /// Time to live.
    pub ttl: u8,
    /// Transport protocol.
    pub protocol: u8,
    /// Header checksum.
    pub check: u16,
    /// Source address.
    pub saddr: u32,
    /// Destination address.
    pub daddr: u32,
}

const _: () = assert!(size_of::<Ipv4>() == 20);

impl Ip for Ipv4 {
    type Address = u32;

    const ETHERTYPE: u16 = 0x0800;

    #[inline(always)]
    fn admit(&self, available: u32) -> Result<(), Ingress> {
        if self.version_ihl != 0x45 {
            // A shorter header length than 5 words is malformed; who cares which, the kernel decides.
            return Err(Ingress::IpOptions);
        }
        // MF or an offset; DF may be set.
        if self.fragment & 0x3fff_u16.to_be() != 0 {
            return Err(Ingress::Fragment);
        }
        let len = self.total_len();
        if len < 28 || len as u32 > available {
            return Err(Ingress::Malformed);
        }
        // 224.0.0.0 and up: multicast, reserved and broadcast. Source 0.0.0.0/8 is DHCP's.
        let (source, destination) = (self.saddr.to_ne_bytes()[0], self.daddr.to_ne_bytes()[0]);
        if destination >= 224 || source >= 224 || source == 0 {
            return Err(Ingress::Multicast);
        }
        if !self.is_intact() {
            return Err(Ingress::Checksum);
        }
        if self.ttl <= 1 { Err(Ingress::Ttl) } else { Ok(()) }
    }

    #[inline(always)]
    fn saddr(&self) -> u32 {
        self.saddr
    }

    #[inline(always)]
    fn daddr(&self) -> u32 {
        self.daddr
    }

    #[inline(always)]
    fn protocol(&self) -> u8 {
        self.protocol
    }

    #[inline(always)]
    fn ttl(&self) -> u8 {
        self.ttl
    }

    #[inline(always)]
    fn dscp(&self) -> u8 {
        self.tos & 0xfc
    }

    #[inline(always)]
    fn id(&self) -> u16 {
        self.id
    }

    #[inline(always)]
    fn total_len(&self) -> u16 {
        u16::from_be(self.total_len)
    }

    #[inline(always)]
    fn difference(from: u32, to: u32) -> u32 {
        difference(from, to)
    }

    #[inline(always)]
    fn rewrite(&mut self, flow: &Flow<u32>) -> u32 {
        let tos = flow.dscp_out | self.tos & 0x03;
        let ttl = self.ttl.wrapping_sub(flow.ttl_step);
        let old = u16::from_ne_bytes([self.version_ihl, self.tos]) as u32
            + u16::from_ne_bytes([self.ttl, self.protocol]) as u32;
        let new = u16::from_ne_bytes([self.version_ihl, tos]) as u32
            + u16::from_ne_bytes([ttl, self.protocol]) as u32;
        self.check = update(self.check, add(flow.address_difference, difference(old, new)));
        (self.tos, self.ttl) = (tos, ttl);
        (self.saddr, self.daddr) = (flow.saddr, flow.daddr);
        // The checksum makes up for the rest: the header's sum stays what it was.
        0
    }
}

impl Ipv4 {
    /// Whether the header checksum is right. An update would keep a wrong one wrong, but a router drops such a
    /// packet (RFC 1812, section 5.2.2).
    #[inline(always)]
    fn is_intact(&self) -> bool {
        // Adding up 32-bit words is as good as 16-bit ones (RFC 1071, section 2C), and five of them fit 64 bits.
        let halves = |high: u16, low: u16| high as u64 * 0x1_0000 + low as u64;
        let sum = halves(u16::from_ne_bytes([self.version_ihl, self.tos]), self.total_len)
            + halves(self.id, self.fragment)
            + halves(u16::from_ne_bytes([self.ttl, self.protocol]), self.check)
            + self.saddr as u64
            + self.daddr as u64;
        let sum = (sum & 0xffff_ffff) + (sum >> 32);
        let sum = (sum & 0xffff) + (sum >> 16);
        let sum = (sum & 0xffff) + (sum >> 16);
        (sum & 0xffff) + (sum >> 16) == u16::MAX as u64
    }
}
