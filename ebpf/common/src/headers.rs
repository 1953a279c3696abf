//! Ethernet, IP and transport headers as they lie in the packet, and which of them the fast path takes.

use crate::{flow::Macs, reason::Ingress};

/// IANA protocol number of TCP.
pub const TCP: u8 = 6;
/// IANA protocol number of UDP.
pub const UDP: u8 = 17;

/// Ethernet header (IEEE 802.3), without a VLAN tag.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ethernet {
    /// Destination, then source.
    pub macs: Macs,
    /// EtherType, network order.
    pub ethertype: u16,
}

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

/// The first eight bytes of TCP (RFC 9293, section 3.1) or UDP (RFC 768).
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transport {
    /// Source port, network order.
    pub sport: u16,
    /// Destination port, network order.
    pub dport: u16,
    /// TCP: sequence number. UDP: length and checksum.
    pub word: [u16; 2],
}

/// What follows [`Transport`] in a TCP header.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpRest {
    /// Acknowledgement number.
    pub acknowledgement: [u16; 2],
    /// Data offset in 32-bit words, in the upper four bits.
    pub data_offset: u8,
    /// Flags.
    pub flags: u8,
}

/// FIN, SYN and RST.
pub const TCP_CONTROL: u8 = 0b0000_0111;
/// SYN.
pub const TCP_SYN: u8 = 0b0000_0010;

const _: () = assert!(size_of::<Ethernet>() == 14);
const _: () = assert!(size_of::<Ipv4>() == 20);
const _: () = assert!(size_of::<Ipv6>() == 40);
const _: () = assert!(size_of::<Transport>() == 8);
const _: () = assert!(size_of::<TcpRest>() == 6);

/// What the two IP headers have in common for us.
pub trait Ip: Copy {
    /// `u32` or `[u32; 4]`, network order.
    type Address: Copy + PartialEq;

    /// EtherType, host order.
    const ETHERTYPE: u16;

    /// Refuses what is always the kernel's: options, fragments, other protocols, multicast, a TTL that
    /// ends here. `available` is what the frame holds after its L2 header, in bytes.
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
    fn rewrite(&mut self, flow: &crate::flow::Flow<Self::Address>);
}

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
        crate::checksum::difference(from, to)
    }

    #[inline(always)]
    fn rewrite(&mut self, flow: &crate::flow::Flow<u32>) {
        use crate::checksum::{add, difference, update};
        let tos = flow.dscp_out | self.tos & 0x03;
        let ttl = self.ttl.wrapping_sub(flow.ttl_step);
        let old = u16::from_ne_bytes([self.version_ihl, self.tos]) as u32
            + u16::from_ne_bytes([self.ttl, self.protocol]) as u32;
        let new = u16::from_ne_bytes([self.version_ihl, tos]) as u32
            + u16::from_ne_bytes([ttl, self.protocol]) as u32;
        self.check = update(self.check, add(flow.address_difference, difference(old, new)));
        (self.tos, self.ttl) = (tos, ttl);
        (self.saddr, self.daddr) = (flow.saddr, flow.daddr);
    }
}

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
        self.saddr
    }

    #[inline(always)]
    fn daddr(&self) -> [u32; 4] {
        self.daddr
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
        use crate::checksum::{add, difference};
        add(
            add(difference(from[0], to[0]), difference(from[1], to[1])),
            add(difference(from[2], to[2]), difference(from[3], to[3])),
        )
    }

    #[inline(always)]
    fn rewrite(&mut self, flow: &crate::flow::Flow<[u32; 4]>) {
        let [first, second, ..] = self.version_class_label;
        self.version_class_label[0] = first & 0xf0 | flow.dscp_out >> 4;
        self.version_class_label[1] = second & 0x3f | flow.dscp_out << 4;
        self.hop_limit = self.hop_limit.wrapping_sub(flow.ttl_step);
        (self.saddr, self.daddr) = (flow.saddr, flow.daddr);
    }
}
