//! From what IPAM leased to what the pod gets: gateways, and every route with its next hop and metric.

use std::net::IpAddr;

use ipnetwork::IpNetwork;

use super::Observed;
use crate::{
    cni::types::{Ip, Route},
    config::{Gateway, Network},
};

/// Addresses and routes, as leased or as meant.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Addressing {
    /// Addresses, each with its gateway if it has one.
    pub ips: Vec<Ip>,
    /// Routes.
    pub routes: Vec<Route>,
}

/// Completes a lease. A gateway of our own has an address, the subnet's first, if IPAM names none, as in the
/// reference. Routes that other interfaces of the pod have already get a higher metric, so that those stay
/// in front (plugins#601).
pub fn complete(network: &Network, observed: &Observed, leased: Addressing) -> Addressing {
    let mut addressing = leased;
    if network.gateway != Gateway::None {
        for ip in &mut addressing.ips {
            ip.gateway = ip.gateway.or_else(|| first_address(&ip.address));
        }
    }
    addressing.routes = routes(network, &addressing);
    for route in &mut addressing.routes {
        if route.priority.is_none() && route.table.is_none() {
            let same = observed.pod_routes.iter().filter(|there| there.dst == route.dst);
            route.priority = same.map(|there| there.priority.saturating_add(1)).max();
        }
    }
    addressing
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
        // In the order of the addresses, as the reference.
        for gw in addressing.ips.iter().filter_map(|ip| ip.gateway) {
            let everything = if gw.is_ipv4() { "0.0.0.0/0" } else { "::/0" };
            let Ok(dst) = everything.parse::<IpNetwork>() else { continue };
            if !routes.iter().any(|route| route.dst == dst && route.table.is_none()) {
                routes.push(Route::via(dst, gw));
            }
        }
    }
    routes
}

/// The first address of a subnet behind the network's own, if it has one.
fn first_address(address: &IpNetwork) -> Option<IpAddr> {
    let first = match address.network() {
        IpAddr::V4(network) => IpAddr::V4(u32::from(network).checked_add(1)?.into()),
        IpAddr::V6(network) => IpAddr::V6(u128::from(network).checked_add(1)?.into()),
    };
    address.contains(first).then_some(first)
}
