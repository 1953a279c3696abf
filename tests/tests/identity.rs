//! Who is who: an address that passes to another pod, the same addresses twice, and addresses and MACs that only the
//! pod itself knows of.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use ebpf_bridge_lab::libcni::{Conflist, Container, Runtime};
use ebpf_bridge_lab::traffic::{self, Capture, Service, Steady, ask_tcp, ask_udp};
use ebpf_bridge_lab::{Family, Need, Node, Place, Pod, Scene, Stats, Variant, config};
use serde_json::{Value, json};

use crate::check::equal;
use crate::suite::Suite;

const PORT: u16 = 80;
/// How often a pod is replaced; `EBPF_BRIDGE_GENERATIONS` asks for another number.
const GENERATIONS: usize = 200;
const QUESTIONS: usize = 10;
/// A packet that is lost is sent again after a second. For one pod in so many a busy machine may be the reason.
const LATE: Duration = Duration::from_secs(1);
const LATE_ONE_IN: usize = 40;

pub(crate) fn register(suite: &mut Suite) {
    suite.test_with(
        &[Need::Bpf],
        "identity: 200 pods one after the other under one address and traffic, reached at once",
        generations,
    );
    for family in Family::ALL {
        suite.test_with(
            &[Need::Bpf],
            format!("identity: the first datagram to a pod under another's former address arrives, {family}"),
            move || successor(family),
        );
    }
    for variant in [Variant::Auto, Variant::Off] {
        suite.test_with(
            &[Need::Bpf],
            format!("identity: two networks of the same subnet do not meet, {variant}"),
            move || same_subnet(variant),
        );
        for family in Family::ALL {
            suite.test_with(
                &[Need::Bpf],
                format!("identity: a host behind a pod's own bridge is reached, {family}, {variant}"),
                move || nested(variant, family),
            );
            suite.test_with(
                &[Need::Bpf],
                format!("identity: a pod's second address is reached, {family}, {variant}"),
                move || second_address(variant, family),
            );
        }
    }
}

fn generations() -> Result<()> {
    let wished = std::env::var("EBPF_BRIDGE_GENERATIONS").ok().and_then(|text| text.parse().ok());
    let changes = json!({"ipam": {"ranges": pair_of_addresses()}});
    let list = config::with(config::dual_stack("required"), &changes);
    let mut scene = Scene::new(Node::new()?, Conflist::of(list));
    scene.wire("client")?;
    let mut flows: Vec<Steady> = Vec::new();
    let mut last: Option<Vec<u8>> = None;
    let generations = wished.unwrap_or(GENERATIONS);
    let mut late = Vec::new();
    for number in 0..generations {
        let slowest = generation(&mut scene, number, &mut flows, &mut last)
            .with_context(|| format!("pod number {number}"))?;
        if slowest >= LATE {
            late.push((number, slowest));
        }
    }
    ensure!(late.len() <= generations / LATE_ONE_IN, "pods that were reached late: {late:?}");
    Ok(())
}

/// Two addresses for each family: the next pod can only get those of the last.
fn pair_of_addresses() -> Value {
    json!([
        [{"subnet": "10.1.0.0/24", "rangeStart": "10.1.0.2", "rangeEnd": "10.1.0.3"}],
        [{"subnet": "fd00:10:1::/64", "rangeStart": "fd00:10:1::2", "rangeEnd": "fd00:10:1::3"}],
    ])
}

