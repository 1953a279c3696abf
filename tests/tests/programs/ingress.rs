//! Each reason of `flow_ingress`. The flow is known and fresh every time, so that the one thing the test does to
//! the packet, the flow or the configuration is why it is not carried.

use anyhow::{Result, ensure};
use ebpf_bridge_common::flow::Flow;
use ebpf_bridge_common::headers::{Ipv4, Ipv6, TCP_SYN};
use ebpf_bridge_common::reason::Ingress;
use ebpf_bridge_common::wire::{Config, TAG};
use ebpf_bridge_lab::Need;
use ebpf_bridge_lab::bpf::{Device, Input};
use ebpf_bridge_lab::frame::{Transport, correct};

use super::edit::{
    long_header, no_length, one_more, push_vlan, set_class, set_protocol, set_ttl, to_multicast,
};
use super::family::{Family, flow, observe};
use super::{CONFIG, Case, IP, PASS, REDIRECT, TCP, UDP, bench, now, packet, register_both};
use crate::check::equal;
use crate::suite::Suite;

/// One packet and why it is not carried.
#[derive(Clone, Copy)]
struct Refused {
    reason: Ingress,
    transport: Transport,
    /// Done to the packet's bytes. The IPv4 header checksum is made right again, unless that is the reason.
    bytes: fn(&mut Vec<u8>, usize),
    /// Done to what comes with the packet.
    input: fn(&mut Input),
    config: Config,
    /// Taken off the time the flow was learned, ns; all of it for `u64::MAX`.
    age: u64,
    known: bool,
}

/// The programs' clock goes by the kernel's ticks, of which there are at least 100 a second.
const TICK_NS: u64 = 10_000_000;

const PLAIN: Refused = Refused {
    reason: Ingress::NoFlow,
    transport: TCP,
    bytes: |_, _| {},
    input: |_| {},
    config: CONFIG,
    age: 0,
    known: true,
};

