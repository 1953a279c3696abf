//! The execution protocol of the CNI specification, as tables: what a runtime says, and the code and words of the
//! answer. That there is one document and no more, [`exec`] sees to.

use anyhow::{Context, Result, ensure};
use ebpf_bridge_lab::libcni::{PluginError, exec};
use ebpf_bridge_lab::{Node, Snapshot, config, plugin};
use serde_json::{Value, json};

use crate::check::{equal, refused};
use crate::suite::Suite;

/// Verb, variables (`-` takes one of the usual away), code, words.
type EnvironmentRow = (&'static str, &'static [(&'static str, &'static str)], u32, &'static [&'static str]);

const ENVIRONMENTS: &[EnvironmentRow] = &[
    ("", &[], 4, &["CNI_COMMAND"]),
    ("add", &[], 4, &["CNI_COMMAND", "add"]),
    ("MEND", &[], 4, &["CNI_COMMAND", "MEND"]),
    ("ADD", &[("CNI_NETNS", "")], 4, &["CNI_NETNS"]),
    ("ADD", &[("CNI_IFNAME", ""), ("CNI_CONTAINERID", "")], 4, &["CNI_IFNAME", "CNI_CONTAINERID"]),
    ("DEL", &[("CNI_IFNAME", ""), ("CNI_CONTAINERID", "")], 4, &["CNI_IFNAME", "CNI_CONTAINERID"]),
    ("CHECK", &[("CNI_IFNAME", ""), ("CNI_NETNS", "")], 4, &["CNI_IFNAME", "CNI_NETNS"]),
    ("ADD", &[("CNI_CONTAINERID", "../x")], 4, &["CNI_CONTAINERID", "../x"]),
    ("ADD", &[("CNI_CONTAINERID", "a/b")], 4, &["CNI_CONTAINERID", "a/b"]),
    ("DEL", &[("CNI_CONTAINERID", "-x")], 4, &["CNI_CONTAINERID", "-x"]),
    ("ADD", &[("CNI_CONTAINERID", "a b")], 4, &["CNI_CONTAINERID", "a b"]),
    ("ADD", &[("CNI_IFNAME", "..")], 4, &["CNI_IFNAME", ".."]),
    ("ADD", &[("CNI_IFNAME", "a/b")], 4, &["CNI_IFNAME", "a/b"]),
    ("ADD", &[("CNI_IFNAME", "a:b")], 4, &["CNI_IFNAME", "a:b"]),
    ("DEL", &[("CNI_IFNAME", "a b")], 4, &["CNI_IFNAME", "a b"]),
    ("ADD", &[("CNI_IFNAME", "sixteen-letters-")], 4, &["CNI_IFNAME", "sixteen-letters-"]),
    ("ADD", &[("CNI_ARGS", "novalue")], 4, &["CNI_ARGS", "novalue"]),
    ("ADD", &[("CNI_NETNS", "/run/netns/none")], 3, &["CNI_NETNS", "/run/netns/none"]),
    ("ADD", &[("CNI_NETNS", "/etc/passwd")], 4, &["CNI_NETNS", "/etc/passwd"]),
    ("CHECK", &[("CNI_NETNS", "/run/netns/none")], 3, &["CNI_NETNS", "/run/netns/none"]),
    ("ADD", &[("CNI_NETNS", "/proc/self/ns/net")], 8, &["CNI_NETNS", "/proc/self/ns/net"]),
    ("CHECK", &[("CNI_NETNS", "/proc/self/ns/net")], 8, &["CNI_NETNS", "/proc/self/ns/net"]),
];

/// Standard input that is no configuration: code 6.
const NO_OBJECTS: [&str; 6] = ["", "{", "nonsense", "[]", "null", "\"text\""];

