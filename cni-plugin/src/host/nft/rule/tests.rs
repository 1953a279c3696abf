use proptest::prelude::*;

use super::*;

fn nets(texts: &[&str]) -> Vec<IpNetwork> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn load(offset: u32, length: u32) -> Expression {
    Expression::Load { offset, length }
}

fn compare(negated: bool, value: &[u8]) -> Expression {
    Expression::Compare { negated, value: value.to_vec() }
}

/// What `nft --debug=netlink` 1.0.6 prints for `ip saddr 10.1.0.0/20 ip daddr != 10.1.0.0/20
/// ip daddr != 224.0.0.0/4 masquerade`.
#[test]
fn the_expressions_are_nfts() {
    let mask = |bytes: [u8; 4]| Expression::Mask(bytes.to_vec());
    assert_eq!(
        rules(&nets(&["10.1.0.0/20"]), &[])[0].expressions(),
        [
            Expression::Family,
            compare(false, &[2]),
            load(12, 4),
            mask([255, 255, 240, 0]),
            compare(false, &[10, 1, 0, 0]),
            load(16, 4),
            mask([255, 255, 240, 0]),
            compare(true, &[10, 1, 0, 0]),
            load(16, 4),
            mask([240, 0, 0, 0]),
            compare(true, &[224, 0, 0, 0]),
            Expression::Masquerade,
        ]
    );
}

/// The end of what `nft --debug=netlink` 1.0.6 prints for the same with `ct state invalid drop`.
#[test]
fn the_expressions_of_invalid_are_nfts() {
    let expressions = rules(&nets(&["10.1.0.0/20"]), &[])[1].expressions();
    let end = [
        Expression::State,
        Expression::Mask(vec![1, 0, 0, 0]),
        compare(true, &[0, 0, 0, 0]),
        Expression::Drop,
    ];
    if cfg!(target_endian = "little") {
        assert!(expressions.ends_with(&end), "{expressions:?}");
    }
}

/// nft, restoring a saved ruleset, loads two bytes for a /16 and one for ff00::/8.
#[test]
fn nfts_short_form_is_the_same_rule() {
    let v4 = [
        Expression::Family,
        compare(false, &[2]),
        load(12, 2),
        compare(false, &[10, 1]),
        load(16, 2),
        compare(true, &[10, 1]),
        load(16, 4),
        Expression::Mask(vec![240, 0, 0, 0]),
        compare(true, &[224, 0, 0, 0]),
        Expression::Masquerade,
    ];
    assert_eq!(Rule::from_expressions(&v4).as_ref(), rules(&nets(&["10.1.0.0/16"]), &[]).first());
    let v6 = [
        Expression::Family,
        compare(false, &[10]),
        load(8, 8),
        compare(false, &[0xfd, 0, 0, 0, 0, 0, 0, 0]),
        load(24, 8),
        compare(true, &[0xfd, 0, 0, 0, 0, 0, 0, 0]),
        load(24, 1),
        compare(true, &[0xff]),
        Expression::Masquerade,
    ];
    assert_eq!(Rule::from_expressions(&v6).as_ref(), rules(&nets(&["fd00::/64"]), &[]).first());
}

#[test]
fn the_subnets_of_a_network_spare_each_other_within_their_family() {
    let rules = rules(&nets(&["10.2.0.9/24", "fd00::/64", "10.1.0.0/24", "10.2.0.0/24"]), &[]);
    let sources: Vec<_> = rules.iter().map(|rule| rule.source).collect();
    let each = nets(&["10.1.0.0/24", "10.2.0.0/24", "fd00::/64"]);
    assert_eq!(sources, [each.clone(), each].concat());
    let spared = nets(&["10.1.0.0/24", "10.2.0.0/24", "224.0.0.0/4"]);
    assert_eq!((&rules[0].spared, &rules[1].spared), (&spared, &spared));
    assert_eq!(rules[2].spared, nets(&["fd00::/64", "ff00::/8"]));
}

#[test]
fn other_rules_are_not_taken_for_ours() {
    let ours = rules(&nets(&["10.1.0.0/20"]), &[])[0].expressions();
    for i in 0..ours.len() {
        let without = [&ours[..i], &ours[i + 1..]].concat();
        assert_ne!(
            Rule::from_expressions(&without).as_ref(),
            Some(&rules(&nets(&["10.1.0.0/20"]), &[])[0]),
            "{i}"
        );
    }
    let longer = [ours.as_slice(), &[Expression::Masquerade]].concat();
    assert_eq!(Rule::from_expressions(&longer), None);
    let mut holes = ours.clone();
    holes[3] = Expression::Mask(vec![255, 0, 255, 0]);
    assert_eq!(Rule::from_expressions(&holes), None, "a mask that is no prefix");
    let mut wide = ours;
    wide[2] = load(12, u32::MAX);
    assert_eq!(Rule::from_expressions(&wide), None);
}

proptest! {
    #[test]
    fn every_subnet_comes_back(v4: (u32, u8), v6: (u128, u8)) {
        let v4 = Ipv4Network::new(Ipv4Addr::from_bits(v4.0), v4.1 % 33).unwrap();
        let v6 = Ipv6Network::new(Ipv6Addr::from_bits(v6.0), v6.1 % 129).unwrap();
        for rule in rules(&[v4.into(), v6.into()], &[]) {
            prop_assert_eq!(Rule::from_expressions(&rule.expressions()), Some(rule));
        }
    }
}

#[test]
fn other_nodes_pods_are_spared_too() {
    let rules = rules(&nets(&["10.1.0.0/24", "fd00:1::/64"]), &nets(&["fd00:2::/64", "10.2.0.9/24"]));
    assert_eq!(rules[0].spared, nets(&["10.1.0.0/24", "10.2.0.0/24", "224.0.0.0/4"]));
    assert_eq!(rules[1].spared, nets(&["fd00:1::/64", "fd00:2::/64", "ff00::/8"]));
}
