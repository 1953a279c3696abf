//! A hostile pod: root in its own namespace, with raw sockets and traffic control. With the programs it must get no more
//! than the kernel alone would give it.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use ebpf_bridge_lab::frame::{Frame, Transport};
use ebpf_bridge_lab::libcni::Conflist;
use ebpf_bridge_lab::traffic::{self, Capture, Injector, PATIENCE, Steady};
use ebpf_bridge_lab::{Family, Need, Node, Place, Scene, Stats, Variant, WiredPod, config};
use serde_json::{Value, json};

use crate::check::equal;
use crate::suite::Suite;

const PORT: u16 = 7100;
const CLIENT: u16 = 40_100;
/// Each frame so often: the first may be learned, the next would be carried.
const COPIES: usize = 6;
/// What the payloads of hostile frames begin with.
const MARK: &[u8] = b"hostile ";
const RENEW: Duration = Duration::from_secs(2);

type Forge = fn(&Stage) -> Vec<(&'static str, Vec<u8>)>;

pub(crate) fn register(suite: &mut Suite) {
    let classes: [(&'static str, Forge); 5] = [
        ("spoofed addresses", addresses),
        ("spoofed MACs", macs),
        ("tags", tags),
        ("forged TCP", forged_tcp),
        ("malformed packets", malformed),
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
            move || flow_entry(family),
        );
        suite.test_with(
            &[Need::Bpf],
            format!("hostile: a pod that fills FLOWS takes nothing from others but the fast path, {family}"),
            move || exhaustion(family),
        );
    }
    suite.test_with(
        &[Need::Bpf, Need::BridgeFilter],
        "hostile: with macspoofchk, another's MAC gets an attacker none of its packets",
        || stolen_mac(true),
    );
    suite.test_with(&[Need::Bpf], "hostile: a stolen MAC is the owner's again within renew", || {
        stolen_mac(false)
    });
    suite.test_with(
        &[Need::Bpf],
        "hostile: a pod's own traffic control marks nothing on the node",
        own_marks,
    );
}

/// A victim that streams to a server, and an attacker on the same bridge.
struct Stage {
    scene: Scene,
    family: Family,
    /// Of victim, server, attacker.
    macs: [[u8; 6]; 3],
    gateway: [u8; 6],
}

impl Stage {
    fn new(variant: Variant, family: Family, changes: &Value) -> Result<Stage> {
        let changes = config::with(json!({"ebpf": {"renew": "2s"}}), changes);
        let list = Conflist::of(config::with(config::dual_stack(mode(variant)), &changes));
        let mut scene = Scene::new(Node::new()?, list);
        for name in ["victim", "server", "attacker"] {
            scene.wire(name)?;
        }
        let mut macs = [[0; 6]; 3];
        for (mac, pod) in macs.iter_mut().zip(&scene.pods) {
            *mac = parse_mac(pod.result.inside()?.mac.as_deref().context("no MAC in the result")?)?;
        }
        let link = scene.node.call_json("ip -json link show br0")?;
        let gateway = parse_mac(link[0]["address"].as_str().context("a bridge without a MAC")?)?;
        let stage = Stage { scene, family, macs, gateway };
        // Everybody's neighbours and the bridge's ports are known from here on.
        let (victim, server, attacker) = stage.pods();
        for (client, to) in [(attacker, server), (attacker, victim), (victim, server)] {
            traffic::round_trips(client, to, to.address_in(family), 20)?;
        }
        traffic::round_trips(attacker, stage.scene.node.outside(), stage.outside(), 20)?;
        Ok(stage)
    }

    fn pods(&self) -> (&WiredPod, &WiredPod, &WiredPod) {
        (&self.scene.pods[0], &self.scene.pods[1], &self.scene.pods[2])
    }

    fn address(&self, pod: usize) -> IpAddr {
        self.scene.pods[pod].address_in(self.family)
    }

    fn outside(&self) -> IpAddr {
        self.scene.node.outside().address_in(self.family)
    }

    /// A datagram as the attacker's own socket would send it to the server.
    fn honest(&self) -> Frame {
        Frame {
            macs: [self.macs[1], self.macs[2]],
            addresses: [self.address(2), self.address(1)],
            ttl: 64,
            dscp: 0,
            ecn: 0,
            id: 0,
            dont_fragment: true,
            ports: [CLIENT, PORT],
            transport: Transport::Udp { checksum: true },
            payload: payload("honest"),
        }
    }

    /// A datagram of the victim's flow to the server, out of the attacker's device.
    fn of_the_victim(&self) -> Frame {
        Frame { addresses: [self.address(0), self.address(1)], ..self.honest() }
    }

    fn injector(&self, pod: usize) -> Result<Injector> {
        Injector::new(&self.scene.pods[pod], "eth0")
    }
}

fn mode(variant: Variant) -> &'static str {
    if variant == Variant::Off { "off" } else { "required" }
}

