//! What an attacker sends, each with its name as payload.

use std::net::IpAddr;

use ebpf_bridge_lab::Family;
use ebpf_bridge_lab::frame::{Frame, Transport};

use super::stage::{Stage, payload};

pub(super) fn addresses(stage: &Stage) -> Vec<(&'static str, Vec<u8>)> {
    let (family, honest) = (stage.family, stage.honest());
    let gateway: IpAddr = family.pick([10, 1, 0, 1].into(), [0xfd00, 0x10, 1, 0, 0, 0, 0, 1].into());
    let nobody: IpAddr = family.pick([10, 1, 0, 77].into(), [0xfd00, 0x10, 1, 0, 0, 0, 0, 0x77].into());
    let lo: IpAddr = family.pick([127, 0, 0, 1].into(), [0, 0, 0, 0, 0, 0, 0, 1].into());
    let group: IpAddr = family.pick([224, 0, 0, 1].into(), [0xff02, 0, 0, 0, 0, 0, 0, 1].into());
    let [victim, server, attacker] = [0, 1, 2].map(|pod| stage.address(pod));
    let outside = stage.outside();
    let routed = [stage.gateway, stage.macs[2]];
    let bridged = honest.macs;
    [
        ("as the victim to the server", bridged, victim, server),
        ("as the server to itself", bridged, server, server),
        ("as the gateway", bridged, gateway, server),
        ("as the outside", bridged, outside, server),
        ("as nobody", bridged, nobody, server),
        ("as the loopback", bridged, lo, server),
        ("as a group", bridged, group, server),
        ("outside as itself", routed, attacker, outside),
        ("outside as the victim", routed, victim, outside),
        ("outside as nobody", routed, nobody, outside),
        ("outside as the outside", routed, outside, outside),
        ("the node's loopback", routed, attacker, lo),
        ("the gateway as the victim", routed, victim, gateway),
        ("the server by the gateway", routed, victim, server),
    ]
    .map(|(name, macs, from, to)| {
        let frame = Frame { macs, addresses: [from, to], payload: payload(name), ..stage.honest() };
        (name, frame.build())
    })
    .into()
}

/// Other MACs on the attacker's own fast flow. As the source never another pod's: that is for [`super::attacks`].
pub(super) fn macs(stage: &Stage) -> Vec<(&'static str, Vec<u8>)> {
    let [victim, server, attacker] = stage.macs;
    [
        ("an unknown source", [server, [2, 0, 0, 0, 0x66, 1]]),
        ("the gateway as source", [server, stage.gateway]),
        ("a group as source", [server, [3, 0, 0, 0, 0x66, 1]]),
        ("no source", [server, [0; 6]]),
        ("to the victim's MAC", [victim, attacker]),
        ("to the gateway's MAC", [stage.gateway, attacker]),
        ("to everybody", [[0xff; 6], attacker]),
        ("to its own MAC", [attacker, attacker]),
        ("to an unknown MAC", [[2, 0, 0, 0, 0x66, 2], attacker]),
    ]
    .map(|(name, macs)| (name, Frame { macs, payload: payload(name), ..stage.honest() }.build()))
    .into()
}

pub(super) fn tags(stage: &Stage) -> Vec<(&'static str, Vec<u8>)> {
    const CUSTOMER: [u8; 2] = [0x81, 0x00];
    const SERVICE: [u8; 2] = [0x88, 0xa8];
    let tag = |protocol: [u8; 2], vid: u8| [&protocol[..], &[0, vid]].concat();
    [
        ("VLAN 5", tag(CUSTOMER, 5)),
        ("VLAN 0", tag(CUSTOMER, 0)),
        ("VLAN 1", tag(CUSTOMER, 1)),
        ("service VLAN 5", tag(SERVICE, 5)),
        ("VLAN 5 in 5", [tag(SERVICE, 5), tag(CUSTOMER, 5)].concat()),
        ("VLAN 0 in 0", [tag(CUSTOMER, 0), tag(CUSTOMER, 0)].concat()),
    ]
    .map(|(name, tags)| {
        let frame = Frame { payload: payload(name), ..stage.honest() }.build();
        (name, [&frame[..12], &tags, &frame[12..]].concat())
    })
    .into()
}

