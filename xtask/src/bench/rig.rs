//! The namespaces of each variant, made once and used in every round.

use std::net::IpAddr;

use anyhow::{Context, Result};
use ebpf_bridge_lab::libcni::Conflist;
use ebpf_bridge_lab::{Node, Place, Scene, Stats, config};
use serde_json::{Value, json};

use super::rules;
use super::server::{Cpus, Server};
use super::variant::Variant;
use super::workload::Route;

/// Everything one variant needs for traffic.
pub(super) struct Rig {
    // First, so that they end before the namespaces they are in.
    _servers: Vec<Server>,
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
    /// The server's.
    pub(super) address: IpAddr,
}

const WIRE: [[u8; 4]; 2] = [[10, 9, 0, 1], [10, 9, 0, 2]];

impl Rig {
    /// On a node with the rules of a cluster where `ruled`.
    pub(super) fn new(variant: Variant, ruled: bool, cpus: Cpus) -> Result<Self> {
        let world = match variant {
            Variant::Accelerated | Variant::Off | Variant::Reference => {
                let scene = pods(plugin(variant))?;
                if ruled {
                    rules::install(&scene.node)?;
                }
                World::Pods(scene)
            }
            Variant::Wire => World::Wire(wire()?),
            Variant::Host => World::Bare(Node::new()?),
        };
        let mut rig = Self { world, counts: variant == Variant::Accelerated, _servers: Vec::new() };
        let ends = [Route::Pod, Route::Outside].into_iter().filter_map(|route| rig.ends(route));
        let servers = ends.map(|ends| Server::start(ends.server, cpus)).collect::<Result<_>>();
        rig._servers = servers.with_context(|| format!("{} is not set up", variant.title()))?;
        Ok(rig)
    }

    /// The ends of a route, if there are such here.
    pub(super) fn ends(&self, route: Route) -> Option<Ends<'_>> {
        match (&self.world, route) {
            (World::Pods(scene), Route::Pod) => {
                let [client, server] = [&scene.pods[0], &scene.pods[1]];
                Some(Ends { client, server, address: server.address() })
            }
            (World::Pods(scene), Route::Outside | Route::Ruled) => {
                Some(to_outside(&scene.pods[0], &scene.node))
            }
            (World::Bare(node), Route::Outside) => Some(to_outside(node, node)),
            (World::Wire([client, server]), Route::Pod) => {
                Some(Ends { client, server, address: WIRE[1].into() })
            }
            (World::Bare(_), _) | (World::Wire(_), _) => None,
        }
    }

    /// The packet counters of our programs, where they run.
    pub(super) fn stats(&self) -> Result<Option<Stats>> {
        match &self.world {
            World::Pods(scene) if self.counts => Stats::read(&scene.node).map(Some),
            _ => Ok(None),
        }
    }
}

/// The configuration of the plugin that a variant is about. All of them masquerade.
pub(super) fn plugin(variant: Variant) -> Value {
    match variant {
        Variant::Reference => {
            let mut plugin = config::bridge("off");
            plugin["type"] = json!("bridge");
            for ours in ["ebpf", "logFile"] {
                plugin.as_object_mut().and_then(|plugin| plugin.remove(ours));
            }
            plugin
        }
        Variant::Off => config::bridge("off"),
        Variant::Accelerated | Variant::Wire | Variant::Host => config::bridge("auto"),
    }
}

/// A node on which bridged packets pass through iptables, as Kubernetes wants it.
pub(super) fn node() -> Result<Node> {
    let node = Node::new()?;
    node.set_sysctl("net.bridge.bridge-nf-call-iptables", "1").context("the kernel needs br_netfilter")?;
    Ok(node)
}

fn pods(plugin: Value) -> Result<Scene> {
    let mut scene = Scene::new(node()?, Conflist::of(plugin));
    for name in ["client", "server"] {
        scene.wire(name)?;
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

fn to_outside<'a>(client: &'a Place, node: &'a Node) -> Ends<'a> {
    Ends { client, server: node.outside(), address: node.outside().address() }
}
