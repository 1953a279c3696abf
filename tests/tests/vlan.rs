//! VLANs: who is in which, what is tagged, and what a gateway inside one of them is.

use anyhow::{Context, Result, ensure};
use ebpf_bridge_lab::libcni::{AddResult, Conflist, Container, Runtime};
use ebpf_bridge_lab::{Need, Node, Place, Pod, Snapshot, Variant, config, observe, traffic};
use serde_json::{Value, json};

use crate::check::{differs, equal, refused};
use crate::suite::Suite;

pub(crate) fn register(suite: &mut Suite) {
    let needs = [Need::VlanFiltering];
    for variant in [Variant::Auto, Variant::Off] {
        suite.test_with(
            &needs,
            format!("vlan: pods of one VLAN reach each other, of two they do not, {variant}"),
            move || apart(variant),
        );
        suite.test_with(
            &needs,
            format!("vlan: a gateway inside a VLAN is its pods' way out, and nobody else's, {variant}"),
            move || gateway(variant),
        );
    }
    suite.test_with(
        &[Need::VlanFiltering, Need::VlanLink],
        "vlan: a trunk carries tagged frames of its VLANs",
        trunk,
    );
    for (keys, expected) in DEFAULTS {
        suite.test_with(&needs, format!("vlan: the default VLAN of a port, {keys}"), move || {
            default(keys, expected)
        });
    }
    for (what, damage, words) in DAMAGES {
        suite.test_with(&needs, format!("vlan: CHECK is told that {what}"), move || noticed(damage, words));
    }
    suite.test_with(&needs, "vlan: DEL leaves the bridge and the gateway inside the VLAN", after_del);
}

