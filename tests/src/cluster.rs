//! Two nodes that reach each other directly, as neighbours in one rack do.

use std::net::IpAddr;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use crate::{Node, Place, traffic::PATIENCE};

/// The link between the nodes, by this name on both.
pub const LAN: &str = "lan0";

/// Two nodes, each with an uplink of its own besides the link between them.
pub struct Cluster {
    /// The nodes; [`Cluster::address`] tells what they call each other.
    pub nodes: [Node; 2],
}

impl Cluster {
    /// Makes both nodes and connects them.
    pub fn new() -> Result<Cluster> {
        let nodes = [Node::new()?, Node::new()?];
        let peer = nodes[1].netns_path();
        nodes[0].call(&format!("ip link add {LAN} type veth peer name {LAN} netns {}", peer.display()))?;
        for (index, node) in nodes.iter().enumerate() {
            node.set_sysctl(&format!("net.ipv6.conf.{LAN}.accept_dad"), "0")?;
            for v4 in [true, false] {
                let prefix = if v4 { 24 } else { 64 };
                node.call(&format!("ip address add {}/{prefix} dev {LAN}", Cluster::address(index, v4)))?;
            }
            node.call(&format!("ip link set {LAN} up"))?;
        }
        nodes.iter().try_for_each(|node| settle(node))?;
        Ok(Cluster { nodes })
    }

    /// The address of a node on the link between them.
    pub fn address(index: usize, v4: bool) -> IpAddr {
        let last = index as u8 + 1;
        if v4 { [192, 168, 77, last].into() } else { [0xfd77, 0, 0, 0, 0, 0, 0, last.into()].into() }
    }

    /// The nodes as places, for traffic.
    pub fn places(&self) -> [&Place; 2] {
        [&self.nodes[0], &self.nodes[1]]
    }
}

/// The kernel adds the link-local address when it gets to it, after the carrier. Waits for it, so that it does not
/// look like something a plugin left.
fn settle(node: &Place) -> Result<()> {
    let start = Instant::now();
    while !node.call(&format!("ip -6 route show table local type local dev {LAN}"))?.contains("fe80:") {
        ensure!(start.elapsed() < PATIENCE, "{LAN} gets no link-local address");
        thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}
