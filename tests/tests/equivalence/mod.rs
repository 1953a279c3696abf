//! With the fast path on, nothing is different but the speed: one corpus of traffic, sent with it on and with
//! `ebpf.mode` off. What arrives is equal, byte by byte, and so are the ICMP errors that come back.
//!
//! One difference is known and meant, see [`sockets`]: a datagram whose UDP checksum is wrong, of a flow that is
//! translated, is translated like the others. conntrack does not translate it; either way nobody takes it.

mod corpus;
mod flood;
mod frames;
mod seen;
mod sockets;

use ebpf_bridge_lab::{Family, Need};

use crate::suite::Suite;

pub(crate) fn register(suite: &mut Suite) {
    for family in Family::ALL {
        for way in frames::Way::ALL {
            let name = format!("equivalence: a corpus of {family} packets from a pod to {way}, on and off");
            suite.test_with(&[Need::Bpf], name, move || frames::corpus(way, family));
        }
    }
    flood::register(suite);
    sockets::register(suite);
}
