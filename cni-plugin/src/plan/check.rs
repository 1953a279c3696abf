//! What CHECK expects: what every step of an ADD must have left behind.

use std::fmt;

use ipnetwork::IpNetwork;

use super::{
    Addressing, Observed,
    add::{Placement, PlanError, add},
    step::{Side, Step, Sysctl},
};
use crate::{
    cni::types::{CniResult, Interface, Route},
    config::{MasqueradeBackend, Network, NodeRoute},
    state::Record,
};

/// One thing that must hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expectation {
    /// A link is there and up.
    Up(Side, String),
    /// A link has this MAC.
    Mac(Side, String, String),
    /// A link has this MTU, bytes.
    Mtu(Side, String, u32),
    /// A link has at least this MTU, bytes.
    MtuAtLeast(Side, String, u32),
    /// A link of the node is a port of this bridge.
    Port(String, String),
    /// A port sends frames back through where they came from.
    Hairpin(String),
    /// A port is kept from other isolated ports.
    Isolated(String),
    /// What a port sends from another MAC than the pod's is dropped.
    MacChecked(String),
    /// A link of the node is promiscuous.
    Promiscuous(String),
    /// A link has an address.
    Address(Side, String, IpNetwork),
    /// A sysctl has a value.
    Sysctl(Side, Sysctl, String),
    /// The pod has a route through this link.
    Route(String, Route),
    /// There is a way to another node's pods.
    NodeRoute(NodeRoute),
    /// What leaves these subnets is masqueraded.
    Masquerade {
        /// Network the rules are kept for.
        network: String,
        /// Its subnets.
        subnets: Vec<IpNetwork>,
        /// Destinations that see the pods' own addresses.
        spared: Vec<IpNetwork>,
        /// Who keeps the rules.
        backend: MasqueradeBackend,
    },
}

/// What must hold for an attachment, from the configuration, the record of its ADD and the result the runtime kept,
/// in which later plugins may have added and changed things.
///
/// # Errors
/// [`PlanError`], which cannot come of an ADD that succeeded.
pub fn check(
    network: &Network,
    record: &Record,
    previous: &CniResult,
) -> Result<Vec<Expectation>, PlanError> {
    let placement = Placement {
        veth: record.veth.clone(),
        ifname: record.ifname.clone(),
        bridge_mac: Default::default(),
    };
    let addressing = promised(record, previous);
    let steps = add(network, &Observed::default(), &placement, &addressing)?;
    let mut expected = Vec::new();
    steps.into_iter().for_each(|step| left_by(step, &mut expected));
    for (side, name) in
        [(Side::Node, &record.bridge), (Side::Node, &record.veth), (Side::Pod, &record.ifname)]
    {
        let Some(interface) = interface(previous, side, name) else { continue };
        // Where the result says what the link is to have, a later plugin may have had it changed.
        expected.retain(|one| match one {
            Expectation::Mac(s, link, _) => (*s, link) != (side, name) || interface.mac.is_none(),
            Expectation::Mtu(s, link, _) => (*s, link) != (side, name) || interface.mtu.is_none(),
            _ => true,
        });
        expected.extend(interface.mac.clone().map(|mac| Expectation::Mac(side, name.clone(), mac)));
        // The bridge's follows its ports, unless it was asked for.
        if *name != record.bridge {
            expected.extend(interface.mtu.map(|mtu| Expectation::Mtu(side, name.clone(), mtu)));
        }
    }
    Ok(expected)
}

/// What the runtime's result lacks of what the ADD told it, in words.
pub fn lost(record: &Record, previous: &CniResult) -> Vec<String> {
    let mut lost = Vec::new();
    for (side, name) in [(Side::Node, &record.veth), (Side::Pod, &record.ifname)] {
        if interface(previous, side, name).is_none() {
            lost.push(format!("prevResult has no interface {name} of the {side}"));
        }
    }
    let told = |address: &IpNetwork| previous.ips.iter().any(|ip| ip.address == *address);
    let addresses = record.addresses.iter().filter(|address| !told(address));
    lost.extend(addresses.map(|address| format!("prevResult has no address {address}")));
    lost
}

/// The addresses the pod's interface must have, and the routes that the ADD made.
fn promised(record: &Record, previous: &CniResult) -> Addressing {
    let is_ours = |index: usize| {
        previous.interfaces.get(index).is_some_and(|i| i.name == record.ifname && i.sandbox.is_some())
    };
    let ips = previous
        .ips
        .iter()
        .filter(|ip| record.addresses.contains(&ip.address) || ip.interface.is_some_and(is_ours));
    Addressing { ips: ips.cloned().collect(), routes: record.routes.clone() }
}

