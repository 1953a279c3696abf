//! The plan of an ADD.

use ipnetwork::IpNetwork;

use super::{
    Addressing, Observed, pod,
    step::{Side, Step, Sysctl},
};
use crate::config::{Gateway, Network};

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

/// Why there is no plan.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum PlanError {
    /// An address that is in the way.
    #[error(
        "{link} already has the address {found}, which is not the gateway {wanted} of this network; \
         remove it, or set forceAddress"
    )]
    AddressConflict {
        /// The link that is to have the gateway's address, such as the bridge.
        link: String,
        /// Its address.
        found: IpNetwork,
        /// The gateway.
        wanted: IpNetwork,
    },
    /// There can be no IPv6 address.
    #[error("the gateway {wanted} cannot be given to {link}: {why}; enable IPv6, or remove the IPv6 range")]
    NoIpv6 {
        /// The link that is to have it, such as the bridge.
        link: String,
        /// The gateway.
        wanted: IpNetwork,
        /// What forbids it.
        why: &'static str,
    },
}

/// The steps of an ADD, in order.
///
/// # Errors
/// See [`PlanError`]; nothing has been touched then.
pub fn add(
    network: &Network,
    observed: &Observed,
    placement: &Placement,
    addressing: &Addressing,
) -> Result<Vec<Step>, PlanError> {
    let mut steps = Vec::with_capacity(24);
    bridge(network, observed, placement, &mut steps);
    gateway(network, observed, addressing, &mut steps)?;
    masquerade(network, addressing, &mut steps);
    pod::pod(network, observed, placement, addressing, &mut steps);
    Ok(steps)
}

fn bridge(network: &Network, observed: &Observed, placement: &Placement, steps: &mut Vec<Step>) {
    let link = network.bridge.clone();
    match &observed.bridge {
        None => {
            steps.push(Step::CreateBridge { name: link.clone(), mac: placement.bridge_mac });
        }
        // One that somebody else made may still follow its ports' MACs.
        Some(_) => steps.push(Step::PinMac { link: link.clone() }),
    }
    // Its routes are ours to make, not a pod's (CVE-2020-10749).
    let sysctl = Sysctl::AcceptRa(link.clone());
    steps.push(Step::SetSysctl { side: Side::Node, sysctl, value: "0".into() });
    let present = observed.bridge.as_ref().map_or(0, |bridge| bridge.mtu);
    if let Some(mtu) = network.mtu.filter(|&mtu| mtu > present) {
        steps.push(Step::SetMtu { side: Side::Node, link: link.clone(), mtu });
    }
    steps.push(Step::SetUp { side: Side::Node, link: link.clone(), up: true });
    if network.promiscuous {
        steps.push(Step::SetPromiscuous { link: link.clone(), on: true });
    }
    if network.vlans.is_some() {
        steps.push(Step::FilterVlans { link });
    }
}

fn gateway(
    network: &Network,
    observed: &Observed,
    addressing: &Addressing,
    steps: &mut Vec<Step>,
) -> Result<(), PlanError> {
    if network.gateway == Gateway::None {
        return Ok(());
    }
    if !addressing.ips.is_empty() {
        pod::vlan_gateway(network, steps);
    }
    let present = &observed.gateway_addresses;
    let link = || network.gateway_link().to_owned();
    for ip in &addressing.ips {
        let Some(gateway) = ip.gateway else { continue };
        let Ok(wanted) = IpNetwork::new(gateway, ip.address.prefix()) else { continue };
        // Before the address: the kernel joins its anycast address twice if forwarding comes between the address and
        // the end of its duplicate address detection, and leaves it once (net/ipv6/addrconf.c).
        let sysctl = if gateway.is_ipv4() { Sysctl::Ipv4Forwarding } else { Sysctl::Ipv6Forwarding };
        let set = Step::SetSysctl { side: Side::Node, sysctl, value: "1".into() };
        if !steps.contains(&set) {
            steps.push(set);
        }
        if !present.contains(&wanted) {
            if let Some(why) = observed.no_ipv6.filter(|_| wanted.is_ipv6()) {
                return Err(PlanError::NoIpv6 { link: link(), wanted, why });
            }
            for &found in present.iter().filter(|found| conflicts(found, &wanted)) {
                if !network.force_address {
                    return Err(PlanError::AddressConflict { link: link(), found, wanted });
                }
                steps.push(Step::RemoveAddress { side: Side::Node, link: link(), address: found });
            }
            steps.push(Step::AddAddress {
                side: Side::Node,
                link: link(),
                address: wanted,
                detect_duplicates: false,
            });
        }
    }
    Ok(())
}

/// Any other IPv4 address of the link is in the way, as in the reference; IPv6 addresses may be many,
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

/// The ways to other nodes, and what is masqueraded on its way to anywhere else.
fn masquerade(network: &Network, addressing: &Addressing, steps: &mut Vec<Step>) {
    steps.extend(network.node_routes.iter().copied().map(Step::AddNodeRoute));
    if network.ip_masq && !addressing.ips.is_empty() {
        steps.push(Step::Masquerade {
            network: network.name.clone(),
            subnets: subnets(addressing),
            spared: network.node_routes.iter().map(|route| route.pods).collect(),
            backend: network.masquerade_backend,
        });
    }
}

/// The subnets of the addresses, in order, each once.
pub fn subnets(addressing: &Addressing) -> Vec<IpNetwork> {
    // The prefix was valid for the address, so it is for the network.
    let of = |address: &IpNetwork| IpNetwork::new(address.network(), address.prefix()).unwrap_or(*address);
    let mut subnets: Vec<IpNetwork> = addressing.ips.iter().map(|ip| of(&ip.address)).collect();
    subnets.sort();
    subnets.dedup();
    subnets
}
