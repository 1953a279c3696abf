//! Paths: a narrower link two hops away, and the hops a traceroute shows.

use std::net::IpAddr;
use std::time::Duration;

use anyhow::{Result, ensure};
use ebpf_bridge_lab::traffic::{self, Outcome, Prober, Service};
use ebpf_bridge_lab::{Beyond, Family, Need, Place, Scene, Stats, Variant};

use crate::check::{equal, eventually, within};
use crate::suite::Suite;

const MTU: u32 = 1300;
const PORT: u16 = 33_434;
/// One megabyte must not wait for a retransmission timer more than once or twice.
const PROMPT: Duration = Duration::from_secs(2);

pub(crate) fn register(suite: &mut Suite) {
    for variant in [Variant::Auto, Variant::Off] {
        for family in Family::ALL {
            suite.test_with(
                &[Need::Bpf],
                format!("path: 1 MB through a narrow link two hops away in under 2 s, {family}, {variant}"),
                move || narrow(variant, family),
            );
            suite.test_with(
                &[Need::Bpf],
                format!("path: a fast flow learns that its path got narrower, {family}, {variant}"),
                move || narrowed(variant, family),
            );
        }
    }
    for family in Family::ALL {
        suite.test_with(
            &[Need::Bpf],
            format!("path: a traceroute shows the same hops on the fast path and without it, {family}"),
            move || hops(family),
        );
    }
}

fn scene(variant: Variant) -> Result<(Scene, Beyond)> {
    let scene = Scene::dual_stack(variant, 1)?;
    let beyond = Beyond::attach(&scene.node)?;
    Ok((scene, beyond))
}

/// At least `count` packets of the exchange are fast, or none if the fast path is off.
fn counted<T>(
    scene: &Scene,
    variant: Variant,
    count: u64,
    exchange: impl FnOnce() -> Result<T>,
) -> Result<T> {
    if variant == Variant::Off {
        return exchange();
    }
    let before = Stats::read(&scene.node)?;
    let outcome = exchange()?;
    let counted = &Stats::read(&scene.node)? - &before;
    ensure!(counted.redirected() >= count, "not {count} packets were fast: {counted:?}");
    Ok(outcome)
}

/// All neighbours on the way have to be found first.
fn is_reached(prober: &Prober) -> Result<()> {
    eventually("the far host is reached", traffic::PATIENCE, || Ok(prober.probe(32)? == Outcome::Answered))
}

type Transfer = fn(&Place, &Place, IpAddr, u64) -> Result<traffic::Transfer>;

fn narrow(variant: Variant, family: Family) -> Result<()> {
    for (what, transfer) in [("the upload", traffic::upload as Transfer), ("the download", traffic::download)]
    {
        within(what, PROMPT, || {
            // Anew each time: a path that is known by now would not be found again.
            let (scene, beyond) = scene(variant)?;
            beyond.set_mtu(MTU)?;
            let (pod, far) = (&scene.pods[0], beyond.address_in(family));
            Ok(counted(&scene, variant, 10, || transfer(pod, &beyond.far, far, 1 << 20))?.elapsed)
        })?;
    }
    Ok(())
}

fn narrowed(variant: Variant, family: Family) -> Result<()> {
    let (scene, beyond) = scene(variant)?;
    let _service = Service::start(&beyond.far, "far", PORT)?;
    let (pod, far) = (&scene.pods[0], beyond.address_in(family));
    let prober = pod.run_in(|| Prober::new((far, PORT).into()))?;
    is_reached(&prober)?;
    counted(&scene, variant, 20, || {
        for _ in 0..20 {
            equal("a large datagram", prober.probe(1400)?, Outcome::Answered)?;
        }
        Ok(())
    })?;
    beyond.set_mtu(MTU)?;
    // RFC 1191 and RFC 4443, section 3.2: the router before the narrow link says so.
    let [_, router] = beyond.routers_in(&scene.node, family);
    let (kind, code) = family.pick((3, 4), (2, 0));
    equal("too large for the link now", prober.probe(1400)?, Outcome::Error(router, kind, code))?;
    equal("too large for the kernel then", prober.probe(1400)?, Outcome::TooLong)?;
    equal("small enough", prober.probe(1200)?, Outcome::Answered)
}

fn hops(family: Family) -> Result<()> {
    let fast = trace(Variant::Auto, family)?;
    let slow = trace(Variant::Off, family)?;
    equal("the hops on the fast path", fast, slow)
}

fn trace(variant: Variant, family: Family) -> Result<Vec<Outcome>> {
    let (scene, beyond) = scene(variant)?;
    let _service = Service::start(&beyond.far, "far", PORT)?;
    let far = beyond.address_in(family);
    let prober = scene.pods[0].run_in(|| Prober::new((far, PORT).into()))?;
    is_reached(&prober)?;
    let mut found = Vec::new();
    for ttl in [64, 1, 64, 2, 64, 3, 64, 4] {
        prober.set_ttl(ttl)?;
        let same = counted(&scene, variant, if ttl == 64 { 5 } else { 0 }, || {
            let mut outcomes = (0..5).map(|_| prober.probe(32)).collect::<Result<Vec<_>>>()?;
            outcomes.dedup();
            Ok(outcomes)
        })?;
        equal(&format!("different outcomes with TTL {ttl}: {same:?}"), same.len(), 1)?;
        found.extend(same);
    }
    // RFC 792 and RFC 4443: the time to live was exceeded in transit.
    let (kind, code) = family.pick((11, 0), (3, 0));
    let routers = beyond.routers_in(&scene.node, family);
    let expired = |hop: usize| Outcome::Error(routers[hop], kind, code);
    equal(
        "hops",
        [&found[..1], &found[2..]].concat(),
        vec![
            Outcome::Answered,
            Outcome::Answered,
            expired(0),
            Outcome::Answered,
            expired(1),
            Outcome::Answered,
            Outcome::Answered,
        ],
    )?;
    let gateway = family.pick([10, 1, 0, 1].into(), [0xfd00, 0x10, 1, 0, 0, 0, 0, 1].into());
    equal("the first hop", found[1], Outcome::Error(gateway, kind, code))?;
    Ok(found)
}
