//! A lease directory in which anything may lie. An input is a list of a file's name, its content, a name and so on,
//! each ended by a NUL.

use std::{fs, path::Path};

use ebpf_bridge::ipam::{HostLocal, HostLocalConfig, IpamError, Owner};
use serde_json::json;

/// Files that an input may make.
const MOST: usize = 8;

pub(crate) fn run(input: &[u8]) {
    let directory = tempfile::tempdir().expect("a directory");
    let leases = directory.path().join("n1");
    fs::create_dir(&leases).expect("a directory");
    strew(&leases, input);
    let ipam = ipam(directory.path());
    let owner = Owner::new("c1", "eth0");
    let foreign = ipam.usage().expect("a count")[0].used;

    match ipam.allocate(&owner, &[], &[], &|_, _| false) {
        Ok(lease) => leased(&ipam, &owner, &lease.ips[0].address.ip()),
        // Nobody can be asked to go, so all the others are still there.
        Err(IpamError::RangeFull { used, total, .. }) => assert!(used == total && foreign == total),
        Err(error) => panic!("{error}"),
    }
    ipam.retain(&[]).expect("every lease can be freed");
    assert_eq!(ipam.usage().expect("a count")[0].used, 0);
}

/// A lease is its owner's until it is given back.
fn leased(ipam: &HostLocal, owner: &Owner, ip: &std::net::IpAddr) {
    assert!(ipam.not_leased(owner, &[*ip]).expect("a look").is_empty());
    ipam.release(owner, &[*ip]).expect("it can be given back");
    assert_eq!(ipam.not_leased(owner, &[*ip]).expect("a look"), [*ip]);
}

/// Six addresses to lease.
fn ipam(data_dir: &Path) -> HostLocal {
    let config =
        json!({"type": "host-local", "subnet": "10.1.0.0/29", "gateway": "10.2.0.1", "dataDir": data_dir});
    let config = HostLocalConfig::parse(&config, None).expect("a sound configuration");
    HostLocal::new("n1", config).expect("a sound name")
}

fn strew(directory: &Path, input: &[u8]) {
    let mut parts = input.split(|&byte| byte == 0);
    for _ in 0..MOST {
        let (Some(name), Some(content)) = (parts.next(), parts.next()) else { return };
        let Ok(name) = std::str::from_utf8(name) else { continue };
        if name.is_empty() || name.contains('/') || name == "." || name == ".." {
            continue;
        }
        // A name that is too long makes no file.
        let _ = fs::write(directory.join(name), content);
    }
}
