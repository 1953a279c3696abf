//! A hostile pod: root in its own namespace, with raw sockets. With the programs it must get no more
//! than the kernel alone would give it.

mod attacks;
mod frames;
mod stage;

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use ebpf_bridge_lab::frame::Frame;
use ebpf_bridge_lab::traffic::{Capture, PATIENCE, Steady};
use ebpf_bridge_lab::{Family, Need, Place, Stats, Variant};
use serde_json::Value;

use self::stage::{Stage, hostile};
use crate::suite::Suite;

/// Each frame so often: the first may be learned, the next would be carried.
const COPIES: usize = 6;

type Forge = fn(&Stage) -> Vec<(&'static str, Vec<u8>)>;

pub(crate) fn register(suite: &mut Suite) {
    let classes: [(&'static str, Forge); 5] = [
        ("spoofed addresses", frames::addresses),
        ("spoofed MACs", frames::macs),
        ("tags", frames::tags),
        ("forged TCP", frames::forged_tcp),
        ("malformed packets", frames::malformed),
    ];
    for family in Family::ALL {
        for (class, forge) in classes {
            suite.test_with(
                &[Need::Bpf],
                format!("hostile: {class} come to the same as without programs, {family}"),
                move || same_as_without(family, forge),
            );
        }
        suite.test_with(
            &[Need::Bpf, Need::BridgeFilter],
            format!("hostile: another pod's flow entry carries nothing of an attacker's, {family}"),
            move || attacks::flow_entry(family),
        );
        suite.test_with(
            &[Need::Bpf],
            format!("hostile: a pod that fills FLOWS takes nothing from others but the fast path, {family}"),
            move || attacks::exhaustion(family),
        );
    }
    suite.test_with(
        &[Need::Bpf, Need::BridgeFilter],
        "hostile: with macspoofchk, another's MAC gets an attacker none of its packets",
        || attacks::stolen_mac(true),
    );
    suite.test_with(&[Need::Bpf], "hostile: a stolen MAC is the owner's again within renew", || {
        attacks::stolen_mac(false)
    });
}

/// Errors quote what they are about, and the kernel limits their rate.
fn is_icmp(frame: &[u8]) -> bool {
    match frame.get(12..14) {
        Some([0x08, 0x00]) => frame.get(23) == Some(&1),
        Some([0x86, 0xdd]) => frame.get(20) == Some(&58),
        _ => false,
    }
}

/// Where hostile frames arrive, and from whom they seem to be.
fn same_as_without(family: Family, forge: Forge) -> Result<()> {
    let [with, without] = [Variant::Auto, Variant::Off].map(|variant| arrivals(variant, family, forge));
    let (with, without) = (with.context("with programs")?, without.context("without programs")?);
    ensure!(!without.is_empty(), "no frame arrived at all");
    let more: Vec<_> = with.difference(&without).collect();
    let less: Vec<_> = without.difference(&with).collect();
    ensure!(more.is_empty() && less.is_empty(), "only with programs: {more:#?}\nonly without: {less:#?}");
    Ok(())
}

fn arrivals(variant: Variant, family: Family, forge: Forge) -> Result<BTreeSet<String>> {
    let stage = Stage::new(variant, family, &Value::Null)?;
    let (victim, server, attacker) = stage.pods();
    let stream = Steady::tcp(victim, server, stage.address(1))?;
    let outside: &Place = stage.scene.node.outside();
    let places: [(&str, &Place); 4] =
        [("victim", victim), ("server", server), ("attacker", attacker), ("outside", outside)];
    let captures = places.map(|(name, place)| {
        Capture::start(place, |frame| hostile(&frame.bytes).is_some() && !is_icmp(&frame.bytes))
            .map(|capture| (name, capture))
    });
    let (own, honest) = (stage.injector(2)?, stage.honest().build());
    let (theirs, known) =
        (stage.injector(0)?, Frame { macs: [stage.macs[1], stage.macs[0]], ..stage.of_the_victim() });
    let before = Stats::read(&stage.scene.node).unwrap_or_default();
    for (name, frame) in forge(&stage) {
        for _ in 0..COPIES {
            // The flows that are attacked, the attacker's own and the victim's, are fresh all the time.
            own.send(&honest)?;
            theirs.send(&known.build())?;
            own.send(&frame).with_context(|| format!("sending {name}"))?;
        }
    }
    if variant == Variant::Auto {
        let counted = &Stats::read(&stage.scene.node)? - &before;
        ensure!(counted.redirected() as usize > COPIES, "the attacked flows were not fast: {counted:?}");
    }
    // A capture ends when nothing comes any more.
    stream.goes_on(20, PATIENCE).context("the victim's stream")?;
    stream.stop()?;
    let mut arrived = BTreeSet::new();
    for capture in captures {
        let (name, capture) = capture?;
        for frame in capture.stop()? {
            let hostile = hostile(&frame.bytes).unwrap_or_default();
            let ends = frame.addresses();
            // What the place itself sent is not for it.
            arrived.insert(format!("{name}: {hostile}: {ends:?}, for it: {}", frame.for_host));
        }
    }
    Ok(arrived)
}