pub(super) fn register(suite: &mut Suite) {
    use Ingress::*;
    let off = Config { enabled: 0, ..CONFIG };
    let strict = Config { flags: 0, ..CONFIG };
    let forgotten = Config { epoch: CONFIG.epoch + 1, ..CONFIG };
    for (name, case) in [
        ("the kill switch", Refused { reason: Disabled, config: off, ..PLAIN }),
        ("ARP", Refused { reason: NotIp, bytes: |f, _| f[12..14].copy_from_slice(&[8, 6]), ..PLAIN }),
        ("a VLAN tag", Refused { reason: Vlan, input: |i| i.vlan = 7, ..PLAIN }),
        ("a VLAN tag in the packet", Refused { reason: NotIp, bytes: |f, _| push_vlan(f), ..PLAIN }),
        (
            "a frame that ends with the IP header",
            Refused { reason: Malformed, bytes: |f, t| f.truncate(t), ..PLAIN },
        ),
        (
            "a frame that ends in the TCP header",
            Refused { reason: Malformed, bytes: |f, t| f.truncate(t + 13), ..PLAIN },
        ),
        (
            "a TCP header longer than the packet",
            Refused { reason: Malformed, bytes: |f, t| long_header(f, t), ..PLAIN },
        ),
        (
            "a UDP length beyond the packet",
            Refused { reason: Malformed, transport: UDP, bytes: |f, t| f[t + 4] = 1, ..PLAIN },
        ),
        (
            "a BIG TCP frame, whose header has no length,",
            Refused { reason: Malformed, bytes: |f, _| no_length(f), input: |i| i.gso_size = 100, ..PLAIN },
        ),
        ("ICMP", Refused { reason: Protocol, bytes: |f, _| set_protocol(f, 1, 58), ..PLAIN }),
        ("SCTP", Refused { reason: Protocol, bytes: |f, _| set_protocol(f, 132, 132), ..PLAIN }),
        ("multicast", Refused { reason: Multicast, bytes: |f, _| to_multicast(f), ..PLAIN }),
        ("a multicast MAC", Refused { reason: Multicast, bytes: |f, _| f[0] |= 1, ..PLAIN }),
        ("TTL 1", Refused { reason: Ttl, bytes: |f, _| set_ttl(f, 1), ..PLAIN }),
        ("TTL 0", Refused { reason: Ttl, bytes: |f, _| set_ttl(f, 0), ..PLAIN }),
        ("FIN", Refused { reason: TcpFlags, bytes: |f, t| f[t + 13] = 0x11, ..PLAIN }),
        ("RST", Refused { reason: TcpFlags, bytes: |f, t| f[t + 13] = 0x04, ..PLAIN }),
        ("TCP without any flag", Refused { reason: TcpFlags, bytes: |f, t| f[t + 13] = 0, ..PLAIN }),
        ("TCP with strict windows", Refused { reason: TcpNotLiberal, config: strict, ..PLAIN }),
        ("an unknown flow", Refused { reason: NoFlow, known: false, ..PLAIN }),
        ("other ports", Refused { reason: NoFlow, bytes: |f, t| f[t] ^= 1, ..PLAIN }),
        ("a flow older than renew", Refused { reason: Stale, age: CONFIG.renew_ns + TICK_NS, ..PLAIN }),
        ("a flow a SYN has ended", Refused { reason: Stale, age: u64::MAX, ..PLAIN }),
        ("a flow of another epoch", Refused { reason: Stale, config: forgotten, ..PLAIN }),
        (
            "one byte more than learned",
            Refused { reason: Larger, transport: UDP, bytes: |f, t| one_more(f, t), ..PLAIN },
        ),
        (
            "GSO segments longer than learned",
            Refused { reason: Larger, input: |i| i.gso_size = 102, ..PLAIN },
        ),
        ("another source MAC", Refused { reason: Differs, bytes: |f, _| f[11] ^= 1, ..PLAIN }),
        ("another destination MAC", Refused { reason: Differs, bytes: |f, _| f[0] ^= 4, ..PLAIN }),
        ("another DSCP", Refused { reason: Differs, bytes: |f, _| set_class(f, 0x29), ..PLAIN }),
    ] {
        register_both(suite, &[], &format!("{name} is passed on as {}", case.reason.name()), case);
    }
    for (name, case) in [
        ("options", Refused { reason: IpOptions, bytes: |f, _| f[IP] = 0x46, ..PLAIN }),
        ("a first fragment", Refused { reason: Fragment, bytes: |f, _| f[IP + 6] = 0x20, ..PLAIN }),
        ("a last fragment", Refused { reason: Fragment, bytes: |f, _| f[IP + 7] = 5, ..PLAIN }),
        ("a wrong header checksum", Refused { reason: Checksum, bytes: |f, _| f[IP + 11] ^= 1, ..PLAIN }),
    ] {
        let name = format!("programs: {name} is passed on as {}, IPv4", case.reason.name());
        suite.test_with(&[Need::Object], name, move || case.run::<Ipv4>());
    }
    for (name, header) in [("hop-by-hop options", 0u8), ("a fragment header", 44), ("a routing header", 43)] {
        let case = Refused { reason: Protocol, ..PLAIN };
        let name = format!("programs: {name} are passed on as protocol, IPv6");
        suite.test_with(&[Need::Object], name, move || {
            refused::<Ipv6>(case, |frame, _| frame[IP + 6] = header)
        });
    }
    register_both(suite, &[], "a known flow is redirected", Known);
    register_both(suite, &[], "a packet that is passed on is noted", Noted);
    register_both(suite, &[], "SYN ends what was known", SynForgets);
}

impl Case for Refused {
    fn run<I: Family>(self) -> Result<()> {
        refused::<I>(self, self.bytes)
    }
}

