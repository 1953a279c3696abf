//! Against the kernel, read back with nft(8), each test in a network namespace of its own.

use std::fs::File;
use std::io::Write;
use std::process::{Command, Stdio};

use nix::sched::{CloneFlags, setns, unshare};

use super::*;

/// Runs `test` in a new network namespace, or says why it is skipped.
fn in_new_netns(test: impl FnOnce() + Send + 'static) {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("skipped: needs root to make a network namespace");
        return;
    }
    if Command::new("nft").arg("--version").output().is_err() {
        eprintln!("skipped: nft is not installed (Debian package nftables)");
        return;
    }
    let thread = std::thread::spawn(|| {
        unshare(CloneFlags::CLONE_NEWNET).unwrap();
        test();
    });
    thread.join().unwrap();
}

/// Runs nft in the thread's namespace, which the child inherits.
fn nft(arguments: &[&str], input: &str) -> String {
    let mut child = Command::new("nft")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn ensure(network: &str, subnets: &[IpNetwork]) -> Result<bool, NftError> {
    super::ensure(network, subnets, &[])
}

fn present(network: &str, subnets: &[IpNetwork]) -> Result<bool, NftError> {
    super::present(network, subnets, &[])
}

fn ruleset() -> String {
    nft(&["list", "ruleset"], "")
}

/// The ruleset with these rules in our table.
fn table_with(rules: &[&str]) -> String {
    let mut text = "table inet ebpf-bridge {\n\tchain postrouting {\n".to_owned();
    text.push_str("\t\ttype nat hook postrouting priority srcnat; policy accept;\n");
    for rule in rules {
        text.push_str(&format!("\t\t{rule}\n"));
    }
    text.push_str("\t}\n\n\tchain invalid {\n");
    text.push_str("\t\ttype filter hook postrouting priority filter; policy accept;\n");
    for rule in rules.iter().filter(|rule| rule.contains("\"network ")) {
        text.push_str(&format!("\t\t{}\n", rule.replace("masquerade", "ct state invalid drop")));
    }
    text + "\t}\n}\n"
}

fn nets(texts: &[&str]) -> Vec<IpNetwork> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

const N1: &str =
    r#"ip saddr 10.1.0.0/16 ip daddr != 10.1.0.0/16 ip daddr != 224.0.0.0/4 masquerade comment "network n1""#;
const N1_V6: &str =
    r#"ip6 saddr fd00::/60 ip6 daddr != fd00::/60 ip6 daddr != ff00::/8 masquerade comment "network n1""#;
const N2: &str =
    r#"ip saddr 10.2.0.0/20 ip daddr != 10.2.0.0/20 ip daddr != 224.0.0.0/4 masquerade comment "network n2""#;

#[test]
fn nft_reads_what_we_wrote() {
    in_new_netns(|| {
        assert!(ensure("n1", &nets(&["10.1.0.0/16", "fd00::/60"])).unwrap());
        assert!(ensure("n2", &nets(&["10.2.0.7/20"])).unwrap());
        assert_eq!(ruleset(), table_with(&[N1, N1_V6, N2]));
    });
}

#[test]
fn subnets_of_one_network_are_not_masqueraded_towards_each_other() {
    in_new_netns(|| {
        ensure("n", &nets(&["10.1.0.0/24", "10.2.0.0/24", "10.3.0.1/32"])).unwrap();
        let spared =
            "ip daddr != 10.1.0.0/24 ip daddr != 10.2.0.0/24 ip daddr != 10.3.0.1 ip daddr != 224.0.0.0/4";
        let rule = |source| format!("ip saddr {source} {spared} masquerade comment \"network n\"");
        let rules = ["10.1.0.0/24", "10.2.0.0/24", "10.3.0.1"].map(rule);
        assert_eq!(ruleset(), table_with(&rules.each_ref().map(String::as_str)));
    });
}

#[test]
fn ensuring_twice_writes_nothing() {
    in_new_netns(|| {
        let subnets = nets(&["fd00::/60", "10.1.0.0/16"]);
        assert!(ensure("n1", &subnets).unwrap());
        let generation = || table::generation(&mut Connection::open().unwrap()).unwrap();
        let before = generation();
        assert!(!ensure("n1", &subnets).unwrap());
        assert!(!ensure("n1", &nets(&["10.1.9.9/16", "fd00::/60"])).unwrap());
        assert!(present("n1", &subnets).unwrap());
        assert_eq!(generation(), before);
    });
}

/// plugins#512: rules flushed by firewalld or an admin, CHECK was happy and networking dead.
#[test]
fn flushed_or_altered_rules_are_noticed_and_mended() {
    in_new_netns(|| {
        let subnets = nets(&["10.1.0.0/16", "fd00::/60"]);
        assert!(!present("n1", &subnets).unwrap());
        let damages = [
            "flush ruleset",
            "flush chain inet ebpf-bridge postrouting",
            "flush chain inet ebpf-bridge invalid",
            "delete table inet ebpf-bridge",
            // A duplicate, a rule that says something else, the right rules but for a flag.
            r#"add rule inet ebpf-bridge postrouting ip saddr 10.1.0.0/16 ip daddr != 10.1.0.0/16 ip daddr != 224.0.0.0/4 masquerade comment "network n1""#,
            r#"add rule inet ebpf-bridge postrouting counter masquerade comment "network n1""#,
            r#"flush chain inet ebpf-bridge postrouting; add rule inet ebpf-bridge postrouting ip saddr 10.1.0.0/16 ip daddr != 10.1.0.0/16 ip daddr != 224.0.0.0/4 masquerade fully-random comment "network n1"; add rule inet ebpf-bridge postrouting ip6 saddr fd00::/60 ip6 daddr != fd00::/60 ip6 daddr != ff00::/8 masquerade comment "network n1""#,
        ];
        for damage in damages {
            ensure("n1", &subnets).unwrap();
            assert!(present("n1", &subnets).unwrap());
            nft(&["-f", "-"], damage);
            assert!(!present("n1", &subnets).unwrap(), "{damage}");
            assert!(ensure("n1", &subnets).unwrap(), "{damage}");
            assert_eq!(ruleset(), table_with(&[N1, N1_V6]), "{damage}");
        }
    });
}

/// What `nft -f` restores at boot has other expressions for the same text.
#[test]
fn a_restored_ruleset_is_still_ours() {
    in_new_netns(|| {
        let subnets = nets(&["10.1.0.0/16", "fd00::/60", "fd01::/64", "10.9.0.0/23"]);
        ensure("n1", &subnets).unwrap();
        let saved = ruleset();
        nft(&["-f", "-"], &format!("flush ruleset\n{saved}"));
        assert_eq!(ruleset(), saved);
        assert!(present("n1", &subnets).unwrap());
        assert!(!ensure("n1", &subnets).unwrap());
    });
}

#[test]
fn a_further_subnet_joins_those_there_are() {
    in_new_netns(|| {
        ensure("n1", &nets(&["10.1.0.0/16"])).unwrap();
        assert!(!present("n1", &nets(&["10.3.0.0/16"])).unwrap());
        assert!(ensure("n1", &nets(&["10.3.0.0/16"])).unwrap());
        assert!(present("n1", &nets(&["10.1.0.0/16"])).unwrap());
        let spared = "ip daddr != 10.1.0.0/16 ip daddr != 10.3.0.0/16 ip daddr != 224.0.0.0/4";
        let rule = |source| format!("ip saddr {source} {spared} masquerade comment \"network n1\"");
        assert_eq!(ruleset(), table_with(&[&rule("10.1.0.0/16"), &rule("10.3.0.0/16")]));
    });
}

#[test]
fn remove_takes_one_network_and_with_the_last_the_table() {
    in_new_netns(|| {
        remove("n1").unwrap();
        remove_table().unwrap();
        ensure("n1", &nets(&["10.1.0.0/16", "fd00::/60"])).unwrap();
        ensure("n2", &nets(&["10.2.0.0/20"])).unwrap();
        remove("n1").unwrap();
        remove("n1").unwrap();
        assert_eq!(ruleset(), table_with(&[N2]));
        remove("n2").unwrap();
        assert_eq!(ruleset(), "");
        ensure("n1", &nets(&["10.1.0.0/16"])).unwrap();
        remove_table().unwrap();
        assert_eq!(ruleset(), "");
        ensure("n1", &nets(&["10.1.0.0/16"])).unwrap();
        nft(&["flush", "chain", "inet", "ebpf-bridge", "postrouting"], "");
        remove("n1").unwrap();
        assert_eq!(ruleset(), "", "an empty table goes too");
    });
}

#[test]
fn tables_and_rules_of_others_are_left_alone() {
    in_new_netns(|| {
        let other = "table ip nat {\n\tchain POSTROUTING {\n\t\tip saddr 10.1.0.0/16 accept\n\t}\n}\n";
        nft(&["-f", "-"], other);
        ensure("n1", &nets(&["10.1.0.0/16"])).unwrap();
        nft(&["-f", "-"], "add rule inet ebpf-bridge postrouting ip saddr 192.0.2.1 accept");
        remove("n1").unwrap();
        assert_eq!(ruleset(), format!("{other}{}", table_with(&["ip saddr 192.0.2.1 accept"])));
        remove_table().unwrap();
        assert_eq!(ruleset(), other);
    });
}

#[test]
fn racing_adds_make_one_rule_each() {
    in_new_netns(|| {
        let netns = File::open("/proc/thread-self/ns/net").unwrap();
        std::thread::scope(|scope| {
            for i in 0..16 {
                let netns = &netns;
                scope.spawn(move || {
                    setns(netns, CloneFlags::CLONE_NEWNET).unwrap();
                    let (network, subnet) =
                        if i % 2 == 0 { ("n1", "10.1.0.0/16") } else { ("n2", "10.2.0.0/20") };
                    for _ in 0..20 {
                        ensure(network, &nets(&[subnet])).unwrap();
                    }
                });
            }
        });
        let ruleset = ruleset();
        assert!(ruleset == table_with(&[N1, N2]) || ruleset == table_with(&[N2, N1]), "{ruleset}");
    });
}

#[test]
fn adds_and_removes_of_different_networks_do_not_disturb_each_other() {
    in_new_netns(|| {
        let netns = File::open("/proc/thread-self/ns/net").unwrap();
        std::thread::scope(|scope| {
            for i in 0..8 {
                let netns = &netns;
                scope.spawn(move || {
                    setns(netns, CloneFlags::CLONE_NEWNET).unwrap();
                    let network = format!("n{i}");
                    for _ in 0..10 {
                        let subnets = nets(&[&format!("10.{i}.0.0/16")]);
                        assert!(ensure(&network, &subnets).unwrap());
                        assert!(present(&network, &subnets).unwrap());
                        remove(&network).unwrap();
                    }
                });
            }
        });
        assert_eq!(ruleset(), "");
    });
}

#[test]
fn a_long_name_is_refused_in_words() {
    let error = ensure(&"n".repeat(245), &[]).unwrap_err().to_string();
    assert!(error.ends_with("but must be at most 244 bytes long to masquerade"), "{error}");
    in_new_netns(|| {
        let name = "n".repeat(244);
        ensure(&name, &nets(&["10.1.0.0/16"])).unwrap();
        assert!(present(&name, &nets(&["10.1.0.0/16"])).unwrap());
        assert!(ruleset().contains(&format!("comment \"network {name}\"")));
        remove(&name).unwrap();
        assert_eq!(ruleset(), "");
    });
}

#[test]
fn macs_are_checked_as_nft_would() {
    in_new_netns(|| {
        let mac = [2, 0, 0, 0, 0, 1];
        check_mac("veth0", mac).unwrap();
        check_mac("veth1", mac).unwrap();
        let chain = |veth| {
            format!(
                "\tchain {veth} {{\n\t\ttype filter hook prerouting priority dstnat; policy accept;\n\
                 \t\tiifname \"{veth}\" ether saddr != 02:00:00:00:00:01 drop\n\t}}\n"
            )
        };
        let table = |chains: &str| format!("table bridge ebpf-bridge {{\n{chains}}}\n");
        assert_eq!(ruleset(), table(&[chain("veth0"), chain("veth1")].join("\n")));
        assert!(mac_is_checked("veth0").unwrap());
        forget_mac("veth0").unwrap();
        assert_eq!(ruleset(), table(&chain("veth1")));
        forget_mac("veth0").unwrap();
        forget_mac("veth1").unwrap();
        assert_eq!(ruleset(), "");
        assert!(!mac_is_checked("veth0").unwrap());
    });
}
