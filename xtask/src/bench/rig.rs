//! The namespaces of each variant, made once and used in every round.

use std::net::IpAddr;

use anyhow::{Context, Result};
use ebpf_bridge_lab::libcni::Conflist;
use ebpf_bridge_lab::{Node, Place, Scene, Stats, config};
use serde_json::{Value, json};

use super::route::{Route, Rules};
use super::rules;
use super::server::{Cpus, Server};
use super::variant::Variant;

/// Everything one variant needs for traffic.
pub(super) struct Rig {
    // First, so that they end before the namespaces they are in.
    servers: Vec<Server>,
    world: World,
    /// Whether our programs count packets here.
    counts: bool,
}

enum World {
    /// A node whose first pod is the client, and the second the server.
    Pods(Scene),
    /// Two namespaces and the wire between them.
    Wire([Place; 2]),
    /// A node without plugins.
    Bare(Node),
}

/// Who talks to whom.
#[derive(Clone, Copy)]
pub(super) struct Ends<'a> {
    pub(super) client: &'a Place,
    pub(super) server: &'a Place,
    /// The server's, as the client calls it.
    pub(super) address: IpAddr,
}

const WIRE: [[u8; 4]; 2] = [[10, 9, 0, 1], [10, 9, 0, 2]];

impl Rig {
    pub(super) fn new(variant: Variant, rules: Rules) -> Result<Self> {
        let world = match variant {
            Variant::Wire => World::Wire(wire()?),
            Variant::Host => World::Bare(Node::new()?),
            _ => World::Pods(pods(plugin(variant), rules)?),
        };
        Ok(Self { world, counts: variant == Variant::Accelerated, servers: Vec::new() })
    }

    /// Starts what iperf3 talks to, wherever traffic may go.
    pub(super) fn serve(&mut self, cpus: Cpus) -> Result<()> {
        if self.servers.is_empty() {
            let places = match &self.world {
                World::Pods(scene) => vec![&*scene.pods[1].pod, &**scene.node.outside()],
                World::Wire([_, server]) => vec![server],
                World::Bare(node) => vec![&**node, &**node.outside()],
            };
            let servers =
                places.into_iter().map(|place| Server::start(place, cpus)).collect::<Result<_>>()?;
            self.servers = servers;
        }
        Ok(())
    }

    /// The ends of a route, if there are such here.
    pub(super) fn ends(&self, route: Route) -> Option<Ends<'_>> {
        match (&self.world, route) {
            (World::Pods(scene), Route::Pod) => Some(between(scene, scene.pods[1].address())),
            (World::Pods(scene), Route::ClusterIp) => Some(between(scene, rules::CLUSTER_IP.into())),
            (World::Pods(scene), Route::Outside | Route::Ruled) => {
                Some(to_outside(&scene.pods[0], &scene.node))
            }
            (World::Pods(scene), Route::HostPort) => Some(from_outside(&scene.node, &scene.pods[1])),
            (World::Bare(node), Route::Outside) => Some(to_outside(node, node)),
            (World::Bare(node), Route::HostPort) => Some(from_outside(node, node)),
            (World::Wire([client, server]), Route::Pod) => {
                Some(Ends { client, server, address: WIRE[1].into() })
            }
            (World::Bare(_) | World::Wire(_), _) => None,
        }
    }

    /// The packet counters of our programs, where they run.
    pub(super) fn stats(&self) -> Result<Option<Stats>> {
        match self.node() {
            Some(node) if self.counts => Stats::read(node).map(Some),
            _ => Ok(None),
        }
    }

    /// Where the plugin works, if there is one.
    pub(super) fn node(&self) -> Option<&Node> {
        match &self.world {
            World::Pods(scene) => Some(&scene.node),
            World::Wire(_) | World::Bare(_) => None,
        }
    }
}

/// The configuration of the plugin that a variant is about. All of them masquerade.
pub(super) fn plugin(variant: Variant) -> Value {
    // 65,534 addresses.
    let ranges = json!([[{"subnet": "10.1.0.0/16"}]]);
    match variant {
        Variant::Reference => json!({
            "type": "bridge", "bridge": config::BRIDGE, "isGateway": true, "isDefaultGateway": true,
            "ipMasq": true, "ipam": {"type": "host-local", "ranges": ranges},
        }),
        Variant::Ptp => json!({
            "type": "ptp", "ipMasq": true,
            "ipam": {"type": "host-local", "ranges": ranges, "routes": [{"dst": "0.0.0.0/0"}]},
        }),
        Variant::Off => config::with(config::bridge("off"), &json!({"ipam": {"ranges": ranges}})),
        Variant::Accelerated | Variant::Wire | Variant::Host => {
            config::with(config::bridge("auto"), &json!({"ipam": {"ranges": ranges}}))
        }
    }
}

/// A node on which bridged packets pass through iptables, as Kubernetes wants it.
pub(super) fn node() -> Result<Node> {
    let node = Node::new()?;
    node.set_sysctl("net.bridge.bridge-nf-call-iptables", "1").context("the kernel needs br_netfilter")?;
    Ok(node)
}

fn pods(plugin: Value, rules: Rules) -> Result<Scene> {
    let mut scene = Scene::new(node()?, Conflist::of(plugin));
    for name in ["client", "server"] {
        scene.wire(name)?;
    }
    let host = scene.node.outside().node_address();
    match rules {
        Rules::None => {}
        Rules::Translation => rules::translate(&scene.node, host, scene.pods[1].address())?,
        Rules::Cluster => rules::fill(&scene.node)?,
    }
    Ok(scene)
}

fn wire() -> Result<[Place; 2]> {
    let ends = [Place::new()?, Place::new()?];
    let far = ends[1].netns_path();
    ends[0].call(&format!("ip link add wire type veth peer name wire netns {}", far.display()))?;
    for (place, address) in ends.iter().zip(WIRE) {
        place.call("ip link set lo up")?;
        place.call(&format!("ip address add {}/24 dev wire", IpAddr::from(address)))?;
        place.call("ip link set wire up")?;
    }
    Ok(ends)
}

fn between(scene: &Scene, address: IpAddr) -> Ends<'_> {
    Ends { client: &scene.pods[0], server: &scene.pods[1], address }
}

fn to_outside<'a>(client: &'a Place, node: &'a Node) -> Ends<'a> {
    Ends { client, server: node.outside(), address: node.outside().address() }
}

fn from_outside<'a>(node: &'a Node, server: &'a Place) -> Ends<'a> {
    Ends { client: node.outside(), server, address: node.outside().node_address() }
}