fn refused<I: Family>(case: Refused, bytes: impl Fn(&mut Vec<u8>, usize)) -> Result<()> {
    let mut bench = bench()?;
    let known = packet::<I>(case.transport);
    let (before, transport) = (known.build(), known.transport_offset());
    let (key, learned) = flow::<I>(&bench, (&before, Device::Pod), (&before, Device::Out), CONFIG.epoch)?;
    let flow = Flow { learned_ns: now()?.saturating_sub(case.age), ..learned };
    if case.known {
        I::insert(&mut bench, &key, &flow)?;
    }
    bench.configure(case.config)?;
    let mut frame = before;
    bytes(&mut frame, transport);
    if case.reason != Ingress::Checksum {
        correct(&mut frame);
    }
    let mut input = Input { frame: &frame, mark: 3, priority: 4, ..Input::default() };
    (case.input)(&mut input);
    let output = bench.ingress(Device::Pod, &input)?;
    equal("the reason", output.reason, case.reason)?;
    equal("the action", output.action, PASS)?;
    equal("mark and priority", (output.mark, output.priority), (3, 4))?;
    ensure!(output.frame == frame, "the packet was changed");
    Ok(())
}

/// Nothing is done to it.
#[derive(Clone, Copy)]
struct Known;

impl Case for Known {
    fn run<I: Family>(self) -> Result<()> {
        for transport in [TCP, UDP] {
            let mut bench = bench()?;
            let frame = packet::<I>(transport).build();
            let (key, flow) = flow::<I>(&bench, (&frame, Device::Pod), (&frame, Device::Out), CONFIG.epoch)?;
            I::insert(&mut bench, &key, &flow)?;
            let output = bench.ingress(Device::Pod, &Input { frame: &frame, ..Input::default() })?;
            equal("the reason", output.reason, Ingress::Redirected)?;
            equal("the action", output.action, REDIRECT)?;
            ensure!(output.frame == frame, "nothing was to be rewritten");
            let output = bench.ingress(Device::Out, &Input { frame: &frame, ..Input::default() })?;
            equal("the reason, from another device", output.reason, Ingress::NoFlow)?;
        }
        Ok(())
    }
}

/// The note has everything flow_egress compares.
#[derive(Clone, Copy)]
struct Noted;

impl Case for Noted {
    fn run<I: Family>(self) -> Result<()> {
        let bench = bench()?;
        let frame = packet::<I>(TCP).build();
        let start = I::stash(&bench)?.last;
        for number in start + 1..=start + 40 {
            bench.ingress(Device::Pod, &Input { frame: &frame, ..Input::default() })?;
            let stash = I::stash(&bench)?;
            equal("the note's number", stash.last, number)?;
            let note = stash.notes[number as usize % stash.notes.len()];
            let (key, seen) = observe::<I>(&frame, bench.index(Device::Pod));
            equal("its tag", note.tag, number | u32::from(TAG))?;
            ensure!(note.key == key, "noted {:?}, not {key:?}", note.key);
            equal("the appearance", note.seen, seen)?;
            equal("where it left by", note.left, 0)?;
            ensure!(now()? - note.time_ns < 1_000_000_000, "noted at {}", note.time_ns);
        }
        Ok(())
    }
}

/// A port may be used again at once, and be translated otherwise.
#[derive(Clone, Copy)]
struct SynForgets;

impl Case for SynForgets {
    fn run<I: Family>(self) -> Result<()> {
        let mut bench = bench()?;
        let known = packet::<I>(TCP);
        let frame = known.build();
        let (key, flow) = flow::<I>(&bench, (&frame, Device::Pod), (&frame, Device::Out), CONFIG.epoch)?;
        I::insert(&mut bench, &key, &flow)?;
        let mut syn = frame.clone();
        syn[known.transport_offset() + 13] = TCP_SYN;
        let output = bench.ingress(Device::Pod, &Input { frame: &syn, ..Input::default() })?;
        equal("the reason of SYN", output.reason, Ingress::TcpFlags)?;
        equal("when it was learned", I::flow(&mut bench, &key)?.map(|flow| flow.learned_ns), Some(0))?;
        let output = bench.ingress(Device::Pod, &Input { frame: &frame, ..Input::default() })?;
        equal("the reason of the next", output.reason, Ingress::Stale)
    }
}
