//! What is learned from one packet does to any other of its flow what the kernel would.

mod packet;

use ebpf_bridge_common::{
    checksum,
    flow::{FLOW_ADDRESS, FLOW_IP, FLOW_L2, FLOW_PORT, Flow},
    headers::{Ethernet, Ipv4, Ipv6, TCP, Transport, UDP},
    learn::{After, learn},
};
use etherparse::Ipv4Header;
use packet::{Family, Kind, Packet, observe, packets, read, write};
use proptest::prelude::*;

/// What the kernel does to every packet of a flow: L2 header, NAT, the router's step, DSCP.
#[derive(Debug, Clone)]
struct Change {
    ethernet: Option<[[u8; 6]; 2]>,
    source: Option<([u8; 16], u16)>,
    destination: Option<([u8; 16], u16)>,
    routed: bool,
    dscp: Option<u8>,
}

fn changes() -> impl Strategy<Value = Change> {
    let end = || prop::option::of(any::<([u8; 16], u16)>());
    let ethernet = any::<Option<[[u8; 6]; 2]>>();
    (ethernet, end(), end(), any::<bool>(), prop::option::of(0..64u8)).prop_map(
        |(ethernet, source, destination, routed, dscp)| Change {
            ethernet,
            source,
            destination,
            routed,
            dscp,
        },
    )
}

impl Change {
    fn apply(&self, packet: &Packet) -> Packet {
        let (addresses, ports) = (packet.addresses, packet.ports);
        let (saddr, sport) = self.source.unwrap_or((addresses.0, ports[0]));
        let (daddr, dport) = self.destination.unwrap_or((addresses.1, ports[1]));
        Packet {
            ethernet: self.ethernet.unwrap_or(packet.ethernet),
            addresses: (saddr, daddr),
            ports: [sport, dport],
            ttl: packet.ttl - self.routed as u8,
            dscp: self.dscp.unwrap_or(packet.dscp),
            ..packet.clone()
        }
    }
}

/// Another packet of the flow of `first`.
fn of_the_flow(first: &Packet, other: Packet) -> Packet {
    let transport = match (&first.transport, &other.transport) {
        (Kind::Tcp { .. }, Kind::Udp { .. }) | (Kind::Udp { .. }, Kind::Tcp { .. }) => {
            first.transport.clone()
        }
        _ => other.transport.clone(),
    };
    Packet {
        ethernet: first.ethernet,
        addresses: first.addresses,
        ports: first.ports,
        dscp: first.dscp,
        transport,
        ..other
    }
}

fn learned<I: Family>(before: &Packet, after: &Packet) -> Flow<I::Address> {
    let (key, seen) = observe::<I>(&before.build(), 1);
    let (key_after, seen_after) = observe::<I>(&after.build(), 2);
    learn::<I>(&key, &seen, &After { seen: seen_after, key: key_after }).expect("learned")
}

/// `repeat` of ebpf/src/ingress.rs, with the helper's part in the checksum written out.
fn repeat<I: Family>(frame: &mut [u8], flow: &Flow<I::Address>) {
    let mut ethernet: Ethernet = read(frame, 0);
    let mut ip: I = read(frame, size_of::<Ethernet>());
    let protocol = ip.protocol();
    let mut transport: Transport = read(frame, I::offset());
    let at = I::offset() + if protocol == TCP { 16 } else { 6 };
    let check: u16 = read(frame, at);
    ethernet.macs = flow.macs_out;
    ip.rewrite(flow);
    (transport.sport, transport.dport) = (flow.sport, flow.dport);
    write(frame, 0, ethernet);
    write(frame, size_of::<Ethernet>(), ip);
    write(frame, I::offset(), transport);
    if protocol == UDP && check == 0 {
        return;
    }
    let update = |check, flag, difference| {
        if flow.flags & flag == 0 { check } else { checksum::update(check, difference) }
    };
    let check = update(check, FLOW_ADDRESS, flow.address_difference);
    let check = update(check, FLOW_PORT, flow.port_difference);
    // 0 would mean that there is no checksum (RFC 768).
    write(frame, at, if protocol == UDP && check == 0 { u16::MAX } else { check });
}

/// The flow that undoes `flow`.
fn inverse<I: Family>(flow: &Flow<I::Address>, packet: &Packet) -> Flow<I::Address> {
    let (key, _) = observe::<I>(&packet.build(), 1);
    Flow {
        address_difference: !flow.address_difference,
        port_difference: !flow.port_difference,
        macs_in: flow.macs_out,
        macs_out: flow.macs_in,
        saddr: key.saddr,
        daddr: key.daddr,
        sport: key.sport,
        dport: key.dport,
        ttl_step: 0u8.wrapping_sub(flow.ttl_step),
        dscp_in: flow.dscp_out,
        dscp_out: flow.dscp_in,
        ..*flow
    }
}

