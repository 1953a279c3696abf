//! The same configuration for the reference plugin and for ours: what each makes of it, compared.

mod allowed;
mod view;

use anyhow::{Context, Result, ensure};
use ebpf_bridge_lab::libcni::{AddResult, Conflist, Container, Runtime};
use ebpf_bridge_lab::{Need, Node, Place, Pod, config, traffic};
use serde_json::{Value, json};

use crate::suite::Suite;
use view::View;

pub(crate) fn register(suite: &mut Suite) {
    for case in cases() {
        let needs = [&[Need::Peer("bridge"), Need::Peer("host-local")], case.needs].concat();
        suite.test_with(&needs, format!("differential: {}", case.name), move || compare(&case));
    }
    suite.test(
        "differential: every allowed difference is explained in docs/differences.md",
        allowed::explained,
    );
}

/// A configuration, and what is on the node before.
struct Case {
    name: &'static str,
    keys: Value,
    prepare: &'static [&'static str],
    needs: &'static [Need],
}

fn case(name: &'static str, keys: Value) -> Case {
    Case { name, keys, prepare: &[], needs: &[] }
}

fn cases() -> Vec<Case> {
    let dual = json!({"ipam": {"ranges": [[{"subnet": "10.1.0.0/24"}], [{"subnet": "fd00:1::/64"}]]}});
    let both = |keys: Value| config::with(dual.clone(), &keys);
    let layer2 =
        |keys: Value| config::with(json!({"isDefaultGateway": false, "ipMasq": false, "ipam": {}}), &keys);
    let routes = json!([{"dst": "203.0.113.0/24"}, {"dst": "192.0.2.0/24", "gw": "10.1.0.9"}]);
    let default = json!([{"dst": "0.0.0.0/0", "gw": "10.1.0.1"}]);
    let dns = json!({"nameservers": ["10.96.0.10"], "domain": "cluster.local", "search": ["a", "b"], "options": ["c"]});
    let mut cases = vec![
        case("no key", json!({"isDefaultGateway": false, "ipMasq": false})),
        case("isGateway", json!({"isDefaultGateway": false, "isGateway": true})),
        case("isDefaultGateway", json!({})),
        case("isDefaultGateway, both families", both(json!({}))),
        case("isGateway, both families", both(json!({"isDefaultGateway": false, "isGateway": true}))),
        case("without ipMasq", json!({"ipMasq": false})),
        case("mtu", both(json!({"mtu": 1400}))),
        case("mtu 9000", json!({"mtu": 9000})),
        case("hairpinMode", json!({"hairpinMode": true})),
        case("promiscMode", json!({"promiscMode": true})),
        case("promiscMode and mtu, both families", both(json!({"promiscMode": true, "mtu": 1300}))),
        case("enabledad, both families", both(json!({"enabledad": true}))),
        case("runtimeConfig.mac", json!({"runtimeConfig": {"mac": "c2:11:22:33:44:55"}})),
        case("args.cni.mac", json!({"args": {"cni": {"mac": "c2:11:22:33:44:66"}}})),
        case("runtimeConfig.ips", json!({"runtimeConfig": {"ips": ["10.1.0.77/24"]}})),
        case("args.cni.ips", json!({"args": {"cni": {"ips": ["10.1.0.88"]}}})),
        case("runtimeConfig.ipRanges", json!({"runtimeConfig": {"ipRanges": [[{"subnet": "fd00:1::/64"}]]}})),
        case(
            "runtimeConfig.mac before args.cni.mac",
            json!({"runtimeConfig": {"mac": "c2:11:22:33:44:55"}, "args": {"cni": {"mac": "c2:11:22:33:44:66"}}}),
        ),
        case("ipMasqBackend nftables", both(json!({"ipMasqBackend": "nftables"}))),
        case("routes of the IPAM", json!({"ipam": {"routes": routes}})),
        case(
            "routes of the IPAM without a default route",
            json!({"isDefaultGateway": false, "isGateway": true, "ipam": {"routes": routes}}),
        ),
        case(
            "a default route of the IPAM",
            json!({"isDefaultGateway": false, "isGateway": true, "ipam": {"routes": default}}),
        ),
        case("a default route of the IPAM and isDefaultGateway", json!({"ipam": {"routes": default}})),
        case("dns", json!({"dns": dns})),
        case("no ipam", layer2(json!({}))),
        case("no ipam, hairpinMode and mtu", layer2(json!({"hairpinMode": true, "mtu": 1400}))),
        case(
            "a gateway in the middle of the range",
            json!({"ipam": {"ranges": [[{"subnet": "10.1.0.0/24", "gateway": "10.1.0.77"}]]}}),
        ),
        case(
            "a range within the subnet",
            json!({"ipam": {"ranges": [[{"subnet": "10.1.0.0/16", "rangeStart": "10.1.7.5", "rangeEnd": "10.1.7.9"}]]}}),
        ),
        case(
            "hairpinMode, dns and routes, both families",
            both(json!({"hairpinMode": true, "dns": dns, "ipam": {"routes": routes}})),
        ),
    ];
    cases.push(Case {
        needs: &[Need::Tool("iptables"), Need::Tool("ip6tables")],
        ..case("ipMasqBackend iptables", both(json!({"ipMasqBackend": "iptables"})))
    });
    cases.push(Case { needs: &[Need::BridgeFilter], ..case("macspoofchk", json!({"macspoofchk": true})) });
    for (name, keys) in [
        ("vlan", json!({"isDefaultGateway": false, "ipMasq": false, "vlan": 100})),
        ("vlan and isDefaultGateway", json!({"vlan": 100})),
        ("vlan, no ipam", config::with(layer2(json!({})), &json!({"vlan": 100}))),
    ] {
        cases.push(Case { needs: &[Need::VlanFiltering], ..case(name, keys) });
    }
    cases.push(Case {
        prepare: &["ip link add br0 type bridge"],
        ..case("a bridge that is there", json!({}))
    });
    cases.push(Case {
        prepare: &["ip link add br0 type bridge", "ip address add 10.9.0.1/24 dev br0"],
        ..case("forceAddress and another address", json!({"forceAddress": true}))
    });
    cases
}

