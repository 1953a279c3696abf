//! One link, and routes, as ip(8) shows them.

use std::net::IpAddr;

use anyhow::{Context, Result, bail};
use ipnetwork::IpNetwork;
use serde_json::Value;

use crate::Place;

/// A link of a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// Hardware address, in lower case.
    pub mac: String,
    /// In bytes.
    pub mtu: u64,
    /// Whether it is administratively up.
    pub up: bool,
    /// The bridge it is a port of.
    pub master: Option<String>,
    /// Addresses, those of the link's own scope aside.
    pub addresses: Vec<IpNetwork>,
}

/// Looks at one link.
///
/// # Errors
/// If there is none of that name.
pub fn link(place: &Place, name: &str) -> Result<Link> {
    let links = place.call_json(&format!("ip -j address show dev {name}"))?;
    let Some(link) = links.as_array().and_then(|links| links.iter().find(|link| link["ifname"] == name))
    else {
        bail!("no link {name}: {links}");
    };
    let addresses = link["addr_info"].as_array().into_iter().flatten();
    Ok(Link {
        mac: link["address"].as_str().unwrap_or_default().to_lowercase(),
        mtu: link["mtu"].as_u64().context("a link without an MTU")?,
        up: link["flags"].as_array().is_some_and(|flags| flags.contains(&Value::from("UP"))),
        master: link["master"].as_str().map(Into::into),
        addresses: addresses.filter(|a| a["scope"] == "global").map(address).collect::<Result<_>>()?,
    })
}

fn address(shown: &Value) -> Result<IpNetwork> {
    let ip: IpAddr = shown["local"].as_str().context("an address without a value")?.parse()?;
    let prefix = shown["prefixlen"].as_u64().context("an address without a prefix length")?;
    Ok(IpNetwork::new(ip, prefix.try_into()?)?)
}

/// The gateways of a place's IPv4 default routes.
pub fn default_gateways(place: &Place) -> Result<Vec<IpAddr>> {
    let routes = place.call_json("ip -j -4 route show default")?;
    let gateways = routes.as_array().into_iter().flatten().filter_map(|route| route["gateway"].as_str());
    gateways.map(|gateway| gateway.parse().with_context(|| format!("the gateway {gateway}"))).collect()
}
