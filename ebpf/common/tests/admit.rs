//! What the fast path takes, and the reason for each kind of packet it does not. Every packet is one that
//! etherparse built, changed in one place.

mod packet;

use ebpf_bridge_common::{
    headers::{Ethernet, Ip, Ipv4, Ipv6, TcpRest, Transport, admit_transport},
    learn::has_rest,
    reason::Ingress,
};
use etherparse::{Ipv4Header, Ipv6Header};
use packet::{Family, Kind, Packet, packets, read, write};
use proptest::prelude::*;

const IP: usize = size_of::<Ethernet>();

fn packet(v6: bool, transport: Kind) -> Packet {
    let mut addresses = ([10; 16], [10; 16]);
    addresses.1[3] = 9;
    Packet {
        ethernet: [[2; 6], [4; 6]],
        v6,
        addresses,
        ttl: 64,
        dscp: 0,
        ecn: 0,
        id: 7,
        dont_fragment: true,
        ports: [1000, 2000],
        transport,
        payload: vec![1; 10],
    }
}

fn tcp(v6: bool) -> Packet {
    packet(v6, Kind::Tcp { sequence: 1, acknowledgement: 2, window: 3, push: true })
}

fn udp(v6: bool) -> Packet {
    packet(v6, Kind::Udp { checksum: true })
}

/// The reason of the frame by its IP header alone.
fn admit_ip<I: Family>(frame: &[u8]) -> Result<(), Ingress> {
    read::<I>(frame, IP).admit((frame.len() - IP) as u32)
}

/// The reason of the frame, as `flow_ingress` comes by it.
fn admit<I: Family>(frame: &[u8]) -> Result<(), Ingress> {
    admit_ip::<I>(frame)?;
    let ip: I = read(frame, IP);
    let rest: Option<TcpRest> = has_rest(ip.protocol()).then(|| read(frame, I::offset() + 8));
    let transport: Transport = read(frame, I::offset());
    admit_transport(ip.total_len() as u32 - size_of::<I>() as u32, &transport, rest.as_ref())
}

/// The frame with other bytes at `at`, and the IPv4 header checksum right again.
fn with(packet: &Packet, at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut frame = packet.build();
    frame[at..at + bytes.len()].copy_from_slice(bytes);
    if !packet.v6 && frame[IP] == 0x45 {
        let (header, _) = Ipv4Header::from_slice(&frame[IP..]).expect("a header");
        write(&mut frame, IP + 10, header.calc_header_checksum().to_be());
    }
    frame
}

/// What, the offset in the IP header, the bytes put there, and the outcome.
type Case = (&'static str, usize, &'static [u8], Result<(), Ingress>);

#[test]
fn ipv4_by_reason() {
    use Ingress::*;
    let table: [Case; 23] = [
        ("untouched", 0, &[], Ok(())),
        ("don't fragment", 6, &[0x40], Ok(())),
        ("may be fragmented", 6, &[0x00], Ok(())),
        ("ECN", 1, &[0x03], Ok(())),
        ("four bytes of options", 0, &[0x46], Err(IpOptions)),
        ("a header of four words", 0, &[0x44], Err(IpOptions)),
        ("another version", 0, &[0x55], Err(IpOptions)),
        ("first fragment", 6, &[0x20, 0], Err(Fragment)),
        ("second fragment", 6, &[0x20, 1], Err(Fragment)),
        ("last fragment", 6, &[0, 1], Err(Fragment)),
        ("last fragment, far", 6, &[0x10, 0], Err(Fragment)),
        ("longer than the frame", 2, &[0, 51], Err(Malformed)),
        ("too short for ports", 2, &[0, 27], Err(Malformed)),
        ("long enough for ports", 2, &[0, 28], Ok(())),
        ("length 0, as BIG TCP has it", 2, &[0, 0], Err(Malformed)),
        ("to multicast", 16, &[224, 0, 0, 1], Err(Multicast)),
        ("to broadcast", 16, &[255, 255, 255, 255], Err(Multicast)),
        ("from multicast", 12, &[239], Err(Multicast)),
        ("from 0.0.0.0", 12, &[0, 0, 0, 0], Err(Multicast)),
        ("TTL 0", 8, &[0], Err(Ttl)),
        ("TTL 1", 8, &[1], Err(Ttl)),
        ("TTL 2", 8, &[2], Ok(())),
        ("TTL 255", 8, &[255], Ok(())),
    ];
    for (what, at, bytes, expected) in table {
        assert_eq!(admit_ip::<Ipv4>(&with(&tcp(false), IP + at, bytes)), expected, "{what}");
    }
    assert_eq!(tcp(false).build().len() - IP, 50, "the table counts on it");
}

#[test]
fn ipv6_by_reason() {
    use Ingress::*;
    let table: [Case; 16] = [
        ("untouched", 0, &[], Ok(())),
        ("traffic class and flow label", 0, &[0x6f, 0xff, 0xff, 0xff], Ok(())),
        ("another version", 0, &[0x45], Err(Malformed)),
        ("longer than the frame", 4, &[0, 31], Err(Malformed)),
        ("too short for ports", 4, &[0, 7], Err(Malformed)),
        ("long enough for ports", 4, &[0, 8], Ok(())),
        ("length 0, a jumbogram or BIG TCP", 4, &[0, 0], Err(Malformed)),
        ("as long as can be, which the frame is not", 4, &[0xff, 0xff], Err(Malformed)),
        ("to multicast", 24, &[0xff, 2], Err(Multicast)),
        ("to link-local", 24, &[0xfe, 0x80], Err(Multicast)),
        ("from link-local", 8, &[0xfe, 0x80], Err(Multicast)),
        ("to a unique local address", 24, &[0xfd, 0], Ok(())),
        ("hop limit 0", 7, &[0], Err(Ttl)),
        ("hop limit 1", 7, &[1], Err(Ttl)),
        ("hop limit 2", 7, &[2], Ok(())),
        ("hop limit 255", 7, &[255], Ok(())),
    ];
    for (what, at, bytes, expected) in table {
        assert_eq!(admit_ip::<Ipv6>(&with(&tcp(true), IP + at, bytes)), expected, "{what}");
    }
}

