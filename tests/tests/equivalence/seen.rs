//! Captured frames without what differs from run to run.

use std::net::IpAddr;

use ebpf_bridge_lab::traffic;
use etherparse::Ipv4Header;

const IP: usize = 14;
const ICMP: u8 = 1;
const ICMPV6: u8 = 58;

/// Whether the frame is an IP packet from `sender` that is no neighbour discovery or group management.
pub(super) fn is_from(frame: &traffic::Frame, sender: IpAddr) -> bool {
    let from_sender = frame.addresses().is_some_and(|(from, _)| from == sender);
    from_sender && !(protocol(&frame.bytes) == ICMPV6 && frame.bytes[IP + 40] >= 130)
}

/// Whether the frame is an ICMP error for this host. A pod's own and other pods' are not.
pub(super) fn is_error(frame: &traffic::Frame) -> bool {
    let bytes = &frame.bytes;
    frame.for_host
        && frame.addresses().is_some()
        && match protocol(bytes) {
            ICMP => [3, 4, 5, 11, 12].contains(&bytes[IP + 20]),
            ICMPV6 => bytes[IP + 40] < 128,
            _ => false,
        }
}

/// The packet from its IP header to its end by the IP header, MACs and padding left out. An ICMP error has an
/// identification or flow label of its own, and the MACs are the plugin's to choose.
pub(super) fn normal(frame: &traffic::Frame) -> Vec<u8> {
    let mut packet = frame.bytes[IP..].to_vec();
    let len = match packet[0] >> 4 {
        4 => u16::from_be_bytes([packet[2], packet[3]]).into(),
        _ => 40 + usize::from(u16::from_be_bytes([packet[4], packet[5]])),
    };
    packet.truncate(len);
    if is_error(frame) {
        match packet[0] >> 4 {
            4 => {
                packet[4..6].fill(0);
                let (header, _) = Ipv4Header::from_slice(&packet).expect("an IPv4 header");
                packet[10..12].copy_from_slice(&header.calc_header_checksum().to_be_bytes());
            }
            _ => packet[1..4].fill(0),
        }
    }
    packet
}

fn protocol(bytes: &[u8]) -> u8 {
    match bytes[12..14] {
        [0x08, 0x00] => bytes[IP + 9],
        [0x86, 0xdd] => bytes[IP + 6],
        _ => 0,
    }
}
