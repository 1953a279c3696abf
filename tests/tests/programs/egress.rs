//! Each reason of `flow_egress`: a packet is noted at ingress, and something happens to it before it leaves.

use anyhow::{Result, bail, ensure};
use ebpf_bridge_common::reason::{Egress, Ingress};
use ebpf_bridge_common::wire::{NOTES, TAG};
use ebpf_bridge_lab::bpf::{Bench, Device, Input, Output};
use ebpf_bridge_lab::frame::{Frame, Transport, correct};

use super::edit::set_protocol;
use super::family::{Family, observe};
use super::{Case, PASS, TCP, UDP, bench, packet, register_both};
use crate::check::equal;
use crate::suite::Suite;

/// One thing that happens to a noted packet, and what becomes of it.
#[derive(Clone, Copy)]
struct Leaves {
    reason: Egress,
    transport: Transport,
    /// What it comes in with.
    ttl: u8,
    /// What the kernel does.
    changed: fn(&mut Frame),
    /// What it does to the bytes; the IPv4 header checksum is right afterwards.
    bytes: fn(&mut Vec<u8>, usize),
    /// Done to what comes with the packet.
    input: fn(&mut Input),
    /// Other packets noted in between.
    between: usize,
}

const PLAIN: Leaves = Leaves {
    reason: Egress::Learned,
    transport: TCP,
    ttl: 64,
    changed: |_| {},
    bytes: |_, _| {},
    input: |_| {},
    between: 0,
};

pub(super) fn register(suite: &mut Suite) {
    use Egress::*;
    for (name, case) in [
        ("an untouched packet", PLAIN),
        ("an untouched datagram", Leaves { transport: UDP, ..PLAIN }),
        ("a packet that was routed", Leaves { changed: |f| f.ttl -= 1, ..PLAIN }),
        ("a packet whose TTL has become 1", Leaves { ttl: 2, changed: |f| f.ttl = 1, ..PLAIN }),
        ("a packet whose ECN was marked", Leaves { changed: |f| f.ecn = 3, ..PLAIN }),
        ("a packet with fifteen noted after it", Leaves { between: NOTES - 1, ..PLAIN }),
        ("a packet without a tag", Leaves { reason: Untagged, input: |i| i.tag = 0, ..PLAIN }),
        (
            "a packet tagged by others",
            Leaves { reason: Untagged, input: |i| i.tag &= !u32::from(TAG), ..PLAIN },
        ),
        ("a packet with sixteen noted after it", Leaves { reason: StashGone, between: NOTES, ..PLAIN }),
        ("a tag never given", Leaves { reason: StashGone, input: |i| i.tag += 1, ..PLAIN }),
        ("another sequence number", Leaves { reason: OtherPacket, bytes: |f, t| f[t + 4] ^= 1, ..PLAIN }),
        ("another acknowledgement", Leaves { reason: OtherPacket, bytes: |f, t| f[t + 11] ^= 1, ..PLAIN }),
        ("another identification", Leaves { reason: OtherPacket, changed: |f| f.id += 1, ..PLAIN }),
        ("another length", Leaves { reason: OtherPacket, changed: |f| f.payload.truncate(100), ..PLAIN }),
        ("another protocol", Leaves { reason: OtherPacket, changed: |f| f.transport = UDP, ..PLAIN }),
        ("two hops", Leaves { reason: Unrepeatable, changed: |f| f.ttl -= 2, ..PLAIN }),
        ("a TTL that was raised", Leaves { reason: Unrepeatable, changed: |f| f.ttl += 1, ..PLAIN }),
        ("a VLAN tag", Leaves { reason: Unrepeatable, input: |i| i.vlan = 7, ..PLAIN }),
        ("another size of segments", Leaves { reason: Unrepeatable, input: |i| i.gso_size = 50, ..PLAIN }),
        ("an encapsulation", Leaves { reason: Unrepeatable, bytes: |f, _| set_protocol(f, 4, 4), ..PLAIN }),
        ("no IP any more", Leaves { reason: Unrepeatable, bytes: |f, _| f[12] = 0x77, ..PLAIN }),
    ] {
        register_both(suite, &[], &format!("{name} leaves as {}", case.reason.name()), case);
    }
    register_both(suite, &[], "a packet noted 31 ms ago leaves as stash_gone", Late);
    register_both(suite, &[], "a copy leaves as copied, and the flow is forgotten", Flooded);
}

