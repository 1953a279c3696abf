//! Results in the layout of each protocol version.
//!
//! Written in the layout of the request's version. Read in any: the members of the layouts do not collide, so
//! what a runtime passes back, or an IPAM plugin answers, is understood whichever version it is in.

use std::net::IpAddr;

use ipnetwork::IpNetwork;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{
    types::{CniResult, Dns, Interface, Ip, Route},
    version::Layout,
};

/// Writes a result in the layout of its `cni_version`.
///
/// 0.1.0 and 0.2.0 know one address per family and no interfaces: the first address of each is told, as libcni does.
pub fn encode(result: &CniResult) -> serde_json::Result<Value> {
    let layout = Layout::of(&result.cni_version);
    if layout == Layout::PerFamily {
        return Ok(per_family(result));
    }
    let mut result = result.clone();
    if layout < Layout::WithMtu {
        result.interfaces.iter_mut().for_each(|interface| interface.mtu = None);
    }
    let families: Vec<&str> = result.ips.iter().map(|ip| family(&ip.address)).collect();
    let mut document = serde_json::to_value(&result)?;
    if layout == Layout::Lists
        && let Some(ips) = document["ips"].as_array_mut()
    {
        for (ip, family) in ips.iter_mut().zip(families) {
            ip["version"] = json!(family);
        }
    }
    Ok(document)
}

/// Reads a result of any version. `null` is a result without anything in it.
pub fn decode(document: &Value) -> serde_json::Result<CniResult> {
    let any: AnyResult = Option::deserialize(document)?.unwrap_or_default();
    let mut result = CniResult {
        cni_version: any.cni_version,
        interfaces: any.interfaces.unwrap_or_default(),
        ips: any.ips.unwrap_or_default(),
        routes: any.routes.unwrap_or_default(),
        dns: any.dns.unwrap_or_default(),
    };
    for ip in [any.ip4, any.ip6].into_iter().flatten() {
        result.ips.push(Ip { interface: None, address: ip.ip, gateway: ip.gateway });
        result.routes.extend(ip.routes.unwrap_or_default());
    }
    Ok(result)
}

/// The members of every layout.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct AnyResult {
    cni_version: String,
    interfaces: Option<Vec<Interface>>,
    ips: Option<Vec<Ip>>,
    routes: Option<Vec<Route>>,
    dns: Option<Dns>,
    ip4: Option<FamilyIp>,
    ip6: Option<FamilyIp>,
}

/// `ip4` or `ip6` of 0.1.0 and 0.2.0.
#[derive(Deserialize)]
struct FamilyIp {
    ip: IpNetwork,
    #[serde(default)]
    gateway: Option<IpAddr>,
    #[serde(default)]
    routes: Option<Vec<Route>>,
}

fn per_family(result: &CniResult) -> Value {
    let mut document = Map::new();
    document.insert("cniVersion".into(), json!(result.cni_version));
    for (key, name) in [("ip4", "4"), ("ip6", "6")] {
        let Some(ip) = result.ips.iter().find(|ip| family(&ip.address) == name) else { continue };
        let mut object = Map::new();
        object.insert("ip".into(), json!(ip.address));
        if let Some(gateway) = ip.gateway {
            object.insert("gateway".into(), json!(gateway));
        }
        let routes: Vec<&Route> = result.routes.iter().filter(|route| family(&route.dst) == name).collect();
        if !routes.is_empty() {
            object.insert("routes".into(), json!(routes));
        }
        document.insert(key.into(), Value::Object(object));
    }
    if !result.dns.is_empty() {
        document.insert("dns".into(), json!(result.dns));
    }
    Value::Object(document)
}

fn family(address: &IpNetwork) -> &'static str {
    if address.is_ipv4() { "4" } else { "6" }
}

#[cfg(test)]
mod tests;
