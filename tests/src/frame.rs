//! Frames byte by byte, with the lengths and checksums that etherparse gives them.

use std::net::IpAddr;

use etherparse::{
    Ethernet2Header, IpNumber, Ipv4Header, Ipv6FlowLabel, Ipv6Header, TcpHeader, UdpHeader, ether_type,
};

/// A TCP or UDP packet in an Ethernet frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// Destination and source.
    pub macs: [[u8; 6]; 2],
    /// Source and destination, of one family.
    pub addresses: [IpAddr; 2],
    /// TTL or hop limit.
    pub ttl: u8,
    /// Six bits.
    pub dscp: u8,
    /// Two bits.
    pub ecn: u8,
    /// IPv4: identification. IPv6: flow label.
    pub id: u16,
    /// IPv4: DF.
    pub dont_fragment: bool,
    /// Source and destination.
    pub ports: [u16; 2],
    /// The rest of the transport header.
    pub transport: Transport,
    /// What follows it.
    pub payload: Vec<u8>,
}

/// What is of one protocol only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// With ACK set.
    Tcp {
        /// Sequence number.
        sequence: u32,
        /// Acknowledgement number.
        acknowledgement: u32,
    },
    /// With or without a checksum.
    Udp {
        /// Whether there is one.
        checksum: bool,
    },
}

impl Frame {
    /// Length of the IP header, bytes.
    pub fn ip_len(&self) -> usize {
        if self.addresses[0].is_ipv4() { Ipv4Header::MIN_LEN } else { Ipv6Header::LEN }
    }

    /// Offset of the transport header, bytes.
    pub fn transport_offset(&self) -> usize {
        Ethernet2Header::LEN + self.ip_len()
    }

    /// The bytes.
    ///
    /// # Panics
    /// If the payload is too long, or the addresses are of two families.
    pub fn build(&self) -> Vec<u8> {
        let ([destination, source], [from, to]) = (self.macs, self.addresses);
        let transport = self.transport_len();
        let protocol = self.protocol();
        let ethernet = |ether_type| Ethernet2Header { source, destination, ether_type }.to_bytes();
        match (from, to) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                let mut ip = Ipv4Header::new(transport, self.ttl, protocol, from.octets(), to.octets())
                    .expect("short enough");
                ip.dscp = self.dscp.try_into().expect("six bits");
                ip.ecn = self.ecn.try_into().expect("two bits");
                (ip.identification, ip.dont_fragment) = (self.id, self.dont_fragment);
                ip.header_checksum = ip.calc_header_checksum();
                let tcp = |tcp: &TcpHeader| tcp.calc_checksum_ipv4(&ip, &self.payload).expect("short enough");
                let udp = |udp: &UdpHeader| udp.calc_checksum_ipv4(&ip, &self.payload).expect("short enough");
                [&ethernet(ether_type::IPV4), &ip.to_bytes()[..], &self.finish(tcp, udp)].concat()
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                let ip = Ipv6Header {
                    traffic_class: self.dscp << 2 | self.ecn,
                    flow_label: Ipv6FlowLabel::try_new(self.id.into()).expect("20 bits"),
                    payload_length: transport,
                    next_header: protocol,
                    hop_limit: self.ttl,
                    source: from.octets(),
                    destination: to.octets(),
                };
                let tcp = |tcp: &TcpHeader| tcp.calc_checksum_ipv6(&ip, &self.payload).expect("short enough");
                let udp = |udp: &UdpHeader| udp.calc_checksum_ipv6(&ip, &self.payload).expect("short enough");
                [&ethernet(ether_type::IPV6), &ip.to_bytes()[..], &self.finish(tcp, udp)].concat()
            }
            _ => panic!("addresses of two families"),
        }
    }

    /// Transport header and payload.
    fn finish(&self, tcp: impl Fn(&TcpHeader) -> u16, udp: impl Fn(&UdpHeader) -> u16) -> Vec<u8> {
        let [source_port, destination_port] = self.ports;
        let mut bytes = match self.transport {
            Transport::Tcp { sequence, acknowledgement } => {
                let mut header = TcpHeader::new(source_port, destination_port, sequence, 1024);
                (header.ack, header.acknowledgment_number) = (true, acknowledgement);
                header.checksum = tcp(&header);
                header.to_bytes().to_vec()
            }
            Transport::Udp { checksum } => {
                let length = self.transport_len();
                let mut header = UdpHeader { source_port, destination_port, length, checksum: 0 };
                if checksum {
                    header.checksum = udp(&header);
                }
                header.to_bytes().to_vec()
            }
        };
        bytes.extend(&self.payload);
        bytes
    }

    fn protocol(&self) -> IpNumber {
        if matches!(self.transport, Transport::Tcp { .. }) { IpNumber::TCP } else { IpNumber::UDP }
    }

    fn transport_len(&self) -> u16 {
        let header = if self.protocol() == IpNumber::TCP { TcpHeader::MIN_LEN } else { UdpHeader::LEN };
        (header + self.payload.len()).try_into().expect("a payload that fits")
    }
}

/// Makes the IPv4 header checksum of a frame right, after its header was changed; no other frame is touched.
pub fn correct(frame: &mut [u8]) {
    if let Ok((header, _)) = Ipv4Header::from_slice(&frame[Ethernet2Header::LEN..]) {
        let right = header.calc_header_checksum().to_be_bytes();
        frame[Ethernet2Header::LEN + 10..][..2].copy_from_slice(&right);
    }
}