fn repeats_the_kernel<I: Family>(
    first: &Packet,
    other: Packet,
    change: &Change,
) -> Result<(), TestCaseError> {
    let flow = learned::<I>(first, &change.apply(first));
    let other = of_the_flow(first, other);
    let mut frame = other.build();
    repeat::<I>(&mut frame, &flow);
    prop_assert_eq!(frame, change.apply(&other).build());
    Ok(())
}

fn inverse_is_identity<I: Family>(
    first: &Packet,
    other: Packet,
    change: &Change,
) -> Result<(), TestCaseError> {
    let flow = learned::<I>(first, &change.apply(first));
    let other = of_the_flow(first, other);
    let mut frame = other.build();
    repeat::<I>(&mut frame, &flow);
    repeat::<I>(&mut frame, &inverse::<I>(&flow, first));
    prop_assert_eq!(frame, other.build());
    Ok(())
}

fn difference_is_that_of_the_sum<I: Family>(first: &Packet, change: &Change) -> Result<(), TestCaseError> {
    let flow = learned::<I>(first, &change.apply(first));
    let frame = first.build();
    let before: I = read(&frame, size_of::<Ethernet>());
    let mut after = before;
    let difference = after.rewrite(&flow);
    let header = |ip: I| {
        let mut frame = frame.clone();
        write(&mut frame, size_of::<Ethernet>(), ip);
        sum(&frame[size_of::<Ethernet>()..I::offset()])
    };
    let (got, want) =
        (checksum::fold(checksum::add(header(before), difference)), checksum::fold(header(after)));
    // Both are the same number in one's complement.
    prop_assert!(got % u16::MAX == want % u16::MAX, "{:#x} against {:#x}", got, want);
    Ok(())
}

fn sum(bytes: &[u8]) -> u32 {
    bytes.chunks(2).fold(0, |sum, word| checksum::add(sum, u16::from_ne_bytes([word[0], word[1]]) as u32))
}

proptest! {
    #[test]
    fn ipv4_repeats_the_kernel(first in packets(false), other in packets(false), change in changes()) {
        repeats_the_kernel::<Ipv4>(&first, other, &change)?;
    }

    #[test]
    fn ipv6_repeats_the_kernel(first in packets(true), other in packets(true), change in changes()) {
        repeats_the_kernel::<Ipv6>(&first, other, &change)?;
    }

    #[test]
    fn ipv4_and_its_inverse_cancel(first in packets(false), other in packets(false), change in changes()) {
        inverse_is_identity::<Ipv4>(&first, other, &change)?;
    }

    #[test]
    fn ipv6_and_its_inverse_cancel(first in packets(true), other in packets(true), change in changes()) {
        inverse_is_identity::<Ipv6>(&first, other, &change)?;
    }

    #[test]
    fn ipv4_tells_what_it_does_to_the_sum(first in packets(false), change in changes()) {
        difference_is_that_of_the_sum::<Ipv4>(&first, &change)?;
    }

    #[test]
    fn ipv6_tells_what_it_does_to_the_sum(first in packets(true), change in changes()) {
        difference_is_that_of_the_sum::<Ipv6>(&first, &change)?;
    }

    #[test]
    fn ipv4_header_checksum_is_right(first in packets(false), change in changes()) {
        let flow = learned::<Ipv4>(&first, &change.apply(&first));
        let mut frame = first.build();
        repeat::<Ipv4>(&mut frame, &flow);
        let (header, _) = Ipv4Header::from_slice(&frame[size_of::<Ethernet>()..]).expect("a header");
        prop_assert_eq!(header.header_checksum, header.calc_header_checksum());
    }

    #[test]
    fn flags_name_what_changed(first in packets(false), change in changes()) {
        let after = change.apply(&first);
        let flow = learned::<Ipv4>(&first, &after);
        let addresses = |packet: &Packet| (packet.ipv4().source, packet.ipv4().destination);
        let changed = [
            (FLOW_L2, first.ethernet != after.ethernet),
            (FLOW_ADDRESS, addresses(&first) != addresses(&after)),
            (FLOW_PORT, first.ports != after.ports),
            (FLOW_IP, first.ttl != after.ttl || first.dscp != after.dscp),
        ];
        for (flag, changed) in changed {
            prop_assert_eq!(flow.flags & flag != 0, changed, "flag {:#x}", flag);
        }
    }
}
