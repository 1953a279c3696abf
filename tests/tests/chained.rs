//! Plugins chained behind ours: their rules and limits hold on the fast path, or there is no fast path.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use ebpf_bridge_lab::libcni::Conflist;
use ebpf_bridge_lab::traffic::{self, Service, ask_tcp, ask_udp};
use ebpf_bridge_lab::{Family, Need, Node, Scene, Stats, config, observe};
use serde_json::{Value, json};

use crate::check::equal;
use crate::suite::Suite;

const PORT: u16 = 80;
const HOST_PORT: u16 = 8080;

pub(crate) fn register(suite: &mut Suite) {
    let bandwidth = [Need::Bpf, Need::Peer("bandwidth")];
    suite.test_with(&bandwidth, "chained: bandwidth limits a pod, which gets no programs", limited);
    let portmap = [Need::Bpf, Need::Peer("portmap"), Need::Tool("iptables")];
    for bridged in [true, false] {
        let name = format!(
            "chained: portmap's replies come from the node's port, br_netfilter {}",
            u8::from(bridged)
        );
        suite.test_with(&portmap, name, move || host_port(bridged));
    }
    let firewall = [Need::Bpf, Need::Peer("firewall"), Need::Tool("iptables")];
    for bridged in [true, false] {
        let name = format!(
            "chained: firewall opens a FORWARD chain that drops, and without it nothing is learned, br_netfilter {}",
            u8::from(bridged)
        );
        suite.test_with(&firewall, name, move || forward_drop(bridged));
    }
}

fn chain(changes: &Value, next: Value) -> Result<Scene> {
    let list = Conflist::of(config::with(config::dual_stack("required"), changes));
    Ok(Scene::new(Node::new()?, list.then(next)))
}

fn set_bridged(scene: &Scene, bridged: bool) -> Result<()> {
    for key in ["iptables", "ip6tables"] {
        let value = if bridged { "1" } else { "0" };
        scene.node.set_sysctl(&format!("net.bridge.bridge-nf-call-{key}"), value)?;
    }
    Ok(())
}

fn limited() -> Result<()> {
    const RATE: u64 = 40_000_000;
    const BYTES: u64 = 6 << 20;
    let capability = json!({"capabilities": {"bandwidth": true}});
    let mut scene = chain(&capability, config::with(json!({"type": "bandwidth"}), &capability))?;
    let limit =
        json!({"ingressRate": RATE, "ingressBurst": RATE / 20, "egressRate": RATE, "egressBurst": RATE / 20});
    scene.wire_with("slow", |container| container.capability("bandwidth", limit))?;
    scene.wire("quick")?;
    let (slow, quick) = (&scene.pods[0], &scene.pods[1]);
    let of_slow = observe::programs(&scene.node, &slow.result.veth()?.name)?;
    ensure!(!of_slow.iter().any(|program| program.name.starts_with("flow_")), "{of_slow:?}");
    equal("programs of the other pod", observe::programs(&scene.node, &quick.result.veth()?.name)?.len(), 2)?;

    let before = Stats::read(&scene.node)?;
    let outside = scene.node.outside();
    for (what, transfer) in [
        ("up to a pod", traffic::upload(slow, quick, quick.address(), BYTES)?),
        ("down from a pod", traffic::download(slow, quick, quick.address(), BYTES)?),
        ("up to outside", traffic::upload(slow, outside, outside.address(), BYTES)?),
        ("down from outside", traffic::download(slow, outside, outside.address(), BYTES)?),
    ] {
        let rate = (8 * transfer.bytes) as f64 / transfer.elapsed.as_secs_f64();
        let part = rate / RATE as f64;
        // The burst and what the queues hold come on top; headers are taken off, and so is what a busy machine misses.
        ensure!((0.2..1.2).contains(&part), "{what}: {:.1} Mbit/s", rate / 1e6);
    }
    let counted = &Stats::read(&scene.node)? - &before;
    equal("fast packets of the limited pod", counted.redirected(), 0)?;
    traffic::upload(quick, outside, outside.address(), BYTES)?;
    ensure!(Stats::read(&scene.node)?.redirected() > 100, "the other pod is not fast");
    Ok(())
}

fn host_port(bridged: bool) -> Result<()> {
    const CONNECTIONS: usize = 100;
    const QUESTIONS: usize = 6;
    let portmap = json!({"type": "portmap", "capabilities": {"portMappings": true}});
    let mut scene = chain(&Value::Null, portmap)?;
    let mapping = |protocol| json!({"hostPort": HOST_PORT, "containerPort": PORT, "protocol": protocol});
    scene.wire_with("web", |container| {
        container.capability("portMappings", json!([mapping("tcp"), mapping("udp")]))
    })?;
    set_bridged(&scene, bridged)?;
    let (web, outside) = (&scene.pods[0], scene.node.outside());
    let _service = Service::start(web, "web", PORT)?;
    for family in Family::ALL {
        let to = (outside.node_address_in(family), HOST_PORT).into();
        for ask in [ask_tcp, ask_udp] {
            let before = Stats::read(&scene.node)?;
            outside.run_in(|| {
                for number in 0..CONNECTIONS {
                    // Neither ask takes an answer from anywhere but `to`.
                    let answer = ask(0, to, QUESTIONS).with_context(|| format!("connection {number}"))?;
                    equal("the client as the pod sees it", answer.peer.ip(), outside.address_in(family))?;
                }
                Ok(())
            })?;
            let counted = &Stats::read(&scene.node)? - &before;
            let fast = counted.redirected() as usize;
            ensure!(fast >= CONNECTIONS * QUESTIONS, "{family}: few packets were fast: {counted:?}");
        }
    }
    Ok(())
}

fn forward_drop(bridged: bool) -> Result<()> {
    let mut scene = chain(&Value::Null, json!({"type": "firewall", "backend": "iptables"}))?;
    scene.wire("pod1")?;
    scene.wire("pod2")?;
    set_bridged(&scene, bridged)?;
    for tool in ["iptables", "ip6tables"] {
        scene.node.call(&format!("{tool} -w -P FORWARD DROP"))?;
    }
    let (pod, outside) = (&scene.pods[0], scene.node.outside());
    let before = Stats::read(&scene.node)?;
    for family in Family::ALL {
        for (server, address) in
            [(&**outside, outside.address_in(family)), (&scene.pods[1], scene.pods[1].address_in(family))]
        {
            traffic::round_trips(pod, server, address, 500)?;
            equal("datagrams lost", traffic::echo(pod, server, address, 500, 64)?.lost, 0)?;
        }
    }
    let counted = &Stats::read(&scene.node)? - &before;
    ensure!(counted.fast_share() > 0.9, "the open flows are not fast: {counted:?}");

    // The plugin's own word is taken back, as if it had not been chained.
    for tool in ["iptables", "ip6tables"] {
        scene.node.call(&format!("{tool} -w -F FORWARD"))?;
    }
    std::thread::sleep(Duration::from_millis(1100));
    let before = Stats::read(&scene.node)?;
    let address = outside.address();
    ensure!(traffic::echo(pod, outside, address, 2, 64).is_err(), "a datagram passed the closed chain");
    if bridged {
        let (other, address) = (&scene.pods[1], scene.pods[1].address());
        ensure!(traffic::echo(pod, other, address, 2, 64).is_err(), "a datagram passed between pods");
    }
    let counted = &Stats::read(&scene.node)? - &before;
    equal("fast packets through a closed chain", counted.redirected(), 0)?;
    equal("flows learned through a closed chain", counted.egress.get("learned").copied(), Some(0))
}