/// Replaces the last pod, while flows to it go on, and asks the new one. Returns the longest that an asking took.
fn generation(
    scene: &mut Scene,
    number: usize,
    flows: &mut Vec<Steady>,
    last: &mut Option<Vec<u8>>,
) -> Result<Duration> {
    if scene.pods.len() > 1 {
        let old = scene.pods.remove(1);
        scene.runtime.del(&scene.node, &old.container)?;
        old.pod.destroy()?;
    }
    let pod = scene.node.pod(&format!("pod{number}"))?;
    let former = last.take();
    let stale = Capture::start(&pod, move |frame| {
        frame.for_host && former.as_ref().is_some_and(|mac| frame.bytes.starts_with(mac))
    })?;
    let container = Container::of(&pod);
    let result = scene.runtime.add(&scene.node, &container)?;
    let mut slowest = Duration::ZERO;
    let _service = Service::start(&pod, pod.name(), PORT)?;
    let client = &scene.pods[0];
    for ip in &result.ips {
        let to: SocketAddr = (ip.address.ip(), PORT).into();
        for ask in [ask_tcp, ask_udp] {
            let start = Instant::now();
            // The same port each time: the same flow as that to the pod before.
            let answer = client.run_in(|| ask(5000, to, QUESTIONS))?;
            equal("the pod that answers", answer.server.as_str(), pod.name())?;
            slowest = slowest.max(start.elapsed());
        }
    }
    let stale = stale.stop()?;
    ensure!(stale.is_empty(), "{} frames for the pod before, the first: {:?}", stale.len(), stale[0]);

    let mac = result.inside()?.mac.clone().context("no MAC in the result")?;
    *last = Some(mac.split(':').map(|byte| u8::from_str_radix(byte, 16)).collect::<Result<_, _>>()?);
    // The flows to the pods before have ended or are about to, as nobody answers them.
    flows.clear();
    for ip in &result.ips {
        flows.push(Steady::udp(client, &pod, ip.address.ip())?);
    }
    for flow in &*flows {
        flow.goes_on(3, traffic::PATIENCE)?;
    }
    scene.adopt(pod, container, result)?;
    Ok(slowest)
}

/// What was learned of the way to the pod before must not outlive that pod, whatever `renew` says.
fn successor(family: Family) -> Result<()> {
    let changes = json!({"ipam": {"ranges": pair_of_addresses()}, "ebpf": {"renew": "60s"}});
    let list = config::with(config::dual_stack("required"), &changes);
    let mut scene = Scene::new(Node::new()?, Conflist::of(list));
    scene.wire("client")?;
    let before = Stats::read(&scene.node)?;
    for name in ["first", "second"] {
        let server = scene.wire(name)?;
        let to = SocketAddr::new(server.address_in(family), PORT);
        let _service = Service::start(server, name, PORT)?;
        // The same port each time: the same flow.
        let answer = scene.pods[0].run_in(|| ask_udp(5000, to, QUESTIONS))?;
        equal("the pod that answers", answer.server.as_str(), name)?;
        let server = scene.pods.remove(1);
        scene.runtime.del(&scene.node, &server.container)?;
        server.pod.destroy()?;
    }
    fast_if(Variant::Auto, &scene.node, &before)
}

fn same_subnet(variant: Variant) -> Result<()> {
    let node = variant.node()?;
    let mut pods: Vec<(Pod, IpAddr)> = Vec::new();
    for network in ["n1", "n2"] {
        let changes = json!({"bridge": format!("br-{network}"), "isGateway": false, "isDefaultGateway": false,
            "ipMasq": false});
        let mut list = Conflist::of(config::with(config::bridge(variant.mode()), &changes));
        list.name = network.into();
        let runtime = Runtime::new(list);
        for role in ["client", "server"] {
            let pod = node.pod(&format!("{role}-of-{network}"))?;
            let address = runtime.add(&node, &Container::of(&pod))?.address()?;
            pods.push((pod, address));
        }
    }
    let [(client1, address1), (server1, to1), (client2, address2), (server2, to2)] = &pods[..] else {
        anyhow::bail!("not four pods");
    };
    equal("the servers' addresses", to1, to2)?;
    equal("the clients' addresses", address1, address2)?;
    let _services =
        [Service::start(server1, server1.name(), PORT)?, Service::start(server2, server2.name(), PORT)?];
    let before = Stats::read(&node).unwrap_or_default();
    for _ in 0..20 {
        for (client, server) in [(client1, server1), (client2, server2)] {
            // Of the same port: only the device tells the flows apart.
            let answer = client.run_in(|| ask_udp(5000, (*to1, PORT).into(), QUESTIONS))?;
            equal("who answers", answer.server.as_str(), server.name())?;
            let answer = client.run_in(|| ask_tcp(0, (*to1, PORT).into(), QUESTIONS))?;
            equal("who answers", answer.server.as_str(), server.name())?;
        }
    }
    fast_if(variant, &node, &before)
}