/// Version, verb: code 1, the verb named.
const TOO_OLD: [(&str, &str); 8] = [
    ("0.1.0", "CHECK"),
    ("0.2.0", "CHECK"),
    ("0.3.0", "CHECK"),
    ("0.3.1", "CHECK"),
    ("0.4.0", "GC"),
    ("0.4.0", "STATUS"),
    ("1.0.0", "GC"),
    ("1.0.0", "STATUS"),
];

pub(crate) fn register(suite: &mut Suite) {
    suite.test(
        "conformance: what is wrong with the environment is named before anything is done",
        environments,
    );
    suite.test("conformance: standard input that is no object is refused with code 6", no_objects);
    suite.test("conformance: a key that is wrong is named with its value, code 7", keys);
    suite.test("conformance: a verb that a version lacks is refused with code 1", too_old);
    for version in ["0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"] {
        suite.test(format!("conformance: the result of ADD is laid out as in CNI {version}"), move || {
            layout(version)
        });
    }
    suite.test("conformance: a configuration without cniVersion is one of 0.1.0", unstated);
    suite.test("conformance: the arguments of Kubernetes are accepted without IgnoreUnknown", kubernetes);
    suite.test("conformance: STATUS has no answer, and code 50 when the range is full", status);
    suite.test("conformance: STATUS has code 50 when the bridge is full", full_bridge);
    suite.test("conformance: the trace of the runtime is in the log", trace);
}

fn environment<'a>(changes: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    let usual = [("CNI_CONTAINERID", "pod1"), ("CNI_NETNS", "/run/netns/pod1"), ("CNI_IFNAME", "eth0")];
    usual.into_iter().chain(changes.iter().copied()).collect()
}

fn request(version: &str, changes: &Value) -> Value {
    let base = config::with(config::bridge("auto"), &json!({"cniVersion": version, "name": "n1"}));
    config::with(base, changes)
}

fn call(node: &Node, verb: &str, changes: &[(&str, &str)], stdin: &str) -> Result<Option<Value>> {
    Ok(exec(node, plugin::NAME, verb, &environment(changes), stdin)?.document)
}

fn is(error: &PluginError, version: &str, code: u32, words: &[&str]) -> Result<()> {
    equal("the code", error.code, code).with_context(|| error.to_string())?;
    equal("cniVersion", error.cni_version.as_deref(), Some(version))?;
    for word in words {
        // Values are quoted as in Rust or JSON.
        ensure!(error.msg.contains(word), "the message does not name {word}: {error}");
    }
    Ok(())
}

/// A node with a pod `pod1`, on which `work` must not change anything.
fn unchanged(work: impl FnOnce(&Node) -> Result<()>) -> Result<()> {
    let node = Node::new()?;
    let _pod = node.pod("pod1")?;
    let before = Snapshot::take(&node)?;
    work(&node)?;
    Snapshot::take(&node)?.ensure_equals(&before)
}

fn environments() -> Result<()> {
    unchanged(|node| {
        for (verb, changes, code, words) in ENVIRONMENTS {
            let stdin = request("0.4.0", &json!({"prevResult": {}})).to_string();
            let row = || format!("{verb} with {changes:?}");
            let error = refused(call(node, verb, changes, &stdin)).with_context(row)?;
            is(&error, "0.4.0", *code, words).with_context(row)?;
        }
        Ok(())
    })
}

fn no_objects() -> Result<()> {
    unchanged(|node| {
        for stdin in NO_OBJECTS {
            for verb in ["ADD", "DEL", "CHECK", "GC", "STATUS"] {
                let error =
                    refused(call(node, verb, &[], stdin)).with_context(|| format!("{verb} {stdin:?}"))?;
                is(&error, "1.1.0", 6, &[]).with_context(|| format!("{verb} {stdin:?}"))?;
            }
        }
        Ok(())
    })
}

