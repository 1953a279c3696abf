//! The corpus, sent by sockets: what an application sees, for every MTU, with and without offloads.

use std::net::UdpSocket;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use ebpf_bridge_lab::frame::{Frame, Transport};
use ebpf_bridge_lab::traffic::{self, Injector};
use ebpf_bridge_lab::{Family, Need, Place, Scene, Stats, UPLINK, Variant, config, observe};
use serde_json::json;

use super::frames::{Way, mac};
use crate::check::equal;
use crate::suite::Suite;

const BULK: u64 = 8 << 20;
const EXCHANGES: u64 = 200;
const DATAGRAMS: u64 = 20;
const MTUS: [usize; 3] = [1280, 1500, 9000];
/// The longest a UDP socket takes, whatever the family.
const LONGEST: usize = 65_507;

pub(super) fn register(suite: &mut Suite) {
    for variant in [Variant::Auto, Variant::Off] {
        for mtu in MTUS {
            for offloads in [true, false] {
                let segments = if offloads { "offloads" } else { "no offloads" };
                let name = format!("equivalence: streams and datagrams, MTU {mtu}, {segments}, {variant}");
                suite.test_with(&[Need::Bpf, Need::Tool("ethtool")], name, move || {
                    exchange_all(variant, mtu, offloads)
                });
            }
        }
        for family in Family::ALL {
            let name =
                format!("equivalence: no socket gets a wrong checksum through NAT, {family}, {variant}");
            suite.test_with(&[Need::Bpf], name, move || wrong_checksum(variant, family));
        }
    }
}

fn exchange_all(variant: Variant, mtu: usize, offloads: bool) -> Result<()> {
    let scene = Scene::dual_stack_with(variant, 2, &json!({ "mtu": mtu }))?;
    let node = &scene.node;
    for end in [&**node, &**node.outside()] {
        end.call(&format!("ip link set {UPLINK} mtu {mtu}"))?;
    }
    if !offloads {
        for (place, device) in
            [(&*scene.pods[0].pod, "eth0"), (&*scene.pods[1].pod, "eth0"), (&**node.outside(), UPLINK)]
        {
            place.call(&format!("ethtool -K {device} tso off gso off gro off tx off"))?;
        }
    }
    for family in Family::ALL {
        for way in Way::ALL {
            exchange(&scene, variant, way, family, mtu).with_context(|| format!("{family} to {way}"))?;
        }
    }
    Ok(())
}

fn exchange(scene: &Scene, variant: Variant, way: Way, family: Family, mtu: usize) -> Result<()> {
    let client: &Place = &scene.pods[0];
    let (server, address): (&Place, _) = match way {
        Way::Pod => (&scene.pods[1], scene.pods[1].address_in(family)),
        Way::Outside => (scene.node.outside(), scene.node.outside().address_in(family)),
    };
    let fast = |what: &str, expected: Expected, exchange: &dyn Fn() -> Result<()>| {
        counted(scene, variant, expected, exchange).with_context(|| what.to_owned())
    };
    fast("upload", Expected::Mostly, &|| traffic::upload(client, server, address, BULK).map(drop))?;
    fast("download", Expected::Mostly, &|| traffic::download(client, server, address, BULK).map(drop))?;
    fast("requests", Expected::Mostly, &|| {
        traffic::round_trips(client, server, address, EXCHANGES).map(drop)
    })?;
    let fits = mtu - family.pick(28, 48);
    for size in [8, 1000, fits, fits + 1, 3 * fits, LONGEST] {
        let expected = if size <= fits { Expected::Mostly } else { Expected::Never };
        fast(&format!("datagrams of {size} bytes"), expected, &|| {
            let echo = traffic::echo(client, server, address, DATAGRAMS, size)?;
            equal("datagrams lost", echo.lost, 0)
        })?;
    }
    Ok(())
}

/// How much the fast path carries.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Expected {
    Mostly,
    /// Fragments.
    Never,
}

fn counted(
    scene: &Scene,
    variant: Variant,
    expected: Expected,
    exchange: &dyn Fn() -> Result<()>,
) -> Result<()> {
    if variant == Variant::Off {
        return exchange();
    }
    let before = Stats::read(&scene.node)?;
    exchange()?;
    let counted = &Stats::read(&scene.node)? - &before;
    match expected {
        Expected::Mostly => ensure!(counted.fast_share() > 0.5, "not mostly fast: {counted:?}"),
        Expected::Never => equal("fast packets", counted.redirected(), 0)?,
    }
    Ok(())
}

fn wrong_checksum(variant: Variant, family: Family) -> Result<()> {
    let scene = Scene::dual_stack(variant, 1)?;
    let (pod, outside) = (&scene.pods[0], scene.node.outside());
    traffic::echo(pod, outside, outside.address_in(family), 3, 32).context("finding the neighbours")?;
    let frame = |payload: u8| Frame {
        macs: [[0; 6]; 2],
        addresses: [pod.address_in(family), outside.address_in(family)],
        ttl: 64,
        dscp: 0,
        ecn: 0,
        id: 1,
        dont_fragment: false,
        ports: [20_000, 4_000],
        transport: Transport::Udp { checksum: true },
        payload: vec![payload; 64],
    };
    let macs =
        [mac(&observe::link(&scene.node, config::BRIDGE)?.mac)?, mac(&observe::link(pod, "eth0")?.mac)?];
    let injector = Injector::new(pod, "eth0")?;
    let any = family.pick("0.0.0.0:4000", "[::]:4000");
    let socket = outside.run_in(|| Ok(UdpSocket::bind(any)?))?;
    socket.set_read_timeout(Some(Duration::from_millis(300)))?;
    let mut buffer = [0; 128];
    let mut receive = || socket.recv_from(&mut buffer).map(|(_, from)| (from, buffer[0])).ok();
    let from = Some((std::net::SocketAddr::new(outside.node_address_in(family), 20_000), 1));
    let (right, mut wrong) = (Frame { macs, ..frame(1) }.build(), Frame { macs, ..frame(2) }.build());
    // The last byte: the checksum is of what was there before.
    wrong[right.len() - 1] ^= 0x55;
    for _ in 0..3 {
        injector.send(&right)?;
        equal("a right datagram", receive(), from)?;
        injector.send(&wrong)?;
        equal("a wrong one", receive(), None)?;
    }
    Ok(())
}
