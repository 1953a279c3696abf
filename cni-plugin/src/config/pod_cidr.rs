//! The shortest configuration, and routes to other nodes' pods.

use std::net::IpAddr;

use ipnetwork::IpNetwork;
use serde_json::{Value, json};

use super::netconf::{ConfigError, NetConf, NodeRouteConf, OneOrMany};

/// Each spared destination is three expressions of a masquerade rule, and the kernel allows 128 in a rule
/// (`NFT_RULE_MAXEXPRS`).
const MAX_NODE_ROUTES: usize = 32;

/// The way to another node's pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeRoute {
    /// The other node's pods.
    pub pods: IpNetwork,
    /// The other node.
    pub via: IpAddr,
}

/// Spells out what `podCIDR` stands for: a gateway with the default route, masquerade, and host-local on the ranges.
/// Keys that are given keep their values.
pub(super) fn expand(conf: &mut NetConf) -> Result<(), ConfigError> {
    let texts = match &conf.pod_cidr {
        None => return Ok(()),
        Some(OneOrMany::One(text)) => vec![text.clone()],
        Some(OneOrMany::Many(texts)) => texts.clone(),
    };
    if conf.ipam.as_ref().is_some_and(|ipam| !ipam.is_null()) {
        return Err(ConfigError::value("podCIDR", json!(texts), "no podCIDR where ipam is given"));
    }
    let subnets = texts.iter().map(|text| subnet("podCIDR", text)).collect::<Result<Vec<_>, _>>()?;
    let of_family = |v4: bool| subnets.iter().filter(|subnet| subnet.is_ipv4() == v4).count();
    if subnets.is_empty() || of_family(true) > 1 || of_family(false) > 1 {
        return Err(ConfigError::value("podCIDR", json!(texts), "one subnet, or one of each family"));
    }
    let ranges: Vec<Value> = subnets.iter().map(|subnet| json!([{"subnet": subnet.to_string()}])).collect();
    conf.ipam = Some(json!({"type": "host-local", "ranges": ranges}));
    // Who says that the bridge is no gateway does not want a default route through it either.
    conf.is_default_gateway.get_or_insert(conf.is_gateway != Some(false));
    conf.ip_masq.get_or_insert(true);
    Ok(())
}

/// `nodeRoutes`, checked.
pub(super) fn node_routes(confs: &[NodeRouteConf]) -> Result<Vec<NodeRoute>, ConfigError> {
    let routes = confs.iter().map(node_route).collect::<Result<Vec<_>, _>>()?;
    for v4 in [true, false] {
        let count = routes.iter().filter(|route| route.pods.is_ipv4() == v4).count();
        if count > MAX_NODE_ROUTES {
            let value = format!("a list with {count} routes of one family");
            return Err(ConfigError::value(
                "nodeRoutes",
                value,
                format!("at most {MAX_NODE_ROUTES} of a family"),
            ));
        }
    }
    Ok(routes)
}

fn node_route(conf: &NodeRouteConf) -> Result<NodeRoute, ConfigError> {
    let pods = subnet("nodeRoutes.podCIDR", &conf.pod_cidr)?;
    match conf.via.parse::<IpAddr>() {
        Ok(via) if via.is_ipv4() == pods.is_ipv4() => Ok(NodeRoute { pods, via }),
        _ => {
            let allowed = format!("another node's address of the family of {pods}");
            Err(ConfigError::value("nodeRoutes.via", format!("{:?}", conf.via), allowed))
        }
    }
}

/// A subnet, given by any of its addresses.
fn subnet(key: &'static str, text: &str) -> Result<IpNetwork, ConfigError> {
    let parsed = text.parse::<IpNetwork>().ok().filter(|_| text.contains('/'));
    let network = parsed.and_then(|net| IpNetwork::new(net.network(), net.prefix()).ok());
    network.ok_or_else(|| ConfigError::value(key, format!("{text:?}"), "a subnet such as \"10.244.1.0/24\""))
}
