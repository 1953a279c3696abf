//! Packets of any content, built by etherparse, and our view of their bytes.
#![allow(dead_code, reason = "each test file uses its part")]

use ebpf_bridge_common::{
    flow::{FlowKey, Macs, Seen},
    headers::{Ethernet, Ip, Ipv4, Ipv6, TcpRest, Transport},
    learn::{has_rest, see, wire_len},
};
use etherparse::{
    Ethernet2Header, IpNumber, Ipv4Header, Ipv6FlowLabel, Ipv6Header, TcpHeader, UdpHeader, ether_type,
};
use proptest::prelude::*;

/// Source and destination, as wide as the family has them.
pub type Addresses = ([u8; 16], [u8; 16]);

/// What the test varies in a packet.
#[derive(Debug, Clone)]
pub struct Packet {
    pub ethernet: [[u8; 6]; 2],
    pub v6: bool,
    pub addresses: Addresses,
    pub ttl: u8,
    pub dscp: u8,
    pub ecn: u8,
    pub id: u16,
    pub dont_fragment: bool,
    pub ports: [u16; 2],
    pub transport: Kind,
    pub payload: Vec<u8>,
}

#[derive(Debug, Clone)]
pub enum Kind {
    Tcp { sequence: u32, acknowledgement: u32, window: u16, push: bool },
    Udp { checksum: bool },
}

/// Any packet the fast path could be given.
pub fn packets(v6: bool) -> impl Strategy<Value = Packet> {
    let tcp = any::<(u32, u32, u16, bool)>().prop_map(|(sequence, acknowledgement, window, push)| {
        Kind::Tcp { sequence, acknowledgement, window, push }
    });
    let udp = any::<bool>().prop_map(|checksum| Kind::Udp { checksum });
    let ip = (any::<Addresses>(), 2..=255u8, 0..64u8, 0..4u8, any::<u16>(), any::<bool>());
    let payload = prop::collection::vec(any::<u8>(), 0..100);
    (any::<[[u8; 6]; 2]>(), ip, any::<[u16; 2]>(), prop_oneof![tcp, udp], payload).prop_map(
        move |(ethernet, ip, ports, transport, payload)| {
            let (addresses, ttl, dscp, ecn, id, dont_fragment) = ip;
            Packet { ethernet, v6, addresses, ttl, dscp, ecn, id, dont_fragment, ports, transport, payload }
        },
    )
}

impl Packet {
    /// The frame, every length and checksum as etherparse has it.
    pub fn build(&self) -> Vec<u8> {
        let [destination, source] = self.ethernet;
        let ether_type = if self.v6 { ether_type::IPV6 } else { ether_type::IPV4 };
        let mut frame = Ethernet2Header { source, destination, ether_type }.to_bytes().to_vec();
        if self.v6 {
            self.finish_v6(&mut frame)
        } else {
            self.finish_v4(&mut frame)
        }
        frame.extend(&self.payload);
        frame
    }

    fn finish_v4(&self, frame: &mut Vec<u8>) {
        let ip = self.ipv4();
        frame.extend(ip.to_bytes());
        match self.transport {
            Kind::Tcp { .. } => {
                let mut tcp = self.tcp();
                tcp.checksum = tcp.calc_checksum_ipv4(&ip, &self.payload).expect("short enough");
                frame.extend(tcp.to_bytes());
            }
            Kind::Udp { checksum } => {
                let mut udp = self.udp();
                if checksum {
                    udp.checksum = udp.calc_checksum_ipv4(&ip, &self.payload).expect("short enough");
                }
                frame.extend(udp.to_bytes());
            }
        }
    }

    fn finish_v6(&self, frame: &mut Vec<u8>) {
        let ip = self.ipv6();
        frame.extend(ip.to_bytes());
        match self.transport {
            Kind::Tcp { .. } => {
                let mut tcp = self.tcp();
                tcp.checksum = tcp.calc_checksum_ipv6(&ip, &self.payload).expect("short enough");
                frame.extend(tcp.to_bytes());
            }
            Kind::Udp { checksum } => {
                let mut udp = self.udp();
                if checksum {
                    udp.checksum = udp.calc_checksum_ipv6(&ip, &self.payload).expect("short enough");
                }
                frame.extend(udp.to_bytes());
            }
        }
    }

