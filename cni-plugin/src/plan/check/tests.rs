use super::*;
use crate::{
    cni::{request::Environment, types::Ip},
    config::NetConf,
    state::LeaseSource,
};

fn network(extra: &str) -> Network {
    let text = format!(
        r#"{{"cniVersion":"1.1.0","name":"n1","bridge":"br0","isDefaultGateway":true,"ipMasq":true{extra}}}"#
    );
    let raw = serde_json::from_str(&text).unwrap();
    let environment = Environment::read(|name| (name == "CNI_COMMAND").then(|| "STATUS".into())).unwrap();
    Network::validate(NetConf::parse(&raw).unwrap(), raw, &environment).unwrap()
}

fn record() -> Record {
    Record {
        network: "n1".into(),
        container_id: "c1".into(),
        ifname: "eth0".into(),
        netns: "/run/netns/c1".into(),
        bridge: "br0".into(),
        veth: "veth1".into(),
        addresses: vec!["10.1.0.2/24".parse().unwrap()],
        gateways: vec!["10.1.0.1".parse().unwrap()],
        routes: vec![Route {
            gw: Some("10.1.0.1".parse().unwrap()),
            ..Route::to("0.0.0.0/0".parse().unwrap())
        }],
        conf: serde_json::Value::Null,
        lease: LeaseSource::None,
        bpffs: None,
        iptables: false,
        not_accelerated: None,
        complete: true,
        pod: None,
        created: 0,
    }
}

fn previous() -> CniResult {
    let interface = |name: &str, sandbox: Option<&str>| Interface {
        name: name.into(),
        mac: None,
        mtu: None,
        sandbox: sandbox.map(Into::into),
    };
    CniResult {
        interfaces: vec![
            interface("br0", None),
            interface("veth1", None),
            interface("eth0", Some("/run/netns/c1")),
        ],
        ips: vec![Ip {
            interface: Some(2),
            address: "10.1.0.2/24".parse().unwrap(),
            gateway: Some("10.1.0.1".parse().unwrap()),
        }],
        ..CniResult::default()
    }
}

fn words(network: &Network, previous: &CniResult) -> Vec<String> {
    check(network, &record(), previous).unwrap().iter().map(ToString::to_string).collect()
}

#[test]
fn everything_that_add_makes_is_expected() {
    let expected = [
        "link br0 of the node up",
        "address 10.1.0.1/24 on link br0 of the node",
        "sysctl net.ipv4.ip_forward = 1 of the node",
        "masquerade rules of network n1 for 10.1.0.0/24",
        "link veth1 of the node up",
        "link veth1 a port of bridge br0",
        "link lo of the pod up",
        "link eth0 of the pod up",
        "address 10.1.0.2/24 on link eth0 of the pod",
        "route to 0.0.0.0/0 via 10.1.0.1 on eth0",
    ];
    let found = words(&network(""), &previous());
    for one in expected {
        assert!(found.iter().any(|found| found == one), "{one} is not among {found:#?}");
    }
}

#[test]
fn the_mtu_is_the_configured_one_unless_a_later_plugin_says_another() {
    let network = network(r#","mtu":1400"#);
    let found = words(&network, &previous());
    for one in ["MTU 1400 or more on link br0 of the node", "MTU 1400 on link eth0 of the pod"] {
        assert!(found.iter().any(|found| found == one), "{one} is not among {found:#?}");
    }
    let mut tuned = previous();
    tuned.interfaces[2].mtu = Some(1300);
    let found = words(&network, &tuned);
    assert!(found.contains(&"MTU 1300 on link eth0 of the pod".into()), "{found:#?}");
    assert!(!found.contains(&"MTU 1400 on link eth0 of the pod".into()), "{found:#?}");
    assert!(found.contains(&"MTU 1400 on link veth1 of the node".into()), "{found:#?}");
}

#[test]
fn what_later_plugins_added_is_not_expected_of_us() {
    let mut more = previous();
    more.interfaces.push(Interface {
        name: "tun0".into(),
        sandbox: Some("/x".into()),
        ..Interface::default()
    });
    more.ips.push(Ip { interface: Some(3), address: "192.0.2.7/32".parse().unwrap(), gateway: None });
    assert_eq!(words(&network(""), &more), words(&network(""), &previous()));
    assert_eq!(lost(&record(), &more), Vec::<String>::new());
}

#[test]
fn a_result_that_forgot_something_is_told() {
    let forgetful = CniResult { interfaces: previous().interfaces[..2].to_vec(), ..CniResult::default() };
    let expected = ["prevResult has no interface eth0 of the pod", "prevResult has no address 10.1.0.2/24"];
    assert_eq!(lost(&record(), &forgetful), expected);
}
