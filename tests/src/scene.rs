//! The usual scene: a node, an outside host, and pods wired through the plugin.

use std::fmt;
use std::net::IpAddr;
use std::ops::Deref;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::libcni::{AddResult, Conflist, Container, Runtime};
use crate::{Family, Node, Pod, Status, config};

/// The circumstances under which everything must be reachable alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// `ebpf.mode` auto on a node with a bpffs: the fast path.
    Auto,
    /// `ebpf.mode` off.
    Off,
    /// `ebpf.mode` auto on a node where no bpffs can be mounted: the bridge path.
    NoBpffs,
}

impl Variant {
    /// All of them.
    pub const ALL: [Variant; 3] = [Variant::Auto, Variant::Off, Variant::NoBpffs];

    /// A node of this kind.
    pub fn node(self) -> Result<Node> {
        if self == Variant::NoBpffs { Node::without_bpffs() } else { Node::new() }
    }

    /// The value of `ebpf.mode`.
    pub fn mode(self) -> &'static str {
        if self == Variant::Off { "off" } else { "auto" }
    }
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Variant::Auto => "on the fast path",
            Variant::Off => "with mode off",
            Variant::NoBpffs => "without a bpffs",
        })
    }
}

/// A pod and what ADD answered for it. Dereferences to the [`Pod`].
pub struct WiredPod {
    /// The namespace.
    pub pod: Pod,
    /// How the runtime names the attachment.
    pub container: Container,
    /// The result of ADD.
    pub result: AddResult,
    address: IpAddr,
}

impl WiredPod {
    /// Its first address of a family.
    ///
    /// # Panics
    /// If ADD gave it none.
    pub fn address_in(&self, family: Family) -> IpAddr {
        let mut addresses = self.result.ips.iter().map(|ip| ip.address.ip());
        addresses.find(|&address| Family::of(address) == family).expect("an address of the family")
    }

    /// Its first address.
    pub fn address(&self) -> IpAddr {
        self.address
    }
}

impl Deref for WiredPod {
    type Target = Pod;

    fn deref(&self) -> &Pod {
        &self.pod
    }
}

/// A node with one network and pods on it.
pub struct Scene {
    /// The node, and beyond it [`Node::outside`].
    pub node: Node,
    /// The network.
    pub runtime: Runtime,
    /// In the order they were wired.
    pub pods: Vec<WiredPod>,
}

impl Scene {
    /// A scene with `count` pods on the usual bridge network.
    pub fn with_pods(variant: Variant, count: usize) -> Result<Scene> {
        let mut scene = Scene::new(variant.node()?, Conflist::of(config::bridge(variant.mode())));
        for number in 1..=count {
            scene.wire(&format!("pod{number}"))?;
        }
        Ok(scene)
    }

    /// The same with IPv4 and IPv6.
    pub fn dual_stack(variant: Variant, count: usize) -> Result<Scene> {
        Scene::dual_stack_with(variant, count, &Value::Null)
    }

    /// The same with `changes` to the plugin's configuration.
    pub fn dual_stack_with(variant: Variant, count: usize, changes: &Value) -> Result<Scene> {
        let list = Conflist::of(config::with(config::dual_stack(variant.mode()), changes));
        let mut scene = Scene::new(variant.node()?, list);
        for number in 1..=count {
            scene.wire(&format!("pod{number}"))?;
        }
        Ok(scene)
    }

    /// A scene without pods yet.
    pub fn new(node: Node, list: Conflist) -> Scene {
        Scene { node, runtime: Runtime::new(list), pods: Vec::new() }
    }

    /// Makes a pod and has it wired.
    pub fn wire(&mut self, name: &str) -> Result<&WiredPod> {
        self.wire_with(name, |container| container)
    }

    /// The same with arguments of the runtime's.
    pub fn wire_with(
        &mut self,
        name: &str,
        arguments: impl FnOnce(Container) -> Container,
    ) -> Result<&WiredPod> {
        let pod = self.node.pod(name)?;
        let container = arguments(Container::of(&pod));
        let result = self.runtime.add(&self.node, &container).with_context(|| format!("ADD of {name}"))?;
        self.adopt(pod, container, result)?;
        self.pods.last().context("the pod just wired")
    }

    /// Takes in a pod that the test has wired itself.
    pub fn adopt(&mut self, pod: Pod, container: Container, result: AddResult) -> Result<()> {
        let address = result.address()?;
        self.pods.push(WiredPod { pod, container, result, address });
        Ok(())
    }

    /// DEL of every pod; their namespaces stay.
    pub fn unwire(&self) -> Result<()> {
        self.pods.iter().try_for_each(|pod| {
            let name = pod.name();
            self.runtime.del(&self.node, &pod.container).with_context(|| format!("DEL of {name}"))
        })
    }

    /// What the plugin says it has wired.
    pub fn status(&self) -> Result<Status> {
        Status::read(&self.node)
    }

    /// What the plugin logged until now.
    pub fn log(&self) -> Result<String> {
        self.node.read(config::LOG)
    }
}
