//! Links.

use std::{io, os::fd::RawFd};

use nix::libc;
use rtnetlink::{
    LinkBridge, LinkBridgePort, LinkMessageBuilder, LinkUnspec, LinkVeth,
    packet_route::link::{
        InfoBridge, InfoBridgePort, InfoData, InfoKind, InfoPortData, InfoVeth, LinkAttribute, LinkFlags,
        LinkInfo, LinkMessage,
    },
};

use super::{HostError, Netlink, failed, is};

/// Ports a bridge can have: `BR_MAX_PORTS` of net/bridge/br_private.h is 1024, and number 0 is given to none
/// (`find_portno` in net/bridge/br_if.c).
pub const MAX_PORTS: usize = 1023;

/// What we need to know of a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// Index in its namespace.
    pub index: u32,
    /// Hardware address, if it is an Ethernet one.
    pub mac: Option<[u8; 6]>,
    /// MTU, bytes.
    pub mtu: u32,
    /// Administratively up.
    pub up: bool,
    /// Promiscuous.
    pub promiscuous: bool,
    /// Index of the bridge it is a port of.
    pub controller: Option<u32>,
    /// As a port, sends frames back through where they came from.
    pub hairpin: bool,
    /// As a port, is kept from other isolated ports.
    pub isolated: bool,
    /// As a bridge, tells VLANs apart.
    pub filters_vlans: bool,
}

/// A veth pair to be made.
pub struct Veth<'a> {
    /// This end.
    pub host: &'a str,
    /// The other end.
    pub pod: &'a str,
    /// Namespace of the other end.
    pub netns: RawFd,
    /// MAC of the other end.
    pub mac: Option<[u8; 6]>,
    /// MTU of both, bytes.
    pub mtu: Option<u32>,
    /// Index of the bridge.
    pub bridge: u32,
}

impl Netlink {
    /// The link of this name.
    pub fn link(&self, name: &str) -> Result<Option<Link>, HostError> {
        let request = self.handle.link().get().match_name(name.to_owned()).execute();
        let found = match self.all(request) {
            Ok(messages) => messages.first().map(describe),
            Err(error) if is(&error, libc::ENODEV) => None,
            Err(error) => return Err(failed("look up link", name, error)),
        };
        let mut indices = self.indices.borrow_mut();
        match &found {
            Some(link) => indices.insert(name.to_owned(), link.index),
            None => indices.remove(name),
        };
        Ok(found)
    }

    /// The index of the link of this name, which must be there. A link keeps it for its life, so it is asked for once.
    pub fn index(&self, name: &str) -> Result<u32, HostError> {
        let known = self.indices.borrow().get(name).copied();
        known.map_or_else(|| Ok(self.need(name)?.index), Ok)
    }

    /// The link of this name, which must be there.
    pub fn need(&self, name: &str) -> Result<Link, HostError> {
        self.link(name)?
            .ok_or_else(|| HostError::new("look up link", name, io::Error::from_raw_os_error(libc::ENODEV)))
    }

    /// Name of the link with this index.
    pub fn name_of(&self, index: u32) -> Result<Option<String>, HostError> {
        let request = self.handle.link().get().match_index(index).execute();
        match self.all(request) {
            Ok(messages) => Ok(messages.first().and_then(name)),
            Err(error) if is(&error, libc::ENODEV) => Ok(None),
            Err(error) => Err(failed("look up link", index, error)),
        }
    }

    /// Makes a bridge with a MAC that stays. Returns false if a link of this name exists.
    pub fn create_bridge(&self, name: &str, mac: [u8; 6]) -> Result<bool, HostError> {
        let message = LinkBridge::new(name).address(mac.to_vec()).build();
        match self.run(self.handle.link().add(message).execute()) {
            Ok(()) => Ok(true),
            Err(error) if is(&error, libc::EEXIST) => Ok(false),
            Err(error) => Err(failed("create bridge", name, error)),
        }
    }

    /// Makes a veth pair: this end a port of `bridge` and up, the other end in the namespace `netns`, down.
    /// One message: moving an end afterwards would cost an RCU grace period.
    pub fn create_veth(&self, veth: &Veth<'_>) -> Result<(), HostError> {
        let mut peer = LinkMessageBuilder::<LinkUnspec>::new().name(veth.pod).setns_by_fd(veth.netns);
        if let Some(mac) = veth.mac {
            peer = peer.address(mac.to_vec());
        }
        let mut host = LinkMessageBuilder::<LinkUnspec>::new_with_info_kind(InfoKind::Veth)
            .name(veth.host)
            .controller(veth.bridge)
            .up();
        if let Some(mtu) = veth.mtu {
            peer = peer.mtu(mtu);
            host = host.mtu(mtu);
        }
        let message = host.set_info_data(InfoData::Veth(InfoVeth::Peer(peer.build()))).build();
        let result = self.run(self.handle.link().add(message).execute());
        result.map_err(|error| failed("create veth", format!("{} with peer {}", veth.host, veth.pod), error))
    }

