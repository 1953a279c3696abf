//! Services made of somebody else's NAT rules: what the kernel translates, the fast path translates alike.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use anyhow::{Result, ensure};
use ebpf_bridge_lab::traffic::{Answer, Service, ask_tcp, ask_udp};
use ebpf_bridge_lab::{Family, Need, Place, Scene, Stats, Variant};
use serde_json::json;

use crate::check::equal;
use crate::rules::{Balanced, Masquerade, Rules};
use crate::suite::Suite;

const SERVICE: u16 = 80;
const BACKEND: u16 = 8080;
const NODE_PORT: u16 = 30080;
/// Questions per connection: enough to be learned and repeated.
const QUESTIONS: usize = 6;

pub(crate) fn register(suite: &mut Suite) {
    let needs = [Need::Bpf, Need::Tool("iptables"), Need::Tool("ip6tables")];
    for rules in Rules::ALL {
        for family in Family::ALL {
            let under = Under { rules, family, bridged: true };
            let mut test = |name: &str, body: fn(Under) -> Result<()>, bridged: bool| {
                let under = Under { bridged, ..under };
                suite.test_with(&needs, format!("services: {name}, {under}"), move || body(under));
            };
            test("1000 short connections to a ClusterIP and past it, of the same ports", short_lived, true);
            for bridged in [true, false] {
                test("a ClusterIP chooses among backends, one of them the client", balanced, bridged);
                test("a NodePort is answered by pods that see the node", node_port, bridged);
                test("a NodePort of policy Local is answered by pods that see outside", local, bridged);
            }
        }
    }
}

/// The circumstances of a test.
#[derive(Clone, Copy)]
struct Under {
    rules: Rules,
    family: Family,
    /// Whether netfilter sees bridged packets.
    bridged: bool,
}

impl std::fmt::Display for Under {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} by {}, br_netfilter {}", self.family, self.rules, u8::from(self.bridged))
    }
}

/// Pods that serve, on a node where netfilter drops what is invalid.
struct Cluster {
    scene: Scene,
    family: Family,
    _services: Vec<Service>,
}

impl Under {
    fn cluster(self, pods: usize) -> Result<Cluster> {
        // A backend that is sent to itself goes out by the port it came in by.
        let scene = Scene::dual_stack_with(Variant::Auto, pods, &json!({"hairpinMode": true}))?;
        for key in ["iptables", "ip6tables"] {
            let value = if self.bridged { "1" } else { "0" };
            scene.node.set_sysctl(&format!("net.bridge.bridge-nf-call-{key}"), value)?;
        }
        self.rules.drop_invalid(&scene.node, self.family)?;
        let services = scene.pods.iter().map(|pod| Service::start(pod, pod.name(), BACKEND));
        let services = services.collect::<Result<_>>()?;
        Ok(Cluster { scene, family: self.family, _services: services })
    }

    fn cluster_ip(self) -> SocketAddr {
        let address: IpAddr =
            self.family.pick([10, 96, 0, 1].into(), [0xfd00, 0x10, 0x96, 0, 0, 0, 0, 1].into());
        (address, SERVICE).into()
    }
}

impl Cluster {
    fn backend(&self, pod: usize) -> SocketAddr {
        (self.scene.pods[pod].address_in(self.family), BACKEND).into()
    }

    /// Runs an exchange in a place; at least `fast` packets of it must take the fast path.
    fn fast<T: Send>(
        &self,
        fast: usize,
        place: &Place,
        exchange: impl FnOnce() -> Result<T> + Send,
    ) -> Result<T> {
        let before = Stats::read(&self.scene.node)?;
        let outcome = place.run_in(exchange)?;
        let counted = &Stats::read(&self.scene.node)? - &before;
        ensure!(counted.redirected() as usize >= fast, "not {fast} packets were fast: {counted:?}");
        Ok(outcome)
    }
}

