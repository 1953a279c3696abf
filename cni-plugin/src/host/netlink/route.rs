//! Routes.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use ipnetwork::IpNetwork;
use nix::libc;
use rtnetlink::{
    RouteMessageBuilder,
    packet_route::{
        AddressFamily,
        route::{
            RouteAddress, RouteAttribute, RouteMessage, RouteMetric, RouteProtocol, RouteScope, RouteType,
        },
    },
};

use super::{HostError, Netlink, failed, is};
use crate::{cni::types::Route, plan::PodRoute};

/// `RT_TABLE_MAIN` of `linux/rtnetlink.h`.
const MAIN: u32 = 254;

impl Netlink {
    /// Unicast routes of the main table, of both families.
    pub fn main_routes(&self) -> Result<Vec<PodRoute>, HostError> {
        let mut found = Vec::new();
        for v4 in [true, false] {
            let routes = self.routes_of(v4)?;
            found.extend(
                routes.iter().filter_map(|route| {
                    Some(PodRoute { dst: destination(route)?, priority: priority(route) })
                }),
            );
        }
        Ok(found)
    }

    /// True if the main table has a route to exactly this network.
    pub fn has_route_to(&self, dst: IpNetwork) -> Result<bool, HostError> {
        let routes = self.routes_of(dst.is_ipv4())?;
        Ok(routes.iter().any(|route| destination(route) == Some(dst)))
    }

    /// The unicast routes of one family through a link, in all tables.
    pub fn routes(&self, index: u32, v4: bool) -> Result<Vec<Route>, HostError> {
        let messages = self.unicast_routes(v4)?;
        let through = |message: &&RouteMessage| {
            message.attributes.iter().flat_map(devices).any(|device| device == index)
        };
        Ok(messages.iter().filter(through).filter_map(describe).collect())
    }

    /// Unicast routes of the main table, of one family.
    pub(super) fn routes_of(&self, v4: bool) -> Result<Vec<RouteMessage>, HostError> {
        let mut routes = self.unicast_routes(v4)?;
        routes.retain(|route| table(route) == MAIN);
        Ok(routes)
    }

    /// The kernel leaves the others out: with many pods there are thousands, some for every link.
    fn unicast_routes(&self, v4: bool) -> Result<Vec<RouteMessage>, HostError> {
        let mut request = RouteMessage::default();
        request.header.address_family = if v4 { AddressFamily::Inet } else { AddressFamily::Inet6 };
        request.header.kind = RouteType::Unicast;
        let routes = self.all(self.handle.route().get(request).execute());
        routes.map_err(|error| failed("list", "routes", error))
    }

    /// Adds a route. Returns false if it is there.
    pub fn add_route(&self, name: &str, index: u32, route: &Route) -> Result<bool, HostError> {
        let object = || match route.gw {
            Some(gw) => format!("to {} via {gw} on {name}", route.dst),
            None => format!("to {} on {name}", route.dst),
        };
        let invalid = |_| HostError::new("add route", object(), io::Error::from(io::ErrorKind::InvalidInput));
        let mut message = RouteMessageBuilder::<IpAddr>::new()
            .destination_prefix(route.dst.network(), route.dst.prefix())
            .map_err(invalid)?
            .output_interface(index)
            // As ip(8) and the reference mark routes that no daemon looks after.
            .protocol(RouteProtocol::Boot);
        if let Some(gw) = route.gw {
            message = message.gateway(gw).map_err(invalid)?;
        } else {
            message = message.scope(RouteScope::Link);
        }
        if let Some(scope) = route.scope {
            message = message.scope(RouteScope::from(scope));
        }
        if let Some(priority) = route.priority {
            message = message.priority(priority);
        }
        if let Some(table) = route.table {
            message = message.table_id(table);
        }
        let mut message = message.build();
        let metrics = [route.mtu.map(RouteMetric::Mtu), route.advmss.map(RouteMetric::Advmss)];
        let metrics: Vec<RouteMetric> = metrics.into_iter().flatten().collect();
        if !metrics.is_empty() {
            message.attributes.push(RouteAttribute::Metrics(metrics));
        }
        match self.run(self.handle.route().add(message).execute()) {
            Ok(()) => Ok(true),
            Err(error) if is(&error, libc::EEXIST) => Ok(false),
            Err(error) => Err(failed("add route", object(), error)),
        }
    }
}

fn table(route: &RouteMessage) -> u32 {
    let named = route.attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::Table(table) => Some(*table),
        _ => None,
    });
    named.unwrap_or_else(|| route.header.table.into())
}

/// Where a route leads.
pub(super) fn destination(route: &RouteMessage) -> Option<IpNetwork> {
    let named = route.attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::Destination(RouteAddress::Inet(address)) => Some(IpAddr::from(*address)),
        RouteAttribute::Destination(RouteAddress::Inet6(address)) => Some(IpAddr::from(*address)),
        _ => None,
    });
    let everywhere = match route.header.address_family {
        AddressFamily::Inet => IpAddr::from(Ipv4Addr::UNSPECIFIED),
        _ => IpAddr::from(Ipv6Addr::UNSPECIFIED),
    };
    IpNetwork::new(named.unwrap_or(everywhere), route.header.destination_prefix_length).ok()
}

fn priority(route: &RouteMessage) -> u32 {
    let named = route.attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::Priority(metric) => Some(*metric),
        _ => None,
    });
    named.unwrap_or(0)
}

/// Devices that an attribute of a route names.
pub(super) fn devices(attribute: &RouteAttribute) -> Vec<u32> {
    match attribute {
        RouteAttribute::Oif(index) => vec![*index],
        RouteAttribute::MultiPath(hops) => hops.iter().map(|hop| hop.interface_index).collect(),
        _ => Vec::new(),
    }
}

fn describe(message: &RouteMessage) -> Option<Route> {
    let mut route = Route::to(destination(message)?);
    route.table = Some(table(message));
    route.priority = Some(priority(message));
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Gateway(address) => route.gw = ip(address),
            RouteAttribute::Metrics(metrics) => metrics.iter().for_each(|metric| match metric {
                RouteMetric::Mtu(mtu) => route.mtu = Some(*mtu),
                RouteMetric::Advmss(advmss) => route.advmss = Some(*advmss),
                _ => {}
            }),
            _ => {}
        }
    }
    Some(route)
}

fn ip(address: &RouteAddress) -> Option<IpAddr> {
    match address {
        RouteAddress::Inet(address) => Some((*address).into()),
        RouteAddress::Inet6(address) => Some((*address).into()),
        _ => None,
    }
}