fn keys() -> Result<()> {
    let rows = [
        (json!({"name": null}), "name"),
        (json!({"name": "../x"}), "../x"),
        (json!({"name": 7}), "name"),
        (json!({"mtu": "large"}), "mtu"),
        (json!({"mtu": 20}), "20"),
        (json!({"bridge": "a/b"}), "a/b"),
        (json!({"isGateway": "yes"}), "isGateway"),
        (json!({"hairpinMode": true, "promiscMode": true}), "promiscMode"),
        (json!({"ipam": {"type": "../x"}}), "ipam.type"),
        (json!({"ipam": {"ranges": [[{"subnet": "10.1.0.0/33"}]]}}), "10.1.0.0/33"),
        (json!({"ipam": {"ranges": []}}), "ipam.ranges"),
        (json!({"ipam": {"dataDir": "../x"}}), "ipam.dataDir"),
        (json!({"ebpf": {"mode": "fast"}}), "ebpf.mode"),
        (json!({"ebpf": {"renew": "1h"}}), "ebpf.renew"),
        (json!({"ebpf": {"moed": "auto"}}), "moed"),
        (json!({"runtimeConfig": {"mac": "01:00:00:00:00:01"}}), "runtimeConfig.mac"),
        (json!({"runtimeConfig": {"ips": ["nowhere"]}}), "runtimeConfig.ips"),
        (json!({"logLevel": "loud"}), "logLevel"),
    ];
    unchanged(|node| {
        for (changes, word) in &rows {
            let stdin = request("1.0.0", changes).to_string();
            let error = refused(call(node, "ADD", &[], &stdin)).with_context(|| changes.to_string())?;
            is(&error, "1.0.0", 7, &[word]).with_context(|| changes.to_string())?;
        }
        Ok(())
    })
}

fn too_old() -> Result<()> {
    unchanged(|node| {
        for (version, verb) in TOO_OLD {
            let error = refused(call(node, verb, &[], &request(version, &json!({})).to_string()))?;
            is(&error, version, 1, &[verb, version])?;
        }
        let error = refused(call(node, "ADD", &[], &request("9.0.0", &json!({})).to_string()))?;
        is(&error, "9.0.0", 1, &["9.0.0", "0.1.0", "1.1.0"])
    })
}

fn layout(version: &str) -> Result<()> {
    let node = Node::new()?;
    let _pod = node.pod("pod1")?;
    let ranges = json!({"ipam": {"ranges": [[{"subnet": "10.1.0.0/24"}], [{"subnet": "fd00:1::/64"}]]}});
    let mut request = request(version, &ranges);
    let result = call(&node, "ADD", &[], &request.to_string())?.context("no result")?;
    equal("cniVersion", &result["cniVersion"], &json!(version))?;
    let (v4, v6) = (["10.1.0.2/24", "10.1.0.1"], ["fd00:1::2/64", "fd00:1::1"]);
    if matches!(version, "0.1.0" | "0.2.0") {
        let family = |[ip, gateway]: [&str; 2], dst: &str| json!({"ip": ip, "gateway": gateway, "routes": [{"dst": dst, "gw": gateway}]});
        equal("ip4", &result["ip4"], &family(v4, "0.0.0.0/0"))?;
        equal("ip6", &result["ip6"], &family(v6, "::/0"))?;
        ensure!(
            result.get("ips").is_none() && result.get("interfaces").is_none(),
            "members of 0.3: {result}"
        );
    } else {
        for (index, ([address, gateway], family)) in [(v4, "4"), (v6, "6")].into_iter().enumerate() {
            let mut ip = json!({"address": address, "gateway": gateway, "interface": 2});
            if version.starts_with("0.") {
                ip["version"] = json!(family);
            }
            equal("the address", &result["ips"][index], &ip)?;
        }
        let inside = &result["interfaces"][2];
        equal("the name", &inside["name"], &json!("eth0"))?;
        equal("the sandbox", &inside["sandbox"], &json!("/run/netns/pod1"))?;
        let mtu = if version == "1.1.0" { json!(1500) } else { Value::Null };
        equal("the MTU", &inside["mtu"], &mtu)?;
    }
    request["prevResult"] = result;
    equal("the answer to DEL", call(&node, "DEL", &[], &request.to_string())?, None)?;
    // Not compared with before: IPv6 forwarding stays on.
    equal("leases left", node.tree("/var/lib/cni/networks")?, Vec::<String>::new())
}

