use std::fs;
use std::sync::mpsc;
use std::time::Duration;

use serde_json::{Value, json};

use super::*;

mod reference;

/// A network "n1" with its leases in a directory of its own.
struct Net {
    data_dir: tempfile::TempDir,
    ipam: Value,
}

impl Net {
    fn new(mut ipam: Value) -> Self {
        let data_dir = tempfile::tempdir().unwrap();
        ipam["type"] = json!("host-local");
        ipam["dataDir"] = json!(data_dir.path());
        Self { data_dir, ipam }
    }

    fn host_local(&self) -> HostLocal {
        HostLocal::new("n1", HostLocalConfig::parse(&self.ipam, None).unwrap()).unwrap()
    }

    fn add(&self, id: &str) -> Result<Vec<String>, IpamError> {
        self.add_with(id, &[], &[])
    }

    fn add_with(&self, id: &str, hint: &[&str], requested: &[&str]) -> Result<Vec<String>, IpamError> {
        let lease = self.host_local().allocate(&owner(id), &ips(hint), &ips(requested), &|_, _| false)?;
        Ok(lease.ips.iter().map(|ip| ip.address.to_string()).collect())
    }

    fn release(&self, id: &str, hint: &[&str]) {
        self.host_local().release(&owner(id), &ips(hint)).unwrap();
    }

    fn dir(&self) -> PathBuf {
        self.data_dir.path().join("n1")
    }

    fn lease(&self, ip: &str, content: &str) {
        fs::create_dir_all(self.dir()).unwrap();
        fs::write(self.dir().join(ip), content).unwrap();
    }

    /// The leased addresses, sorted as text.
    fn leased(&self) -> Vec<String> {
        let mut leased: Vec<_> =
            self.host_local().store.leased().unwrap().iter().map(IpAddr::to_string).collect();
        leased.sort();
        leased
    }
}

fn owner(id: &str) -> Owner {
    Owner::new(id, "eth0")
}

fn ips(texts: &[&str]) -> Vec<IpAddr> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn dual() -> Net {
    Net::new(json!({"ranges": [[{"subnet": "10.1.0.0/29"}], [{"subnet": "fd00::/125"}]]}))
}

#[test]
fn one_address_per_set_round_robin() {
    let net = dual();
    assert_eq!(net.add("a").unwrap(), ["10.1.0.2/29", "fd00::2/125"]);
    assert_eq!(net.add("b").unwrap(), ["10.1.0.3/29", "fd00::3/125"]);
    net.release("a", &["10.1.0.2", "fd00::2"]);
    assert_eq!(net.add("c").unwrap(), ["10.1.0.4/29", "fd00::4/125"]);
}

#[test]
fn the_lease_carries_gateway_routes_and_dns() {
    let mut net =
        Net::new(json!({"subnet": "10.1.0.0/24", "gateway": "10.1.0.9", "routes": [{"dst": "0.0.0.0/0"}]}));
    let resolv = net.data_dir.path().join("resolv.conf");
    fs::write(&resolv, "nameserver 192.0.2.1\n").unwrap();
    net.ipam["resolvConf"] = json!(resolv);
    let lease = net.host_local().allocate(&owner("a"), &[], &[], &|_, _| false).unwrap();
    assert_eq!(lease.ips[0].gateway, Some("10.1.0.9".parse().unwrap()));
    assert_eq!(lease.routes[0].dst.to_string(), "0.0.0.0/0");
    assert_eq!(lease.dns.nameservers, ["192.0.2.1"]);
    fs::remove_file(&resolv).unwrap();
    assert!(matches!(net.add("b"), Err(IpamError::ResolvConf { .. })));
    assert_eq!(net.leased(), ["10.1.0.1"]);
}

/// plugins#327: after a crash the same container could never start, "duplicate allocation".
#[test]
fn an_owner_gets_its_lease_back() {
    let net = dual();
    net.add("a").unwrap();
    net.add("b").unwrap();
    assert_eq!(net.add_with("a", &["10.1.0.2", "fd00::2"], &[]).unwrap(), ["10.1.0.2/29", "fd00::2/125"]);
    // A hint that names another's address, or a free one, is no claim.
    assert_eq!(net.add_with("c", &["10.1.0.2", "10.1.0.6"], &[]).unwrap(), ["10.1.0.4/29", "fd00::4/125"]);
}

#[test]
fn an_owner_without_a_record_gets_its_lease_back_before_the_range_is_full() {
    let net = Net::new(json!({"subnet": "10.1.0.0/30"}));
    assert_eq!(net.add("a").unwrap(), ["10.1.0.2/30"]);
    assert_eq!(net.add("a").unwrap(), ["10.1.0.2/30"]);
}

