//! All that a plugin made, as named values without what no two runs have in common.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result};
use ebpf_bridge_lab::libcni::{AddResult, Route};
use ebpf_bridge_lab::{Node, Place, config};
use serde_json::Value;

use super::Made;

/// Of links and ports: identities and moments.
const VOLATILE: [&str; 29] = [
    "link",
    "ifindex",
    "link_index",
    "link_netnsid",
    "ifname",
    "master",
    "address",
    "broadcast",
    "id",
    "no",
    "bridge_id",
    "root_id",
    "designated_bridge",
    "gc_timer",
    "hello_timer",
    "tcn_timer",
    "topology_change_timer",
    "hold_timer",
    "message_age_timer",
    "forward_delay_timer",
    "designated_port",
    "group_addr",
    "permaddr",
    "operstate",
    "num_tx_queues",
    "num_rx_queues",
    "gso_max_size",
    "topology_change",
    "topology_change_ack",
];

/// Named values.
#[derive(Default)]
pub(super) struct View {
    values: BTreeMap<String, String>,
}

impl View {
    pub(super) fn of(made: &Made) -> Result<View> {
        let mut view = View::default();
        let veth = made.results[0].veth()?.name.clone();
        view.result(made, &veth);
        for (name, place, device) in [
            ("pod", &*made.pods[0] as &Place, "eth0"),
            ("pod lo", &made.pods[0], "lo"),
            ("bridge", &made.node, config::BRIDGE),
            ("port", &made.node, &veth),
        ] {
            view.link(name, place, device).with_context(|| device.to_owned())?;
            view.addresses(name, place, device)?;
            for family in ["ipv4", "ipv6"] {
                view.sysctls(
                    &format!("{name} {family}"),
                    place,
                    &format!("/proc/sys/net/{family}/conf/{device}"),
                )?;
            }
        }
        view.vlans(&made.node, &veth)?;
        for family in ["-4", "-6"] {
            view.routes(&made.pods[0], family)?;
        }
        for sysctl in ["net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"] {
            view.note(format!("node {sysctl}"), made.node.sysctl(sysctl)?);
        }
        Ok(view)
    }

    pub(super) fn note(&mut self, name: String, value: impl ToString) {
        self.values.insert(name, value.to_string());
    }

    /// What is left on the node.
    pub(super) fn after_del(&mut self, node: &Node) -> Result<()> {
        let leases = node.tree("/var/lib/cni/networks")?;
        let leases: Vec<_> =
            leases.into_iter().filter(|path| path.contains("/10.") || path.contains("/fd00")).collect();
        self.note("after del leases".into(), format!("{leases:?}"));
        let shown = node.call_json("ip -j link show")?;
        let names = shown.as_array().into_iter().flatten().filter_map(|link| link["ifname"].as_str());
        // The other end of a gateway inside a VLAN is called as each likes.
        let anonymous = |name: &str| name.starts_with("veth") || name.starts_with("vlan");
        let mut links: Vec<_> = names.map(|name| if anonymous(name) { "ANY" } else { name }).collect();
        links.sort_unstable();
        self.note("after del links".into(), format!("{links:?}"));
        self.addresses("after del bridge", node, config::BRIDGE)
    }

    /// `name: ours / the reference's`, for every value that is not the same.
    pub(super) fn differences<'a>(&'a self, theirs: &'a View) -> impl Iterator<Item = String> + 'a {
        let names: std::collections::BTreeSet<_> = self.values.keys().chain(theirs.values.keys()).collect();
        names.into_iter().filter(|name| self.values.get(*name) != theirs.values.get(*name)).map(|name| {
            let shown = |view: &View| view.values.get(name).cloned().unwrap_or_else(|| "absent".into());
            format!("{name}: {} / {}", shown(self), shown(theirs))
        })
    }

    fn result(&mut self, made: &Made, veth: &str) {
        let result = &made.results[0];
        let names: Vec<_> =
            result.interfaces.iter().map(|i| if i.name == veth { "VETH" } else { &i.name }).collect();
        self.note("result interfaces".into(), format!("{names:?}"));
        self.note(
            "result sandboxes".into(),
            format!("{:?}", result.interfaces.iter().map(|i| &i.sandbox).collect::<Vec<_>>()),
        );
        self.note("result ips".into(), format!("{:?}", result.ips));
        self.note("result routes".into(), format!("{:?}", routes_as_made(result)));
        let dns = if result.dns.is_null() { "{}".to_owned() } else { result.dns.to_string() };
        self.note("result dns".into(), dns);
        let asked =
            result.interfaces.last().and_then(|i| i.mac.clone()).filter(|mac| mac.starts_with("c2:11"));
        self.note("result mac asked for".into(), format!("{asked:?}"));
    }

