use std::collections::BTreeSet;
use std::net::{Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn range(subnet: &str, start: Option<&str>, end: Option<&str>, gateway: Option<&str>) -> Range {
    let spec = json!({"subnet": subnet, "rangeStart": start, "rangeEnd": end, "gateway": gateway});
    Range::new("r", &serde_json::from_value(spec).unwrap()).unwrap()
}

fn order(set: &RangeSet, last: Option<&str>) -> Vec<String> {
    set.candidates(last.map(|ip| ip.parse().unwrap())).map(|(ip, _)| ip.to_string()).collect()
}

#[test]
fn candidates_go_round_from_the_one_after_last() {
    let set = RangeSet::new("s", vec![range("10.1.0.0/29", None, None, None)]).unwrap();
    assert_eq!(order(&set, None), ["10.1.0.2", "10.1.0.3", "10.1.0.4", "10.1.0.5", "10.1.0.6"]);
    assert_eq!(order(&set, Some("10.1.0.4")), ["10.1.0.5", "10.1.0.6", "10.1.0.2", "10.1.0.3", "10.1.0.4"]);
    assert_eq!(order(&set, Some("10.1.0.6")), ["10.1.0.2", "10.1.0.3", "10.1.0.4", "10.1.0.5", "10.1.0.6"]);
    assert_eq!(order(&set, Some("10.9.0.6")), order(&set, None));
    assert_eq!(order(&set, Some("fd00::1")), order(&set, None));
}

#[test]
fn candidates_go_on_into_the_next_range() {
    let first = range("10.1.0.0/24", Some("10.1.0.1"), Some("10.1.0.3"), None);
    let second = range("10.2.0.0/24", Some("10.2.0.8"), Some("10.2.0.9"), None);
    let set = RangeSet::new("s", vec![first, second]).unwrap();
    assert_eq!(order(&set, Some("10.1.0.2")), ["10.1.0.3", "10.2.0.8", "10.2.0.9", "10.1.0.2"]);
    assert_eq!(order(&set, Some("10.2.0.8")), ["10.2.0.9", "10.1.0.2", "10.1.0.3", "10.2.0.8"]);
    assert_eq!(set.candidates(None).last().unwrap().1.gateway().to_string(), "10.2.0.1");
    assert_eq!(set.capacity(), 4);
}

#[test]
fn the_last_address_there_is_does_not_overflow() {
    let all = RangeSet::new("s", vec![range("::/0", None, None, None)]).unwrap();
    assert_eq!(all.capacity(), u128::MAX - 1);
    let mut after = all.candidates(Some(IpAddr::V6(Ipv6Addr::from_bits(u128::MAX)))).map(|(ip, _)| ip);
    assert_eq!(after.next().unwrap().to_string(), "::2");
}

#[test]
fn sets_that_cannot_work_are_refused() {
    let v4 = range("10.3.0.0/24", None, None, None);
    let upper = range("10.3.0.128/25", None, None, None);
    let v6 = range("fd00::/64", None, None, None);
    assert_eq!(
        RangeSet::new("ipam.ranges[0]", vec![]).unwrap_err().to_string(),
        "ipam.ranges[0] is an empty list, but must hold at least one range"
    );
    assert_eq!(
        RangeSet::new("s", vec![v4, v6]).unwrap_err().to_string(),
        "s holds the subnets 10.3.0.0/24 and fd00::/64, but all ranges of a set must be of one family"
    );
    assert_eq!(
        RangeSet::new("s", vec![v4, upper]).unwrap_err().to_string(),
        "s holds 10.3.0.129-10.3.0.254, which overlaps 10.3.0.1-10.3.0.254 of s; no address may be in two ranges"
    );
    let (a, b) = (RangeSet::new("a", vec![v4]).unwrap(), RangeSet::new("b", vec![upper]).unwrap());
    assert!(a.disjoint("a", &b, "b").is_err());
    assert!(a.disjoint("a", &RangeSet::new("c", vec![v6]).unwrap(), "c").is_ok());
    let low = range("10.3.0.0/24", None, Some("10.3.0.9"), None);
    let high = range("10.3.0.0/24", Some("10.3.0.10"), None, None);
    assert!(RangeSet::new("s", vec![low, high]).is_ok());
}

/// Bounds inside 10.0.0.0/24 or fd00::/120, as last bytes.
fn spans() -> impl Strategy<Value = (bool, Vec<(u8, u8, u8)>)> {
    (any::<bool>(), proptest::collection::vec((any::<u8>(), any::<u8>(), any::<u8>()), 1..4))
}

fn ip(v4: bool, byte: u8) -> IpAddr {
    if v4 {
        Ipv4Addr::new(10, 0, 0, byte).into()
    } else {
        Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, byte.into()).into()
    }
}

proptest! {
    /// Against a model that lists addresses one by one instead of calculating.
    #[test]
    fn candidates_are_what_a_list_would_be((v4, spans) in spans(), last in any::<u8>()) {
        let subnet = if v4 { "10.0.0.0/24" } else { "fd00::/120" };
        let text = |byte| ip(v4, byte).to_string();
        let mut ranges = Vec::new();
        let mut listed = Vec::new();
        let mut gateways = BTreeSet::new();
        for (start, end, gateway) in spans {
            let usable: Vec<u8> = (start..=end).filter(|n| *n != 0 && !(v4 && *n == 255)).collect();
            if usable.is_empty() || usable.iter().any(|n| listed.contains(n)) {
                continue;
            }
            ranges.push(range(subnet, Some(&text(start)), Some(&text(end)), Some(&text(gateway))));
            listed.extend(usable);
            gateways.insert(gateway);
        }
        prop_assume!(!ranges.is_empty());
        let set = RangeSet::new("s", ranges).unwrap();
        if let Some(at) = listed.iter().position(|n| *n == last) {
            listed.rotate_left(at + 1);
        }
        listed.retain(|n| !gateways.contains(n));
        let expected: Vec<IpAddr> = listed.iter().map(|n| ip(v4, *n)).collect();
        let found: Vec<IpAddr> = set.candidates(Some(ip(v4, last))).map(|(ip, _)| ip).collect();
        prop_assert_eq!(set.capacity(), found.len() as u128);
        prop_assert!(found.iter().all(|ip| set.offers(*ip)));
        prop_assert_eq!(found, expected);
    }
}
