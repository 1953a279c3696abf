//! TCP and UDP.

use crate::reason::Ingress;

/// IANA protocol number of TCP.
pub const TCP: u8 = 6;
/// IANA protocol number of UDP.
pub const UDP: u8 = 17;

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
/// ACK.
pub const TCP_ACK: u8 = 0b0001_0000;
/// SYN.
pub const TCP_SYN: u8 = 0b0000_0010;

const _: () = assert!(size_of::<Transport>() == 8);
const _: () = assert!(size_of::<TcpRest>() == 6);

/// Refuses what connection tracking takes for invalid and so does not translate (`tcp_error` and `udp_error` in
/// `net/netfilter/nf_conntrack_proto_{tcp,udp}.c`). `len` is the length of the transport header and all after
/// it, in bytes by the IP header; `rest` is given for TCP only.
///
/// # Errors
/// The reason.
#[inline(always)]
pub fn admit_transport(len: u32, transport: &Transport, rest: Option<&TcpRest>) -> Result<(), Ingress> {
    match rest {
        Some(rest) => {
            let header = rest.header_len();
            if header < 20 || header > len {
                return Err(Ingress::Malformed);
            }
            // Without SYN, FIN and RST there must be ACK.
            if rest.flags & (TCP_CONTROL | TCP_ACK) != TCP_ACK { Err(Ingress::TcpFlags) } else { Ok(()) }
        }
        None => {
            let claimed = u16::from_be(transport.word[0]) as u32;
            if claimed < 8 || claimed > len { Err(Ingress::Malformed) } else { Ok(()) }
        }
    }
}

impl TcpRest {
    /// Length of the TCP header with its options, bytes.
    #[inline(always)]
    pub fn header_len(&self) -> u32 {
        (self.data_offset as u32 >> 4) * 4
    }
}
