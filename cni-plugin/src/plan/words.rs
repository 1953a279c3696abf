//! Steps in words, for people.

use std::fmt;

use ipnetwork::IpNetwork;

use super::{check::format_mac, step::Step};

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CreateBridge { name, .. } => write!(f, "create bridge {name} with a MAC of its own"),
            Self::SetMtu { side, link, mtu } => write!(f, "set the MTU of {link} of the {side} to {mtu}"),
            Self::PinMac { link } => write!(f, "make {link} keep its MAC"),
            Self::SetUp { side, link, up } => {
                write!(f, "set {link} of the {side} {}", if *up { "up" } else { "down" })
            }
            Self::SetPromiscuous { link, on } => {
                write!(f, "set {link} {}promiscuous", if *on { "" } else { "not " })
            }
            Self::AddAddress { side, link, address, .. } => {
                write!(f, "add address {address} to {link} of the {side}")
            }
            Self::AwaitAddresses { link } => {
                write!(f, "wait until the addresses of {link} have passed duplicate address detection")
            }
            Self::RemoveAddress { side, link, address } => {
                write!(f, "remove address {address} from {link} of the {side}")
            }
            Self::SetSysctl { side, sysctl, value } => write!(f, "set {sysctl} of the {side} to {value}"),
            Self::CreateVeth { host, pod, mac, mtu, bridge } => {
                write!(f, "create veth {host}, a port of {bridge}, with peer {pod} in the pod")?;
                mac.map_or(Ok(()), |mac| write!(f, ", MAC {}", format_mac(mac)))?;
                mtu.map_or(Ok(()), |mtu| write!(f, ", MTU {mtu}"))
            }
            Self::JoinBridge { link, bridge } => write!(f, "make {link} a port of {bridge}"),
            Self::DeleteLink { name } => write!(f, "delete link {name}"),
            Self::AddNodeRoute(route) => {
                write!(f, "add a route of the node to {} via {}", route.pods, route.via)
            }
            Self::RemoveNodeRoute(route) => {
                write!(f, "remove the route of the node to {} via {}", route.pods, route.via)
            }
            Self::AddRoute { link, route } => {
                write!(f, "add a route of the pod to {}", route.dst)?;
                route.gw.map_or(Ok(()), |gw| write!(f, " via {gw}"))?;
                write!(f, " on {link}")?;
                route.priority.map_or(Ok(()), |metric| write!(f, " with metric {metric}"))
            }
            Self::SyncCarrier { side, link } => write!(f, "make the carrier of {link} of the {side} known"),
            Self::Masquerade { network, subnets, spared, .. } => {
                write!(f, "masquerade what leaves {} of network {network}", list(subnets))?;
                if spared.is_empty() { Ok(()) } else { write!(f, ", but not to {}", list(spared)) }
            }
            Self::Announce { link } => write!(f, "announce the addresses of {link} to its neighbours"),
            of_port => of_port.of_port(f),
        }
    }
}

impl Step {
    /// Steps that concern a port of the bridge beyond its being one.
    fn of_port(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SetHairpin { link } => write!(f, "let {link} get back what it sends"),
            Self::SetIsolated { link } => write!(f, "isolate {link} from other isolated ports"),
            Self::CheckMac { port, link } => {
                write!(f, "drop what {port} sends from another MAC than {link}'s")
            }
            Self::ForgetMac { port } => write!(f, "let {port} send from any MAC"),
            Self::FilterVlans { link } => write!(f, "make {link} tell VLANs apart"),
            Self::AddVlan { link, vlan, access: true } => write!(f, "make VLAN {vlan} that of {link}"),
            Self::AddVlan { link, vlan, access: false } => {
                write!(f, "let VLAN {vlan} through {link}, tagged")
            }
            Self::RemoveVlan { link, vlan } => write!(f, "let VLAN {vlan} through {link} no more"),
            _ => Ok(()),
        }
    }
}

fn list(subnets: &[IpNetwork]) -> String {
    subnets.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
