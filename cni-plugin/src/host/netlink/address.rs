//! Addresses.

use ipnetwork::IpNetwork;
use nix::libc;
use rtnetlink::packet_route::{
    AddressFamily,
    address::{AddressAttribute, AddressFlags, AddressHeaderFlags, AddressMessage},
};

use super::{HostError, Netlink, failed, is};

/// The state of duplicate address detection.
pub struct Detection {
    /// It goes on for some address.
    pub tentative: bool,
    /// An address that somebody else has.
    pub duplicate: Option<IpNetwork>,
}

impl Netlink {
    /// The addresses of a link.
    pub fn addresses(&self, index: u32) -> Result<Vec<IpNetwork>, HostError> {
        Ok(self.messages(index)?.iter().filter_map(network_of).collect())
    }

    /// The kernel leaves the other links' out; so does rtnetlink, where the kernel cannot.
    fn messages(&self, index: u32) -> Result<Vec<AddressMessage>, HostError> {
        let mut request = self.handle.address().get().set_link_index_filter(index);
        request.message_mut().header.index = index;
        self.all(request.execute()).map_err(|error| failed("list", "addresses", error))
    }

    /// Adds an address, an IPv6 one with duplicate address detection or without. Returns false if it is there.
    pub fn add_address(
        &self,
        name: &str,
        index: u32,
        address: IpNetwork,
        dad: bool,
    ) -> Result<bool, HostError> {
        let mut request = self.handle.address().add(index, address.ip(), address.prefix());
        if address.is_ipv6() && !dad {
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

    /// How far duplicate address detection is on a link.
    pub fn detection(&self, index: u32) -> Result<Detection, HostError> {
        let messages = self.messages(index)?;
        let mut state = Detection { tentative: false, duplicate: None };
        for message in messages.iter().filter(|message| message.header.family == AddressFamily::Inet6) {
            let flags = message.attributes.iter().find_map(|attribute| match attribute {
                AddressAttribute::Flags(flags) => Some(*flags),
                _ => None,
            });
            let flags = flags.unwrap_or_else(AddressFlags::empty);
            if flags.contains(AddressFlags::Dadfailed) {
                state.duplicate = network_of(message);
            }
            state.tentative |= flags.contains(AddressFlags::Tentative);
        }
        Ok(state)
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
