//! Expected values are what the reference host-local 1.1.1 answers, except where a comment says otherwise.

use serde_json::{Value, json};

use super::*;

fn range(spec: Value) -> Result<Range, RangeError> {
    Range::new("ipam", &serde_json::from_value(spec).unwrap())
}

fn message(spec: Value) -> String {
    range(spec).unwrap_err().to_string()
}

#[test]
fn bounds_and_gateway_default_to_the_subnet() {
    let v4 = range(json!({"subnet": "10.1.0.0/29"})).unwrap();
    assert_eq!(v4.to_string(), "10.1.0.1-10.1.0.6");
    assert_eq!(v4.gateway().to_string(), "10.1.0.1");
    let v6 = range(json!({"subnet": "fd00:5::/64"})).unwrap();
    assert_eq!(v6.to_string(), "fd00:5::1-fd00:5::ffff:ffff:ffff:ffff");
    assert_eq!(v6.gateway().to_string(), "fd00:5::1");
}

#[test]
fn null_and_empty_count_as_absent() {
    let spec = json!({"subnet": "10.1.0.0/29", "rangeStart": null, "rangeEnd": "", "gateway": ""});
    assert_eq!(range(spec).unwrap(), range(json!({"subnet": "10.1.0.0/29"})).unwrap());
}

#[test]
fn the_gateway_may_lie_outside_but_not_in_the_other_family() {
    let range_ = range(json!({"subnet": "10.3.0.0/24", "gateway": "10.9.0.1"})).unwrap();
    assert_eq!(range_.gateway().to_string(), "10.9.0.1");
    assert_eq!(
        message(json!({"subnet": "10.3.0.0/24", "gateway": "fd00::1"})),
        "ipam.gateway is fd00::1, but must be of the same family as 10.3.0.0/24"
    );
}

/// Not so in the reference: it leases 10.3.0.0 and 10.3.0.255 here.
#[test]
fn network_and_broadcast_address_are_left_out_of_explicit_bounds() {
    let spec = json!({"subnet": "10.3.0.0/24", "rangeStart": "10.3.0.0", "rangeEnd": "10.3.0.255"});
    assert_eq!(range(spec).unwrap().to_string(), "10.3.0.1-10.3.0.254");
    let spec = json!({"subnet": "fd00::/120", "rangeStart": "fd00::", "rangeEnd": "fd00::ff"});
    assert_eq!(range(spec).unwrap().to_string(), "fd00::1-fd00::ff");
}

#[test]
fn errors_name_key_value_and_what_is_allowed() {
    let cases = [
        (json!({}), "ipam.subnet is missing, but every range needs a subnet such as \"10.1.0.0/16\""),
        (
            json!({"subnet": "10.3.0.0"}),
            "ipam.subnet is \"10.3.0.0\", but must be an address and a prefix length such as \"10.1.0.0/16\"",
        ),
        (
            json!({"subnet": 7}),
            "ipam.subnet is 7, but must be an address and a prefix length such as \"10.1.0.0/16\"",
        ),
        (
            json!({"subnet": "10.1.0.5/29"}),
            "ipam.subnet is 10.1.0.5/29, which has host bits set; the network address is 10.1.0.0/29",
        ),
        (
            json!({"subnet": "10.1.0.0/31"}),
            "ipam.subnet is 10.1.0.0/31, too small to lease from: a prefix length of at most 30 is allowed",
        ),
        (
            json!({"subnet": "fd00::/127"}),
            "ipam.subnet is fd00::/127, too small to lease from: a prefix length of at most 126 is allowed",
        ),
        (
            json!({"subnet": "10.3.0.0/24", "rangeStart": "10.4.0.1"}),
            "ipam.rangeStart is 10.4.0.1, but must be an address of 10.3.0.0/24",
        ),
        (
            json!({"subnet": "10.3.0.0/24", "rangeEnd": "x"}),
            "ipam.rangeEnd is \"x\", but must be an IP address such as \"10.1.0.20\"",
        ),
        (
            json!({"subnet": "10.3.0.0/24", "rangeStart": "10.3.0.9", "rangeEnd": "10.3.0.7"}),
            "ipam.rangeStart is 10.3.0.9, but must be at most 10.3.0.7, the last address to lease",
        ),
        // The reference leases the broadcast address here.
        (
            json!({"subnet": "10.3.0.0/24", "rangeStart": "10.3.0.255"}),
            "ipam.rangeStart is 10.3.0.255, but must be at most 10.3.0.254, the last address to lease",
        ),
    ];
    for (spec, expected) in cases {
        assert_eq!(message(spec), expected);
    }
    for prefix in ["10.1.0.0/32", "fd00::/128", "10.1.0.0/33", "::ffff:10.0.0.0/130"] {
        assert!(range(json!({"subnet": prefix})).is_err(), "{prefix}");
    }
}
