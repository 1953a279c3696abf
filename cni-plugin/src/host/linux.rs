//! The real host: rtnetlink, sysctls, nf_tables, in the node's and the pod's namespace.

mod mac;
mod port;
mod sysctl;

use std::{io, net::IpAddr, rc::Rc};

use ipnetwork::IpNetwork;
use nix::errno::Errno;
use rtnetlink::LinkUnspec;
use tokio::runtime::{Builder, Runtime};

use super::{
    Host, HostError, Netns, carrier, dad, iptables,
    netlink::{Link, MAX_PORTS, Netlink, Veth, default_route_links},
    nft,
    sysctl::Sysctls,
};
use crate::{
    cni::types::Route,
    config::MasqueradeBackend,
    plan::{Bridge, Observed, Side, Step, Sysctl},
};

/// The namespaces an attachment touches.
pub struct LinuxHost {
    node: Netlink,
    sysctls: Sysctls,
    pod: Option<Pod>,
}

struct Pod {
    netns: Netns,
    netlink: Netlink,
    sysctls: Sysctls,
}

impl LinuxHost {
    /// Opens netlink in this thread's namespace, and in the pod's if one is given.
    pub fn open(netns: Option<Netns>) -> Result<Self, HostError> {
        let failed = |error: io::Error| HostError::new("open", "netlink", error);
        let runtime = Builder::new_current_thread().enable_io().build().map_err(failed)?;
        let runtime: Rc<Runtime> = Rc::new(runtime);
        let node = Netlink::connect(runtime.clone()).map_err(failed)?;
        let pod = match netns {
            None => None,
            Some(netns) => {
                let netlink = netns.enter(|| Netlink::connect(runtime));
                let netlink = netlink
                    .map_err(|error| HostError::new("open", "netlink in the pod's namespace", error))?;
                Some(Pod { netns, netlink, sysctls: Sysctls::default() })
            }
        };
        Ok(Self { node, sysctls: Sysctls::default(), pod })
    }

    /// The link of this name, if there is one.
    pub fn link(&self, side: Side, name: &str) -> Result<Option<Link>, HostError> {
        self.netlink(side)?.link(name)
    }

    /// The addresses of a link.
    pub(super) fn addresses(&self, side: Side, index: u32) -> Result<Vec<IpNetwork>, HostError> {
        self.netlink(side)?.addresses(index)
    }

    /// The routes of one family through a link.
    pub(super) fn routes(&self, side: Side, index: u32, v4: bool) -> Result<Vec<Route>, HostError> {
        self.netlink(side)?.routes(index, v4)
    }

    /// Names of the devices that carry a default route.
    pub fn default_uplinks(&self) -> Result<Vec<String>, HostError> {
        let indices = default_route_links()?;
        let names: Result<Vec<_>, _> = indices.into_iter().map(|index| self.node.name_of(index)).collect();
        Ok(names?.into_iter().flatten().collect())
    }

    /// Netlink in the node's namespace.
    pub fn node(&self) -> &Netlink {
        &self.node
    }

    fn netlink(&self, side: Side) -> Result<&Netlink, HostError> {
        match side {
            Side::Node => Ok(&self.node),
            Side::Pod => Ok(&self.pod()?.netlink),
        }
    }

    fn pod(&self) -> Result<&Pod, HostError> {
        let absent =
            || HostError::new("enter", "the pod's namespace", io::Error::from(io::ErrorKind::NotFound));
        self.pod.as_ref().ok_or_else(absent)
    }

    /// Runs `work` in the namespace of a side.
    pub(super) fn within<T>(
        &self,
        side: Side,
        work: impl FnOnce() -> io::Result<T>,
    ) -> Result<io::Result<T>, HostError> {
        Ok(match side {
            Side::Node => work(),
            Side::Pod => self.pod()?.netns.enter(work),
        })
    }

    fn set_mtu(&self, side: Side, name: &str, mtu: u32) -> Result<Option<Step>, HostError> {
        let link = self.netlink(side)?.need(name)?;
        if link.mtu == mtu {
            return Ok(None);
        }
        let message = LinkUnspec::new_with_index(link.index).mtu(mtu).build();
        self.netlink(side)?.set(name, message)?;
        Ok(Some(Step::SetMtu { side, link: name.to_owned(), mtu: link.mtu }))
    }

