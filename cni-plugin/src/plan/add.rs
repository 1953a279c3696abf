//! The plan of an ADD.

use ipnetwork::IpNetwork;

use super::step::{Side, Step, Sysctl};
use crate::{
    cni::types::{Ip, Route},
    config::{Gateway, Network},
};

/// The bridge as it is before the ADD; `None` if there is none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Observed {
    /// Its addresses, if it exists.
    pub bridge: Option<Vec<IpNetwork>>,
}

/// Names and addresses decided before planning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    /// Host end of the veth.
    pub veth: String,
    /// Interface in the pod.
    pub ifname: String,
    /// MAC for a bridge that is yet to be made.
    pub bridge_mac: [u8; 6],
}

/// What the IPAM leased.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Addressing {
    /// Addresses, each with its gateway if it has one.
    pub ips: Vec<Ip>,
    /// Routes asked for.
    pub routes: Vec<Route>,
}

/// A bridge address that is in the way.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "bridge {bridge} already has the address {found}, which is not the gateway {wanted} of this network; \
     remove it, or set forceAddress"
)]
pub struct AddressConflict {
    bridge: String,
    found: IpNetwork,
    wanted: IpNetwork,
}

/// The steps of an ADD, in order.
///
/// # Errors
/// [`AddressConflict`], the only thing that observing can find wrong.
pub fn add(
    network: &Network,
    observed: &Observed,
    placement: &Placement,
    addressing: &Addressing,
) -> Result<Vec<Step>, AddressConflict> {
    let mut steps = Vec::with_capacity(24);
    bridge(network, observed, placement, &mut steps);
    gateway(network, observed, addressing, &mut steps)?;
    masquerade(network, addressing, &mut steps);
    pod(network, placement, addressing, &mut steps);
    Ok(steps)
}

fn bridge(network: &Network, observed: &Observed, placement: &Placement, steps: &mut Vec<Step>) {
    let link = network.bridge.clone();
    if observed.bridge.is_none() {
        steps.push(Step::CreateBridge { name: link.clone(), mac: placement.bridge_mac });
        if let Some(mtu) = network.mtu {
            steps.push(Step::SetMtu { side: Side::Node, link: link.clone(), mtu });
        }
    }
    steps.push(Step::SetUp { side: Side::Node, link: link.clone(), up: true });
    if network.promiscuous {
        steps.push(Step::SetPromiscuous { link, on: true });
    }
}

fn gateway(
    network: &Network,
    observed: &Observed,
    addressing: &Addressing,
    steps: &mut Vec<Step>,
) -> Result<(), AddressConflict> {
    if network.gateway == Gateway::None {
        return Ok(());
    }
    let present = observed.bridge.as_deref().unwrap_or_default();
    let link = || network.bridge.clone();
    for ip in &addressing.ips {
        let Some(gateway) = ip.gateway else { continue };
        let Ok(wanted) = IpNetwork::new(gateway, ip.address.prefix()) else { continue };
        if !present.contains(&wanted) {
            for &found in present.iter().filter(|found| conflicts(found, &wanted)) {
                if !network.force_address {
                    return Err(AddressConflict { bridge: link(), found, wanted });
                }
                steps.push(Step::RemoveAddress { side: Side::Node, link: link(), address: found });
            }
            steps.push(Step::AddAddress { side: Side::Node, link: link(), address: wanted });
        }
        let sysctl = if gateway.is_ipv4() { Sysctl::Ipv4Forwarding } else { Sysctl::Ipv6Forwarding };
        let set = Step::SetSysctl { side: Side::Node, sysctl, value: "1".into() };
        if !steps.contains(&set) {
            steps.push(set);
        }
    }
    Ok(())
}

/// Any other IPv4 address of the bridge is in the way, as in the reference; IPv6 addresses may be many,
/// so there only those of the same subnet are.
fn conflicts(found: &IpNetwork, wanted: &IpNetwork) -> bool {
    match (found, wanted) {
        (IpNetwork::V4(_), IpNetwork::V4(_)) => true,
        (IpNetwork::V6(found), IpNetwork::V6(wanted)) => {
            found.contains(wanted.ip()) || wanted.contains(found.ip())
        }
        _ => false,
    }
}

