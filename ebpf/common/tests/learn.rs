//! What is not learned, and when a learned flow is not repeated.

mod packet;

use ebpf_bridge_common::{
    flow::{Flow, FlowKey, Seen},
    headers::{Ipv4, Ipv6},
    learn::{After, learn, wire_len},
    reason::{Egress, Ingress},
    rewrite::fresh,
    wire::Config,
};
use packet::{Family, Kind, Packet, observe, packets, read};
use proptest::prelude::*;

const CONFIG: Config =
    Config { renew_ns: 1_000, enabled: 1, epoch: 3, flags: 0, padding: 0, events_until_ns: 0 };

fn outcome<I: Family>(before: &Packet, after: &Packet) -> Result<Flow<I::Address>, Egress> {
    let (key, seen) = observe::<I>(&before.build(), 1);
    let (key_after, seen_after) = observe::<I>(&after.build(), 2);
    learn::<I>(&key, &seen, &After { seen: seen_after, key: key_after })
}

/// The packet with one thing changed that tells packets apart, as many ways as there are.
fn others(packet: &Packet) -> Vec<Packet> {
    let mut others = vec![
        Packet { id: packet.id ^ 0x100, ..packet.clone() },
        Packet { payload: [&packet.payload[..], &[0]].concat(), ..packet.clone() },
    ];
    match packet.transport {
        Kind::Tcp { sequence, acknowledgement, window, push } => {
            for (sequence, acknowledgement) in
                [(sequence ^ 1, acknowledgement), (sequence, acknowledgement ^ 1 << 31)]
            {
                let transport = Kind::Tcp { sequence, acknowledgement, window, push };
                others.push(Packet { transport, ..packet.clone() });
            }
        }
        Kind::Udp { .. } => {}
    }
    others
}

fn another_packet_is_found_out<I: Family>(packet: &Packet) -> Result<(), TestCaseError> {
    prop_assert!(outcome::<I>(packet, packet).is_ok());
    for other in others(packet) {
        prop_assert_eq!(outcome::<I>(packet, &other).err(), Some(Egress::OtherPacket), "{:?}", other);
    }
    let (key, seen) = observe::<I>(&packet.build(), 1);
    let after = After { seen, key: FlowKey { protocol: 132, ..key } };
    prop_assert_eq!(learn::<I>(&key, &seen, &after).err(), Some(Egress::OtherPacket));
    Ok(())
}

fn only_one_hop_is_learned<I: Family>(packet: &Packet, ttl: u8) -> Result<(), TestCaseError> {
    let after = Packet { ttl, ..packet.clone() };
    let step = packet.ttl.wrapping_sub(ttl);
    match outcome::<I>(packet, &after) {
        Ok(flow) => prop_assert!(step <= 1 && flow.ttl_step == step),
        Err(error) => prop_assert!(step > 1 && error == Egress::Unrepeatable),
    }
    Ok(())
}

proptest! {
    #[test]
    fn another_ipv4_packet_is_found_out(packet in packets(false)) {
        another_packet_is_found_out::<Ipv4>(&packet)?;
    }

    #[test]
    fn another_ipv6_packet_is_found_out(packet in packets(true)) {
        another_packet_is_found_out::<Ipv6>(&packet)?;
    }

    #[test]
    fn ipv4_over_one_hop_at_most(packet in packets(false), ttl in any::<u8>()) {
        only_one_hop_is_learned::<Ipv4>(&packet, ttl)?;
        only_one_hop_is_learned::<Ipv4>(&packet, packet.ttl - 1)?;
    }

    #[test]
    fn ipv6_over_one_hop_at_most(packet in packets(true), ttl in any::<u8>()) {
        only_one_hop_is_learned::<Ipv6>(&packet, ttl)?;
        only_one_hop_is_learned::<Ipv6>(&packet, packet.ttl - 1)?;
    }

    #[test]
    fn a_gso_frame_is_as_long_as_one_segment(packet in packets(false), gso_size in 1..40_000u32) {
        let frame = packet.build();
        let ip: Ipv4 = read(&frame, 14);
        let (header, rest) = match packet.transport {
            Kind::Tcp { .. } => (20, Some(read(&frame, Ipv4::offset() + 8))),
            Kind::Udp { .. } => (8, None),
        };
        prop_assert_eq!(wire_len(&ip, rest.as_ref(), gso_size) as u32, 20 + header + gso_size);
        prop_assert_eq!(wire_len(&ip, rest.as_ref(), 0) as usize, frame.len() - 14);
    }
}

/// What, the flow, the packet, the time, and the outcome.
type Case = (&'static str, Flow<u32>, Seen, u64, Result<(), Ingress>);

#[test]
fn a_flow_is_repeated_only_for_packets_like_the_first() {
    let packet = Packet {
        ethernet: [[2; 6], [4; 6]],
        v6: false,
        addresses: ([10; 16], [11; 16]),
        ttl: 64,
        dscp: 10,
        ecn: 1,
        id: 1,
        dont_fragment: false,
        ports: [1, 2],
        transport: Kind::Udp { checksum: true },
        payload: vec![0; 60],
    };
    let learned = outcome::<Ipv4>(&packet, &packet).expect("learned");
    let flow = Flow { learned_ns: 5_000, epoch: 3, ..learned };
    let (_, seen) = observe::<Ipv4>(&packet.build(), 1);
    let other = |change: fn(&mut Packet)| {
        let mut packet = packet.clone();
        change(&mut packet);
        observe::<Ipv4>(&packet.build(), 1).1
    };
    let table: [Case; 13] = [
        ("at once", flow, seen, 5_000, Ok(())),
        ("just before renew", flow, seen, 5_999, Ok(())),
        ("at renew", flow, seen, 6_000, Err(Ingress::Stale)),
        ("by a clock that is behind", flow, seen, 4_000, Ok(())),
        ("forgotten by a SYN", Flow { learned_ns: 0, ..flow }, seen, 5_000, Err(Ingress::Stale)),
        ("forgotten just after boot", Flow { learned_ns: 0, ..flow }, seen, 500, Err(Ingress::Stale)),
        ("of another epoch", Flow { epoch: 2, ..flow }, seen, 5_000, Err(Ingress::Stale)),
        ("one byte longer", flow, other(|p| p.payload.push(0)), 5_000, Err(Ingress::Larger)),
        ("shorter", flow, other(|p| p.payload.clear()), 5_000, Ok(())),
        ("to another MAC", flow, other(|p| p.ethernet[0][5] = 0), 5_000, Err(Ingress::Differs)),
        ("from another MAC", flow, other(|p| p.ethernet[1][0] = 0), 5_000, Err(Ingress::Differs)),
        ("with another DSCP", flow, other(|p| p.dscp = 11), 5_000, Err(Ingress::Differs)),
        ("with another ECN", flow, other(|p| p.ecn = 3), 5_000, Ok(())),
    ];
    for (what, flow, seen, now, expected) in table {
        assert_eq!(fresh(&flow, &seen, &CONFIG, now), expected, "{what}");
    }
}
