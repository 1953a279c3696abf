//! Each rewrite: a flow is learned from one packet, and another packet of it is carried. What comes out must be, byte
//! by byte, what etherparse makes of the other packet with the same fields changed.

use anyhow::{Result, ensure};
use ebpf_bridge_common::flow::Flow;
use ebpf_bridge_common::reason::Ingress;
use ebpf_bridge_lab::Need;
use ebpf_bridge_lab::bpf::{Device, Input};
use ebpf_bridge_lab::frame::{Frame, Transport};

use super::family::{Family, flow};
use super::{CONFIG, Case, REDIRECT, TCP, UDP, UDP_BARE, bench, packet, register_both};
use crate::check::equal;
use crate::suite::Suite;

/// What the kernel does to every packet of a flow.
#[derive(Clone, Copy)]
struct Rewrite {
    transport: Transport,
    change: Change,
    /// The packet comes with the device's sum over it, which the kernel then compares with the packet.
    device_checksum: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Change {
    Nothing,
    Source,
    Destination,
    Ports,
    Ttl,
    Dscp,
    L2,
    All,
}

const CHANGES: [(Change, &str); 8] = [
    (Change::Nothing, "nothing"),
    (Change::Source, "the source"),
    (Change::Destination, "the destination"),
    (Change::Ports, "the ports"),
    (Change::Ttl, "the TTL"),
    (Change::Dscp, "the DSCP"),
    (Change::L2, "the L2 header"),
    (Change::All, "everything"),
];

pub(super) fn register(suite: &mut Suite) {
    for (transport, of) in [(TCP, "TCP"), (UDP, "UDP"), (UDP_BARE, "UDP without a checksum")] {
        for (change, what) in CHANGES {
            let case = |device_checksum| Rewrite { transport, change, device_checksum };
            register_both(suite, &[], &format!("{of} has {what} rewritten"), case(false));
            let name = format!("{of} has {what} rewritten under a device's checksum");
            register_both(suite, &[Need::DeviceChecksum], &name, case(true));
        }
    }
    register_both(suite, &[], "UDP whose checksum comes to 0 gets 0xffff", NoZeroChecksum);
}

impl Change {
    fn apply<I: Family>(self, frame: &Frame) -> Frame {
        let has = |change| self == Change::All || self == change;
        let mut frame = frame.clone();
        if has(Change::Source) {
            frame.addresses[0] = I::address(77, 1);
        }
        if has(Change::Destination) {
            frame.addresses[1] = I::address(1, 250);
        }
        if has(Change::Ports) {
            frame.ports = [1024, 8443];
        }
        if has(Change::Ttl) {
            frame.ttl -= 1;
        }
        if has(Change::Dscp) {
            frame.dscp = 0x2e;
        }
        if has(Change::L2) {
            frame.macs = [[4, 1, 2, 3, 4, 5], [6, 7, 8, 9, 10, 11]];
        }
        frame
    }
}

/// Other packets of the flow: everything may differ that does not make it another.
fn others(first: &Frame) -> Vec<Frame> {
    let transport = match first.transport {
        Transport::Tcp { .. } => Transport::Tcp { sequence: 0xffff_ff00, acknowledgement: 9 },
        udp => udp,
    };
    let shorter = Frame { payload: vec![0xa5; 60], transport, ..first.clone() };
    let farther = Frame { ttl: 2, ecn: 3, id: 0xffff, dont_fragment: false, ..shorter.clone() };
    let empty = Frame { ttl: 255, ecn: 0, id: 0, payload: Vec::new(), ..farther.clone() };
    vec![first.clone(), shorter, farther, empty]
}

impl Case for Rewrite {
    fn run<I: Family>(self) -> Result<()> {
        let first = packet::<I>(self.transport);
        let after = self.change.apply::<I>(&first).build();
        let mut bench = bench()?;
        for other in others(&first) {
            let (key, flow) =
                flow::<I>(&bench, (&first.build(), Device::Pod), (&after, Device::Out), CONFIG.epoch)?;
            I::insert(&mut bench, &key, &Flow { mark: 0x51, priority: 6, ..flow })?;
            let frame = other.build();
            let input = Input { frame: &frame, device_checksum: self.device_checksum, ..Input::default() };
            let output = bench.ingress(Device::Pod, &input)?;
            equal("the reason", output.reason, Ingress::Redirected)?;
            equal("the action", output.action, REDIRECT)?;
            equal("mark and priority", (output.mark, output.priority), (0x51, 6))?;
            let expected = self.change.apply::<I>(&other).build();
            ensure!(output.frame == expected, "{other:?} became {:x?}, not {expected:x?}", output.frame);
        }
        Ok(())
    }
}

/// In a UDP header 0 says that there is no checksum (RFC 768).
#[derive(Clone, Copy)]
struct NoZeroChecksum;

impl Case for NoZeroChecksum {
    fn run<I: Family>(self) -> Result<()> {
        let mut before = packet::<I>(UDP);
        // Two bytes of payload make the sum after the rewrite what we want.
        before.payload = vec![0; 8];
        let checksum = |frame: &Frame| {
            let (bytes, at) = (frame.build(), frame.transport_offset() + 6);
            u16::from_be_bytes([bytes[at], bytes[at + 1]])
        };
        let rest = checksum(&Change::All.apply::<I>(&before));
        before.payload[..2].copy_from_slice(&rest.to_be_bytes());
        let after = Change::All.apply::<I>(&before);
        equal("the checksum the test is about", checksum(&after), 0xffff)?;
        let mut bench = bench()?;
        let (frame, expected) = (before.build(), after.build());
        let (key, flow) = flow::<I>(&bench, (&frame, Device::Pod), (&expected, Device::Out), CONFIG.epoch)?;
        I::insert(&mut bench, &key, &flow)?;
        let output = bench.ingress(Device::Pod, &Input { frame: &frame, ..Input::default() })?;
        ensure!(output.frame == expected, "got {:x?}, not {expected:x?}", output.frame);
        Ok(())
    }
}
