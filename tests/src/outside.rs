//! The world beyond a node's uplink.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Deref;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use crate::traffic::PATIENCE;
use crate::{Family, Place};

/// The node's own address on its uplink.
const NODE_V4: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 2);
/// The node's own IPv6 address on its uplink.
const NODE_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0x100, 0, 0, 0, 0, 2);
/// The outside host's address, the node's default gateway.
const OUTSIDE_V4: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 1);
/// The outside host's IPv6 address, the node's default gateway.
const OUTSIDE_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0x100, 0, 0, 0, 0, 1);
/// The uplink's name, on both sides.
pub const UPLINK: &str = "eth0";

/// A host connected to a node's uplink. It knows the uplink's own networks only: no default route, none to pods.
pub struct Outside {
    place: Place,
}

impl Outside {
    /// Its IPv4 address.
    pub fn address(&self) -> IpAddr {
        OUTSIDE_V4.into()
    }

    /// Its address of a family.
    pub fn address_in(&self, family: Family) -> IpAddr {
        family.pick(self.address(), self.address_v6())
    }

    /// The node's address of a family, as known out here.
    pub fn node_address_in(&self, family: Family) -> IpAddr {
        family.pick(self.node_address(), self.node_address_v6())
    }

    /// Its IPv6 address.
    pub fn address_v6(&self) -> IpAddr {
        OUTSIDE_V6.into()
    }

    /// The address under which the node is known out here.
    pub fn node_address(&self) -> IpAddr {
        NODE_V4.into()
    }

    /// The IPv6 address under which the node is known out here.
    pub fn node_address_v6(&self) -> IpAddr {
        NODE_V6.into()
    }
}

impl Deref for Outside {
    type Target = Place;

    fn deref(&self) -> &Place {
        &self.place
    }
}

/// Makes the outside host and the uplink, and points the node's default routes at it.
pub(crate) fn attach(node: &Place) -> Result<Outside> {
    let place = Place::new()?;
    place.call("ip link set lo up")?;
    let far = place.netns_path();
    node.call(&format!("ip link add {UPLINK} type veth peer name {UPLINK} netns {}", far.display()))?;
    bring_up(node, NODE_V4, NODE_V6)?;
    bring_up(&place, OUTSIDE_V4, OUTSIDE_V6)?;
    node.call(&format!("ip route add default via {OUTSIDE_V4}"))?;
    if has_ipv6() {
        node.call(&format!("ip -6 route add default via {OUTSIDE_V6} dev {UPLINK}"))?;
        settle(node)?;
        // Until then it answers no neighbour, whatever addresses it has.
        settle(&place)?;
    }
    Ok(Outside { place })
}

/// The kernel adds the uplink's link-local address when it gets to it, after the carrier. Waits for it, so that it
/// does not look like something a plugin left.
fn settle(node: &Place) -> Result<()> {
    let start = Instant::now();
    let shown = format!("ip -6 route show table local type local dev {UPLINK}");
    while !node.call(&shown)?.contains("fe80:") {
        ensure!(start.elapsed() < PATIENCE, "{UPLINK} gets no link-local address");
        thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

fn bring_up(place: &Place, v4: Ipv4Addr, v6: Ipv6Addr) -> Result<()> {
    if has_ipv6() {
        // Duplicate address detection would change what `ip` shows a second or two from now.
        place.set_sysctl(&format!("net.ipv6.conf.{UPLINK}.accept_dad"), "0")?;
        place.call(&format!("ip address add {v6}/64 dev {UPLINK} nodad"))?;
    }
    place.call(&format!("ip address add {v4}/24 dev {UPLINK}"))?;
    place.call(&format!("ip link set {UPLINK} up"))?;
    Ok(())
}

fn has_ipv6() -> bool {
    Path::new("/proc/sys/net/ipv6").is_dir()
}
