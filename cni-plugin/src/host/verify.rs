//! Comparing what CHECK expects with what the kernel has.

use std::io;

use super::{HostError, LinuxHost, iptables, netlink::Link, nft};
use crate::{
    cni::types::Route,
    config::MasqueradeBackend,
    plan::{Expectation, Side, format_mac},
};

/// What is there instead of what was expected, in a word or two.
pub type Found = String;

impl LinuxHost {
    /// Looks whether an expectation holds; if not, says what is there instead.
    pub fn verify(&mut self, expected: &Expectation) -> Result<Option<Found>, HostError> {
        match expected {
            Expectation::Up(side, name) => self.link_is(*side, name, |link| (link.up, "down".into())),
            Expectation::Mac(side, name, mac) => self.link_is(*side, name, |link| {
                let found = link.mac.map(format_mac).unwrap_or_default();
                (found.eq_ignore_ascii_case(mac), found)
            }),
            Expectation::Mtu(side, name, mtu) => {
                self.link_is(*side, name, |link| (link.mtu == *mtu, link.mtu.to_string()))
            }
            Expectation::MtuAtLeast(side, name, mtu) => {
                self.link_is(*side, name, |link| (link.mtu >= *mtu, link.mtu.to_string()))
            }
            Expectation::Promiscuous(name) => {
                self.link_is(Side::Node, name, |link| (link.promiscuous, "not promiscuous".into()))
            }
            Expectation::Hairpin(name) => self.link_is(Side::Node, name, |link| (link.hairpin, "off".into())),
            Expectation::Port(name, bridge) => {
                let bridge = self.link(Side::Node, bridge)?.map(|link| link.index);
                self.link_is(Side::Node, name, |link| {
                    (link.controller.is_some() && link.controller == bridge, "not its port".into())
                })
            }
            Expectation::Address(side, name, address) => {
                let Some(link) = self.link(*side, name)? else { return Ok(Some("no such link".into())) };
                let addresses = self.addresses(*side, link.index)?;
                Ok((!addresses.contains(address)).then(|| "no such address".into()))
            }
            Expectation::Sysctl(side, key, value) => {
                // The kernel may have no such sysctl; then ADD had none to set.
                Ok(self.sysctl(*side, key)?.filter(|found| found != value))
            }
            Expectation::Route(name, route) => self.has_route(name, route),
            Expectation::NodeRoute(route) => {
                let found = self.node().has_route_to(route.pods)?;
                Ok((!found).then(|| "no such route".into()))
            }
            Expectation::Isolated(name) => {
                self.link_is(Side::Node, name, |link| (link.isolated, "not isolated".into()))
            }
            Expectation::VlanFiltering(bridge) => {
                self.link_is(Side::Node, bridge, |link| (link.filters_vlans, "it does not".into()))
            }
            Expectation::Vlan { port, vlan, access } => {
                self.lets_through(port, |vlans| vlans.contains(&(*vlan, *access)))
            }
            Expectation::NoVlan(port, vlan) => {
                self.lets_through(port, |vlans| vlans.iter().all(|(found, _)| found != vlan))
            }
            Expectation::MacChecked(port) => {
                let checked =
                    nft::mac_is_checked(port).map_err(|error| rules_unread(io::Error::other(error)))?;
                Ok((!checked).then(|| "none".into()))
            }
            Expectation::Masquerade { network, subnets, spared, backend } => {
                let present = match backend {
                    MasqueradeBackend::Nftables => nft::present(network, subnets, spared)
                        .map_err(|error| rules_unread(io::Error::other(error)))?,
                    MasqueradeBackend::Iptables => iptables::present(network, subnets, spared),
                };
                Ok((!present).then(|| "missing or altered".into()))
            }
        }
    }

    fn link_is(
        &self,
        side: Side,
        name: &str,
        holds: impl FnOnce(&Link) -> (bool, Found),
    ) -> Result<Option<Found>, HostError> {
        let Some(link) = self.link(side, name)? else { return Ok(Some("no such link".into())) };
        let (holds, found) = holds(&link);
        Ok((!holds).then_some(found))
    }

    /// True if all of it is as expected.
    pub fn holds(&mut self, expected: &[Expectation]) -> Result<bool, HostError> {
        let mut holds = true;
        for one in expected {
            holds &= self.verify(one)?.is_none();
        }
        Ok(holds)
    }

    fn lets_through(
        &self,
        port: &str,
        holds: impl FnOnce(&[(u16, bool)]) -> bool,
    ) -> Result<Option<Found>, HostError> {
        let Some(link) = self.link(Side::Node, port)? else { return Ok(Some("no such link".into())) };
        let vlans = self.node().vlans(port, link.index)?;
        if holds(&vlans) {
            return Ok(None);
        }
        let shown = |(vlan, own): &(u16, bool)| format!("{vlan}{}", if *own { " untagged" } else { "" });
        let shown: Vec<String> = vlans.iter().map(shown).collect();
        Ok(Some(format!("VLANs {}", if shown.is_empty() { "none".into() } else { shown.join(", ") })))
    }

    fn has_route(&self, name: &str, route: &Route) -> Result<Option<Found>, HostError> {
        let Some(link) = self.link(Side::Pod, name)? else { return Ok(Some("no such link".into())) };
        let routes = self.routes(Side::Pod, link.index, route.dst.is_ipv4())?;
        let same = |found: &Route| {
            // What the plan leaves open the kernel has chosen.
            let open =
                |wanted: Option<u32>, found: Option<u32>| wanted.is_none_or(|w| w == found.unwrap_or(0));
            (found.dst.network(), found.dst.prefix()) == (route.dst.network(), route.dst.prefix())
                && found.gw == route.gw
                && open(route.mtu, found.mtu)
                && open(route.advmss, found.advmss)
                && open(route.priority, found.priority)
                && open(route.table, found.table)
        };
        Ok((!routes.iter().any(same)).then(|| "no such route".into()))
    }
}

fn rules_unread(source: io::Error) -> HostError {
    HostError::new("read", "the rules of nf_tables", source)
}