fn parse_mac(text: &str) -> Result<[u8; 6]> {
    let mut mac = [0; 6];
    for (byte, text) in mac.iter_mut().zip(text.split(':')) {
        *byte = u8::from_str_radix(text, 16)?;
    }
    Ok(mac)
}

fn payload(name: &str) -> Vec<u8> {
    [MARK, format!("{name:<32}").as_bytes()].concat()
}

fn hostile(bytes: &[u8]) -> Option<String> {
    let at = bytes.windows(MARK.len()).position(|window| window == MARK)?;
    let name = bytes.get(at + MARK.len()..)?;
    Some(String::from_utf8_lossy(&name[..name.len().min(32)]).trim_end().into())
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
        Capture::start(place, |frame| hostile(&frame.bytes).is_some()).map(|capture| (name, capture))
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
    stream.goes_on(20, PATIENCE).context("the victim's stream")?;
    stream.stop()?;
    Ok(arrived)
}

fn addresses(stage: &Stage) -> Vec<(&'static str, Vec<u8>)> {
    let (family, honest) = (stage.family, stage.honest());
    let gateway: IpAddr = family.pick([10, 1, 0, 1].into(), [0xfd00, 0x10, 1, 0, 0, 0, 0, 1].into());
    let nobody: IpAddr = family.pick([10, 1, 0, 77].into(), [0xfd00, 0x10, 1, 0, 0, 0, 0, 0x77].into());
    let lo: IpAddr = family.pick([127, 0, 0, 1].into(), [0, 0, 0, 0, 0, 0, 0, 1].into());
    let group: IpAddr = family.pick([224, 0, 0, 1].into(), [0xff02, 0, 0, 0, 0, 0, 0, 1].into());
    let [victim, server, attacker] = [0, 1, 2].map(|pod| stage.address(pod));
    let outside = stage.outside();
    let routed = [stage.gateway, stage.macs[2]];
    let bridged = honest.macs;
    [
        ("as the victim to the server", bridged, victim, server),
        ("as the server to itself", bridged, server, server),
        ("as the gateway", bridged, gateway, server),
        ("as the outside", bridged, outside, server),
        ("as nobody", bridged, nobody, server),
        ("as the loopback", bridged, lo, server),
        ("as a group", bridged, group, server),
        ("outside as itself", routed, attacker, outside),
        ("outside as the victim", routed, victim, outside),
        ("outside as nobody", routed, nobody, outside),
        ("outside as the outside", routed, outside, outside),
        ("the node's loopback", routed, attacker, lo),
        ("the gateway as the victim", routed, victim, gateway),
        ("the server by the gateway", routed, victim, server),
    ]
    .map(|(name, macs, from, to)| {
        let frame = Frame { macs, addresses: [from, to], payload: payload(name), ..stage.honest() };
        (name, frame.build())
    })
    .into()
}

/// Other MACs on the attacker's own fast flow. As the source never another pod's: that is for [`stolen_mac`].
fn macs(stage: &Stage) -> Vec<(&'static str, Vec<u8>)> {
    let [victim, server, attacker] = stage.macs;
    [
        ("an unknown source", [server, [2, 0, 0, 0, 0x66, 1]]),
        ("the gateway as source", [server, stage.gateway]),
        ("a group as source", [server, [3, 0, 0, 0, 0x66, 1]]),
        ("no source", [server, [0; 6]]),
        ("to the victim's MAC", [victim, attacker]),
        ("to the gateway's MAC", [stage.gateway, attacker]),
        ("to everybody", [[0xff; 6], attacker]),
        ("to its own MAC", [attacker, attacker]),
        ("to an unknown MAC", [[2, 0, 0, 0, 0x66, 2], attacker]),
    ]
    .map(|(name, macs)| (name, Frame { macs, payload: payload(name), ..stage.honest() }.build()))
    .into()
}

