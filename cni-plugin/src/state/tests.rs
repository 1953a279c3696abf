use super::*;

fn record(network: &str, id: &str) -> Record {
    Record {
        network: network.into(),
        container_id: id.into(),
        ifname: "eth0".into(),
        netns: "/proc/1/ns/net".into(),
        bridge: "br0".into(),
        veth: "veth0".into(),
        addresses: vec!["10.1.0.2/24".parse().unwrap()],
        gateways: vec!["10.1.0.1".parse().unwrap()],
        routes: Vec::new(),
        conf: serde_json::Value::Null,
        lease: LeaseSource::HostLocal { data_dir: "/var/lib/cni/networks".into() },
        bpffs: None,
        iptables: false,
        not_accelerated: None,
        complete: true,
        pod: None,
        created: 0,
    }
}

#[test]
fn a_record_is_found_again_until_it_is_removed() {
    let directory = tempfile::tempdir().unwrap();
    let records = Records::at(directory.path().join("state"));
    let one = record("n1", "c1");
    assert_eq!(records.read("n1", &one.attachment()).unwrap(), None);
    records.write(&one).unwrap();
    assert_eq!(records.read("n1", &one.attachment()).unwrap(), Some(one.clone()));
    records.write(&record("n2", "c1")).unwrap();
    assert_eq!(records.list(Some("n1")).unwrap(), vec![("n1".to_owned(), one.attachment())]);
    assert_eq!(records.list(None).unwrap().len(), 2);
    records.remove("n1", &one.attachment()).unwrap();
    records.remove("n1", &one.attachment()).unwrap();
    assert!(records.left_unfinished("n1").unwrap());
    assert!(records.alone().unwrap().network_is_empty("n1").unwrap());
    records.alone().unwrap().forget_network("n1");
    assert!(!records.left_unfinished("n1").unwrap());
    assert!(!records.alone().unwrap().node_is_empty().unwrap());
    assert!(!directory.path().join("state/n1").exists());
}

#[test]
fn a_bridge_is_shared_when_another_attachment_uses_it() {
    let directory = tempfile::tempdir().unwrap();
    let records = Records::at(directory.path());
    let one = record("n1", "c1");
    records.write(&one).unwrap();
    assert!(!records.alone().unwrap().bridge_is_shared("br0", &one).unwrap());
    records.write(&record("n2", "c2")).unwrap();
    assert!(records.alone().unwrap().bridge_is_shared("br0", &one).unwrap());
    assert!(!records.alone().unwrap().bridge_is_shared("br1", &one).unwrap());
}

#[test]
fn asking_leaves_nothing_behind() {
    let directory = tempfile::tempdir().unwrap();
    let records = Records::at(directory.path().join("state"));
    assert!(records.alone().unwrap().node_is_empty().unwrap());
    assert!(!directory.path().join("state").exists());
}
