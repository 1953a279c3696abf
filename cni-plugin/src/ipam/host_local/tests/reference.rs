//! The real host-local and ours take turns on one directory, as on a node that migrates, or goes back.

use std::io::Write;
use std::process::{Command, Stdio};

use super::*;

/// Where Debian's containernetworking-plugins has it.
const REFERENCE: &str = "/usr/lib/cni/host-local";

/// Runs a verb of the reference and returns the addresses it answers with.
fn reference(net: &Net, verb: &str, id: &str) -> Vec<String> {
    let config = json!({"cniVersion": "1.0.0", "name": "n1", "type": "bridge", "ipam": net.ipam});
    let mut child = Command::new(REFERENCE)
        .env_clear()
        .envs([("CNI_COMMAND", verb), ("CNI_CONTAINERID", id), ("CNI_IFNAME", "eth0")])
        .envs([("CNI_NETNS", "/dev/null"), ("CNI_PATH", "/usr/lib/cni")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(config.to_string().as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    assert!(output.status.success(), "{verb} {id}: {answer}");
    let addresses = answer["ips"].as_array().cloned().unwrap_or_default();
    addresses.iter().map(|ip| ip["address"].as_str().unwrap().to_owned()).collect()
}

/// True, and says so, when the reference is not installed.
fn skipped() -> bool {
    let missing = !Path::new(REFERENCE).exists();
    if missing {
        eprintln!("skipped: {REFERENCE} is not there (Debian package containernetworking-plugins)");
    }
    missing
}

#[test]
fn both_take_turns_without_a_duplicate_or_a_leak() {
    if skipped() {
        return;
    }
    let net = dual();
    assert_eq!(reference(&net, "ADD", "r1"), ["10.1.0.2/29", "fd00::2/125"]);
    assert_eq!(net.add("o1").unwrap(), ["10.1.0.3/29", "fd00::3/125"]);
    assert_eq!(reference(&net, "ADD", "r2"), ["10.1.0.4/29", "fd00::4/125"]);
    let (ours, theirs) = (fs::read(net.dir().join("10.1.0.3")), fs::read(net.dir().join("10.1.0.4")));
    assert_eq!(String::from_utf8(ours.unwrap()).unwrap().replace("o1", "r2").as_bytes(), theirs.unwrap());
    reference(&net, "CHECK", "o1");

    // Either frees what the other leased, and goes on where the other stopped.
    net.release("r1", &[]);
    reference(&net, "DEL", "o1");
    assert_eq!(net.leased(), ["10.1.0.4", "fd00::4"]);
    assert_eq!(net.add("o2").unwrap(), ["10.1.0.5/29", "fd00::5/125"]);
    assert_eq!(reference(&net, "ADD", "r3"), ["10.1.0.6/29", "fd00::6/125"]);
    assert_eq!(net.add("o3").unwrap(), ["10.1.0.2/29", "fd00::7/125"]);

    for id in ["r2", "r3", "o2", "o3"] {
        net.release(id, &[]);
    }
    assert_eq!(fs::read_dir(net.data_dir.path()).unwrap().count(), 0);
    assert_eq!(reference(&net, "ADD", "r4"), ["10.1.0.2/29", "fd00::2/125"]);
    reference(&net, "DEL", "r4");
    net.release("r4", &[]);
    assert_eq!(fs::read_dir(net.data_dir.path()).unwrap().count(), 0);
}

#[test]
fn both_at_once_never_lease_an_address_twice() {
    if skipped() {
        return;
    }
    let net = Net::new(json!({"subnet": "10.1.0.0/24"}));
    // Held throughout: the directory never empties, which the reference would not survive.
    net.add("first").unwrap();
    let mut all: Vec<String> = std::thread::scope(|scope| {
        let net = &net;
        let theirs =
            scope.spawn(move || (0..40).flat_map(|n| reference(net, "ADD", &format!("r{n}"))).collect());
        let ours: Vec<_> = (0..3)
            .map(|t| {
                scope.spawn(move || (0..20).flat_map(|n| net.add(&format!("o{t}-{n}")).unwrap()).collect())
            })
            .collect();
        let threads = std::iter::once(theirs).chain(ours);
        threads.flat_map(|thread| -> Vec<String> { thread.join().unwrap() }).collect()
    });
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 100);
    assert_eq!(net.leased().len(), 101);
}