/// Keys, and the VLANs of the port: number and flags as `bridge vlan` shows them. As documented for the reference.
const DEFAULTS: [(&str, &[(u64, &str)]); 5] = [
    (r#"{"vlan":100}"#, &[(1, "Egress Untagged"), (100, "PVID Egress Untagged")]),
    (r#"{"vlan":100,"preserveDefaultVlan":false}"#, &[(100, "PVID Egress Untagged")]),
    (r#"{"vlan":1,"preserveDefaultVlan":false}"#, &[(1, "PVID Egress Untagged")]),
    (r#"{"vlanTrunk":[{"minID":100,"maxID":101}]}"#, &[(1, "PVID Egress Untagged"), (100, ""), (101, "")]),
    (r#"{"vlanTrunk":[{"id":100}],"preserveDefaultVlan":false}"#, &[(100, "")]),
];

/// What somebody did, and the words CHECK must say.
const DAMAGES: [(&str, &str, &[&str]); 5] = [
    ("the pod's VLAN is gone", "bridge vlan del dev {veth} vid 100", &["VLAN 100", "{veth}"]),
    ("the pod's VLAN is tagged", "bridge vlan add dev {veth} vid 100", &["VLAN 100 untagged", "{veth}"]),
    ("the default VLAN is back", "bridge vlan add dev {veth} vid 1", &["no VLAN 1", "{veth}"]),
    ("the bridge filters no more", "ip link set br0 type bridge vlan_filtering 0", &["br0", "filter"]),
    ("the gateway's link is gone", "ip link del br0.100", &["br0.100"]),
];

/// Whether netfilter sees bridged packets; only there with br_netfilter.
const BRIDGED: &str = "net.bridge.bridge-nf-call-iptables";

/// A node whose pods are in networks that share bridge and addresses, and differ in their VLAN keys.
struct Lan {
    node: Node,
    variant: Variant,
}

/// A pod, and how it was attached.
struct Member {
    pod: Pod,
    runtime: Runtime,
    result: AddResult,
}

impl Lan {
    fn new(variant: Variant) -> Result<Lan> {
        Ok(Lan { node: variant.node()?, variant })
    }

    /// A pod without a gateway unless `keys` ask for one.
    fn pod(&self, name: &str, keys: &Value) -> Result<Member> {
        let plain = json!({"isGateway": false, "isDefaultGateway": false, "ipMasq": false});
        let network = config::with(config::with(config::bridge(self.variant.mode()), &plain), keys);
        let runtime = Runtime::new(Conflist::of(network));
        let pod = self.node.pod(name)?;
        let result =
            runtime.add(&self.node, &Container::of(&pod)).with_context(|| format!("ADD of {name}"))?;
        Ok(Member { pod, runtime, result })
    }
}

impl Member {
    fn address(&self) -> Result<std::net::IpAddr> {
        self.result.address()
    }

    fn veth(&self) -> Result<&str> {
        Ok(&self.result.veth()?.name)
    }
}

fn reaches(from: &Place, to: &Place, address: std::net::IpAddr) -> bool {
    traffic::echo(from, to, address, 2, 100).is_ok_and(|echo| echo.lost == 0)
}

fn apart(variant: Variant) -> Result<()> {
    let lan = Lan::new(variant)?;
    let inside = json!({"vlan": 100, "preserveDefaultVlan": false});
    let pods = [lan.pod("a", &inside)?, lan.pod("b", &inside)?];
    let other = lan.pod("c", &json!({"vlan": 200, "preserveDefaultVlan": false}))?;
    let none = lan.pod("d", &json!({}))?;
    let [a, b] = &pods;
    // Long enough to be learned and repeated.
    let sent = traffic::upload(&a.pod, &b.pod, b.address()?, 4 << 20)?;
    equal("the client as the server sees it", sent.peer.ip(), a.address()?)?;
    for stranger in [&other, &none] {
        ensure!(!reaches(&stranger.pod, &b.pod, b.address()?), "a pod of another VLAN gets in");
        ensure!(!reaches(&b.pod, &stranger.pod, stranger.address()?), "a pod of the VLAN gets out");
    }
    ensure!(reaches(&b.pod, &a.pod, a.address()?), "pods of one VLAN do not reach each other any more");
    Ok(())
}

fn gateway(variant: Variant) -> Result<()> {
    let lan = Lan::new(variant)?;
    // The way to the gateway is over the bridge. Where netfilter sees that, too, it masquerades there already, with an
    // address that the gateway then takes for its own; with the reference plugin as well.
    if lan.node.sysctl(BRIDGED).is_ok() {
        lan.node.set_sysctl(BRIDGED, "0")?;
    }
    let inside = json!({"vlan": 100, "preserveDefaultVlan": false, "isDefaultGateway": true, "ipMasq": true});
    let (a, b) = (lan.pod("a", &inside)?, lan.pod("b", &inside)?);
    let stranger = lan.pod("c", &json!({"vlan": 200, "preserveDefaultVlan": false}))?;
    let link = observe::link(&lan.node, "br0.100")?;
    equal("addresses of br0.100", &link.addresses[..], ["10.1.0.1/24".parse()?])?;
    equal("addresses of the bridge", observe::link(&lan.node, config::BRIDGE)?.addresses, vec![])?;
    let told = a.result.interfaces.last().context("no interfaces")?;
    equal("the last interface of the result", told.name.as_str(), "br0.100")?;
    equal("its MAC", told.mac.as_deref(), Some(&*link.mac))?;
    let outside = lan.node.outside();
    for pod in [&a, &b] {
        let sent = traffic::upload(&pod.pod, outside, outside.address(), 4 << 20)?;
        equal("the client as outside sees it", sent.peer.ip(), outside.node_address())?;
    }
    let own = "10.1.0.1".parse()?;
    ensure!(reaches(&a.pod, &lan.node, own), "the gateway does not answer its pods");
    ensure!(!reaches(&stranger.pod, &lan.node, own), "the gateway answers a pod of another VLAN");
    Ok(())
}

/// Frames reach the trunk tagged: its link for the VLAN gets them, and its plain link does not.
fn trunk() -> Result<()> {
    let lan = Lan::new(Variant::Auto)?;
    let trunk =
        lan.pod("t", &json!({"vlanTrunk": [{"minID": 100, "maxID": 101}], "preserveDefaultVlan": false}))?;
    let [a, b, c] = [("a", 100), ("b", 101), ("c", 102)]
        .map(|(name, vlan)| lan.pod(name, &json!({"vlan": vlan, "preserveDefaultVlan": false})));
    let (a, b, c) = (a?, b?, c?);
    for (vlan, last) in [(100, 201), (101, 202), (102, 203)] {
        trunk.pod.call(&format!("ip link add link eth0 name eth0.{vlan} type vlan id {vlan}"))?;
        trunk.pod.call(&format!("ip address add 10.1.0.{last}/32 dev eth0.{vlan}"))?;
        trunk.pod.call(&format!("ip link set eth0.{vlan} up"))?;
    }
    trunk.pod.call("ip address flush dev eth0")?;
    for (peer, vlan) in [(&a, 100), (&b, 101), (&c, 102)] {
        trunk.pod.call(&format!("ip route add {}/32 dev eth0.{vlan}", peer.address()?))?;
    }
    for (peer, carried) in [(&a, true), (&b, true), (&c, false)] {
        let arrives = reaches(&trunk.pod, &peer.pod, peer.address()?);
        equal(&format!("whether the trunk reaches {}", peer.pod.name()), arrives, carried)?;
    }
    // The kernel hands a frame to eth0.100 by its tag alone.
    let received = |name: &str| -> Result<u64> {
        let shown = trunk.pod.call_json(&format!("ip -s -j link show dev {name}"))?;
        shown[0]["stats64"]["rx"]["packets"].as_u64().context("no count of packets")
    };
    ensure!(received("eth0.100")? > 0 && received("eth0.101")? > 0, "nothing was tagged");
    equal("frames of a VLAN that is not the trunk's", received("eth0.102")?, 0)
}

fn default(keys: &str, expected: &[(u64, &str)]) -> Result<()> {
    let lan = Lan::new(Variant::Off)?;
    let member = lan.pod("a", &serde_json::from_str(keys)?)?;
    let shown = lan.node.call_json(&format!("bridge -j vlan show dev {}", member.veth()?))?;
    let vlans = shown[0]["vlans"].as_array().into_iter().flatten();
    let flags = |vlan: &Value| {
        let flags = vlan["flags"].as_array().into_iter().flatten().filter_map(Value::as_str);
        flags.collect::<Vec<_>>().join(" ")
    };
    let found: Vec<(u64, String)> =
        vlans.map(|vlan| (vlan["vlan"].as_u64().unwrap_or_default(), flags(vlan))).collect();
    let expected: Vec<(u64, String)> = expected.iter().map(|&(vlan, flags)| (vlan, flags.into())).collect();
    equal("VLANs of the port", found, expected)
}

fn noticed(damage: &str, words: &[&str]) -> Result<()> {
    let lan = Lan::new(Variant::Off)?;
    let keys =
        json!({"vlan": 100, "vlanTrunk": [{"id": 7}], "preserveDefaultVlan": false, "isGateway": true});
    let member = lan.pod("a", &keys)?;
    let (container, veth) = (Container::of(&member.pod), member.veth()?.to_owned());
    member.runtime.check(&lan.node, &container).context("before the damage")?;
    lan.node.call(&damage.replace("{veth}", &veth))?;
    differs(&refused(member.runtime.check(&lan.node, &container))?, words, &veth)
}

fn after_del() -> Result<()> {
    let lan = Lan::new(Variant::Auto)?;
    lan.node.set_sysctl("net.ipv4.ip_forward", "1")?;
    let inside = json!({"vlan": 100, "isDefaultGateway": true, "ipMasq": true});
    let first = lan.pod("a", &inside)?;
    first.runtime.del(&lan.node, &Container::of(&first.pod))?;
    let before = Snapshot::take(&lan.node)?;
    equal("addresses of br0.100", observe::link(&lan.node, "br0.100")?.addresses.len(), 1)?;
    let trunk = json!({"vlanTrunk": [{"minID": 2, "maxID": 40}]});
    for member in [lan.pod("b", &inside)?, lan.pod("c", &trunk)?] {
        member.runtime.del(&lan.node, &Container::of(&member.pod))?;
    }
    Snapshot::take(&lan.node)?.ensure_equals(&before)
}
