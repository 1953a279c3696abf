//! A fast flow, and then something changes: the kernel's word counts within one `renew`, and nothing is lost.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use ebpf_bridge_lab::libcni::Conflist;
use ebpf_bridge_lab::observe::{Stats, programs};
use ebpf_bridge_lab::traffic::{self, Steady};
use ebpf_bridge_lab::{Need, Node, Scene, UPLINK, Variant, config};
use serde_json::json;

use crate::check::{equal, eventually, within};
use crate::suite::Suite;

/// One `renew` (1 s by default), and some.
const ENFORCED: Duration = Duration::from_millis(1100);
/// The longest time without an answer that counts as nothing lost: less than one `renew`.
const NOTICEABLE: Duration = Duration::from_millis(900);

pub(crate) fn register(suite: &mut Suite) {
    let bpf = [Need::Bpf];
    suite.test_with(&bpf, "change: a drop rule stops a fast flow to outside within 1.1 s", || {
        dropped(Steady::udp, Towards::Outside, "ip lab-policy")
    });
    suite.test_with(&bpf, "change: a drop rule stops a fast connection to outside within 1.1 s", || {
        dropped(Steady::tcp, Towards::Outside, "ip lab-policy")
    });
    suite.test_with(
        &[Need::Bpf, Need::BridgeFilter],
        "change: a drop rule of the bridge stops a fast flow from pod to pod within 1.1 s",
        || dropped(Steady::udp, Towards::Pod, "bridge lab-policy"),
    );
    suite.test_with(&bpf, "change: a fast connection outlives the programs on both veths", || {
        outlives(drop_filters)
    });
    suite.test_with(&bpf, "change: a fast connection outlives the loss of every pin", || outlives(drop_pins));
    suite.test("change: a pod that inherits the address of a deleted one is reached at once", address_reused);
}

#[derive(Clone, Copy)]
enum Towards {
    Pod,
    Outside,
}

type Flow = fn(&ebpf_bridge_lab::Place, &ebpf_bridge_lab::Place, std::net::IpAddr) -> Result<Steady>;

fn start(scene: &Scene, flow: Flow, towards: Towards) -> Result<Steady> {
    let client = &scene.pods[0];
    let steady = match towards {
        Towards::Pod => flow(client, &scene.pods[1], scene.pods[1].address())?,
        Towards::Outside => flow(client, scene.node.outside(), scene.node.outside().address())?,
    };
    let before = Stats::read(&scene.node)?.redirected();
    eventually("the flow is fast", traffic::PATIENCE, || {
        Ok(Stats::read(&scene.node)?.redirected() > before + 50)
    })?;
    Ok(steady)
}

fn dropped(flow: Flow, towards: Towards, table: &str) -> Result<()> {
    let scene = Scene::with_pods(Variant::Auto, 2)?;
    let steady = start(&scene, flow, towards)?;
    let client = scene.pods[0].address();
    let rules = format!(
        "nft add table {table} ; add chain {table} c {{ type filter hook forward priority 0 ; }} ; \
         add rule {table} c ip saddr {client} drop"
    );
    scene.node.call(&rules)?;
    thread::sleep(ENFORCED);
    steady.stands_still(Duration::from_millis(300))?;

    scene.node.call(&format!("nft delete table {table}"))?;
    steady.goes_on(20, traffic::PATIENCE).context("after the rule was removed")?;
    steady.stop().map(|_| ())
}

fn outlives(lose: fn(&Scene) -> Result<()>) -> Result<()> {
    let scene = Scene::with_pods(Variant::Auto, 2)?;
    let flows = [start(&scene, Steady::tcp, Towards::Pod)?, start(&scene, Steady::tcp, Towards::Outside)?];
    lose(&scene)?;
    for steady in flows {
        steady.goes_on(200, traffic::PATIENCE)?;
        let report = steady.stop()?;
        ensure!(report.silence < NOTICEABLE, "silent for {:?}", report.silence);
    }
    Ok(())
}

fn drop_filters(scene: &Scene) -> Result<()> {
    for pod in &scene.pods {
        let veth = &pod.result.veth()?.name;
        for direction in ["ingress", "egress"] {
            scene.node.call(&format!("tc filter delete dev {veth} {direction}"))?;
        }
        equal("programs left on the veth", programs(&scene.node, veth)?, vec![])?;
    }
    Ok(())
}

/// Unmounting the bpffs takes the pins, and with them the pinned links of the uplink's programs.
fn drop_pins(scene: &Scene) -> Result<()> {
    scene.node.call("umount /sys/fs/bpf")?;
    eventually("no pinned program is left on the uplink", traffic::PATIENCE, || {
        Ok(programs(&scene.node, UPLINK)?.iter().all(|program| program.attach != "tcx"))
    })
}

fn address_reused() -> Result<()> {
    // Two addresses: the third pod can only get that of the one deleted.
    let range =
        json!({"ranges": [[{"subnet": "10.1.0.0/24", "rangeStart": "10.1.0.2", "rangeEnd": "10.1.0.3"}]]});
    let list = Conflist::of(config::with(config::bridge("auto"), &json!({"ipam": range})));
    let mut scene = Scene::new(Node::new()?, list);
    scene.wire("client")?;
    scene.wire("server")?;
    let address = scene.pods[1].address();
    within("the first connection", Duration::from_secs(1), || {
        let (client, old) = (&scene.pods[0], &scene.pods[1]);
        traffic::round_trips(client, old, address, 1000)?;
        scene.runtime.del(&scene.node, &old.container)?;
        scene.pods.pop().context("the server")?.pod.destroy()?;
        scene.wire("server")?;
        let (client, new) = (&scene.pods[0], &scene.pods[1]);
        equal("the new pod's address", new.address(), address)?;
        let start = Instant::now();
        traffic::round_trips(client, new, address, 1).context("the first connection")?;
        Ok(start.elapsed())
    })?;
    let (client, new) = (&scene.pods[0], &scene.pods[1]);
    let echo = traffic::echo(client, new, address, 1000, 64)?;
    ensure!(echo.lost == 0, "{} datagrams had no answer", echo.lost);
    traffic::upload(client, new, address, 4 << 20)?;
    Ok(())
}
