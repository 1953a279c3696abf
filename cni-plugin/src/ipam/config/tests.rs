use serde_json::json;

use super::*;

fn pools(config: &HostLocalConfig) -> Vec<String> {
    config.ranges.iter().map(RangeSet::to_string).collect()
}

fn message(ipam: Value) -> String {
    HostLocalConfig::parse(&ipam, None).unwrap_err().to_string()
}

#[test]
fn all_keys_are_read_and_others_tolerated() {
    let ipam = json!({
        "type": "host-local", "foo": [1], "dataDir": "/run/x", "resolvConf": "/etc/resolv.conf",
        "ranges": [[{"subnet": "10.1.0.0/24", "rangeEnd": "10.1.0.9", "bar": 1}], [{"subnet": "fd00::/126"}]],
        "routes": [{"dst": "0.0.0.0/0"}, {"dst": "10.0.0.0/8", "gw": "10.1.0.7", "mtu": 1400}]
    });
    let config = HostLocalConfig::parse(&ipam, None).unwrap();
    assert_eq!(pools(&config), ["10.1.0.1-10.1.0.9", "fd00::1-fd00::3"]);
    assert_eq!(config.data_dir, PathBuf::from("/run/x"));
    assert_eq!(config.resolv_conf, Some(PathBuf::from("/etc/resolv.conf")));
    assert_eq!(config.routes[0].dst.to_string(), "0.0.0.0/0");
    assert_eq!((config.routes[1].gw, config.routes[1].mtu), (Some("10.1.0.7".parse().unwrap()), Some(1400)));
}

#[test]
fn the_runtimes_ranges_come_first_then_the_legacy_one() {
    let ipam =
        json!({"subnet": "10.2.0.0/30", "gateway": "10.2.0.2", "ranges": [[{"subnet": "10.3.0.0/30"}]]});
    let runtime = json!([[{"subnet": "10.1.0.0/30"}]]);
    let config = HostLocalConfig::parse(&ipam, Some(&runtime)).unwrap();
    assert_eq!(pools(&config), ["10.1.0.1-10.1.0.2", "10.2.0.1-10.2.0.2", "10.3.0.1-10.3.0.2"]);
    assert!(config.ranges[1].is_gateway("10.2.0.2".parse().unwrap()));
    assert_eq!(config.data_dir, PathBuf::from("/var/lib/cni/networks"));
}

#[test]
fn errors_name_the_place() {
    let cases = [
        (json!({"ranges": []}), "ipam.ranges holds no range, but must hold one, or ipam.subnet be set"),
        (json!({}), "ipam.ranges holds no range, but must hold one, or ipam.subnet be set"),
        (json!({"ranges": [[]]}), "ipam.ranges[0] is an empty list, but must hold at least one range"),
        (
            json!({"ranges": "10.1.0.0/24"}),
            "ipam.ranges is \"10.1.0.0/24\", but must be a list of lists of ranges",
        ),
        (
            json!({"subnet": "10.1.0.0/24", "ranges": [[{"subnet": "10.2.0.0/24"}, {"gateway": "10.1.0.1"}]]}),
            "ipam.ranges[0][1].subnet is missing, but every range needs a subnet such as \"10.1.0.0/16\"",
        ),
        (
            json!({"subnet": "10.1.0.0/24", "ranges": [[{"subnet": "10.1.0.0/24"}]]}),
            "ipam.ranges[0] holds 10.1.0.1-10.1.0.254, which overlaps 10.1.0.1-10.1.0.254 of ipam.subnet; \
             no address may be in two ranges",
        ),
        (
            json!({"subnet": "10.1.0.0/24", "routes": [{"dst": "10.0.0.0/8"}, {"gw": "10.1.0.1"}]}),
            "ipam.routes[1] is {\"gw\":\"10.1.0.1\"}, but must be a route such as {\"dst\":\"0.0.0.0/0\"}",
        ),
        (
            json!({"subnet": "10.1.0.0/24", "dataDir": "rel/x"}),
            "ipam.dataDir is \"rel/x\", but must be an absolute path without \"..\"",
        ),
        (
            json!({"subnet": "10.1.0.0/24", "dataDir": "/var/lib/../../etc"}),
            "ipam.dataDir is \"/var/lib/../../etc\", but must be an absolute path without \"..\"",
        ),
    ];
    for (ipam, expected) in cases {
        assert_eq!(message(ipam), expected);
    }
}

#[test]
fn the_data_dir_can_be_had_from_a_broken_configuration() {
    let ipam = json!({"ranges": 5, "dataDir": "/run/x"});
    assert_eq!(HostLocalConfig::data_dir_of(&ipam).unwrap(), PathBuf::from("/run/x"));
}