#[test]
fn requested_addresses_are_leased_and_no_others() {
    let net = dual();
    assert_eq!(net.add_with("a", &[], &["fd00::5"]).unwrap(), ["10.1.0.2/29", "fd00::5/125"]);
    assert_eq!(
        net.add_with("a", &["10.1.0.2", "fd00::5"], &["fd00::6"]).unwrap(),
        ["10.1.0.2/29", "fd00::6/125"]
    );
    assert_eq!(net.leased(), ["10.1.0.2", "fd00::6"], "the address given up is free again");
    let failure = |requested: &[&str]| net.add_with("b", &[], requested).unwrap_err().to_string();
    assert_eq!(failure(&["fd00::6"]), "the requested address fd00::6 is leased to a/eth0");
    assert_eq!(
        failure(&["10.1.0.1"]),
        "the requested address 10.1.0.1 is a gateway of the range 10.1.0.1-10.1.0.6, which is never leased"
    );
    for outside in ["10.1.0.7", "10.1.0.0", "192.0.2.1"] {
        let expected = "is not one to lease; allowed are 10.1.0.1-10.1.0.6 and fd00::1-fd00::7";
        assert_eq!(failure(&[outside]), format!("the requested address {outside} {expected}"));
    }
    assert!(matches!(
        net.add_with("b", &[], &["10.1.0.4", "10.1.0.5"]),
        Err(IpamError::RequestedOutside { .. })
    ));
    assert_eq!(net.leased(), ["10.1.0.2", "fd00::6"], "a failure leaves no lease");
}

#[test]
fn a_full_set_is_named_and_the_first_sets_address_given_back() {
    let net = Net::new(json!({"ranges": [[{"subnet": "10.1.0.0/29"}], [{"subnet": "10.2.0.0/30"}]]}));
    net.add("a").unwrap();
    let error = net.add("b").unwrap_err();
    assert_eq!(error.to_string(), "no address left in 10.2.0.1-10.2.0.2: 1 of 1 are leased");
    assert!(matches!(error, IpamError::RangeFull { used: 1, total: 1, .. }));
    assert_eq!(net.leased(), ["10.1.0.2", "10.2.0.2"]);
    let usage = net.host_local().usage().unwrap();
    assert_eq!((usage[0].used, usage[0].total, usage[0].is_full()), (1, 5, false));
    assert!(usage[1].is_full());
}

#[test]
fn a_failed_first_add_leaves_no_directory() {
    let net = Net::new(json!({"ranges": [[{"subnet": "10.1.0.0/29"}], [{"subnet": "10.2.0.0/30"}]]}));
    net.lease("10.2.0.2", "other\r\neth0");
    net.add("a").unwrap_err();
    assert_eq!(net.leased(), ["10.2.0.2"]);
    fs::remove_dir_all(net.dir()).unwrap();
    // The only address of the second set cannot be written: its name is taken by a directory.
    fs::create_dir_all(net.dir().join("10.2.0.2")).unwrap();
    net.add("a").unwrap_err();
    fs::remove_dir(net.dir().join("10.2.0.2")).unwrap();
    net.add("a").unwrap();
    net.release("a", &[]);
    assert!(!net.dir().exists());
}

/// plugins#252: leases outlived a reboot and filled the range.
#[test]
fn leases_of_the_gone_are_reclaimed_before_the_range_is_full() {
    let net = Net::new(json!({"subnet": "10.1.0.0/29"}));
    for id in ["dead1", "live", "dead2", "live2", "live3"] {
        net.add(id).unwrap();
    }
    let gone = |owner: &Owner, _| owner.container_id.starts_with("dead");
    let lease = net.host_local().allocate(&owner("new"), &[], &[], &gone).unwrap();
    assert_eq!(lease.ips[0].address.to_string(), "10.1.0.2/29");
    assert_eq!(net.leased(), ["10.1.0.2", "10.1.0.3", "10.1.0.5", "10.1.0.6"]);
    net.add("dead3").unwrap();
    let wanted = ips(&["10.1.0.4"]);
    let lease = net.host_local().allocate(&owner("new2"), &[], &wanted, &gone).unwrap();
    assert_eq!(lease.ips[0].address.to_string(), "10.1.0.4/29");
}

#[test]
fn release_frees_what_the_owner_has_and_nothing_else() {
    let net = dual();
    net.add("a").unwrap();
    net.add("b").unwrap();
    net.release("a", &["10.1.0.2", "fd00::3"]);
    assert_eq!(net.leased(), ["10.1.0.3", "fd00::3"], "a wrong hint neither frees nor hides");
    net.release("a", &[]);
    net.release("never", &["10.1.0.3"]);
    assert_eq!(net.leased(), ["10.1.0.3", "fd00::3"]);
    HostLocal::unconfigured("n1", net.data_dir.path()).unwrap().release(&owner("b"), &[]).unwrap();
    assert_eq!(
        fs::read_dir(net.data_dir.path()).unwrap().count(),
        0,
        "the last lease takes the directory along"
    );
    net.release("b", &["10.1.0.3"]);
    assert_eq!(fs::read_dir(net.data_dir.path()).unwrap().count(), 0, "and a release makes none");
}

