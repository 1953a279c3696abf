//! Frames, by the code the eBPF programs parse and rewrite them with. An input is a frame as it comes in and the same
//! frame, or any other, as it goes out:
//!
//! ```text
//! flags       1 byte    which of the two gets a right IPv4 header checksum, which nobody would guess
//! gso_size    2 bytes   network order
//! length      2 bytes   of the first frame, network order; the second is the rest
//! ```

mod frame;
mod peer;

use ebpf_bridge_common::{
    flow::{Flow, FlowKey, Seen},
    headers::{Ethernet, Ip, Ipv4, Ipv6},
    learn::{After, learn},
    reason::{Egress, Ingress},
    rewrite::fresh,
    wire::{CONFIG_TCP, Config},
};

use self::frame::Frame;

/// Flags: give this one a right IPv4 header checksum.
const INTACT_IN: u8 = 1;
const INTACT_OUT: u8 = 2;

const CONFIG: Config = Config {
    renew_ns: 1_000_000_000,
    events_until_ns: 0,
    enabled: 1,
    epoch: 0,
    flags: CONFIG_TCP,
    padding: 0,
};

pub(crate) fn run(input: &[u8]) {
    let [flags, gso_high, gso_low, high, low, frames @ ..] = input else { return };
    let gso_size = u16::from_be_bytes([*gso_high, *gso_low]) as u32;
    let length = u16::from_be_bytes([*high, *low]) as usize;
    let (first, second) = frames.split_at(length.min(frames.len()));
    let comes_in = Frame::new(first, flags & INTACT_IN != 0);
    let goes_out = Frame::new(second, flags & INTACT_OUT != 0);
    match comes_in.ethertype() {
        Some(Ipv4::ETHERTYPE) => carried::<Ipv4>(&comes_in, &goes_out, gso_size),
        Some(Ipv6::ETHERTYPE) => carried::<Ipv6>(&comes_in, &goes_out, gso_size),
        _ => {}
    }
}

/// The way of a packet through both programs, and of the next one of its flow through the first.
fn carried<I: Ip>(comes_in: &Frame, goes_out: &Frame, gso_size: u32)
where
    I::Address: std::fmt::Debug,
{
    let Ok((key, seen)) = ingress::<I>(comes_in, gso_size) else { return };
    peer::agrees(comes_in);
    let Ok((key_out, seen_out)) = egress::<I>(goes_out, gso_size) else { return };
    let Ok(mut flow) = learn::<I>(&key, &seen, &After { seen: seen_out, key: key_out }) else { return };
    flow.learned_ns = 1;
    assert_eq!(fresh(&flow, &seen, &CONFIG, 2), Ok(()), "the very packet is not of the flow");
    let mut repeated = comes_in.clone();
    repeat::<I>(&mut repeated, &flow);
    peer::became(comes_in, &repeated, goes_out);
}

/// `carry` of ebpf/src/ingress.rs, up to the map.
fn ingress<I: Ip>(frame: &Frame, gso_size: u32) -> Result<(FlowKey<I::Address>, Seen), Ingress> {
    let ethernet: Ethernet = frame.at(0).ok_or(Ingress::Malformed)?;
    let ip: I = frame.at(size_of::<Ethernet>()).ok_or(Ingress::Malformed)?;
    if ethernet.is_for_group() {
        return Err(Ingress::Multicast);
    }
    ip.admit(frame.l3_available())?;
    let headers = frame.headers(&ip).ok_or(Ingress::Protocol)?;
    headers.admit(&ip)?;
    Ok((headers.key(&ip, 1), headers.seen(&ethernet, &ip, gso_size)))
}

/// `family` of ebpf/src/egress.rs, without the note.
fn egress<I: Ip>(frame: &Frame, gso_size: u32) -> Result<(FlowKey<I::Address>, Seen), Egress> {
    let ethernet: Ethernet = frame.at(0).ok_or(Egress::Unrepeatable)?;
    if u16::from_be(ethernet.ethertype) != I::ETHERTYPE {
        return Err(Egress::OtherPacket);
    }
    let ip: I = frame.at(size_of::<Ethernet>()).ok_or(Egress::Unrepeatable)?;
    match ip.admit(frame.l3_available()) {
        Ok(()) | Err(Ingress::Ttl) => {}
        Err(_) => return Err(Egress::Unrepeatable),
    }
    let headers = frame.headers(&ip).ok_or(Egress::Unrepeatable)?;
    Ok((headers.key(&ip, 2), headers.seen(&ethernet, &ip, gso_size)))
}

/// `repeat` of ebpf/src/repeat.rs, the helper's part in the checksum written out.
fn repeat<I: Ip>(frame: &mut Frame, flow: &Flow<I::Address>) {
    let mut ip: I = frame.at(size_of::<Ethernet>()).expect("admitted");
    frame.correct_checksum(&ip, flow);
    ip.rewrite(flow);
    frame.rewrite(&ip, flow);
}