fn tags(stage: &Stage) -> Vec<(&'static str, Vec<u8>)> {
    const CUSTOMER: [u8; 2] = [0x81, 0x00];
    const SERVICE: [u8; 2] = [0x88, 0xa8];
    let tag = |protocol: [u8; 2], vid: u8| [&protocol[..], &[0, vid]].concat();
    [
        ("VLAN 5", tag(CUSTOMER, 5)),
        ("VLAN 0", tag(CUSTOMER, 0)),
        ("VLAN 1", tag(CUSTOMER, 1)),
        ("service VLAN 5", tag(SERVICE, 5)),
        ("VLAN 5 in 5", [tag(SERVICE, 5), tag(CUSTOMER, 5)].concat()),
        ("VLAN 0 in 0", [tag(CUSTOMER, 0), tag(CUSTOMER, 0)].concat()),
    ]
    .map(|(name, tags)| {
        let frame = Frame { payload: payload(name), ..stage.honest() }.build();
        (name, [&frame[..12], &tags, &frame[12..]].concat())
    })
    .into()
}

/// Segments of nobody's connection, and of one as the victim may have.
fn forged_tcp(stage: &Stage) -> Vec<(&'static str, Vec<u8>)> {
    const FLAGS: usize = 13;
    let forged = |name, from, flags: u8| {
        let transport = Transport::Tcp { sequence: 0x1000_0000, acknowledgement: 0x2000_0000 };
        let frame = Frame {
            addresses: [from, stage.address(1)],
            transport,
            payload: payload(name),
            ..stage.honest()
        };
        let offset = frame.transport_offset() + FLAGS;
        let mut bytes = frame.build();
        bytes[offset] = flags;
        (name, bytes)
    };
    let (own, victim) = (stage.address(2), stage.address(0));
    vec![
        forged("data", own, 0x10),
        forged("no flags", own, 0x00),
        forged("all flags", own, 0xff),
        forged("data of the victim's", victim, 0x10),
        forged("a reset of the victim's", victim, 0x14),
        forged("an end of the victim's", victim, 0x11),
        forged("a start of the victim's", victim, 0x02),
    ]
}

/// The attacker's own flow with fields that are wrong.
fn malformed(stage: &Stage) -> Vec<(&'static str, Vec<u8>)> {
    let named = |name| Frame { payload: payload(name), ..stage.honest() };
    let transport = named("").transport_offset();
    let changed = |name, offset: usize, bytes: &[u8], right: bool| {
        let mut frame = named(name).build();
        frame[offset..offset + bytes.len()].copy_from_slice(bytes);
        if right {
            ebpf_bridge_lab::frame::correct(&mut frame);
        }
        (name, frame)
    };
    let cut = |name, length| {
        let mut frame = named(name).build();
        frame.truncate(length);
        (name, frame)
    };
    let mut frames = vec![
        ("TTL 1", Frame { ttl: 1, ..named("TTL 1") }.build()),
        ("TTL 0", Frame { ttl: 0, ..named("TTL 0") }.build()),
        ("another DSCP", Frame { dscp: 46, ..named("another DSCP") }.build()),
        changed("another version", 14, &[0x55], false),
        changed("UDP length 0", transport + 4, &[0, 0], false),
        changed("UDP length too short", transport + 4, &[0, 7], false),
        changed("UDP length too long", transport + 4, &[0xff, 0xff], false),
        changed("a wrong UDP checksum", transport + 6, &[0x12, 0x34], false),
        changed("the other family's type", 12, stage.family.pick(&[0x86, 0xdd], &[0x08, 0x00]), false),
        cut("cut in the Ethernet header", 14),
        cut("cut in the IP header", 30),
        cut("cut in the transport header", transport + 4),
        cut("cut in the payload", transport + 30),
    ];
    if stage.family == Family::V4 {
        frames.extend([
            changed("header length 4", 14, &[0x44], true),
            changed("header length 15", 14, &[0x4f], false),
            changed("options", 14, &[0x46], false),
            changed("total length 0", 16, &[0, 0], true),
            changed("total length too long", 16, &[0xff, 0xff], true),
            changed("a wrong IP checksum", 24, &[0x12, 0x34], false),
            changed("a first fragment", 20, &[0x20, 0], true),
            changed("a later fragment", 20, &[0, 100], true),
        ]);
    } else {
        frames.extend([
            changed("payload length 0", 18, &[0, 0], false),
            changed("payload length too long", 18, &[0xff, 0xff], false),
            changed("a routing header", 20, &[43], false),
            changed("a fragment header", 20, &[44], false),
        ]);
    }
    frames
}