impl Case for Leaves {
    fn run<I: Family>(self) -> Result<()> {
        let mut bench = bench()?;
        let mut frame = Frame { ttl: self.ttl, ..packet::<I>(self.transport) };
        let before = frame.build();
        let key = observe::<I>(&before, bench.index(Device::Pod)).0;
        (self.changed)(&mut frame);
        let mut after = frame.build();
        (self.bytes)(&mut after, frame.transport_offset());
        correct(&mut after);
        let output = leave::<I>(&bench, &before, &after, self.between, self.input)?;
        equal("the reason", output.reason, self.reason)?;
        equal("the action", output.action, PASS)?;
        let known = I::flow(&mut bench, &key)?.is_some();
        equal("whether the flow is known", known, self.reason == Egress::Learned)
    }
}

/// How long a note may be used, by the programs' clock, which is never ahead of the kernel's.
const LIFETIME_NS: u64 = 20_000_000;

/// Notes `before` and lets `after` leave in its place. Again if the machine took longer than a note lives, which
/// no test means.
fn leave<I: Family>(
    bench: &Bench,
    before: &[u8],
    after: &[u8],
    between: usize,
    change: fn(&mut Input),
) -> Result<Output<Egress>> {
    for _ in 0..20 {
        let noted = bench.ingress(Device::Pod, &Input { frame: before, ..Input::default() })?;
        ensure!(noted.reason == Ingress::NoFlow, "{:?}", noted.reason);
        let stash = I::stash(bench)?;
        let note = stash.notes[stash.last as usize % NOTES];
        if let Some(again) = between.checked_sub(1) {
            bench.ingress(Device::Out, &Input { frame: before, again: again as u32, ..Input::default() })?;
        }
        let mut input = Input { frame: after, tag: note.tag, ..Input::default() };
        change(&mut input);
        let output = bench.egress(Device::Out, &input)?;
        if super::now()? - note.time_ns < LIFETIME_NS || output.reason == Egress::Learned {
            return Ok(output);
        }
    }
    bail!("twenty times 20 ms passed between ingress and egress")
}

/// It waited for a neighbour, say; the note may be another packet's by now.
#[derive(Clone, Copy)]
struct Late;

impl Case for Late {
    fn run<I: Family>(self) -> Result<()> {
        let bench = bench()?;
        let frame = packet::<I>(UDP).build();
        bench.ingress(Device::Pod, &Input { frame: &frame, ..Input::default() })?;
        let tag = I::stash(&bench)?.last | u32::from(TAG);
        std::thread::sleep(std::time::Duration::from_millis(31));
        let output = bench.egress(Device::Out, &Input { frame: &frame, tag, ..Input::default() })?;
        equal("the reason", output.reason, Egress::StashGone)
    }
}

/// A bridge that does not know an address floods.
#[derive(Clone, Copy)]
struct Flooded;

impl Case for Flooded {
    fn run<I: Family>(self) -> Result<()> {
        let mut bench = bench()?;
        let frame = packet::<I>(UDP).build();
        let key = observe::<I>(&frame, bench.index(Device::Pod)).0;
        for _ in 0..20 {
            let first = leave::<I>(&bench, &frame, &frame, 0, |_| {})?;
            equal("the first copy", first.reason, Egress::Learned)?;
            let tag = I::stash(&bench)?.last | u32::from(TAG);
            let copy = Input { frame: &frame, tag, ..Input::default() };
            let second = bench.egress(Device::Pod, &copy)?;
            let third = bench.egress(Device::Out, &copy)?;
            if third.reason == Egress::StashGone {
                if I::flow(&mut bench, &key)?.is_some() {
                    I::remove(&mut bench, &key)?;
                }
                continue;
            }
            equal("the second copy", second.reason, Egress::Copied)?;
            equal("the third copy", third.reason, Egress::Copied)?;
            return equal("what is known", I::flow(&mut bench, &key)?, None);
        }
        bail!("twenty times 20 ms passed between the copies")
    }
}
