//! A neighbour, a route or the uplink's address changes under a fast flow: picked up at the next renewal.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use ebpf_bridge_lab::traffic::{self, Service, ask_udp, ask_udp_within};
use ebpf_bridge_lab::{Family, Need, Scene, Stats, UPLINK, Variant};

use crate::check::{equal, eventually};
use crate::suite::Suite;

const PORT: u16 = 7000;
const CLIENT: u16 = 5000;
/// One `renew` (1 s by default), and some.
const RENEWED: Duration = Duration::from_millis(1100);
/// How often the flow sends while nobody answers.
const PERIOD: Duration = Duration::from_millis(20);

pub(crate) fn register(suite: &mut Suite) {
    for family in Family::ALL {
        let mut test = |name: &str, body: fn(Family) -> Result<()>| {
            let name = format!("reroute: a fast flow follows {name} within 1.1 s, {family}");
            suite.test_with(&[Need::Bpf], name, move || body(family));
        };
        test("the gateway to another MAC", neighbour);
        test("the route to another device", route);
        test("the uplink to another address", address);
    }
}

fn neighbour(family: Family) -> Result<()> {
    let seen = Seen::as_the_node(family)?;
    let (node, outside) = (&seen.scene.node, seen.scene.node.outside());
    let gateway = outside.address_in(family);
    outside.call(&format!("ip link set {UPLINK} address 02:00:00:00:00:77"))?;
    node.call(&format!("ip neigh replace {gateway} lladdr 02:00:00:00:00:77 dev {UPLINK}"))?;
    seen.becomes(outside.node_address_in(family))?;
    seen.is_fast(outside.node_address_in(family))
}

/// A fast flow of datagrams to outside, and as whom it is known there.
struct Seen {
    scene: Scene,
    to: SocketAddr,
    _service: Service,
}

impl Seen {
    fn as_the_node(family: Family) -> Result<Seen> {
        let scene = Scene::dual_stack(Variant::Auto, 1)?;
        let outside = scene.node.outside();
        let to = (outside.address_in(family), PORT).into();
        let _service = Service::start(outside, "outside", PORT)?;
        let node = outside.node_address_in(family);
        let seen = Seen { scene, to, _service };
        eventually("the server answers", traffic::PATIENCE, || Ok(seen.ask(1).is_ok()))?;
        seen.is_fast(node)?;
        Ok(seen)
    }

    fn ask(&self, count: usize) -> Result<IpAddr> {
        self.ask_within(traffic::PATIENCE, count)
    }

    fn ask_within(&self, limit: Duration, count: usize) -> Result<IpAddr> {
        self.scene.pods[0].run_in(|| Ok(ask_udp_within(limit, CLIENT, self.to, count)?.peer.ip()))
    }

    /// Each datagram is answered, comes from `client` and is fast.
    fn is_fast(&self, client: IpAddr) -> Result<()> {
        let before = Stats::read(&self.scene.node)?.redirected();
        equal("the client", self.ask(100)?, client)?;
        let fast = Stats::read(&self.scene.node)?.redirected() - before;
        ensure!(fast > 150, "only {fast} packets were fast");
        Ok(())
    }

    /// The flow goes on for one `renew`, whatever becomes of it. Then none is lost, and the server sees `client`.
    fn becomes(&self, client: IpAddr) -> Result<()> {
        let start = Instant::now();
        while start.elapsed() < RENEWED {
            drop(self.ask_within(PERIOD, 1));
        }
        // The server answers in order: once this one is, no answer from before is under way any more.
        self.scene.pods[0].run_in(|| ask_udp(0, self.to, 1)).context("by another flow")?;
        equal("the client after the change", self.ask(100)?, client)
    }
}

fn route(family: Family) -> Result<()> {
    let seen = Seen::as_the_node(family)?;
    let (node, outside) = (&seen.scene.node, seen.scene.node.outside());
    let netns = outside.netns_path();
    node.call(&format!("ip link add eth1 type veth peer name eth1 netns {}", netns.display()))?;
    let addresses = family.pick(["198.51.101.2/24", "198.51.101.1/24"], ["fd00:198::2/64", "fd00:198::1/64"]);
    for (place, address) in [(&**node, addresses[0]), (&**outside, addresses[1])] {
        let nodad = family.pick("", "nodad");
        place.set_sysctl("net.ipv6.conf.eth1.accept_dad", "0")?;
        place.call(&format!("ip address add {address} dev eth1 {nodad}"))?;
        place.call("ip link set eth1 up")?;
    }
    let bare = |text: &str| text.split('/').next().unwrap_or_default().to_owned();
    let (ours, theirs) = (bare(addresses[0]), bare(addresses[1]));
    eventually("the second uplink's neighbour is found", traffic::PATIENCE, || {
        Ok(traffic::echo(node, outside, theirs.parse()?, 1, 8).is_ok_and(|echo| echo.lost == 0))
    })?;
    // Answers come from the address that was asked, also to the second network.
    let network = family.pick("198.51.101.0/24", "fd00:198::/64 metric 1");
    outside.call(&format!("ip route replace {network} dev eth1 src {}", seen.to.ip()))?;
    seen.ask(10).context("before the route changes")?;
    node.call(&format!("ip route add {} via {theirs} dev eth1", seen.to.ip()))?;
    seen.becomes(ours.parse()?)
}

fn address(family: Family) -> Result<()> {
    let seen = Seen::as_the_node(family)?;
    let (node, outside) = (&seen.scene.node, seen.scene.node.outside());
    let old = outside.node_address_in(family);
    let new: IpAddr = family.pick([198, 51, 100, 33].into(), [0x2001, 0xdb8, 0x100, 0, 0, 0, 0, 0x33].into());
    let (length, nodad) = family.pick((24, ""), (64, "nodad"));
    node.call(&format!("ip address del {old}/{length} dev {UPLINK}"))?;
    node.call(&format!("ip address add {new}/{length} dev {UPLINK} {nodad}"))?;
    let gateway = outside.address_in(family);
    node.call(&format!("ip route replace default via {gateway} dev {UPLINK}"))?;
    seen.becomes(new)?;
    seen.is_fast(new)
}