fn interface<'a>(previous: &'a CniResult, side: Side, name: &str) -> Option<&'a Interface> {
    previous.interfaces.iter().find(|i| i.name == name && i.sandbox.is_some() == (side == Side::Pod))
}

pub(super) fn left_by(step: Step, expected: &mut Vec<Expectation>) {
    match step {
        Step::SetUp { side, link, up: true } => expected.push(Expectation::Up(side, link)),
        // Others may have raised the bridge's for pods of their own.
        Step::SetMtu { side, link, mtu } => expected.push(Expectation::MtuAtLeast(side, link, mtu)),
        Step::SetPromiscuous { link, on: true } => expected.push(Expectation::Promiscuous(link)),
        Step::AddAddress { side, link, address, .. } => expected.push(Expectation::Address(side, link, address)),
        // The pod's own are its business, and that of plugins such as tuning.
        Step::SetSysctl { side: Side::Node, sysctl, value } => {
            // Those of the bridge are set only by the ADD that made it.
            if matches!(sysctl, Sysctl::Ipv4Forwarding | Sysctl::Ipv6Forwarding) {
                expected.push(Expectation::Sysctl(Side::Node, sysctl, value));
            }
        }
        Step::CreateVeth { host, pod, mac, mtu, bridge } => {
            expected.push(Expectation::Up(Side::Node, host.clone()));
            expected.push(Expectation::Port(host.clone(), bridge));
            expected.extend(mac.map(|mac| Expectation::Mac(Side::Pod, pod.clone(), format_mac(mac))));
            for (side, link) in [(Side::Node, host), (Side::Pod, pod)] {
                expected.extend(mtu.map(|mtu| Expectation::Mtu(side, link, mtu)));
            }
        }
        Step::JoinBridge { link, bridge } => expected.push(Expectation::Port(link, bridge)),
        Step::SetHairpin { link } => expected.push(Expectation::Hairpin(link)),
        Step::AddRoute { link, route } => expected.push(Expectation::Route(link, route)),
        Step::SetIsolated { link } => expected.push(Expectation::Isolated(link)),
        Step::CheckMac { port, .. } => expected.push(Expectation::MacChecked(port)),
        Step::AddNodeRoute(route) => expected.push(Expectation::NodeRoute(route)),
        Step::Masquerade { network, subnets, spared, backend } => {
            expected.push(Expectation::Masquerade { network, subnets, spared, backend });
        }
        Step::CreateBridge { .. }
        | Step::PinMac { .. }
        | Step::SetUp { up: false, .. }
        | Step::SetPromiscuous { on: false, .. }
        | Step::SetSysctl { side: Side::Pod, .. }
        | Step::RemoveAddress { .. }
        | Step::AwaitAddresses { .. }
        | Step::ForgetMac { .. }
        | Step::RemoveNodeRoute(_)
        // Reading VLANs back is not implemented.
        | Step::FilterVlans { .. }
        | Step::AddVlan { .. }
        | Step::RemoveVlan { .. }
        | Step::DeleteLink { .. }
        | Step::SyncCarrier { .. }
        | Step::Announce { .. } => {}
    }
}

/// A MAC as results have it.
pub fn format_mac(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

impl fmt::Display for Expectation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Up(side, link) => write!(f, "link {link} of the {side} up"),
            Self::Mac(side, link, mac) => write!(f, "MAC {mac} on link {link} of the {side}"),
            Self::Mtu(side, link, mtu) => write!(f, "MTU {mtu} on link {link} of the {side}"),
            Self::MtuAtLeast(side, link, mtu) => write!(f, "MTU {mtu} or more on link {link} of the {side}"),
            Self::Port(link, bridge) => write!(f, "link {link} a port of bridge {bridge}"),
            Self::Hairpin(link) => write!(f, "hairpin mode on port {link}"),
            Self::Isolated(link) => write!(f, "port {link} isolated"),
            Self::MacChecked(link) => write!(f, "a check of the MACs of port {link}"),
            Self::NodeRoute(route) => write!(f, "route to {} via {} on the node", route.pods, route.via),
            Self::Promiscuous(link) => write!(f, "link {link} promiscuous"),
            Self::Address(side, link, address) => {
                write!(f, "address {address} on link {link} of the {side}")
            }
            Self::Sysctl(side, sysctl, value) => write!(f, "sysctl {sysctl} = {value} of the {side}"),
            Self::Route(link, route) => match route.gw {
                Some(gw) => write!(f, "route to {} via {gw} on {link}", route.dst),
                None => write!(f, "route to {} on {link}", route.dst),
            },
            Self::Masquerade { network, subnets, .. } => {
                let subnets: Vec<String> = subnets.iter().map(ToString::to_string).collect();
                write!(f, "masquerade rules of network {network} for {}", subnets.join(", "))
            }
        }
    }
}

#[cfg(test)]
mod tests;