#[test]
fn other_interfaces_and_leases_without_one() {
    let net = Net::new(json!({"subnet": "10.1.0.0/24"}));
    net.lease("10.1.0.2", "a\r\neth1");
    net.lease("10.1.0.3", "a");
    net.lease("10.1.0.4", "b\r\neth0\n");
    net.release("a", &[]);
    assert_eq!(net.leased(), ["10.1.0.2", "10.1.0.4"]);
    net.release("b", &[]);
    assert_eq!(net.leased(), ["10.1.0.2"]);
}

#[test]
fn retain_frees_all_but_the_valid() {
    let net = Net::new(json!({"subnet": "10.1.0.0/24"}));
    assert_eq!(net.host_local().retain(&[]).unwrap(), ips(&[]));
    assert!(!net.dir().exists());
    for id in ["a", "b", "c"] {
        net.add(id).unwrap();
    }
    net.lease("10.1.0.9", "old");
    let mut freed = net.host_local().retain(&[owner("b"), owner("old")]).unwrap();
    freed.sort();
    assert_eq!(freed, ips(&["10.1.0.2", "10.1.0.4"]));
    assert_eq!(net.leased(), ["10.1.0.3", "10.1.0.9"]);
    net.host_local().retain(&[]).unwrap();
    assert!(!net.dir().exists());
}

#[test]
fn a_network_name_cannot_lead_out_of_the_directory() {
    for name in ["", ".", "..", "../x", "a/b", "/etc", "a/"] {
        assert!(HostLocal::unconfigured(name, Path::new("/x")).is_err(), "{name:?}");
    }
}

/// Every other lease is a pipe nobody writes to, so reading a single one would take for ever.
#[test]
fn neither_add_nor_del_reads_the_leases_of_others() {
    let net = Net::new(json!({"subnet": "10.1.0.0/16"}));
    fs::create_dir(net.dir()).unwrap();
    let pipe = net.data_dir.path().join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    for n in 2..4002u32 {
        let name = std::net::Ipv4Addr::from_bits(0x0a01_0000 + n).to_string();
        std::os::unix::fs::symlink(&pipe, net.dir().join(name)).unwrap();
    }
    net.lease("last_reserved_ip.0", "10.1.1.5");
    let (done, finished) = mpsc::channel();
    std::thread::spawn(move || {
        let address = net.add("a").unwrap();
        let again = net.add_with("a", &["10.1.15.162"], &[]).unwrap();
        net.release("a", &["10.1.15.162"]);
        done.send((address, again, net.leased().len())).unwrap();
    });
    let (address, again, left) =
        finished.recv_timeout(Duration::from_secs(20)).expect("a foreign lease was read");
    assert_eq!(address, ["10.1.15.162/16"]);
    assert_eq!(again, address);
    assert_eq!(left, 4000);
}

#[test]
fn parallel_adds_get_different_addresses() {
    let net = Net::new(json!({"subnet": "10.1.0.0/24"}));
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let net = &net;
            scope.spawn(move || {
                for n in 0..25 {
                    let id = format!("c{thread}-{n}");
                    let got = net.add(&id).unwrap();
                    if n % 2 == 0 {
                        net.release(&id, &[got[0].strip_suffix("/24").unwrap()]);
                    }
                }
            });
        }
    });
    assert_eq!(net.leased().len(), 8 * 12);
}

/// A power cut leaves blanks or zeros: nobody's, but they were counted as leased and never freed.
#[test]
fn leases_without_content_are_reclaimed_when_the_range_is_full() {
    let net = Net::new(json!({"subnet": "10.1.0.0/29"}));
    for (ip, content) in [("10.1.0.2", "\0\0\0"), ("10.1.0.3", "\r\n"), ("10.1.0.4", " "), ("10.1.0.5", "c9")]
    {
        net.lease(ip, content);
    }
    net.lease("10.1.0.6", "c8\r\neth0");
    let gone = |owner: &Owner, _| owner.container_id.is_empty();
    let lease = net.host_local().allocate(&owner("c1"), &[], &[], &gone).unwrap();
    assert_eq!(lease.ips[0].address.ip(), ips(&["10.1.0.2"])[0]);
    net.host_local().retain(&[owner("c8")]).unwrap();
    assert_eq!(net.leased(), ["10.1.0.6"]);
}