    pub fn ipv4(&self) -> Ipv4Header {
        let four = |address: [u8; 16]| [address[0], address[1], address[2], address[3]];
        let mut ip = Ipv4Header {
            dscp: self.dscp.try_into().expect("six bits"),
            ecn: self.ecn.try_into().expect("two bits"),
            identification: self.id,
            dont_fragment: self.dont_fragment,
            ..Ipv4Header::new(
                self.transport_len(),
                self.ttl,
                self.protocol(),
                four(self.addresses.0),
                four(self.addresses.1),
            )
            .expect("short enough")
        };
        ip.header_checksum = ip.calc_header_checksum();
        ip
    }

    pub fn ipv6(&self) -> Ipv6Header {
        Ipv6Header {
            traffic_class: self.dscp << 2 | self.ecn,
            flow_label: Ipv6FlowLabel::try_new(self.id as u32).expect("20 bits"),
            payload_length: self.transport_len(),
            next_header: self.protocol(),
            hop_limit: self.ttl,
            source: self.addresses.0,
            destination: self.addresses.1,
        }
    }

    fn tcp(&self) -> TcpHeader {
        let Kind::Tcp { sequence, acknowledgement, window, push } = self.transport else { panic!("not TCP") };
        let mut tcp = TcpHeader::new(self.ports[0], self.ports[1], sequence, window);
        (tcp.ack, tcp.acknowledgment_number, tcp.psh) = (true, acknowledgement, push);
        tcp
    }

    fn udp(&self) -> UdpHeader {
        let [source_port, destination_port] = self.ports;
        UdpHeader { source_port, destination_port, length: self.transport_len(), checksum: 0 }
    }

    fn protocol(&self) -> IpNumber {
        if matches!(self.transport, Kind::Tcp { .. }) { IpNumber::TCP } else { IpNumber::UDP }
    }

    fn transport_len(&self) -> u16 {
        let header = if self.protocol() == IpNumber::TCP { TcpHeader::MIN_LEN } else { UdpHeader::LEN };
        (header + self.payload.len()) as u16
    }
}

/// An address family as the tests need it.
pub trait Family: Ip {
    fn offset() -> usize {
        size_of::<Ethernet>() + size_of::<Self>()
    }
    const V6: bool;
}

impl Family for Ipv4 {
    const V6: bool = false;
}

impl Family for Ipv6 {
    const V6: bool = true;
}

/// The header of type `T` at `offset`.
pub fn read<T: Copy>(frame: &[u8], offset: usize) -> T {
    assert!(offset + size_of::<T>() <= frame.len());
    // SAFETY: within bounds; the header types are integers only, any bytes are a value.
    unsafe { frame.as_ptr().add(offset).cast::<T>().read_unaligned() }
}

/// Puts a header of type `T` at `offset`.
pub fn write<T: Copy>(frame: &mut [u8], offset: usize, value: T) {
    assert!(offset + size_of::<T>() <= frame.len());
    // SAFETY: within bounds.
    unsafe { frame.as_mut_ptr().add(offset).cast::<T>().write_unaligned(value) }
}

/// Key and appearance, as the programs take them from a frame.
pub fn observe<I: Family>(frame: &[u8], ifindex: u32) -> (FlowKey<I::Address>, Seen) {
    let macs: Macs = read::<Ethernet>(frame, 0).macs;
    let ip: I = read(frame, size_of::<Ethernet>());
    let transport: Transport = read(frame, I::offset());
    let rest: Option<TcpRest> = has_rest(ip.protocol()).then(|| read(frame, I::offset() + 8));
    let key = FlowKey {
        ifindex,
        protocol: ip.protocol() as u32,
        saddr: ip.saddr(),
        daddr: ip.daddr(),
        sport: transport.sport,
        dport: transport.dport,
    };
    (key, see(&macs, &ip, &transport, rest.as_ref(), wire_len(&ip, rest.as_ref(), 0)))
}
