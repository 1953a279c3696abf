//! Attacks that are more than frames.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use ebpf_bridge_lab::frame::Frame;
use ebpf_bridge_lab::traffic::{self, Capture, PATIENCE, Steady};
use ebpf_bridge_lab::{Family, Stats, Variant};
use serde_json::json;

use super::COPIES;
use super::stage::{PORT, RENEW, Stage, hostile, payload};
use crate::check::{equal, eventually};

/// The node drops all that comes from the attacker; an entry that was not of the victim's device alone would carry it.
pub(super) fn flow_entry(family: Family) -> Result<()> {
    let [honest, forged] = arrived(family, false)?;
    ensure!(honest > 0 && forged > 0, "the attack does not even work without a filter: {honest}, {forged}");
    let [honest, forged] = arrived(family, true)?;
    ensure!(honest >= COPIES, "only {honest} of the victim's datagrams arrived");
    equal("the attacker's datagrams that arrived", forged, 0)
}

/// How many of the victim's and of the attacker's datagrams arrive, with one flow's addresses and ports.
fn arrived(family: Family, filtered: bool) -> Result<[usize; 2]> {
    let stage = Stage::new(Variant::Auto, family, &json!({"ebpf": {"renew": "60s"}}))?;
    if filtered {
        let veth = &stage.pods().2.result.veth()?.name;
        for line in [
            "nft add table bridge hostile",
            "nft add chain bridge hostile in { type filter hook prerouting priority -300 ; }",
            &format!("nft add rule bridge hostile in iifname {veth} drop"),
        ] {
            stage.scene.node.call(line)?;
        }
    }
    let (own, theirs) = (stage.injector(2)?, stage.injector(0)?);
    let known = Frame { macs: [stage.macs[1], stage.macs[0]], ..stage.of_the_victim() };
    let same = Frame { payload: payload("forged"), ..known.clone() };
    let with_own_mac = Frame { payload: payload("forged"), ..stage.of_the_victim() };
    let capture = Capture::start(stage.pods().1, |frame| hostile(&frame.bytes).is_some())?;
    let before = Stats::read(&stage.scene.node)?;
    for _ in 0..COPIES {
        theirs.send(&known.build())?;
        own.send(&with_own_mac.build())?;
        own.send(&same.build())?;
    }
    let counted = &Stats::read(&stage.scene.node)? - &before;
    ensure!(counted.redirected() > 0, "the victim's flow was not fast: {counted:?}");
    let frames = capture.stop()?;
    let names: Vec<_> = frames.iter().filter_map(|frame| hostile(&frame.bytes)).collect();
    Ok(["honest", "forged"].map(|name| names.iter().filter(|other| *other == name).count()))
}

/// Many more flows than FLOWS has room for, while another pod sends.
pub(super) fn exhaustion(family: Family) -> Result<()> {
    let times = [Variant::Off, Variant::Auto].map(|variant| -> Result<Duration> {
        let stage = Stage::new(variant, family, &json!({"ebpf": {"maxFlows": 1024}}))?;
        let (victim, server, _) = stage.pods();
        let stream = Steady::tcp(victim, server, stage.address(1))?;
        let own = stage.injector(2)?;
        let frames: Vec<_> = (0..8192_u16)
            .map(|number| Frame { ports: [10_000 + number, PORT], ..stage.honest() }.build())
            .collect();
        let done = &AtomicBool::new(false);
        let taken = thread::scope(|scope| {
            let attack = scope.spawn(move || -> Result<()> {
                while !done.load(Ordering::Relaxed) {
                    for some in frames.chunks(64) {
                        some.iter().try_for_each(|frame| own.send(frame))?;
                        thread::sleep(Duration::from_millis(1));
                    }
                }
                Ok(())
            });
            let start = Instant::now();
            let transfers = (0..5).try_for_each(|_| {
                traffic::upload(victim, server, stage.address(1), 8 << 20).map(drop)?;
                traffic::round_trips(victim, server, stage.address(1), 2000).map(drop)
            });
            done.store(true, Ordering::Relaxed);
            attack.join().expect("the attacker panicked")?;
            transfers.map(|()| start.elapsed())
        })?;
        stream.goes_on(20, PATIENCE)?;
        stream.stop()?;
        Ok(taken)
    });
    let [off, on] = times;
    let (off, on) = (off?, on?);
    // The programs cost a little where they carry nothing; far less than this.
    ensure!(on < off * 3, "{on:?} under attack, and {off:?} without programs");
    Ok(())
}

/// The attacker sends in the victim's name; the server's answers are the victim's, at once or soon after.
pub(super) fn stolen_mac(checked: bool) -> Result<()> {
    let stage = Stage::new(Variant::Auto, Family::V4, &json!({"macspoofchk": checked}))?;
    let (victim, server, attacker) = stage.pods();
    let stream = Steady::udp(server, victim, stage.address(0))?;
    stream.goes_on(20, PATIENCE)?;
    let mac = stage.macs[0];
    let stolen = Capture::start(attacker, move |frame| frame.bytes.starts_with(&mac) && frame.for_host)?;
    let overheard = Capture::start(attacker, move |frame| frame.bytes.starts_with(&mac))?;
    let frame = Frame { macs: [stage.macs[1], mac], ..stage.of_the_victim() }.build();
    let own = stage.injector(2)?;
    let start = Instant::now();
    while start.elapsed() < RENEW * 2 {
        own.send(&frame)?;
        thread::sleep(Duration::from_millis(1));
    }
    if checked {
        stream.goes_on(20, PATIENCE)?;
        let overheard = overheard.stop()?;
        equal("frames of the victim's that the attacker got", overheard.len(), 0)?;
    } else {
        // The victim says something, as its own ARP does sooner or later, and what was learned meanwhile ends.
        let theirs = stage.injector(0)?;
        let honest = Frame { macs: [stage.macs[1], mac], ports: [1, 2], ..stage.of_the_victim() }.build();
        eventually("the stream is the victim's again", RENEW + PATIENCE, || {
            theirs.send(&honest)?;
            let before = stream.report().answered;
            thread::sleep(Duration::from_millis(100));
            Ok(stream.report().answered > before + 5)
        })?;
        overheard.stop()?;
    }
    // Not even stolen frames are taken for the attacker's own.
    stolen.stop()?;
    stream.stop()?;
    Ok(())
}
