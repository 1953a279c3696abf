//! Changes to a packet's bytes that leave the rest as it is.

use super::IP;

fn is_v6(frame: &[u8]) -> bool {
    frame[12..14] == [0x86, 0xdd]
}

/// A VLAN tag in the packet, as a device without offload leaves it.
pub(super) fn push_vlan(frame: &mut Vec<u8>) {
    frame.splice(12..12, [0x81, 0, 0, 7]);
}

/// The protocol, by family.
pub(super) fn set_protocol(frame: &mut [u8], v4: u8, v6: u8) {
    if is_v6(frame) { frame[IP + 6] = v6 } else { frame[IP + 9] = v4 }
}

/// TTL or hop limit.
pub(super) fn set_ttl(frame: &mut [u8], ttl: u8) {
    frame[if is_v6(frame) { IP + 7 } else { IP + 8 }] = ttl;
}

/// DSCP and ECN.
pub(super) fn set_class(frame: &mut [u8], class: u8) {
    if is_v6(frame) {
        (frame[IP], frame[IP + 1]) = (0x60 | class >> 4, class << 4);
    } else {
        frame[IP + 1] = class;
    }
}

/// A multicast destination.
pub(super) fn to_multicast(frame: &mut [u8]) {
    if is_v6(frame) { frame[IP + 24] = 0xff } else { frame[IP + 16] = 224 }
}

/// No length in the IP header, as in a frame of more than 64 KB.
pub(super) fn no_length(frame: &mut [u8]) {
    let at = if is_v6(frame) { IP + 4 } else { IP + 2 };
    frame[at..at + 2].fill(0);
}

/// A TCP header that says 60 bytes where the packet has 40 after the IP header.
pub(super) fn long_header(frame: &mut Vec<u8>, transport: usize) {
    frame[transport + 12] = 0xf0;
    let short = transport + 40;
    frame.truncate(short);
    let len = (short - if is_v6(frame) { IP + 40 } else { IP }) as u16;
    let at = if is_v6(frame) { IP + 4 } else { IP + 2 };
    frame[at..at + 2].copy_from_slice(&len.to_be_bytes());
}

/// One byte more payload, in all lengths.
pub(super) fn one_more(frame: &mut Vec<u8>, transport: usize) {
    frame.push(0);
    let length = if is_v6(frame) { IP + 5 } else { IP + 3 };
    frame[length] += 1;
    frame[transport + 5] += 1;
}
