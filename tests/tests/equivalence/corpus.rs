//! The packets: what is sent, and whether the fast path may take it.

use ebpf_bridge_lab::Family;
use ebpf_bridge_lab::frame::{Frame, Transport};

/// Offset of the IP header.
const IP: usize = 14;

/// One kind of packet.
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) fast: Fast,
    /// What is special about it.
    pub(super) frame: fn(&mut Frame),
    /// The same, in the bytes; the IPv4 header checksum is made right afterwards unless it is `Broken`.
    pub(super) bytes: fn(&mut Vec<u8>),
    pub(super) only: Option<Family>,
}

/// Which of the packets after the first the fast path carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fast {
    Always,
    /// On the way over the bridge; a router does something else with it.
    Bridged,
    Never,
    /// Never, and its header checksum stays wrong.
    Broken,
}

const PLAIN: Row = Row { name: "", fast: Fast::Always, frame: |_| {}, bytes: |_| {}, only: None };
const UDP: Transport = Transport::Udp { checksum: true };
const V4: Option<Family> = Some(Family::V4);
const V6: Option<Family> = Some(Family::V6);

/// All of it. The longest packets are as long as the MTU of 1500, that of the uplink is 1400.
pub(super) fn rows() -> Vec<Row> {
    use Fast::{Always, Bridged, Broken, Never};
    let mut rows = vec![
        Row { name: "TCP", frame: |f| f.payload = (0..=255).collect(), ..PLAIN },
        Row { name: "TCP without payload", frame: |f| f.payload.clear(), ..PLAIN },
        Row { name: "TCP with URG", bytes: |b| tcp_flags(b, 0x38), ..PLAIN },
        Row { name: "TCP with ECE and CWR", bytes: |b| tcp_flags(b, 0xd0), ..PLAIN },
        Row { name: "TCP with SYN", fast: Never, bytes: |b| tcp_flags(b, 0x02), ..PLAIN },
        Row { name: "TCP with FIN", fast: Never, bytes: |b| tcp_flags(b, 0x11), ..PLAIN },
        Row { name: "TCP with RST", fast: Never, bytes: |b| tcp_flags(b, 0x04), ..PLAIN },
        Row { name: "an empty datagram", frame: |f| udp(f, 0), ..PLAIN },
        Row { name: "a datagram of one byte", frame: |f| udp(f, 1), ..PLAIN },
        Row { name: "a datagram as long as the uplink's MTU", frame: |f| udp(f, 1392 - ip_len(f)), ..PLAIN },
        Row {
            name: "a datagram of one byte more",
            fast: Bridged,
            frame: |f| udp(f, 1393 - ip_len(f)),
            ..PLAIN
        },
        Row {
            name: "a datagram as long as the bridge's MTU",
            fast: Bridged,
            frame: |f| udp(f, 1492 - ip_len(f)),
            ..PLAIN
        },
        Row {
            name: "UDP without a checksum",
            frame: |f| (f.transport, f.id) = (Transport::Udp { checksum: false }, 9),
            ..PLAIN
        },
        Row {
            name: "a wrong UDP checksum",
            fast: Bridged,
            frame: |f| udp(f, 9),
            bytes: |b| *last(b) ^= 1,
            only: None,
        },
        Row { name: "ECN", frame: |f| (f.ecn, f.transport) = (3, UDP), ..PLAIN },
        Row { name: "DSCP", frame: |f| (f.dscp, f.transport) = (46, UDP), ..PLAIN },
        Row { name: "TTL 3", frame: |f| (f.ttl, f.transport) = (3, UDP), ..PLAIN },
        Row { name: "TTL 2", frame: |f| (f.ttl, f.transport) = (2, UDP), ..PLAIN },
        Row { name: "TTL 1", fast: Never, frame: |f| (f.ttl, f.transport) = (1, UDP), ..PLAIN },
        Row { name: "TTL 255", frame: |f| (f.ttl, f.transport) = (255, UDP), ..PLAIN },
        Row { name: "multicast", fast: Never, frame: multicast, ..PLAIN },
        Row { name: "an unknown protocol", fast: Never, bytes: |b| set_protocol(b, 253), ..PLAIN },
    ];
    rows.extend(rows_v4());
    rows.extend([("hop-by-hop options", 0u8), ("destination options", 60)].map(|(name, _)| Row {
        name,
        fast: Never,
        frame: |f| udp(f, 32),
        bytes: if name == "hop-by-hop options" { |b| extend(b, 0) } else { |b| extend(b, 60) },
        only: V6,
    }));
    rows.push(Row {
        name: "a fragment header",
        fast: Never,
        frame: |f| udp(f, 32),
        bytes: fragment_v6,
        only: V6,
    });
    rows.retain(|row| row.fast != Broken || row.only == V4);
    debug_assert!(rows.iter().any(|row| row.fast == Always));
    rows
}