fn masquerade(network: &Network, addressing: &Addressing, steps: &mut Vec<Step>) {
    if network.ip_masq && !addressing.ips.is_empty() {
        let mut subnets: Vec<IpNetwork> = addressing.ips.iter().map(|ip| subnet(&ip.address)).collect();
        subnets.sort();
        subnets.dedup();
        steps.push(Step::Masquerade { network: network.name.clone(), subnets });
    }
}

/// The network an address is in.
fn subnet(address: &IpNetwork) -> IpNetwork {
    // The prefix was valid for the address, so it is for the network.
    IpNetwork::new(address.network(), address.prefix()).unwrap_or(*address)
}

fn pod(network: &Network, placement: &Placement, addressing: &Addressing, steps: &mut Vec<Step>) {
    let link = || placement.ifname.clone();
    let up = |link: String| Step::SetUp { side: Side::Pod, link, up: true };
    steps.push(Step::CreateVeth {
        host: placement.veth.clone(),
        pod: link(),
        mac: network.mac,
        mtu: network.mtu,
        bridge: network.bridge.clone(),
    });
    if network.hairpin {
        steps.push(Step::SetHairpin { link: placement.veth.clone() });
    }
    // Before the link is up: a router's advertisement must not add to what IPAM decided (plugins#160). And as
    // neighbours may know another owner of the addresses, they are announced now and whenever the MAC changes.
    let mut sysctls = vec![(Sysctl::AcceptRa(link()), "0"), (Sysctl::ArpNotify(link()), "1")];
    sysctls.push((Sysctl::NdiscNotify(link()), "1"));
    if addressing.ips.iter().any(|ip| ip.address.is_ipv6()) {
        // Some runtimes start containers with IPv6 disabled.
        sysctls.push((Sysctl::DisableIpv6(link()), "0"));
    }
    for (sysctl, value) in sysctls {
        steps.push(Step::SetSysctl { side: Side::Pod, sysctl, value: value.into() });
    }
    steps.push(up("lo".into()));
    steps.push(up(link()));
    for ip in &addressing.ips {
        steps.push(Step::AddAddress { side: Side::Pod, link: link(), address: ip.address });
    }
    for route in routes(network, addressing) {
        steps.push(Step::AddRoute { link: link(), route });
    }
    // In this order: the port forwards as soon as its own state is known, the bridge follows its ports.
    steps.push(Step::SyncCarrier { side: Side::Pod, link: link() });
    steps.push(Step::SyncCarrier { side: Side::Node, link: placement.veth.clone() });
    steps.push(Step::SyncCarrier { side: Side::Node, link: network.bridge.clone() });
    steps.push(Step::Announce { link: link() });
}

/// The pod's routes: those asked for, with the gateway of their family where they name none, and the default
/// routes of `isDefaultGateway` unless IPAM asked for the same.
pub fn routes(network: &Network, addressing: &Addressing) -> Vec<Route> {
    let gateway = |v4: bool| addressing.ips.iter().filter_map(|ip| ip.gateway).find(|gw| gw.is_ipv4() == v4);
    let mut routes: Vec<Route> = Vec::new();
    for asked in &addressing.routes {
        let mut route = asked.clone();
        route.gw = route.gw.or_else(|| gateway(route.dst.is_ipv4()));
        if !routes.contains(&route) {
            routes.push(route);
        }
    }
    if network.gateway == Gateway::DefaultRoute {
        for (v4, everything) in [(true, "0.0.0.0/0"), (false, "::/0")] {
            let (Some(gw), Ok(dst)) = (gateway(v4), everything.parse::<IpNetwork>()) else { continue };
            if !routes.iter().any(|route| route.dst == dst && route.table.is_none()) {
                let default = Route {
                    dst,
                    gw: Some(gw),
                    mtu: None,
                    advmss: None,
                    priority: None,
                    table: None,
                    scope: None,
                };
                routes.push(default);
            }
        }
    }
    routes
}