fn fast_if(variant: Variant, node: &Node, before: &Stats) -> Result<()> {
    if variant == Variant::Auto {
        let counted = &Stats::read(node)? - before;
        ensure!(counted.fast_share() > 0.4, "few packets were fast: {counted:?}");
    }
    Ok(())
}

fn nested(variant: Variant, family: Family) -> Result<()> {
    let scene = Scene::dual_stack(variant, 2)?;
    let pod = &scene.pods[0];
    let inner = Place::new()?;
    let netns = inner.netns_path();
    for line in [
        "ip link add inner type bridge",
        "ip link set inner up",
        &format!("ip link add port type veth peer name eth0 netns {}", netns.display()),
        "ip link set port master inner up",
        "ip link set eth0 master inner",
    ] {
        pod.call(line)?;
    }
    for line in [
        "ip link set lo up",
        "ip address add 10.1.0.200/24 dev eth0",
        "ip address add fd00:10:1::200/64 dev eth0 nodad",
        "ip link set eth0 up",
        "ip route add default via 10.1.0.1",
        "ip -6 route add default via fd00:10:1::1",
    ] {
        inner.call(line)?;
    }
    let address = family.pick([10, 1, 0, 200].into(), [0xfd00, 0x10, 1, 0, 0, 0, 0, 0x200].into());
    extra_address(variant, &scene, &inner, address)
}

fn second_address(variant: Variant, family: Family) -> Result<()> {
    let scene = Scene::dual_stack(variant, 2)?;
    let (pod, outside) = (&scene.pods[0], scene.node.outside());
    pod.call("ip address add 10.1.0.201/24 dev eth0")?;
    pod.call("ip address add fd00:10:1::201/64 dev eth0 nodad")?;
    // Towards pods and outside, the new one is the sender.
    let source = family.pick("10.1.0.201", "fd00:10:1::201");
    for to in [scene.pods[1].address_in(family), outside.address_in(family)] {
        let via = if to == outside.address_in(family) {
            family.pick(" via 10.1.0.1", " via fd00:10:1::1")
        } else {
            ""
        };
        pod.call(&format!("ip route add {to}{via} dev eth0 src {source}"))?;
    }
    extra_address(variant, &scene, pod, source.parse()?)
}

/// An address that IPAM did not give is reached by a pod, and reaches it and outside.
fn extra_address(variant: Variant, scene: &Scene, place: &Place, address: IpAddr) -> Result<()> {
    let family = Family::of(address);
    let (other, outside) = (&scene.pods[1], scene.node.outside());
    let (to_pod, to_outside) = (other.address_in(family), outside.address_in(family));
    // All neighbours have to be found first, and a bridge's new ports take a moment.
    crate::check::eventually("the address is reached", traffic::PATIENCE, || {
        Ok(traffic::round_trips(other, place, address, 1).is_ok())
    })?;
    let paths: [(&Place, &Place, IpAddr, IpAddr); 3] = [
        (other, place, address, to_pod),
        (place, other, to_pod, address),
        (place, outside, to_outside, outside.node_address_in(family)),
    ];
    for (client, server, to, seen) in paths {
        let before = Stats::read(&scene.node).unwrap_or_default();
        equal("the client as seen", traffic::round_trips(client, server, to, 200)?.peer.ip(), seen)?;
        let echo = traffic::echo(client, server, to, 200, 64)?;
        equal("datagrams lost", echo.lost, 0)?;
        equal("the client as seen", echo.peer.ip(), seen)?;
        traffic::upload(client, server, to, 4 << 20)?;
        fast_if(variant, &scene.node, &before)?;
    }
    Ok(())
}
