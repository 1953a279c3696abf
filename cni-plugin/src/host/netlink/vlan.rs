//! VLANs of bridges and their ports (kernels with `CONFIG_BRIDGE_VLAN_FILTERING`).

use nix::libc;
use rtnetlink::{
    LinkBridge, LinkBridgeVlan,
    packet_route::{
        AddressFamily,
        link::{AfSpecBridge, BridgeVlanInfoFlags, InfoBridge, InfoData, LinkAttribute, LinkExtentMask},
    },
};

use super::{HostError, Netlink, failed, is};

impl Netlink {
    /// Makes a bridge tell VLANs apart; that it does already is fine.
    pub fn filter_vlans(&self, bridge: &str) -> Result<(), HostError> {
        let message = LinkBridge::new(bridge)
            .set_info_data(InfoData::Bridge(vec![InfoBridge::VlanFiltering(true)]))
            .build();
        let result = self.run(self.handle.link().change(message).execute());
        result.map_err(|error| failed("turn on the VLAN filtering of", bridge, error))
    }

    /// Lets a VLAN through a port, as its own and untagged (`access`) or tagged.
    pub fn add_vlan(&self, port: &str, index: u32, vlan: u16, access: bool) -> Result<(), HostError> {
        let flags = BridgeVlanInfoFlags::Pvid | BridgeVlanInfoFlags::Untagged;
        let flags = if access { flags } else { BridgeVlanInfoFlags::empty() };
        let message = LinkBridgeVlan::new(index).vlan(vlan, flags).build();
        let result = self.run(self.handle.link().set(message).execute());
        result.map_err(|error| failed("add VLAN", format!("{vlan} to {port}"), error))
    }

    /// The VLANs that a port lets through, and whether each is its own and untagged.
    pub fn vlans(&self, port: &str, index: u32) -> Result<Vec<(u16, bool)>, HostError> {
        // The kernel lists the ports of all bridges, or nothing.
        let request = self.handle.link().get();
        let request = request.set_filter_mask(AddressFamily::Bridge, vec![LinkExtentMask::Brvlan]);
        let ports = self.all(request.execute()).map_err(|error| failed("list the VLANs of", port, error))?;
        let own = ports.iter().filter(|message| message.header.index == index);
        Ok(own.flat_map(|message| &message.attributes).flat_map(listed).collect())
    }

    /// Lets a VLAN through a port no more; that it is not let through already is fine.
    pub fn remove_vlan(&self, port: &str, index: u32, vlan: u16) -> Result<(), HostError> {
        let message = LinkBridgeVlan::new(index).vlan(vlan, BridgeVlanInfoFlags::empty()).build();
        match self.run(self.handle.link().del_with_message(message).execute()) {
            Err(error) if !is(&error, libc::ENOENT) => {
                Err(failed("remove VLAN", format!("{vlan} from {port}"), error))
            }
            _ => Ok(()),
        }
    }
}

fn listed(attribute: &LinkAttribute) -> Vec<(u16, bool)> {
    let LinkAttribute::AfSpecBridge(specs) = attribute else { return Vec::new() };
    let own = BridgeVlanInfoFlags::Pvid | BridgeVlanInfoFlags::Untagged;
    let vlan = |spec: &AfSpecBridge| match spec {
        AfSpecBridge::VlanInfo(info) => Some((info.vid, info.flags.contains(own))),
        _ => None,
    };
    specs.iter().filter_map(vlan).collect()
}