    fn link(&mut self, name: &str, place: &Place, device: &str) -> Result<()> {
        let shown = place.call_json(&format!("ip -d -j link show dev {device}"))?;
        self.flatten(&format!("{name} link"), &shown[0]);
        Ok(())
    }

    /// The VLANs of the port, and the gateway inside one, where there are any.
    fn vlans(&mut self, node: &Node, veth: &str) -> Result<()> {
        let shown = node.call_json(&format!("bridge -j vlan show dev {veth}"))?;
        self.note("port vlans".into(), &shown[0]["vlans"]);
        let gateway = format!("{}.100", config::BRIDGE);
        if node.call(&format!("ip link show dev {gateway}")).is_ok() {
            self.link("gateway", node, &gateway)?;
            self.addresses("gateway", node, &gateway)?;
        }
        Ok(())
    }

    fn flatten(&mut self, name: &str, value: &Value) {
        match value {
            Value::Object(object) => {
                for (key, value) in object.iter().filter(|(key, _)| !VOLATILE.contains(&key.as_str())) {
                    self.flatten(&format!("{name} {key}"), value);
                }
            }
            value => self.note(name.to_owned(), value),
        }
    }

    fn addresses(&mut self, name: &str, place: &Place, device: &str) -> Result<()> {
        let shown = place.call_json(&format!("ip -j address show dev {device}"))?;
        let found = shown.as_array().into_iter().flatten().find(|link| link["ifname"] == device);
        for address in found.and_then(|link| link["addr_info"].as_array()).into_iter().flatten() {
            // A link-local address is as the MAC is, and on the node it is there or tentative by the moment.
            if name != "pod" && address["scope"] == "link" {
                continue;
            }
            let own =
                if address["scope"] == "link" { "link-local".into() } else { address["local"].to_string() };
            let rest = ["prefixlen", "scope", "tentative", "dadfailed", "broadcast"]
                .map(|key| address[key].to_string());
            self.note(format!("{name} address {own}"), rest.join(" "));
        }
        Ok(())
    }

    fn routes(&mut self, pod: &Place, family: &str) -> Result<()> {
        let shown = pod.call_json(&format!("ip -j {family} route show"))?;
        for route in shown.as_array().into_iter().flatten() {
            let rest = ["gateway", "metric", "protocol", "scope", "prefsrc", "flags", "metrics"]
                .map(|key| route[key].to_string());
            self.note(format!("pod route {family} {}", route["dst"]), rest.join(" "));
        }
        Ok(())
    }

    /// Every sysctl of a link, by the name it has for all links.
    fn sysctls(&mut self, name: &str, place: &Place, directory: &str) -> Result<()> {
        let values = place.run_in(|| {
            let entries = fs::read_dir(directory).with_context(|| format!("listing {directory}"))?;
            let read = |entry: fs::DirEntry| {
                let value = fs::read_to_string(entry.path()).unwrap_or_default().trim().to_owned();
                (entry.file_name().to_string_lossy().into_owned(), value)
            };
            Ok(entries.flatten().map(read).collect::<Vec<_>>())
        })?;
        // A secret of the kernel's.
        for (sysctl, value) in values.into_iter().filter(|(sysctl, _)| sysctl != "stable_secret") {
            self.note(format!("{name} sysctl {sysctl}"), value);
        }
        Ok(())
    }
}

/// The routes of a result, their gateway filled in where it is the subnet's.
fn routes_as_made(result: &AddResult) -> Vec<Route> {
    let gateway = |route: &Route| {
        let mut gateways = result.ips.iter().filter_map(|ip| ip.gateway);
        route.gw.or_else(|| gateways.find(|gateway| gateway.is_ipv4() == route.dst.is_ipv4()))
    };
    result.routes.iter().map(|route| Route { gw: gateway(route), ..route.clone() }).collect()
}
