//! The pod's part of an ADD: its veth, the port of the bridge, what is inside.

use std::hash::Hasher;

use fnv::FnvHasher;

use super::{
    Addressing, Observed, Placement,
    step::{Side, Step, Sysctl},
};
use crate::config::{Network, Vlans};

/// The VLAN of ports that nobody has given another (`default_pvid` of a bridge).
pub const DEFAULT_VLAN: u16 = 1;

pub(super) fn pod(
    network: &Network,
    observed: &Observed,
    placement: &Placement,
    addressing: &Addressing,
    steps: &mut Vec<Step>,
) {
    let link = || placement.ifname.clone();
    steps.push(Step::CreateVeth {
        host: placement.veth.clone(),
        pod: link(),
        mac: network.mac,
        // What is longer than the bridge's MTU would vanish there (plugins#352).
        mtu: network.mtu.or_else(|| observed.bridge.as_ref().map(|bridge| bridge.mtu)),
        bridge: network.bridge.clone(),
    });
    port(network, placement, steps);
    sysctls(network, placement, addressing, steps);
    // Announcing is for IPAM's addresses: nobody knows the pod's link-local one yet, and each packet of it would go to
    // every port of the bridge. So without an IPv6 address of theirs this is only for later changes of the MAC.
    let notify = Step::SetSysctl { side: Side::Pod, sysctl: Sysctl::NdiscNotify(link()), value: "1".into() };
    let up = |link: String| Step::SetUp { side: Side::Pod, link, up: true };
    steps.push(up("lo".into()));
    if network.container_interface_down {
        steps.push(notify);
        return;
    }
    steps.push(up(link()));
    let detect_duplicates = network.detect_duplicates;
    for ip in &addressing.ips {
        let address = ip.address;
        steps.push(Step::AddAddress { side: Side::Pod, link: link(), address, detect_duplicates });
    }
    for route in &addressing.routes {
        steps.push(Step::AddRoute { link: link(), route: route.clone() });
    }
    // In this order: the port forwards as soon as its own state is known, the bridge follows its ports.
    steps.push(Step::SyncCarrier { side: Side::Pod, link: link() });
    steps.push(Step::SyncCarrier { side: Side::Node, link: placement.veth.clone() });
    steps.push(Step::SyncCarrier { side: Side::Node, link: network.bridge.clone() });
    let has_ipv6 = addressing.ips.iter().any(|ip| ip.address.is_ipv6());
    if detect_duplicates && has_ipv6 {
        steps.push(Step::AwaitAddresses { link: link() });
    }
    let announce = Step::Announce { link: link() };
    steps.extend(if has_ipv6 { [notify, announce] } else { [announce, notify] });
}

fn port(network: &Network, placement: &Placement, steps: &mut Vec<Step>) {
    let port = || placement.veth.clone();
    let sysctl = Sysctl::AcceptRa(port());
    steps.push(Step::SetSysctl { side: Side::Node, sysctl, value: "0".into() });
    if network.hairpin {
        steps.push(Step::SetHairpin { link: port() });
    }
    if network.isolated {
        steps.push(Step::SetIsolated { link: port() });
    }
    if network.mac_spoof_check {
        steps.push(Step::CheckMac { port: port(), link: placement.ifname.clone() });
    }
    if let Some(vlans) = &network.vlans {
        self::vlans(vlans, &port(), steps);
    }
}

fn vlans(vlans: &Vlans, port: &str, steps: &mut Vec<Step>) {
    let link = || port.to_owned();
    if !vlans.keep_default && (vlans.access.is_some() || !vlans.trunk.is_empty()) {
        steps.push(Step::RemoveVlan { link: link(), vlan: DEFAULT_VLAN });
    }
    steps.extend(vlans.access.map(|vlan| Step::AddVlan { link: link(), vlan, access: true }));
    steps.extend(vlans.trunk.iter().map(|&vlan| Step::AddVlan { link: link(), vlan, access: false }));
}

/// The link of the node inside the pod's own VLAN that is to have the gateway's address.
pub(super) fn vlan_gateway(network: &Network, steps: &mut Vec<Step>) {
    let (Some(link), Some(vlans)) = (&network.vlan_gateway, &network.vlans) else { return };
    let Some(vlan) = vlans.access else { return };
    let (link, bridge) = (link.clone(), network.bridge.clone());
    let (port, keep_default) = (inner_port(&link), vlans.keep_default);
    steps.push(Step::CreateInner { link: link.clone(), port, bridge, vlan, keep_default });
    // As for the bridge.
    let sysctl = Sysctl::AcceptRa(link);
    steps.push(Step::SetSysctl { side: Side::Node, sysctl, value: "0".into() });
}

/// Name of the other end of a link inside a VLAN: 15 characters, as IFNAMSIZ allows, and no pod's veth.
fn inner_port(link: &str) -> String {
    let mut hasher = FnvHasher::default();
    hasher.write(link.as_bytes());
    format!("vlan{:011x}", hasher.finish() & 0xfff_ffff_ffff)
}

/// Before the link is up: a router's advertisement must not add to what IPAM decided (plugins#160). And as
/// neighbours may know another owner of the addresses, they are announced now and whenever the MAC changes.
fn sysctls(network: &Network, placement: &Placement, addressing: &Addressing, steps: &mut Vec<Step>) {
    let link = || placement.ifname.clone();
    let mut sysctls = vec![(Sysctl::AcceptRa(link()), "0"), (Sysctl::ArpNotify(link()), "1")];
    // Not for IPAM's addresses only: the link-local one, too, is tentative for a second or two otherwise.
    sysctls.push((Sysctl::AcceptDad(link()), if network.detect_duplicates { "1" } else { "0" }));
    if addressing.ips.iter().any(|ip| ip.address.is_ipv6()) {
        // Some runtimes start containers with IPv6 disabled.
        sysctls.push((Sysctl::DisableIpv6(link()), "0"));
    }
    for (sysctl, value) in sysctls {
        steps.push(Step::SetSysctl { side: Side::Pod, sysctl, value: value.into() });
    }
}
