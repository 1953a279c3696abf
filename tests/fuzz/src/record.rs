//! The plugin's own record of an attachment, as another build, a full disk or a hand may have left it.

use std::fs;

use ebpf_bridge::{
    cni::request::{Attachment, Environment},
    state::{Record, Records},
};

/// A record of a finished ADD, as it is on disk.
const SOUND: &str = r#"{"network":"n1","containerId":"c1","ifname":"eth0","netns":"/run/netns/c1","bridge":"br0",
    "veth":"veth0","addresses":["10.1.0.2/16"],"routes":[{"dst":"0.0.0.0/0","gw":"10.1.0.1"}],
    "lease":{"type":"hostLocal","data_dir":"/var/lib/cni/networks"},"bpffs":"/sys/fs/bpf","iptables":false,
    "notAccelerated":null,"complete":true,"pod":["default","web"],"created":1}"#;

pub(crate) fn run(input: &[u8]) {
    let directory = tempfile::tempdir().expect("a directory");
    let network = directory.path().join("n1");
    fs::create_dir(&network).expect("a directory");
    fs::write(network.join("c1@eth0"), input).expect("a file");
    let records = Records::at(directory.path());
    let attachment = Attachment { container_id: "c1".into(), ifname: "eth0".into() };
    // DEL and GC find it by its name, whatever is in it.
    let listed = records.list(None).expect("a list");
    assert_eq!(listed, [("n1".to_owned(), attachment.clone())]);
    if let Some(record) = records.read("n1", &attachment).expect("a file that can be read") {
        assert_eq!(record.ips().len(), record.addresses.len());
        let again = serde_json::to_vec(&record).expect("a record can be written");
        assert_eq!(serde_json::from_slice::<Record>(&again).expect("and read"), record);
    }
    records.remove("n1", &attachment).expect("it can be removed");
}

/// The record of a finished ADD.
pub(crate) fn sound() -> Record {
    serde_json::from_str(SOUND).expect("a record")
}

/// The environment of its CHECK.
pub(crate) fn environment() -> Environment {
    let pairs = [
        ("CNI_COMMAND", "CHECK"),
        ("CNI_CONTAINERID", "c1"),
        ("CNI_NETNS", "/run/netns/c1"),
        ("CNI_IFNAME", "eth0"),
    ];
    let variable = |name: &str| {
        let found = pairs.iter().find(|(key, _)| *key == name);
        found.map(|(_, value)| (*value).to_owned())
    };
    Environment::read(variable).expect("a sound environment")
}
