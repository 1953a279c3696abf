//! More of the world: a router behind the outside host, and a host behind the router.

use std::net::IpAddr;

use anyhow::Result;

use crate::{Family, Node, Place};

/// node - outside - router - far. The outside host forwards, and only it knows the way to both sides.
pub struct Beyond {
    /// Between the outside host and the far one.
    pub router: Place,
    /// The last of the line.
    pub far: Place,
}

/// The link between router and far host, on both sides.
const LINK: &str = "far0";

impl Beyond {
    /// Puts both behind a node's outside host.
    pub fn attach(node: &Node) -> Result<Beyond> {
        let outside = node.outside();
        let (router, far) = (Place::new()?, Place::new()?);
        connect(
            outside,
            &router,
            "router0",
            ["198.18.1.1/24", "fd00:198:1::1/64"],
            ["198.18.1.2/24", "fd00:198:1::2/64"],
        )?;
        connect(
            &router,
            &far,
            LINK,
            ["198.18.2.1/24", "fd00:198:2::1/64"],
            ["198.18.2.2/24", "fd00:198:2::2/64"],
        )?;
        for place in [&**outside, &router] {
            place.set_sysctl("net.ipv4.ip_forward", "1")?;
            place.set_sysctl("net.ipv6.conf.all.forwarding", "1")?;
            // A prober asks faster than the default rate of answers allows.
            place.set_sysctl("net.ipv4.icmp_ratelimit", "0")?;
            place.set_sysctl("net.ipv6.icmp.ratelimit", "0")?;
        }
        outside.call("ip route add 198.18.2.0/24 via 198.18.1.2")?;
        outside.call("ip -6 route add fd00:198:2::/64 via fd00:198:1::2")?;
        router.call("ip route add default via 198.18.1.1")?;
        router.call("ip -6 route add default via fd00:198:1::1")?;
        far.call("ip route add default via 198.18.2.1")?;
        far.call("ip -6 route add default via fd00:198:2::1")?;
        Ok(Beyond { router, far })
    }

    /// Makes the last link narrower, in bytes.
    pub fn set_mtu(&self, mtu: u32) -> Result<()> {
        for place in [&self.router, &self.far] {
            place.call(&format!("ip link set {LINK} mtu {mtu}"))?;
        }
        Ok(())
    }

    /// The far host's address.
    pub fn address_in(&self, family: Family) -> IpAddr {
        family.pick([198, 18, 2, 2].into(), [0xfd00, 0x198, 2, 0, 0, 0, 0, 2].into())
    }

    /// The routers' addresses on a node's side, nearest first.
    pub fn routers_in(&self, node: &Node, family: Family) -> [IpAddr; 2] {
        let router = family.pick([198, 18, 1, 2].into(), [0xfd00, 0x198, 1, 0, 0, 0, 0, 2].into());
        [node.outside().address_in(family), router]
    }
}

fn connect(near: &Place, far: &Place, link: &str, here: [&str; 2], there: [&str; 2]) -> Result<()> {
    let netns = far.netns_path();
    near.call(&format!("ip link add {link} type veth peer name {link} netns {}", netns.display()))?;
    for (place, addresses) in [(near, here), (far, there)] {
        place.call("ip link set lo up")?;
        // No neighbour is asked from an address that is still being tried.
        place.set_sysctl(&format!("net.ipv6.conf.{link}.accept_dad"), "0")?;
        for address in addresses {
            let nodad = if address.contains(':') { "nodad" } else { "" };
            place.call(&format!("ip address add {address} dev {link} {nodad}"))?;
        }
        place.call(&format!("ip link set {link} up"))?;
    }
    Ok(())
}
