//! The bundle for a bug report: what was found, and what that rests on. Nothing in it is secret: of configurations
//! only the keys are kept that this plugin knows the meaning of, and of others' plugins only the type.

use std::{fs, path::Path};

use anyhow::Context;
use nix::sys::utsname::uname;
use serde_json::{Value, json};
use tar::{Builder, Header};

use crate::cli::{Report, SCHEMA_VERSION, ls, node::Node, stats};

/// What stands where something was left out.
const LEFT_OUT: &str = "(left out)";

/// Keys whose values are kept: of a list, of our plugin, and of its host-local IPAM.
const KEPT: [&str; 47] = [
    "cniVersion",
    "cniVersions",
    "name",
    "type",
    "plugins",
    "delegate",
    "disableCheck",
    "disableGC",
    "capabilities",
    "bridge",
    "isGateway",
    "isDefaultGateway",
    "forceAddress",
    "ipMasq",
    "ipMasqBackend",
    "mtu",
    "hairpinMode",
    "promiscMode",
    "vlan",
    "vlanTrunk",
    "preserveDefaultVlan",
    "macspoofchk",
    "enabledad",
    "disableContainerInterface",
    "portIsolation",
    "podCIDR",
    "nodeRoutes",
    "via",
    "ebpf",
    "mode",
    "uplinks",
    "renew",
    "maxFlows",
    "conntrackLiberal",
    "attach",
    "bpffs",
    "logLevel",
    "logFile",
    "ipam",
    "ranges",
    "subnet",
    "rangeStart",
    "rangeEnd",
    "gateway",
    "routes",
    "dst",
    "dataDir",
];

/// Sysctls of the network that decide about pods' packets.
const SYSCTLS: [&str; 10] = [
    "net/ipv4/ip_forward",
    "net/ipv6/conf/all/forwarding",
    "net/ipv4/conf/all/rp_filter",
    "net/ipv4/conf/default/rp_filter",
    "net/bridge/bridge-nf-call-iptables",
    "net/bridge/bridge-nf-call-ip6tables",
    "net/netfilter/nf_conntrack_tcp_be_liberal",
    "net/netfilter/nf_conntrack_tcp_timeout_established",
    "net/netfilter/nf_conntrack_tcp_timeout_unacknowledged",
    "net/netfilter/nf_conntrack_max",
];

pub(super) fn write(path: &Path, node: &Node, doctor: &Report) -> anyhow::Result<()> {
    let shown = || format!("cannot write the bundle {}", path.display());
    let mut archive = Builder::new(fs::File::create(path).with_context(shown)?);
    let mut add = |name: &str, content: &[u8]| {
        let mut header = Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        archive.append_data(&mut header, format!("ebpf-bridge/{name}"), content)
    };
    let plain = anstream::adapter::strip_str(&doctor.table).to_string();
    add("doctor.txt", plain.as_bytes()).with_context(shown)?;
    for (name, document) in documents(node, doctor) {
        add(name, format!("{document:#}\n").as_bytes()).with_context(shown)?;
    }
    archive.finish().with_context(shown)
}

fn documents(node: &Node, doctor: &Report) -> Vec<(&'static str, Value)> {
    let asked = |report: anyhow::Result<Report>| match report {
        Ok(report) => report.json,
        Err(error) => json!({ "schemaVersion": SCHEMA_VERSION, "error": format!("{error:#}") }),
    };
    vec![
        ("doctor.json", doctor.json.clone()),
        ("pods.json", asked(ls::ls(&node.bpffs, None))),
        ("stats.json", asked(stats::stats(&node.bpffs))),
        ("configurations.json", configurations(node)),
        ("node.json", this_node(node)),
    ]
}

fn configurations(node: &Node) -> Value {
    let read = |conf: crate::cli::confs::Conf| {
        let content = fs::read(&conf.path).ok().and_then(|text| serde_json::from_slice(&text).ok());
        json!({ "path": conf.path, "content": content.map(|value| without_secrets(&value)) })
    };
    json!(node.confs().unwrap_or_default().into_iter().map(read).collect::<Vec<_>>())
}

fn this_node(node: &Node) -> Value {
    let kernel = uname().map(|name| {
        [name.release(), name.version(), name.machine()].map(|part| part.to_string_lossy().into_owned())
    });
    let sysctl = |name: &&str| {
        let value = fs::read_to_string(Path::new("/proc/sys").join(name)).ok();
        (name.replace('/', "."), json!(value.map(|value| value.trim().to_owned())))
    };
    let links = node.host.node().links().unwrap_or_default().into_iter().map(|(name, link)| {
        json!({ "name": name, "index": link.index, "mtu": link.mtu, "up": link.up, "controller": link.controller })
    });
    json!({
        "version": env!("CARGO_PKG_VERSION"), "kernel": kernel.unwrap_or_default(),
        "sysctls": SYSCTLS.iter().map(sysctl).collect::<serde_json::Map<_, _>>(),
        "links": links.collect::<Vec<_>>(),
    })
}

/// A configuration of which only what is known to be harmless is left.
fn without_secrets(conf: &Value) -> Value {
    match conf {
        Value::Object(keys) => {
            let foreign =
                keys.get("type").is_some_and(|kind| kind != crate::config::TYPE && kind != "host-local");
            let keep =
                |key: &str| if foreign { key == "type" || key == "plugins" } else { KEPT.contains(&key) };
            let kept = keys.iter().map(|(key, value)| {
                (key.clone(), if keep(key) { without_secrets(value) } else { Value::from(LEFT_OUT) })
            });
            Value::Object(kept.collect())
        }
        Value::Array(list) => list.iter().map(without_secrets).collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_keys_keep_their_values() {
        let conf = json!({
            "name": "n", "token": "s3cret", "args": {"password": "s3cret"},
            "plugins": [
                {"type": "ebpf-bridge", "mtu": 1400, "runtimeConfig": {"x": "s3cret"},
                 "ipam": {"type": "whereabouts", "etcd_password": "s3cret"}},
                {"type": "calico", "kubeconfig": "s3cret", "name": "s3cret"},
            ],
        });
        let shown = without_secrets(&conf);
        assert!(!shown.to_string().contains("s3cret"), "{shown}");
        assert_eq!(shown["plugins"][0]["mtu"], 1400);
        assert_eq!(shown["plugins"][1]["type"], "calico");
    }
}
