//! The vocabulary of plans.

use std::fmt;

use ipnetwork::IpNetwork;

use crate::{
    cni::types::Route,
    config::{MasqueradeBackend, NodeRoute},
};

/// Which network namespace a step works in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// The host's.
    Node,
    /// The container's.
    Pod,
}

/// A sysctl under `/proc/sys/net`, named so that no text from outside becomes a path unchecked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sysctl {
    /// `ipv4/ip_forward`.
    Ipv4Forwarding,
    /// `ipv6/conf/all/forwarding`.
    Ipv6Forwarding,
    /// `ipv6/conf/<link>/accept_ra`.
    AcceptRa(String),
    /// `ipv6/conf/<link>/accept_dad`.
    AcceptDad(String),
    /// `ipv6/conf/<link>/disable_ipv6`.
    DisableIpv6(String),
    /// `ipv4/conf/<link>/arp_notify`.
    ArpNotify(String),
    /// `ipv6/conf/<link>/ndisc_notify`.
    NdiscNotify(String),
    /// `netfilter/nf_conntrack_tcp_be_liberal`.
    ConntrackLiberal,
    /// `netfilter/nf_conntrack_tcp_timeout_established`, seconds.
    ConntrackEstablished,
    /// `netfilter/nf_conntrack_tcp_timeout_unacknowledged`, seconds.
    ConntrackUnacknowledged,
}

impl fmt::Display for Sysctl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ipv4Forwarding => f.write_str("net.ipv4.ip_forward"),
            Self::Ipv6Forwarding => f.write_str("net.ipv6.conf.all.forwarding"),
            Self::AcceptRa(link) => write!(f, "net.ipv6.conf.{link}.accept_ra"),
            Self::DisableIpv6(link) => write!(f, "net.ipv6.conf.{link}.disable_ipv6"),
            Self::AcceptDad(link) => write!(f, "net.ipv6.conf.{link}.accept_dad"),
            Self::ArpNotify(link) => write!(f, "net.ipv4.conf.{link}.arp_notify"),
            Self::NdiscNotify(link) => write!(f, "net.ipv6.conf.{link}.ndisc_notify"),
            Self::ConntrackLiberal => f.write_str("net.netfilter.nf_conntrack_tcp_be_liberal"),
            Self::ConntrackEstablished => f.write_str("net.netfilter.nf_conntrack_tcp_timeout_established"),
            Self::ConntrackUnacknowledged => {
                f.write_str("net.netfilter.nf_conntrack_tcp_timeout_unacknowledged")
            }
        }
    }
}