fn unstated() -> Result<()> {
    let node = Node::new()?;
    let _pod = node.pod("pod1")?;
    let mut request = request("1.0.0", &json!({}));
    request.as_object_mut().context("an object")?.remove("cniVersion");
    let result = call(&node, "ADD", &[], &request.to_string())?.context("no result")?;
    equal("cniVersion", &result["cniVersion"], &json!("0.1.0"))?;
    equal("the address", &result["ip4"]["ip"], &json!("10.1.0.2/24"))?;
    let error = refused(call(&node, "CHECK", &[], &request.to_string()))?;
    is(&error, "0.1.0", 1, &["CHECK", "0.1.0"])
}

/// containernetworking/cni#560: K8S_* arguments without IgnoreUnknown are refused by the reference.
fn kubernetes() -> Result<()> {
    let node = Node::new()?;
    let _pod = node.pod("pod1")?;
    let args = "K8S_POD_NAMESPACE=default;K8S_POD_NAME=web-0;K8S_POD_INFRA_CONTAINER_ID=abc;FOO=BAR";
    let stdin = request("1.1.0", &json!({})).to_string();
    call(&node, "ADD", &[("CNI_ARGS", args)], &stdin)?.context("no result")?;
    call(&node, "DEL", &[("CNI_ARGS", args)], &stdin).map(drop)
}

fn status() -> Result<()> {
    let node = Node::new()?;
    let _pod = node.pod("pod1")?;
    let one = json!([[{"subnet": "10.1.0.0/24", "rangeStart": "10.1.0.2", "rangeEnd": "10.1.0.2"}]]);
    let stdin = request("1.1.0", &json!({"ipam": {"ranges": one}})).to_string();
    equal("the answer", exec(&node, plugin::NAME, "STATUS", &[], &stdin)?.document, None)?;
    call(&node, "ADD", &[], &stdin)?;
    let error = refused(exec(&node, plugin::NAME, "STATUS", &[], &stdin))?;
    is(&error, "1.1.0", 50, &["10.1.0.2"])
}

/// Pairs with both ends in the bridge, until the kernel takes no more.
fn full_bridge() -> Result<()> {
    let node = Node::new()?;
    let stdin = request("1.1.0", &json!({})).to_string();
    let status = || exec(&node, plugin::NAME, "STATUS", &[], &stdin);
    node.call("ip link add br0 type bridge")?;
    let pairs =
        "seq 510 | sed 's/.*/link add a& master br0 type veth peer name b& master br0/' | ip -batch -";
    let made = node.command("sh").args(["-c", pairs]).status()?;
    ensure!(made.success(), "making the ports: {made}");
    // The master that `ip` is told of is that of the first end only.
    let both = "seq 510 | sed 's/.*/link set b& master br0/' | ip -batch -";
    let set = node.command("sh").args(["-c", both]).status()?;
    ensure!(set.success(), "setting the ports: {set}");
    status().context("with three places left")?;
    for name in ["c0", "d0", "e0"] {
        node.call(&format!("ip link add {name} master br0 type veth peer name {name}b"))?;
    }
    ensure!(node.call("ip link set c0b master br0").is_err(), "the kernel takes more");
    is(&refused(status())?, "1.1.0", 50, &["br0", "1023"])
}

fn trace() -> Result<()> {
    let node = Node::new()?;
    let _pod = node.pod("pod1")?;
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    call(&node, "ADD", &[("TRACEPARENT", trace)], &request("1.1.0", &json!({})).to_string())?;
    let log = node.read(config::LOG)?;
    ensure!(log.lines().all(|line| line.contains(trace)) && !log.is_empty(), "no trace in the log:\n{log}");
    Ok(())
}
