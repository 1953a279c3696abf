//! The same frames as etherparse, which knows nothing of us, reads them.

use etherparse::{LinkSlice, NetSlice, SlicedPacket, TransportSlice};

use super::frame::Frame;

/// What a router and a translator may change.
#[derive(Debug, PartialEq, Eq)]
struct Changeable {
    macs: ([u8; 6], [u8; 6]),
    addresses: (Vec<u8>, Vec<u8>),
    ports: (u16, u16),
    ttl: u8,
    dscp: u8,
}

/// A frame that the fast path takes is a whole one: another parser takes it, too.
pub(super) fn agrees(frame: &Frame) {
    assert!(read(frame).is_some(), "admitted, but no packet to others");
}

/// The frame has become what the kernel made of it, and its checksums are as right as they were.
pub(super) fn became(before: &Frame, repeated: &Frame, by_the_kernel: &Frame) {
    let (_, sound_before) = read(before).expect("admitted");
    let (found, sound_after) = read(repeated).expect("no packet any more");
    assert!(sound_after >= sound_before, "a right checksum has become wrong");
    // What goes out may be odd beyond what the fast path looks at.
    if let Some((expected, _)) = read(by_the_kernel) {
        assert_eq!(found, expected);
    }
}

/// What of it may change, and whether the transport checksum is right; `None` if it is not all of a packet.
fn read(frame: &Frame) -> Option<(Changeable, bool)> {
    let packet = SlicedPacket::from_ethernet(&frame.0).ok()?;
    let LinkSlice::Ethernet2(ethernet) = packet.link.as_ref()? else { return None };
    let macs = (ethernet.destination(), ethernet.source());
    let (addresses, ttl, dscp) = match packet.net.as_ref()? {
        NetSlice::Ipv4(ip) => {
            let header = ip.header().to_header();
            assert_eq!(header.header_checksum, header.calc_header_checksum(), "IPv4 header checksum");
            let addresses = (header.source.to_vec(), header.destination.to_vec());
            (addresses, header.time_to_live, header.dscp.value())
        }
        NetSlice::Ipv6(ip) => {
            let header = ip.header().to_header();
            let addresses = (header.source.to_vec(), header.destination.to_vec());
            (addresses, header.hop_limit, header.traffic_class >> 2)
        }
        NetSlice::Arp(_) => return None,
    };
    let (ports, sound) = transport(&packet, &addresses)?;
    Some((Changeable { macs, addresses, ports, ttl, dscp }, sound))
}

fn transport(packet: &SlicedPacket<'_>, addresses: &(Vec<u8>, Vec<u8>)) -> Option<((u16, u16), bool)> {
    Some(match packet.transport.as_ref()? {
        TransportSlice::Tcp(tcp) => {
            let sound = sum(addresses, 6, tcp.slice()) == u16::MAX;
            ((tcp.source_port(), tcp.destination_port()), sound)
        }
        TransportSlice::Udp(udp) => {
            let sound = udp.checksum() == 0 || sum(addresses, 17, udp.slice()) == u16::MAX;
            ((udp.source_port(), udp.destination_port()), sound)
        }
        _ => return None,
    })
}

/// The sum over pseudo header and segment (RFC 9293, section 3.1; RFC 8200, section 8.1), folded.
fn sum(addresses: &(Vec<u8>, Vec<u8>), protocol: u8, segment: &[u8]) -> u16 {
    let length = (segment.len() as u32).to_be_bytes();
    let words = [&addresses.0[..], &addresses.1, &length, &[0, 0, 0, protocol], segment];
    let mut sum: u64 = 0;
    for part in words {
        for word in part.chunks(2) {
            sum += u16::from_be_bytes([word[0], word.get(1).copied().unwrap_or(0)]) as u64;
        }
    }
    while sum > u16::MAX as u64 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}