/// The node drops all that comes from the attacker; an entry that was not of the victim's device alone would carry it.
fn flow_entry(family: Family) -> Result<()> {
    let stage = Stage::new(Variant::Auto, family, &json!({"ebpf": {"renew": "60s"}}))?;
    let (own, theirs) = (stage.injector(2)?, stage.injector(0)?);
    let known = Frame { macs: [stage.macs[1], stage.macs[0]], ..stage.of_the_victim() };
    let same = Frame { payload: payload("forged"), ..known.clone() };
    let with_own_mac = Frame { payload: payload("forged"), ..stage.of_the_victim() };
    let attack = |known: &Frame| -> Result<[usize; 2]> {
        let capture = Capture::start(stage.pods().1, |frame| hostile(&frame.bytes).is_some())?;
        for _ in 0..COPIES {
            theirs.send(&known.build())?;
            own.send(&with_own_mac.build())?;
            own.send(&same.build())?;
        }
        let frames = capture.stop()?;
        let names: Vec<_> = frames.iter().filter_map(|frame| hostile(&frame.bytes)).collect();
        Ok(["honest", "forged"].map(|name| names.iter().filter(|other| *other == name).count()))
    };
    let [honest, forged] = attack(&known)?;
    ensure!(honest > 0 && forged > 0, "the attack does not even work without a filter: {honest}, {forged}");
    let veth = &stage.pods().2.result.veth()?.name;
    for line in [
        "nft add table bridge hostile".into(),
        "nft add chain bridge hostile in { type filter hook prerouting priority -300 ; }".into(),
        format!("nft add rule bridge hostile in iifname {veth} drop"),
    ] {
        stage.scene.node.call(&line)?;
    }
    // What the attacker has learned of its own goes, the victim's is learned again.
    thread::sleep(Duration::from_millis(50));
    stage.scene.node.call(&format!("{} off", ebpf_bridge_lab::plugin::path()?.display()))?;
    stage.scene.node.call(&format!("{} on", ebpf_bridge_lab::plugin::path()?.display()))?;
    let before = Stats::read(&stage.scene.node)?;
    let [honest, forged] = attack(&known)?;
    let counted = &Stats::read(&stage.scene.node)? - &before;
    ensure!(counted.redirected() > 0, "the victim's flow was not fast: {counted:?}");
    equal("the victim's datagrams that arrived", honest, COPIES)?;
    equal("the attacker's datagrams that arrived", forged, 0)
}

/// Many more flows than FLOWS has room for, while another pod sends.
fn exhaustion(family: Family) -> Result<()> {
    let times = [Variant::Off, Variant::Auto].map(|variant| -> Result<Duration> {
        let stage = Stage::new(variant, family, &json!({"ebpf": {"maxFlows": 1024}}))?;
        let (victim, server, _) = stage.pods();
        let stream = Steady::tcp(victim, server, stage.address(1))?;
        let own = stage.injector(2)?;
        let frames: Vec<_> = (0..8192_u16)
            .map(|number| Frame { ports: [10_000 + number, PORT], ..stage.honest() }.build())
            .collect();
        let taken = thread::scope(|scope| {
            let done = std::sync::atomic::AtomicBool::new(false);
            let done = &done;
            let attack = scope.spawn(move || -> Result<()> {
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
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
            done.store(true, std::sync::atomic::Ordering::Relaxed);
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
fn stolen_mac(checked: bool) -> Result<()> {
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
        crate::check::eventually("the stream is the victim's again", RENEW + PATIENCE, || {
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

/// Marks and priorities that the attacker gives its packets stay in its namespace: a rule that heeds them sees none.
fn own_marks() -> Result<()> {
    let stage = Stage::new(Variant::Auto, Family::V4, &Value::Null)?;
    let (_, server, attacker) = stage.pods();
    for line in [
        "tc qdisc add dev eth0 clsact",
        "tc filter add dev eth0 egress matchall action skbedit mark 0x4000 priority 6",
    ] {
        attacker.call(line)?;
    }
    for (client, to) in [("inet", "prerouting"), ("inet", "postrouting")] {
        let table = format!("{client} {to}");
        stage.scene.node.call(&format!("nft add table {table}"))?;
        stage
            .scene
            .node
            .call(&format!("nft add chain {table} c {{ type filter hook {to} priority -300 ; }}"))?;
        stage.scene.node.call(&format!("nft add rule {table} c meta mark 0x4000 counter drop"))?;
    }
    let before = Stats::read(&stage.scene.node)?;
    traffic::round_trips(attacker, server, stage.address(1), 200)?;
    traffic::round_trips(attacker, stage.scene.node.outside(), stage.outside(), 200)?;
    let counted = &Stats::read(&stage.scene.node)? - &before;
    ensure!(counted.redirected() > 100, "the attacker's flows were not fast: {counted:?}");
    Ok(())
}
