//! A bridge that does not know where an address is sends its packets everywhere. A flow has one way only, so such
//! packets are the kernel's.

use anyhow::{Context, Result, ensure};
use ebpf_bridge_lab::frame::{Frame, Transport};
use ebpf_bridge_lab::traffic::{Capture, Injector};
use ebpf_bridge_lab::{Family, Need, Scene, Stats, Variant, config, observe};

use super::frames::mac;
use super::seen::{is_from, normal};
use crate::check::equal;
use crate::suite::Suite;

const COPIES: usize = 8;

pub(super) fn register(suite: &mut Suite) {
    for family in Family::ALL {
        let name = format!("equivalence: {family} packets a bridge floods reach every pod, on and off");
        suite.test_with(&[Need::Bpf], name, move || {
            let on = flood(Variant::Auto, family)?;
            equal("what the pods see", on, flood(Variant::Off, family)?)
        });
    }
}

/// What two pods see of packets that are for the first of them.
fn flood(variant: Variant, family: Family) -> Result<[Vec<Vec<u8>>; 2]> {
    let scene = Scene::dual_stack(variant, 3)?;
    let [from, to, other] = &scene.pods[..] else { anyhow::bail!("not three pods") };
    // Nothing is remembered.
    scene.node.call(&format!("ip link set {} type bridge ageing_time 0", config::BRIDGE))?;
    let mac_of = |pod| mac(&observe::link(pod, "eth0")?.mac);
    let sender = from.address_in(family);
    let frame = Frame {
        macs: [mac_of(to)?, mac_of(from)?],
        addresses: [sender, to.address_in(family)],
        ttl: 64,
        dscp: 0,
        ecn: 0,
        id: 1,
        dont_fragment: false,
        ports: [20_000, 4_000],
        transport: Transport::Udp { checksum: true },
        payload: vec![0x42; 64],
    };
    let injector = Injector::new(from, "eth0")?;
    let start = |pod| Capture::start(pod, move |frame| is_from(frame, sender));
    let captures = [start(to)?, start(other)?];
    let before = (variant == Variant::Auto).then(|| Stats::read(&scene.node)).transpose()?;
    for _ in 0..COPIES {
        injector.send(&frame.build())?;
    }
    let mut seen = Vec::new();
    for capture in captures {
        let frames: Vec<_> = capture.stop()?.iter().map(normal).collect();
        equal("copies seen", frames.len(), COPIES)?;
        seen.push(frames);
    }
    if let Some(before) = before {
        let counted = &Stats::read(&scene.node)? - &before;
        equal("fast packets", counted.redirected(), 0)?;
        let copied = counted.egress.get("copied").copied().context("no counter `copied`")?;
        ensure!(copied >= COPIES as u64 / 2, "only {copied} copies found: {counted:?}");
    }
    seen.try_into().ok().context("not two pods")
}
