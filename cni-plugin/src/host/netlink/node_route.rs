//! Routes to other nodes' pods. They outlive the pods: known by their protocol number, they go with the plugin.

use std::net::IpAddr;

use nix::libc;
use rtnetlink::{
    RouteMessageBuilder,
    packet_route::route::{RouteAddress, RouteAttribute, RouteMessage, RouteProtocol},
};

use super::{HostError, Netlink, failed, is, route};
use crate::config::NodeRoute;

/// Marks our routes (`rtm_protocol`, rtnetlink(7): from 5 on the kernel does not interpret it; iproute2's
/// `rt_protos` has no name for this one). `ip route show proto 235` lists them.
pub const PROTOCOL: u8 = 235;

impl Netlink {
    /// Makes the way to another node's pods, or changes one of ours. A route to the same pods that somebody else
    /// made stays as it is. Returns false if there was one of either kind.
    pub fn add_node_route(&self, wanted: &NodeRoute) -> Result<bool, HostError> {
        let object = || format!("to {} via {}", wanted.pods, wanted.via);
        let message = message(wanted).ok_or_else(|| invalid(object()))?;
        match self.run(self.handle.route().add(message.clone()).execute()) {
            Ok(()) => return Ok(true),
            Err(error) if is(&error, libc::EEXIST) => {}
            Err(error) => return Err(failed("add route", object(), error)),
        }
        let there = self.routes_of(wanted.pods.is_ipv4())?;
        let same = |route: &&RouteMessage| route::destination(route) == Some(wanted.pods);
        match there.iter().find(same) {
            Some(there) if gateway(there) == Some(wanted.via) => {}
            Some(there) if !is_ours(there) => log::warn!(
                "nodeRoutes: there is another route to {}, which stays: {:?} instead of {}",
                wanted.pods,
                gateway(there),
                wanted.via
            ),
            _ => {
                let changed = self.run(self.handle.route().add(message).replace().execute());
                changed.map_err(|error| failed("change route", object(), error))?;
            }
        }
        Ok(false)
    }

    /// Takes such a way away; that it is gone is fine.
    pub fn remove_node_route(&self, route: &NodeRoute) -> Result<(), HostError> {
        let object = || format!("to {} via {}", route.pods, route.via);
        self.delete_route(message(route).ok_or_else(|| invalid(object()))?, object)
    }

    /// Takes all of them away, whatever configuration they are from.
    pub fn remove_node_routes(&self) -> Result<(), HostError> {
        for v4 in [true, false] {
            for route in self.routes_of(v4)?.into_iter().filter(is_ours) {
                let object = format!("to {:?}", route::destination(&route));
                self.delete_route(route, || object)?;
            }
        }
        Ok(())
    }

    /// Names of the devices that lead to these nodes.
    pub fn devices_towards(&self, routes: &[NodeRoute]) -> Result<Vec<String>, HostError> {
        let mut names = Vec::new();
        for wanted in routes {
            let there = self.routes_of(wanted.pods.is_ipv4())?;
            let ways = there.iter().filter(|route| route::destination(route) == Some(wanted.pods));
            for index in ways.flat_map(|way| &way.attributes).flat_map(route::devices) {
                names.extend(self.name_of(index)?);
            }
        }
        names.sort();
        names.dedup();
        Ok(names)
    }

    fn delete_route(&self, message: RouteMessage, object: impl FnOnce() -> String) -> Result<(), HostError> {
        match self.run(self.handle.route().del(message).execute()) {
            Err(error) if !is(&error, libc::ESRCH) && !is(&error, libc::ENODEV) => {
                Err(failed("remove route", object(), error))
            }
            _ => Ok(()),
        }
    }
}

fn message(route: &NodeRoute) -> Option<RouteMessage> {
    let message = RouteMessageBuilder::<IpAddr>::new()
        .destination_prefix(route.pods.network(), route.pods.prefix())
        .ok()?
        .gateway(route.via)
        .ok()?
        .protocol(RouteProtocol::from(PROTOCOL));
    Some(message.build())
}

fn is_ours(route: &RouteMessage) -> bool {
    route.header.protocol == RouteProtocol::from(PROTOCOL)
}

fn gateway(route: &RouteMessage) -> Option<IpAddr> {
    route.attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::Gateway(RouteAddress::Inet(address)) => Some((*address).into()),
        RouteAttribute::Gateway(RouteAddress::Inet6(address)) => Some((*address).into()),
        _ => None,
    })
}

fn invalid(object: String) -> HostError {
    HostError::new("add route", object, std::io::Error::from(std::io::ErrorKind::InvalidInput))
}

#[cfg(test)]
mod tests {
    use std::{process::Command, rc::Rc, thread};

    use nix::sched::{CloneFlags, unshare};
    use tokio::runtime::Builder;

    use super::*;

    fn ip(line: &str) -> String {
        let output = Command::new("ip").args(line.split(' ')).output().unwrap();
        assert!(output.status.success(), "{line}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    #[test]
    fn all_of_ours_go_and_no_others() {
        if !nix::unistd::geteuid().is_root() {
            eprintln!("skipped: needs root to make a network namespace");
            return;
        }
        let test = thread::spawn(|| {
            unshare(CloneFlags::CLONE_NEWNET).unwrap();
            for line in [
                "link add lan type bridge",
                "link set lan up",
                "address add 192.0.2.1/24 dev lan",
                "address add 2001:db8::1/64 dev lan nodad",
                "route add 10.9.0.0/24 via 192.0.2.9",
            ] {
                ip(line);
            }
            let runtime = Builder::new_current_thread().enable_io().build().unwrap();
            let netlink = Netlink::connect(Rc::new(runtime)).unwrap();
            let routes = [("10.2.0.0/24", "192.0.2.2"), ("fd00:2::/64", "2001:db8::2")]
                .map(|(pods, via)| NodeRoute { pods: pods.parse().unwrap(), via: via.parse().unwrap() });
            assert!(routes.iter().all(|route| netlink.add_node_route(route).unwrap()));
            assert!(routes.iter().all(|route| !netlink.add_node_route(route).unwrap()), "twice is once");
            assert_eq!(netlink.devices_towards(&routes).unwrap(), ["lan"]);
            netlink.remove_node_routes().unwrap();
            assert!(!ip("-4 route show").contains("10.2.0.0") && ip("-4 route show").contains("10.9.0.0"));
            assert!(!ip("-6 route show").contains("fd00:2::") && ip("-6 route show").contains("2001:db8::"));
            netlink.remove_node_route(&routes[0]).unwrap();
        });
        test.join().unwrap();
    }
}