fn transport_by_reason<I: Family>() {
    use Ingress::*;
    let flags = |flags: u8| [flags];
    // CWR and ECE are for the two ends; URG and PSH say nothing of the connection's state.
    for allowed in [0x10, 0x18, 0x30, 0x38, 0xd0] {
        assert_eq!(admit::<I>(&with(&tcp(I::V6), I::offset() + 13, &flags(allowed))), Ok(()), "{allowed:#x}");
    }
    for refused in [0x00, 0x01, 0x02, 0x04, 0x08, 0x11, 0x12, 0x14, 0x20, 0x29, 0xc2] {
        let frame = with(&tcp(I::V6), I::offset() + 13, &flags(refused));
        assert_eq!(admit::<I>(&frame), Err(TcpFlags), "{refused:#x}");
    }
    let offset = |words: u8| admit::<I>(&with(&tcp(I::V6), I::offset() + 12, &[words << 4]));
    // 20 bytes of header and 10 of payload: seven words fit.
    assert_eq!(
        [4, 5, 7, 8, 15].map(offset),
        [Err(Malformed), Ok(()), Ok(()), Err(Malformed), Err(Malformed)]
    );
    let length = |bytes: u8| admit::<I>(&with(&udp(I::V6), I::offset() + 4, &[0, bytes]));
    assert_eq!(
        [0, 7, 8, 18, 19].map(length),
        [Err(Malformed), Err(Malformed), Ok(()), Ok(()), Err(Malformed)]
    );
}

#[test]
fn ipv4_transport_by_reason() {
    transport_by_reason::<Ipv4>();
}

#[test]
fn ipv6_transport_by_reason() {
    transport_by_reason::<Ipv6>();
}

#[test]
fn ethernet_for_a_group() {
    for (mac, group) in [
        ([0xff; 6], true),
        ([0x01, 0, 0x5e, 1, 2, 3], true),
        ([0x33, 0x33, 0, 0, 0, 1], true),
        ([0x02, 0xff, 0xff, 0xff, 0xff, 0xff], false),
        ([0; 6], false),
    ] {
        let ethernet: Ethernet = read(&with(&tcp(false), 0, &mac), 0);
        assert_eq!(ethernet.is_for_group(), group, "{mac:x?}");
    }
}

proptest! {
    #[test]
    fn an_ipv4_header_checksum_off_by_anything(packet in packets(false), error in 1..=u16::MAX) {
        let mut packet = packet;
        (packet.addresses.0[0], packet.addresses.1[0]) = (10, 10);
        let mut frame = packet.build();
        prop_assert_eq!(admit::<Ipv4>(&frame), Ok(()));
        let right: u16 = read(&frame, IP + 10);
        // 0x0000 and 0xffff are the same number.
        prop_assume!(right ^ error != !right && (right ^ error) % u16::MAX != right % u16::MAX);
        write(&mut frame, IP + 10, right ^ error);
        prop_assert_eq!(admit::<Ipv4>(&frame), Err(Ingress::Checksum));
    }

    #[test]
    fn ipv4_fields_are_those_etherparse_reads(packet in packets(false)) {
        let frame = packet.build();
        let ours: Ipv4 = read(&frame, IP);
        let (theirs, _) = Ipv4Header::from_slice(&frame[IP..]).expect("a header");
        prop_assert_eq!(ours.saddr().to_ne_bytes(), theirs.source);
        prop_assert_eq!(ours.daddr().to_ne_bytes(), theirs.destination);
        prop_assert_eq!(ours.protocol(), theirs.protocol.0);
        prop_assert_eq!(ours.ttl(), theirs.time_to_live);
        prop_assert_eq!(ours.dscp(), theirs.dscp.value() << 2);
        prop_assert_eq!(u16::from_be(ours.id()), theirs.identification);
        prop_assert_eq!(ours.total_len(), theirs.total_len);
    }

    #[test]
    fn ipv6_fields_are_those_etherparse_reads(packet in packets(true)) {
        let frame = packet.build();
        let ours: Ipv6 = read(&frame, IP);
        let (theirs, _) = Ipv6Header::from_slice(&frame[IP..]).expect("a header");
        prop_assert_eq!(read::<[u8; 16]>(ours.saddr().map(u32::to_ne_bytes).as_flattened(), 0), theirs.source);
        prop_assert_eq!(read::<[u8; 16]>(ours.daddr().map(u32::to_ne_bytes).as_flattened(), 0), theirs.destination);
        prop_assert_eq!(ours.protocol(), theirs.next_header.0);
        prop_assert_eq!(ours.ttl(), theirs.hop_limit);
        prop_assert_eq!(ours.dscp(), theirs.traffic_class & 0xfc);
        prop_assert_eq!(u16::from_be(ours.id()), theirs.flow_label.value() as u16);
        prop_assert_eq!(ours.total_len(), theirs.payload_length + 40);
    }
}
