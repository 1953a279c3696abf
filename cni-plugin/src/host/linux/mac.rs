//! MACs that are to stay, or to be told.

use std::{fs, path::Path};

use rtnetlink::LinkUnspec;

use super::{HostError, Netlink};

/// True if a link of the node is known to have a MAC that was set, not chosen by the kernel. Setting it once more would
/// have the kernel forget every neighbour behind the bridge (`arp_netdev_event` in net/ipv4/arp.c).
pub(super) fn is_pinned(name: &str, index: u32) -> bool {
    let read = |key| fs::read_to_string(Path::new("/sys/class/net").join(name).join(key)).unwrap_or_default();
    // sysfs may be that of another namespace, with another link of this name. 3 is NET_ADDR_SET of linux/netdevice.h.
    read("ifindex").trim() == index.to_string() && read("addr_assign_type").trim() == "3"
}

/// Gives a link the MAC it has.
pub(super) fn set_again(netlink: &Netlink, name: &str) -> Result<(), HostError> {
    let link = netlink.need(name)?;
    let Some(mac) = link.mac else { return Ok(()) };
    netlink.set(name, LinkUnspec::new_with_index(link.index).address(mac.to_vec()).build())
}