fn rows_v4() -> Vec<Row> {
    use Fast::{Always, Bridged, Broken, Never};
    vec![
        Row { name: "DF", frame: |f| (f.dont_fragment, f.transport) = (true, UDP), only: V4, ..PLAIN },
        Row {
            name: "DF, too long for the uplink",
            fast: Bridged,
            frame: |f| (udp(f, 1400), f.dont_fragment = true).1,
            only: V4,
            ..PLAIN
        },
        Row {
            name: "identification 0",
            fast: Always,
            frame: |f| (f.id, f.transport) = (0, UDP),
            only: V4,
            ..PLAIN
        },
        Row { name: "IP options", fast: Never, frame: |f| udp(f, 32), bytes: options, only: V4 },
        Row {
            name: "a first fragment, the last missing",
            fast: Never,
            frame: |f| udp(f, 32),
            bytes: |b| b[IP + 6] = 0x20,
            only: V4,
        },
        Row {
            name: "a last fragment, the first missing",
            fast: Never,
            frame: |f| udp(f, 32),
            bytes: |b| b[IP + 7] = 9,
            only: V4,
        },
        Row {
            name: "a wrong header checksum",
            fast: Broken,
            frame: |f| udp(f, 32),
            bytes: |b| b[IP + 10] ^= 0x40,
            only: V4,
        },
        Row { name: "broadcast", fast: Never, frame: broadcast, only: V4, ..PLAIN },
    ]
}

fn ip_len(frame: &Frame) -> usize {
    frame.ip_len()
}

fn udp(frame: &mut Frame, payload: usize) {
    frame.transport = UDP;
    frame.payload = (0..payload).map(|at| at as u8).collect();
}

fn last(bytes: &mut [u8]) -> &mut u8 {
    bytes.last_mut().expect("a frame with bytes")
}

fn is_v6(bytes: &[u8]) -> bool {
    bytes[12] == 0x86
}

/// Sets flags, and the TCP checksum right by what they add to it (RFC 1624).
fn tcp_flags(bytes: &mut [u8], flags: u8) {
    let tcp = if is_v6(bytes) { IP + 40 } else { IP + 20 };
    let old = std::mem::replace(&mut bytes[tcp + 13], flags);
    let check = u16::from_be_bytes([bytes[tcp + 16], bytes[tcp + 17]]);
    let sum = u32::from(!check) + u32::from(!u16::from(old)) + u32::from(flags);
    let sum = (sum & 0xffff) + (sum >> 16);
    let check = !((sum & 0xffff) + (sum >> 16)) as u16;
    bytes[tcp + 16..tcp + 18].copy_from_slice(&check.to_be_bytes());
}

fn set_protocol(bytes: &mut [u8], protocol: u8) {
    bytes[if is_v6(bytes) { IP + 6 } else { IP + 9 }] = protocol;
}

fn multicast(frame: &mut Frame) {
    udp(frame, 32);
    if frame.addresses[0].is_ipv4() {
        frame.addresses[1] = [239, 9, 9, 9].into();
        frame.macs[0] = [1, 0, 0x5e, 9, 9, 9];
    } else {
        frame.addresses[1] = [0xff15, 0, 0, 0, 0, 0, 0, 0x909].into();
        frame.macs[0] = [0x33, 0x33, 0, 0, 9, 9];
    }
}

fn broadcast(frame: &mut Frame) {
    udp(frame, 32);
    frame.addresses[1] = [10, 1, 0, 255].into();
    frame.macs[0] = [0xff; 6];
}

/// Four NOPs (RFC 791, section 3.1).
fn options(bytes: &mut Vec<u8>) {
    bytes[IP] = 0x46;
    bytes[IP + 3] += 4;
    bytes.splice(IP + 20..IP + 20, [1; 4]);
}

/// An extension header with nothing but padding (RFC 8200, section 4.2).
fn extend(bytes: &mut Vec<u8>, header: u8) {
    bytes.splice(IP + 40..IP + 40, [17, 0, 1, 4, 0, 0, 0, 0]);
    bytes[IP + 5] += 8;
    bytes[IP + 6] = header;
}

/// The first fragment of a packet whose others are missing (RFC 8200, section 4.5).
fn fragment_v6(bytes: &mut Vec<u8>) {
    bytes.splice(IP + 40..IP + 40, [17, 0, 0, 1, 0, 0, 0, 77]);
    bytes[IP + 5] += 8;
    bytes[IP + 6] = 44;
}
