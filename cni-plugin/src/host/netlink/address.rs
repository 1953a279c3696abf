//! Addresses.

use ipnetwork::IpNetwork;
use nix::libc;
use rtnetlink::packet_route::address::{AddressAttribute, AddressFlags, AddressHeaderFlags, AddressMessage};

use super::{HostError, Netlink, failed, is};

impl Netlink {
    /// The addresses of a link.
    pub fn addresses(&self, index: u32) -> Result<Vec<IpNetwork>, HostError> {
        let request = self.handle.address().get().set_link_index_filter(index).execute();
        let messages = self.all(request).map_err(|error| failed("list", "addresses", error))?;
        Ok(messages.iter().filter_map(network_of).collect())
    }

    /// Adds an address, an IPv6 one without duplicate address detection. Returns false if it is there.
    pub fn add_address(&self, name: &str, index: u32, address: IpNetwork) -> Result<bool, HostError> {
        let mut request = self.handle.address().add(index, address.ip(), address.prefix());
        if address.is_ipv6() {
            let message = request.message_mut();
            message.header.flags |= AddressHeaderFlags::Nodad;
            message.attributes.push(AddressAttribute::Flags(AddressFlags::Nodad));
        }
        match self.run(request.execute()) {
            Ok(()) => Ok(true),
            Err(error) if is(&error, libc::EEXIST) => Ok(false),
            Err(error) => Err(failed("add address", format!("{address} to {name}"), error)),
        }
    }

    /// Removes an address. Returns false if it is gone.
    pub fn remove_address(&self, name: &str, index: u32, address: IpNetwork) -> Result<bool, HostError> {
        // The add request builds the same message.
        let message = self.handle.address().add(index, address.ip(), address.prefix()).message_mut().clone();
        match self.run(self.handle.address().del(message).execute()) {
            Ok(()) => Ok(true),
            Err(error) if is(&error, libc::EADDRNOTAVAIL) || is(&error, libc::ENODEV) => Ok(false),
            Err(error) => Err(failed("remove address", format!("{address} from {name}"), error)),
        }
    }
}

fn network_of(message: &AddressMessage) -> Option<IpNetwork> {
    let prefix = message.header.prefix_len;
    // IFA_ADDRESS is the peer's on a point-to-point link, IFA_LOCAL always ours; IPv6 has only the former.
    let find = |local: bool| {
        message.attributes.iter().find_map(|attribute| match attribute {
            AddressAttribute::Local(address) if local => Some(*address),
            AddressAttribute::Address(address) if !local => Some(*address),
            _ => None,
        })
    };
    IpNetwork::new(find(true).or_else(|| find(false))?, prefix).ok()
}