fn compare(case: &Case) -> Result<()> {
    let theirs = made_by("bridge", case).context("by the reference")?;
    let ours = made_by("ebpf-bridge", case).context("by ours")?;
    let differences: Vec<String> =
        ours.differences(&theirs).filter(|line| !allowed::is_allowed(line)).collect();
    ensure!(differences.is_empty(), "ours and the reference's differ:\n  {}", differences.join("\n  "));
    Ok(())
}

/// Two pods of a network, made by one of the plugins.
struct Made {
    node: Node,
    pods: [Pod; 2],
    results: [AddResult; 2],
}

fn made_by(kind: &str, case: &Case) -> Result<View> {
    let node = Node::new()?;
    case.prepare.iter().try_for_each(|call| node.call(call).map(drop))?;
    let base = json!({
        "type": kind, "bridge": config::BRIDGE, "isDefaultGateway": true, "ipMasq": true,
        "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.1.0.0/24"}]]},
    });
    let mut plugin = config::with(base, &case.keys);
    if case.keys["ipam"] == json!({}) {
        plugin["ipam"] = json!({});
    }
    let runtime = Runtime::new(Conflist::of(plugin));
    let pods = [node.pod("pod1")?, node.pod("pod2")?];
    let results = [runtime.add(&node, &Container::of(&pods[0]))?];
    // A second pod would take the MAC or the address that the first one asked for.
    let keys = case.keys.to_string();
    let alone = ["c2:11", "\"ips\""].iter().any(|asked| keys.contains(asked));
    let second = if alone { &pods[0] } else { &pods[1] };
    let second = if std::ptr::eq(second, &pods[0]) {
        results[0].clone()
    } else {
        runtime.add(&node, &Container::of(second))?
    };
    let [first] = results;
    let made = Made { node, pods, results: [first, second] };
    let mut view = View::of(&made)?;
    reachability(&made, &mut view)?;
    for pod in &made.pods {
        runtime.del(&made.node, &Container::of(pod))?;
    }
    view.after_del(&made.node)?;
    Ok(view)
}

/// Who reaches whom, and as whom it is seen.
fn reachability(made: &Made, view: &mut View) -> Result<()> {
    let (from, outside) = (&made.pods[0], made.node.outside());
    let mut ways: Vec<(String, &Place, std::net::IpAddr)> = Vec::new();
    for (index, ip) in made.results[1].ips.iter().enumerate() {
        ways.push((format!("pod {index}"), &made.pods[1], ip.address.ip()));
        ways.extend(ip.gateway.map(|gateway| (format!("gateway {index}"), &*made.node as &Place, gateway)));
    }
    ways.push(("outside v4".into(), outside, outside.address()));
    ways.push(("outside v6".into(), outside, outside.address_v6()));
    for (name, to, address) in ways {
        let seen = settled(|| traffic::echo(from, to, address, 1, 100).ok().filter(|echo| echo.lost == 0));
        let seen = seen.map_or("unreachable".to_owned(), |echo| echo.peer.ip().to_string());
        view.note(format!("reach {name}"), seen);
    }
    Ok(())
}

/// The reference returns before its bridge forwards; that is another test's matter.
fn settled<T>(attempt: impl Fn() -> Option<T>) -> Option<T> {
    (0..10).find_map(|_| attempt())
}