fn short_lived(under: Under) -> Result<()> {
    const CONNECTIONS: usize = 1000;
    const PORTS: u16 = 20;
    let cluster = under.cluster(2)?;
    let front = under.cluster_ip();
    let backend = cluster.backend(1);
    let service = Balanced { front, backends: &[backend], masquerade: Masquerade::Hairpin };
    under.rules.balance(&cluster.scene.node, &service)?;
    let client = &cluster.scene.pods[0];
    let address = client.address_in(under.family);
    cluster.fast(CONNECTIONS * QUESTIONS, client, || {
        for number in 0..CONNECTIONS {
            let port = 20_000 + number as u16 / 4 % PORTS;
            let to = if number % 2 == 0 { front } else { backend };
            let ask = if number % 4 < 2 { ask_tcp } else { ask_udp };
            let Answer { server, peer } = ask(port, to, QUESTIONS)
                .map_err(|error| error.context(format!("connection {number} from port {port}")))?;
            equal("the server", server.as_str(), "pod2")?;
            equal("the client as the server sees it", peer.ip(), address)?;
        }
        Ok(())
    })
}

/// Backends that answered, with what they took the client for.
fn census(ask: impl Fn() -> Result<Answer>) -> Result<BTreeMap<String, IpAddr>> {
    let mut seen = BTreeMap::new();
    for _ in 0..40 {
        let Answer { server, peer } = ask()?;
        let before = seen.insert(server.clone(), peer.ip());
        ensure!(before.is_none_or(|before| before == peer.ip()), "{server} saw {before:?} and {peer}");
    }
    Ok(seen)
}

/// Without br_netfilter a backend's answer would go past the translation, so there all is masqueraded.
fn balanced(under: Under) -> Result<()> {
    let cluster = under.cluster(3)?;
    let backends = [0, 1, 2].map(|pod| cluster.backend(pod));
    let masquerade = if under.bridged { Masquerade::Hairpin } else { Masquerade::All };
    let front = under.cluster_ip();
    under.rules.balance(&cluster.scene.node, &Balanced { front, backends: &backends, masquerade })?;
    let client = &cluster.scene.pods[0];
    let address = client.address_in(under.family);
    let gateway = under.family.pick([10, 1, 0, 1].into(), [0xfd00, 0x10, 1, 0, 0, 0, 0, 1].into());
    let elsewhere = if under.bridged { address } else { gateway };
    for ask in [ask_tcp, ask_udp] {
        let seen = cluster.fast(40 * QUESTIONS, client, || census(|| ask(0, front, QUESTIONS)))?;
        let want = [("pod1", gateway), ("pod2", elsewhere), ("pod3", elsewhere)];
        equal("who answered whom", seen, BTreeMap::from(want.map(|(name, ip)| (name.to_owned(), ip))))?;
    }
    Ok(())
}

fn node_port(under: Under) -> Result<()> {
    let gateway = under.family.pick([10, 1, 0, 1].into(), [0xfd00, 0x10, 1, 0, 0, 0, 0, 1].into());
    from_outside(under, Masquerade::All, |_| gateway)
}

fn local(under: Under) -> Result<()> {
    from_outside(under, Masquerade::Hairpin, |cluster| cluster.scene.node.outside().address_in(under.family))
}

fn from_outside(under: Under, masquerade: Masquerade, client: impl Fn(&Cluster) -> IpAddr) -> Result<()> {
    let cluster = under.cluster(2)?;
    let outside = cluster.scene.node.outside();
    let front = (outside.node_address_in(under.family), NODE_PORT).into();
    let backends = [0, 1].map(|pod| cluster.backend(pod));
    under.rules.balance(&cluster.scene.node, &Balanced { front, backends: &backends, masquerade })?;
    for ask in [ask_tcp, ask_udp] {
        let seen = cluster.fast(40 * QUESTIONS, outside, || census(|| ask(0, front, QUESTIONS)))?;
        let want = ["pod1", "pod2"].map(|name| (name.to_owned(), client(&cluster)));
        equal("who answered whom", seen, BTreeMap::from(want))?;
    }
    Ok(())
}