/// Segments of nobody's connection, and of one as the victim may have.
pub(super) fn forged_tcp(stage: &Stage) -> Vec<(&'static str, Vec<u8>)> {
    const FLAGS: usize = 13;
    let forged = |name, from, flags: u8| {
        let transport = Transport::Tcp { sequence: 0x1000_0000, acknowledgement: 0x2000_0000 };
        let frame = Frame {
            addresses: [from, stage.address(1)],
            transport,
            payload: payload(name),
            ..stage.honest()
        };
        let offset = frame.transport_offset() + FLAGS;
        let mut bytes = frame.build();
        bytes[offset] = flags;
        (name, bytes)
    };
    let (own, victim) = (stage.address(2), stage.address(0));
    vec![
        forged("data", own, 0x10),
        forged("no flags", own, 0x00),
        forged("all flags", own, 0xff),
        forged("data of the victim's", victim, 0x10),
        forged("a reset of the victim's", victim, 0x14),
        forged("an end of the victim's", victim, 0x11),
        forged("a start of the victim's", victim, 0x02),
    ]
}

/// The attacker's own flow with fields that are wrong.
pub(super) fn malformed(stage: &Stage) -> Vec<(&'static str, Vec<u8>)> {
    let named = |name| Frame { payload: payload(name), ..stage.honest() };
    let transport = named("").transport_offset();
    let changed = |name, offset: usize, bytes: &[u8], right: bool| {
        let mut frame = named(name).build();
        frame[offset..offset + bytes.len()].copy_from_slice(bytes);
        if right {
            ebpf_bridge_lab::frame::correct(&mut frame);
        }
        (name, frame)
    };
    let cut = |name, length| {
        let mut frame = named(name).build();
        frame.truncate(length);
        (name, frame)
    };
    let mut frames = vec![
        ("TTL 1", Frame { ttl: 1, ..named("TTL 1") }.build()),
        ("TTL 0", Frame { ttl: 0, ..named("TTL 0") }.build()),
        ("another DSCP", Frame { dscp: 46, ..named("another DSCP") }.build()),
        changed("another version", 14, &[0x55], false),
        changed("UDP length 0", transport + 4, &[0, 0], false),
        changed("UDP length too short", transport + 4, &[0, 7], false),
        changed("UDP length too long", transport + 4, &[0xff, 0xff], false),
        changed("a wrong UDP checksum", transport + 6, &[0x12, 0x34], false),
        changed("the other family's type", 12, stage.family.pick(&[0x86, 0xdd], &[0x08, 0x00]), false),
        cut("cut in the Ethernet header", 14),
        cut("cut in the IP header", 30),
        cut("cut in the transport header", transport + 4),
        cut("cut in the payload", transport + 30),
    ];
    if stage.family == Family::V4 {
        frames.extend([
            changed("header length 4", 14, &[0x44], true),
            changed("header length 15", 14, &[0x4f], false),
            changed("options", 14, &[0x46], false),
            changed("total length 0", 16, &[0, 0], true),
            changed("total length too long", 16, &[0xff, 0xff], true),
            changed("a wrong IP checksum", 24, &[0x12, 0x34], false),
            changed("a first fragment", 20, &[0x20, 0], true),
            changed("a later fragment", 20, &[0, 100], true),
        ]);
    } else {
        frames.extend([
            changed("payload length 0", 18, &[0, 0], false),
            changed("payload length too long", 18, &[0xff, 0xff], false),
            changed("a routing header", 20, &[43], false),
            changed("a fragment header", 20, &[44], false),
        ]);
    }
    frames
}
