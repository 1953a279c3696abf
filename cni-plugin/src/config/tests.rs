use serde_json::{Value, json};

use super::*;
use crate::cni::request::Environment;

/// The configuration with these keys beside the required ones.
pub(super) fn validated(keys: Value) -> Result<Network, String> {
    let mut conf = json!({"cniVersion": "1.0.0", "name": "n1", "type": "ebpf-bridge"});
    conf.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
    let environment = Environment::read(|name| (name == "CNI_COMMAND").then(|| "STATUS".into())).unwrap();
    let keys = NetConf::parse(&conf).map_err(|error| error.to_string())?;
    LogConfig::validate(&keys).map_err(|error| error.to_string())?;
    Network::validate(keys, conf, &environment).map_err(|error| error.to_string())
}

#[test]
fn the_shortest_configuration_is_a_whole_network() {
    let network = validated(json!({"podCIDR": "10.244.1.7/24"})).unwrap();
    assert_eq!(network.bridge, "cni0");
    assert_eq!((network.gateway, network.ip_masq), (Gateway::DefaultRoute, true));
    let Ipam::HostLocal(config) = network.ipam else { panic!("{:?}", network.ipam) };
    assert_eq!(config.ranges.len(), 1);

    let network = validated(json!({"podCIDR": ["10.244.1.0/24", "fd00:1::/64"], "ipMasq": false})).unwrap();
    assert!(!network.ip_masq, "what is said counts");
    let Ipam::HostLocal(config) = network.ipam else { panic!("{:?}", network.ipam) };
    assert_eq!(config.ranges.len(), 2);
    assert_eq!(
        validated(json!({"podCIDR": "10.1.0.0/24", "isGateway": false})).unwrap().gateway,
        Gateway::None
    );
}

#[test]
fn without_any_key_there_is_a_bridge_and_nothing_more() {
    let network = validated(json!({})).unwrap();
    assert_eq!(network.bridge, "cni0");
    assert_eq!((network.gateway, network.ip_masq, network.ipam), (Gateway::None, false, Ipam::None));
    assert_eq!((network.vlans, network.masquerade_backend), (None, MasqueradeBackend::Nftables));
    let off = [network.hairpin, network.promiscuous, network.mac_spoof_check, network.detect_duplicates];
    assert!(!off.contains(&true) && !network.isolated && !network.container_interface_down);
}

#[test]
fn vlans_are_collected_sorted_and_once() {
    let trunk = json!([{"minID": 5, "maxID": 7}, {"id": 3}, {"id": 6}]);
    let network = validated(json!({"vlan": 100, "vlanTrunk": trunk, "preserveDefaultVlan": false})).unwrap();
    let expected = Vlans { access: Some(100), trunk: vec![3, 5, 6, 7], keep_default: false };
    assert_eq!(network.vlans, Some(expected));
    assert_eq!(network.gateway_link(), network.bridge);
    assert_eq!(validated(json!({"vlan": 0})).unwrap().vlans, None);
}

#[test]
fn the_gateway_inside_a_vlan_has_the_reference_s_name() {
    let inside = json!({"bridge": "br0", "vlan": 100, "isDefaultGateway": true});
    assert_eq!(validated(inside).unwrap().gateway_link(), "br0.100");
    let trunk = json!({"bridge": "br0", "vlanTrunk": [{"id": 100}], "isGateway": true});
    assert_eq!(validated(trunk).unwrap().gateway_link(), "br0");
}

#[test]
fn what_is_wrong_is_named() {
    let host_local = json!({"type": "host-local", "ranges": [[{"subnet": "10.1.0.0/24"}]]});
    let many: Vec<Value> =
        (0..33).map(|i| json!({"podCIDR": format!("10.{i}.0.0/24"), "via": "192.0.2.1"})).collect();
    for (keys, culprits) in [
        (json!({"hairpinMode": true, "promiscMode": true}), ["promiscMode", "hairpinMode"]),
        (
            json!({"disableContainerInterface": true, "ipam": host_local}),
            ["disableContainerInterface", "ipam"],
        ),
        (json!({"podCIDR": "10.1.0.0/24", "ipam": host_local}), ["podCIDR", "ipam"]),
        (json!({"podCIDR": "10.1.0.0"}), ["podCIDR", "10.1.0.0"]),
        (json!({"podCIDR": []}), ["podCIDR", "[]"]),
        (json!({"podCIDR": ["10.1.0.0/24", "10.2.0.0/24"]}), ["podCIDR", "each family"]),
        (json!({"podCIDR": 7}), ["podCIDR", "subnet"]),
        (
            json!({"nodeRoutes": [{"podCIDR": "10.2.0.0/24", "via": "fd00::1"}]}),
            ["nodeRoutes.via", "fd00::1"],
        ),
        (json!({"nodeRoutes": [{"podCIDR": "x", "via": "192.0.2.1"}]}), ["nodeRoutes.podCIDR", "x"]),
        (json!({"nodeRoutes": [{"podCIDR": "10.2.0.0/24"}]}), ["nodeRoutes", "via"]),
        (json!({"nodeRoutes": many}), ["nodeRoutes", "32"]),
        (json!({"vlan": 4095}), ["vlan", "4094"]),
        (json!({"bridge": "abcdefghijkl", "vlan": 100, "isGateway": true}), ["bridge", "abcdefghijkl.100"]),
        (json!({"vlan": -1}), ["vlan", "4094"]),
        (json!({"vlanTrunk": [{"id": 0}]}), ["vlanTrunk.id", "4094"]),
        (json!({"vlanTrunk": [{"minID": 5}]}), ["vlanTrunk.minID", "maxID"]),
        (json!({"vlanTrunk": [{"minID": 5, "maxID": 4}]}), ["vlanTrunk.minID", "4"]),
        (json!({"ipMasqBackend": "ipfw"}), ["ipMasqBackend", "iptables"]),
        (json!({"mtu": 67}), ["mtu", "68"]),
        (json!({"mtu": "1500"}), ["mtu", "1500"]),
        (json!({"bridge": "a/b"}), ["bridge", "a/b"]),
        (json!({"bridge": "br%d"}), ["bridge", "br%d"]),
        (json!({"bridge": "all"}), ["bridge", "all"]),
        (json!({"ebpf": {"uplinks": ["default"]}}), ["ebpf.uplinks", "default"]),
        (json!({"ipam": 5}), ["ipam", "5"]),
        (json!({"ipam": {"type": 5}}), ["ipam.type", "5"]),
        (json!({"ipam": {"type": "x".repeat(256)}}), ["ipam.type", "xxx"]),
        (json!({"runtimeConfig": {"ips": ["10.1.0.5/x"]}}), ["runtimeConfig.ips", "10.1.0.5/x"]),
        (json!({"runtimeConfig": {"mac": "+2:+0:+0:+0:+0:+1"}}), ["runtimeConfig.mac", "+2"]),
        (json!({"runtimeConfig": {"mac": "01:00:00:00:00:01"}}), ["runtimeConfig.mac", "unicast"]),
    ] {
        let message = validated(keys.clone()).expect_err(&keys.to_string());
        assert!(culprits.iter().all(|culprit| message.contains(culprit)), "{keys}: {message}");
    }
}
