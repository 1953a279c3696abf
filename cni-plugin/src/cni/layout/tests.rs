//! The documents are those of the specification's versions, sections "Result", written out by hand.

use super::*;

fn result(version: &str) -> CniResult {
    let route =
        |dst: &str, gw: &str| Route { gw: Some(gw.parse().unwrap()), ..Route::to(dst.parse().unwrap()) };
    let ip = |address: &str, gateway: &str| Ip {
        interface: Some(1),
        address: address.parse().unwrap(),
        gateway: Some(gateway.parse().unwrap()),
    };
    CniResult {
        cni_version: version.into(),
        interfaces: vec![
            Interface {
                name: "br0".into(),
                mac: Some("02:00:00:00:00:01".into()),
                mtu: Some(1500),
                sandbox: None,
            },
            Interface {
                name: "eth0".into(),
                mac: None,
                mtu: Some(1500),
                sandbox: Some("/run/netns/c".into()),
            },
        ],
        ips: vec![ip("10.1.0.2/24", "10.1.0.1"), ip("10.2.0.2/24", "10.2.0.1"), ip("fd00::2/64", "fd00::1")],
        routes: vec![route("0.0.0.0/0", "10.1.0.1"), route("::/0", "fd00::1")],
        dns: Dns { nameservers: vec!["10.1.0.1".into()], ..Dns::default() },
    }
}

#[test]
fn the_old_layout_has_one_address_per_family() {
    for version in ["0.1.0", "0.2.0"] {
        let expected = json!({
            "cniVersion": version,
            "ip4": {"ip": "10.1.0.2/24", "gateway": "10.1.0.1", "routes": [{"dst": "0.0.0.0/0", "gw": "10.1.0.1"}]},
            "ip6": {"ip": "fd00::2/64", "gateway": "fd00::1", "routes": [{"dst": "::/0", "gw": "fd00::1"}]},
            "dns": {"nameservers": ["10.1.0.1"]},
        });
        assert_eq!(encode(&result(version)).unwrap(), expected);
    }
}

#[test]
fn addresses_tell_their_family_before_1_0_and_interfaces_their_mtu_from_1_1() {
    for version in ["0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"] {
        let mut interfaces = json!([
            {"name": "br0", "mac": "02:00:00:00:00:01"},
            {"name": "eth0", "sandbox": "/run/netns/c"},
        ]);
        if version == "1.1.0" {
            interfaces[0]["mtu"] = json!(1500);
            interfaces[1]["mtu"] = json!(1500);
        }
        let mut ips = json!([
            {"interface": 1, "address": "10.1.0.2/24", "gateway": "10.1.0.1"},
            {"interface": 1, "address": "10.2.0.2/24", "gateway": "10.2.0.1"},
            {"interface": 1, "address": "fd00::2/64", "gateway": "fd00::1"},
        ]);
        if version.starts_with("0.") {
            for (index, family) in ["4", "4", "6"].into_iter().enumerate() {
                ips[index]["version"] = json!(family);
            }
        }
        let expected = json!({
            "cniVersion": version,
            "interfaces": interfaces,
            "ips": ips,
            "routes": [{"dst": "0.0.0.0/0", "gw": "10.1.0.1"}, {"dst": "::/0", "gw": "fd00::1"}],
            "dns": {"nameservers": ["10.1.0.1"]},
        });
        assert_eq!(encode(&result(version)).unwrap(), expected, "{version}");
    }
}

#[test]
fn a_result_of_any_version_is_read_back() {
    let newest = result("1.1.0");
    for version in super::super::version::SUPPORTED {
        let read = decode(&encode(&result(version)).unwrap()).unwrap();
        assert_eq!(read.routes, newest.routes, "{version}");
        assert_eq!(read.dns, newest.dns, "{version}");
        match Layout::of(version) {
            Layout::PerFamily => {
                let addresses: Vec<String> = read.ips.iter().map(|ip| ip.address.to_string()).collect();
                assert_eq!(addresses, ["10.1.0.2/24", "fd00::2/64"]);
            }
            _ => assert_eq!(read.ips, newest.ips, "{version}"),
        }
    }
}

#[test]
fn nothing_is_a_result_too_and_unknown_members_are_fine() {
    assert_eq!(decode(&Value::Null).unwrap(), CniResult::default());
    assert_eq!(decode(&json!({})).unwrap(), CniResult::default());
    let odd =
        json!({"cniVersion": "1.0.0", "ips": null, "interfaces": [{"name": "x", "pciID": "1"}], "new": 1});
    assert_eq!(decode(&odd).unwrap().interfaces[0].name, "x");
    assert!(decode(&json!({"ips": [{"address": "nowhere"}]})).is_err());
}
