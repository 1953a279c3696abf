//! Who reaches whom, the same on the fast path and without it.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use anyhow::{Result, ensure};
use ebpf_bridge_lab::{Family, Place, Scene, Variant, traffic};

use crate::check::equal;
use crate::suite::Suite;

/// Large enough to leave the first window, and to be learned and repeated.
const BULK: u64 = 4 << 20;

pub(crate) fn register(suite: &mut Suite) {
    suite.test("reach: new pods answer their IPv6 neighbours at once on a busy node", at_once);
    for variant in Variant::ALL {
        for (from, to) in PATHS {
            for family in Family::ALL {
                let path = format!("{} to {}", from.name(), to.name());
                suite.test(format!("reach: {path} over TCP, {family}, {variant}"), move || {
                    tcp(variant, family, from, to)
                });
                suite.test(format!("reach: {path} over UDP, {family}, {variant}"), move || {
                    udp(variant, family, from, to)
                });
            }
        }
    }
}

/// The kernel completes an IPv6 address later than `ip` shows it, the more so the busier it is with links. A neighbour
/// whose first question comes before that asks again a second later.
fn at_once() -> Result<()> {
    let mut scene = Scene::dual_stack(Variant::Off, 1)?;
    let (done, elsewhere) = (AtomicBool::new(false), Place::new()?);
    thread::scope(|scope| {
        let busy = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                elsewhere.call("ip link add busy0 type veth peer name busy1")?;
                elsewhere.call("ip link set busy0 up")?;
                elsewhere.call("ip link delete busy0")?;
            }
            anyhow::Ok(())
        });
        let outcome = (0..20).try_for_each(|number| {
            scene.wire(&format!("new{number}"))?;
            let (client, new) = (&scene.pods[0], &scene.pods[scene.pods.len() - 1]);
            let echo = traffic::echo(client, new, new.address_in(Family::V6), 1, 64)?;
            equal(&format!("answers that pod {number} did not give within half a second"), echo.lost, 0)
        });
        done.store(true, Ordering::Relaxed);
        busy.join().expect("the busy thread panicked").and(outcome)
    })
}

/// Where traffic begins or ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Pod,
    OtherPod,
    Node,
    Outside,
}

const PATHS: [(End, End); 4] =
    [(End::Pod, End::OtherPod), (End::Pod, End::Node), (End::Node, End::Pod), (End::Pod, End::Outside)];

impl End {
    fn name(self) -> &'static str {
        match self {
            End::Pod => "a pod",
            End::OtherPod => "another pod",
            End::Node => "the node",
            End::Outside => "outside, as the node",
        }
    }

    fn place(self, scene: &Scene) -> &Place {
        match self {
            End::Pod => &scene.pods[0],
            End::OtherPod => &scene.pods[1],
            End::Node => &scene.node,
            End::Outside => scene.node.outside(),
        }
    }

    fn address(self, scene: &Scene, family: Family) -> IpAddr {
        match self {
            End::Pod => scene.pods[0].address_in(family),
            End::OtherPod => scene.pods[1].address_in(family),
            End::Node => family.pick([10, 1, 0, 1].into(), [0xfd00, 0x10, 1, 0, 0, 0, 0, 1].into()),
            End::Outside => scene.node.outside().address_in(family),
        }
    }
}

/// Whom `to` believes to talk with. Outside has no route to pods: there it must be the node.
fn seen_as(scene: &Scene, family: Family, from: End, to: End) -> IpAddr {
    if to == End::Outside {
        scene.node.outside().node_address_in(family)
    } else {
        from.address(scene, family)
    }
}

fn tcp(variant: Variant, family: Family, from: End, to: End) -> Result<()> {
    let scene = Scene::dual_stack(variant, 2)?;
    let (client, server, address) = (from.place(&scene), to.place(&scene), to.address(&scene, family));
    for transfer in [
        traffic::round_trips(client, server, address, 200)?,
        traffic::upload(client, server, address, BULK)?,
        traffic::download(client, server, address, BULK)?,
    ] {
        equal("the client as the server sees it", transfer.peer.ip(), seen_as(&scene, family, from, to))?;
    }
    Ok(())
}

fn udp(variant: Variant, family: Family, from: End, to: End) -> Result<()> {
    let scene = Scene::dual_stack(variant, 2)?;
    // The last is sent in fragments.
    for size in [8, 1200, 1472, 4000] {
        let echo =
            traffic::echo(from.place(&scene), to.place(&scene), to.address(&scene, family), 100, size)?;
        ensure!(echo.lost == 0, "{} of {} datagrams of {size} bytes had no answer", echo.lost, echo.sent);
        equal("the client as the server sees it", echo.peer.ip(), seen_as(&scene, family, from, to))?;
    }
    Ok(())
}