    fn set_up(&self, side: Side, name: &str, up: bool) -> Result<Option<Step>, HostError> {
        let link = self.netlink(side)?.need(name)?;
        if link.up == up {
            return Ok(None);
        }
        let builder = LinkUnspec::new_with_index(link.index);
        let message = if up { builder.up() } else { builder.down() }.build();
        self.netlink(side)?.set(name, message)?;
        Ok(Some(Step::SetUp { side, link: name.to_owned(), up: !up }))
    }

    fn set_promiscuous(&self, name: &str, on: bool) -> Result<Option<Step>, HostError> {
        let link = self.node.need(name)?;
        if link.promiscuous == on {
            return Ok(None);
        }
        let builder = LinkUnspec::new_with_index(link.index);
        self.node.set(name, builder.promiscuous(on).build())?;
        Ok(Some(Step::SetPromiscuous { link: name.to_owned(), on: !on }))
    }

    fn create_veth(&self, step: &Step) -> Result<Option<Step>, HostError> {
        let Step::CreateVeth { host, pod, mac, mtu, bridge } = step else { return Ok(None) };
        use std::os::fd::AsRawFd;
        let index = self.node.index(bridge)?;
        let netns = self.pod()?.netns.as_fd().as_raw_fd();
        let veth = Veth { host, pod, netns, mac: *mac, mtu: *mtu, bridge: index };
        self.node.create_veth(&veth).map_err(|error| match error.errno() {
            Some(Errno::EXFULL) => {
                let object = format!("bridge {bridge}, which has the {MAX_PORTS} ports a bridge can have");
                HostError::new("add a port to", object, error.source)
            }
            _ => error,
        })?;
        Ok(Some(Step::DeleteLink { name: host.clone() }))
    }

    fn add_address(
        &self,
        side: Side,
        link: &str,
        address: IpNetwork,
        detect_duplicates: bool,
    ) -> Result<bool, HostError> {
        let netlink = self.netlink(side)?;
        let index = netlink.index(link)?;
        let IpAddr::V6(v6) = address.ip() else { return netlink.add_address(link, index, address, false) };
        let changes = self.within(side, dad::Changes::listen)?;
        let changes = changes.map_err(|error| HostError::new("listen for the addresses of", link, error))?;
        let added = netlink.add_address(link, index, address, detect_duplicates)?;
        if added && !detect_duplicates {
            changes.await_completion(v6);
        }
        Ok(added)
    }

    fn change_address(&self, step: &Step) -> Result<Option<Step>, HostError> {
        match step {
            Step::AddAddress { side, link, address, detect_duplicates } => {
                let added = self.add_address(*side, link, *address, *detect_duplicates)?;
                let undo = Step::RemoveAddress { side: *side, link: link.clone(), address: *address };
                Ok(added.then_some(undo))
            }
            Step::RemoveAddress { side, link, address } => {
                let netlink = self.netlink(*side)?;
                let Some(found) = netlink.link(link)? else { return Ok(None) };
                let removed = netlink.remove_address(link, found.index, *address)?;
                let undo = Step::AddAddress {
                    side: *side,
                    link: link.clone(),
                    address: *address,
                    detect_duplicates: false,
                };
                Ok(removed.then_some(undo))
            }
            _ => Ok(None),
        }
    }

    fn await_addresses(&self, link: &str) -> Result<(), HostError> {
        let changes = self.within(Side::Pod, dad::Changes::listen)?;
        let changes = changes.map_err(|error| HostError::new("listen for the addresses of", link, error))?;
        changes.settle(&self.pod()?.netlink, link)
    }
}