    /// Makes a veth pair with both ends here, `port` a port of `bridge` and up. Returns false if one of the names is
    /// taken. The other end cannot be up from the start: it is made first, and ENOTCONN without its peer.
    pub fn create_inner(&self, link: &str, port: &str, bridge: &Link) -> Result<bool, HostError> {
        let peer = LinkMessageBuilder::<LinkUnspec>::new().name(link).mtu(bridge.mtu);
        let message = LinkMessageBuilder::<LinkUnspec>::new_with_info_kind(InfoKind::Veth)
            .name(port)
            .mtu(bridge.mtu)
            .controller(bridge.index)
            .up()
            .set_info_data(InfoData::Veth(InfoVeth::Peer(peer.build())))
            .build();
        match self.run(self.handle.link().add(message).execute()) {
            Ok(()) => Ok(true),
            Err(error) if is(&error, libc::EEXIST) => Ok(false),
            Err(error) => Err(failed("create veth", format!("{port} with peer {link}"), error)),
        }
    }

    /// Makes a veth pair with both ends here, up.
    pub fn create_pair(&self, one: &str, other: &str) -> Result<(), HostError> {
        let message = LinkVeth::new(one, other).up().build();
        let result = self.run(self.handle.link().add(message).execute());
        result.map_err(|error| failed("create veth", format!("{one} with peer {other}"), error))?;
        self.set_up(other)
    }

    /// Sets a link up.
    pub fn set_up(&self, name: &str) -> Result<(), HostError> {
        self.set(name, LinkUnspec::new_with_index(self.need(name)?.index).up().build())
    }

    /// Changes a link.
    pub fn set(&self, name: &str, message: LinkMessage) -> Result<(), HostError> {
        let result = self.run(self.handle.link().set(message).execute());
        result.map_err(|error| failed("change link", name, error))
    }

    /// Lets the bridge send frames back through the port they came from.
    pub fn set_hairpin(&self, name: &str, index: u32) -> Result<(), HostError> {
        let message = LinkBridgePort::new(index).hairpin(true).build();
        let result = self.run(self.handle.link().set_port(message).execute());
        result.map_err(|error| failed("set hairpin mode of", name, error))
    }

    /// Keeps a port of a bridge from its other isolated ports (Linux 4.18).
    pub fn set_isolated(&self, name: &str, index: u32) -> Result<(), HostError> {
        let message = LinkBridgePort::new(index).isolated(true).build();
        let result = self.run(self.handle.link().set_port(message).execute());
        result.map_err(|error| failed("isolate", name, error))
    }

    /// Deletes a link. Returns false if it is gone.
    pub fn delete(&self, name: &str) -> Result<bool, HostError> {
        self.indices.borrow_mut().remove(name);
        let message = LinkUnspec::new_with_name(name).build();
        match self.run(self.handle.link().del_with_message(message).execute()) {
            Ok(()) => Ok(true),
            Err(error) if is(&error, libc::ENODEV) => Ok(false),
            // Whoever may not delete is refused before the kernel looks for the link.
            Err(_) if self.link(name)?.is_none() => Ok(false),
            Err(error) => Err(failed("delete link", name, error)),
        }
    }

    /// How many ports the bridge with this index has.
    pub fn ports(&self, bridge: u32) -> Result<usize, HostError> {
        Ok(self.links()?.iter().filter(|(_, link)| link.controller == Some(bridge)).count())
    }

    /// All links with their names.
    pub fn links(&self) -> Result<Vec<(String, Link)>, HostError> {
        let links = self.all(self.handle.link().get().execute());
        let links = links.map_err(|error| failed("list", "links", error))?;
        Ok(links.iter().filter_map(|link| Some((name(link)?, describe(link)))).collect())
    }
}

fn name(message: &LinkMessage) -> Option<String> {
    message.attributes.iter().find_map(|attribute| match attribute {
        LinkAttribute::IfName(name) => Some(name.clone()),
        _ => None,
    })
}

fn describe(message: &LinkMessage) -> Link {
    let flags = message.header.flags;
    let mut link = Link {
        index: message.header.index,
        mac: None,
        mtu: 0,
        up: flags.contains(LinkFlags::Up),
        promiscuous: flags.contains(LinkFlags::Promisc),
        controller: None,
        hairpin: false,
        isolated: false,
        filters_vlans: false,
    };
    for attribute in &message.attributes {
        match attribute {
            LinkAttribute::Address(bytes) => link.mac = bytes.as_slice().try_into().ok(),
            LinkAttribute::Mtu(mtu) => link.mtu = *mtu,
            LinkAttribute::Controller(index) => link.controller = Some(*index),
            LinkAttribute::LinkInfo(infos) => {
                link.hairpin = infos.iter().any(|info| is_set(info, &InfoBridgePort::HairpinMode(true)));
                link.isolated = infos.iter().any(|info| is_set(info, &InfoBridgePort::Isolated(true)));
                link.filters_vlans = infos.iter().any(filters_vlans);
            }
            _ => {}
        }
    }
    link
}

fn is_set(info: &LinkInfo, flag: &InfoBridgePort) -> bool {
    let LinkInfo::PortData(InfoPortData::BridgePort(port)) = info else { return false };
    port.contains(flag)
}

fn filters_vlans(info: &LinkInfo) -> bool {
    let LinkInfo::Data(InfoData::Bridge(bridge)) = info else { return false };
    bridge.contains(&InfoBridge::VlanFiltering(true))
}