/// One change, and by its inverse one undo.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Make a bridge; that it exists already is fine.
    CreateBridge {
        /// Name.
        name: String,
        /// MAC, set at once so that it never follows the ports.
        mac: [u8; 6],
    },
    /// Set a link's MTU, bytes.
    SetMtu {
        /// Where.
        side: Side,
        /// Link.
        link: String,
        /// MTU.
        mtu: u32,
    },
    /// Give a bridge the MAC it has, which it then keeps whatever ports come and go.
    PinMac {
        /// Bridge.
        link: String,
    },
    /// Set a link administratively up or down.
    SetUp {
        /// Where.
        side: Side,
        /// Link.
        link: String,
        /// Up or down.
        up: bool,
    },
    /// Set a link promiscuous or not.
    SetPromiscuous {
        /// Link on the node.
        link: String,
        /// On or off.
        on: bool,
    },
    /// Add an address; that it is there already is fine.
    AddAddress {
        /// Where.
        side: Side,
        /// Link.
        link: String,
        /// Address and prefix length.
        address: IpNetwork,
        /// Whether an IPv6 address is to pass duplicate address detection first.
        detect_duplicates: bool,
    },
    /// Wait until all IPv6 addresses have passed duplicate address detection; that one has not is a failure.
    AwaitAddresses {
        /// Link in the pod.
        link: String,
    },
    /// Remove an address; that it is gone is fine.
    RemoveAddress {
        /// Where.
        side: Side,
        /// Link.
        link: String,
        /// Address and prefix length.
        address: IpNetwork,
    },
    /// Write a sysctl.
    SetSysctl {
        /// Where.
        side: Side,
        /// Which.
        sysctl: Sysctl,
        /// Value.
        value: String,
    },
    /// Make a veth pair: the host end a port of the bridge and up, the pod end in the pod's namespace.
    CreateVeth {
        /// Host end.
        host: String,
        /// Pod end.
        pod: String,
        /// MAC of the pod end, or the kernel's choice.
        mac: Option<[u8; 6]>,
        /// MTU of both ends, bytes, or the kernel's default.
        mtu: Option<u32>,
        /// Bridge.
        bridge: String,
    },
    /// Make a link of the node inside a VLAN of the bridge: a veth pair whose other end is a port. That it exists
    /// already is fine, whoever made it.
    CreateInner {
        /// The end that is no port.
        link: String,
        /// The port.
        port: String,
        /// Bridge, whose MTU both ends get.
        bridge: String,
        /// VLAN, untagged.
        vlan: u16,
        /// The port stays in the default VLAN, too.
        keep_default: bool,
    },
    /// Make a link of the node a port of a bridge.
    JoinBridge {
        /// Link.
        link: String,
        /// Bridge.
        bridge: String,
    },
    /// Delete a link; that it is gone is fine.
    DeleteLink {
        /// Link on the node.
        name: String,
    },
    /// Let the bridge send frames back through the port they came from.
    SetHairpin {
        /// Port.
        link: String,
    },
    /// Keep a port from other isolated ports of its bridge.
    SetIsolated {
        /// Port.
        link: String,
    },
    /// Drop what a pod sends from another MAC than its own.
    CheckMac {
        /// Port of the bridge.
        port: String,
        /// Link in the pod, whose MAC it is.
        link: String,
    },
    /// Undo that; that it is undone already is fine.
    ForgetMac {
        /// Port of the bridge.
        port: String,
    },
    /// Make a bridge tell VLANs apart.
    FilterVlans {
        /// Bridge.
        link: String,
    },
    /// Let a VLAN through a port; that it is let through already is fine.
    AddVlan {
        /// Port of the bridge.
        link: String,
        /// VLAN.
        vlan: u16,
        /// It is the port's own: untagged.
        access: bool,
    },
    /// Let a VLAN through a port no more; that it is not let through already is fine.
    RemoveVlan {
        /// Port of the bridge.
        link: String,
        /// VLAN.
        vlan: u16,
    },
    /// Make the way to another node's pods, or change it.
    AddNodeRoute(NodeRoute),
    /// Take such a way away; that it is gone is fine.
    RemoveNodeRoute(NodeRoute),
    /// Add a route in the pod; that it is there already is fine.
    AddRoute {
        /// Link in the pod.
        link: String,
        /// Route, with its gateway filled in.
        route: Route,
    },
    /// Make link state changes take effect now rather than when the kernel's link watch gets to them.
    SyncCarrier {
        /// Where.
        side: Side,
        /// Link.
        link: String,
    },
    /// Masquerade what leaves these subnets.
    Masquerade {
        /// Network the rules are kept for.
        network: String,
        /// Its subnets.
        subnets: Vec<IpNetwork>,
        /// Destinations that are to see the pods' own addresses.
        spared: Vec<IpNetwork>,
        /// Who keeps the rules.
        backend: MasqueradeBackend,
    },
    /// Tell the neighbours of the pod's link who has its addresses (RFC 5227, RFC 4861 section 7.2.6).
    Announce {
        /// Link in the pod.
        link: String,
    },
}

impl Step {
    /// True for what makes earlier steps take effect, and so is done again after further ones.
    pub fn is_repeatable(&self) -> bool {
        matches!(self, Self::SyncCarrier { .. } | Self::Announce { .. })
    }

    /// True for what brings the link in the pod up.
    pub fn starts(&self, ifname: &str) -> bool {
        matches!(self, Self::SetUp { side: Side::Pod, link, up: true } if link == ifname)
    }

    /// True for what other attachments rely on as soon as they see it, so that only the last one out may undo it.
    pub fn is_shared(&self) -> bool {
        match self {
            Self::CreateBridge { .. }
            | Self::CreateInner { .. }
            | Self::PinMac { .. }
            | Self::SetPromiscuous { .. }
            | Self::FilterVlans { .. }
            | Self::AddNodeRoute(_)
            | Self::RemoveNodeRoute(_)
            | Self::Masquerade { .. } => true,
            Self::SetMtu { side, .. }
            | Self::SetUp { side, .. }
            | Self::AddAddress { side, .. }
            | Self::RemoveAddress { side, .. }
            | Self::SetSysctl { side, .. } => *side == Side::Node,
            Self::DeleteLink { .. }
            | Self::CreateVeth { .. }
            | Self::JoinBridge { .. }
            | Self::SetHairpin { .. }
            | Self::SetIsolated { .. }
            | Self::CheckMac { .. }
            | Self::ForgetMac { .. }
            | Self::AddVlan { .. }
            | Self::RemoveVlan { .. }
            | Self::AwaitAddresses { .. }
            | Self::AddRoute { .. }
            | Self::SyncCarrier { .. }
            | Self::Announce { .. } => false,
        }
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Node => "node",
            Self::Pod => "pod",
        })
    }
}