impl Host for LinuxHost {
    fn observe(&mut self, bridge: &str, gateway: &str) -> Result<Observed, HostError> {
        let found = self.node.link(bridge)?;
        let holder = if gateway == bridge { found.clone() } else { self.node.link(gateway)? };
        // A plan may be made before there is a pod.
        let pod_routes = self.pod.as_ref().map(|pod| pod.netlink.main_routes()).transpose()?;
        Ok(Observed {
            bridge: found.map(|link| Bridge { mtu: link.mtu }),
            gateway_addresses: match &holder {
                Some(link) => self.node.addresses(link.index)?,
                None => Vec::new(),
            },
            pod_routes: pod_routes.unwrap_or_default(),
            no_ipv6: self.no_ipv6(holder.map_or("default", |_| gateway))?,
        })
    }

    fn apply(&mut self, step: &Step) -> Result<Option<Step>, HostError> {
        match step {
            Step::CreateBridge { name, mac } => {
                let created = self.node.create_bridge(name, *mac)?;
                Ok(created.then(|| Step::DeleteLink { name: name.clone() }))
            }
            Step::SetMtu { side, link, mtu } => self.set_mtu(*side, link, *mtu),
            Step::PinMac { link } if mac::is_pinned(link, self.node.index(link)?) => Ok(None),
            Step::PinMac { link } => mac::set_again(&self.node, link).map(|()| None),
            Step::SetUp { side, link, up } => self.set_up(*side, link, *up),
            Step::SetPromiscuous { link, on } => self.set_promiscuous(link, *on),
            Step::AddAddress { .. } | Step::RemoveAddress { .. } => self.change_address(step),
            Step::SetSysctl { side, sysctl, value } => self.set_sysctl(*side, sysctl, value),
            Step::CreateVeth { .. } => self.create_veth(step),
            // Deleting is done only to undo or to clean up.
            Step::DeleteLink { name } => self.node.delete(name).map(|_| None),
            Step::SetHairpin { link } => self.node.set_hairpin(link, self.node.index(link)?).map(|()| None),
            Step::JoinBridge { .. }
            | Step::SetIsolated { .. }
            | Step::CheckMac { .. }
            | Step::ForgetMac { .. }
            | Step::FilterVlans { .. }
            | Step::AddVlan { .. }
            | Step::RemoveVlan { .. }
            | Step::CreateInner { .. } => self.apply_to_port(step),
            Step::AwaitAddresses { link } => self.await_addresses(link).map(|()| None),
            Step::AddNodeRoute(route) => {
                let added = self.node.add_node_route(route)?;
                Ok(added.then_some(Step::RemoveNodeRoute(*route)))
            }
            Step::RemoveNodeRoute(route) => self.node.remove_node_route(route).map(|()| None),
            Step::AddRoute { link, route } => {
                let netlink = self.netlink(Side::Pod)?;
                // The route goes with the link.
                netlink.add_route(link, netlink.index(link)?, route).map(|_| None)
            }
            Step::SyncCarrier { side, link } => {
                let synced = self.within(*side, || carrier::sync(link))?;
                synced.map(|_| None).map_err(|error| HostError::new("read the carrier of", link, error))
            }
            // Others of the network rely on the rules as soon as they see them, so there is no undo: the last
            // attachment of the network takes them away.
            Step::Masquerade { network, subnets, spared, backend } => {
                masquerade(network, subnets, spared, *backend).map(|()| None)
            }
            // The kernel then announces all addresses, if `arp_notify` and `ndisc_notify` are on (`inetdev_event` in
            // net/ipv4/devinet.c, `ndisc_netdev_event` in net/ipv6/ndisc.c). Doing it ourselves takes a packet
            // socket, and closing one an RCU grace period of some 10 ms.
            Step::Announce { link } => mac::set_again(&self.pod()?.netlink, link).map(|()| None),
        }
    }
}

fn masquerade(
    network: &str,
    subnets: &[IpNetwork],
    spared: &[IpNetwork],
    backend: MasqueradeBackend,
) -> Result<(), HostError> {
    let failed = |error| HostError::new("set", format!("the masquerade rules of network {network}"), error);
    match backend {
        MasqueradeBackend::Nftables => {
            nft::ensure(network, subnets, spared).map(drop).map_err(|error| failed(io::Error::other(error)))
        }
        MasqueradeBackend::Iptables => {
            iptables::ensure(network, subnets, spared).map_err(|error| failed(io::Error::other(error)))
        }
    }
}
