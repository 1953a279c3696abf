//! Names from outside never become paths, options or commands, and what the plugin keeps is root's alone.

use anyhow::{Result, ensure};
use ebpf_bridge_lab::libcni::exec;
use ebpf_bridge_lab::{Need, Node, Scene, Snapshot, Variant, config, plugin};
use serde_json::{Value, json};

use crate::check::{equal, refused};
use crate::suite::Suite;

const CODE_ENVIRONMENT: u32 = 4;
const CODE_CONFIGURATION: u32 = 7;
/// What a shell, a path or an option parser would take for something of its own.
const HOSTILE: [&str; 9] = [
    "../../etc/x",
    "/etc/x",
    "..",
    "-x",
    "a b",
    "a;touch /run/hit",
    "$(touch /run/hit)",
    "a\nb",
    "é\u{202e}",
];

pub(crate) fn register(suite: &mut Suite) {
    suite.test("secure: hostile names are refused by every verb and touch nothing", hostile_names);
    suite.test("secure: a hostile owner in a lease file is no path, and goes with GC", hostile_lease);
    suite.test_with(&[Need::Bpf], "secure: records and pins are root's alone", modes);
}

fn request(changes: &Value) -> Value {
    let base = config::with(config::bridge("auto"), &json!({"cniVersion": "1.1.0", "name": "n1"}));
    config::with(base, changes)
}

fn hostile_names() -> Result<()> {
    let node = Node::new()?;
    let _pod = node.pod("pod1")?;
    let before = Snapshot::take(&node)?;
    for name in HOSTILE {
        let mut cases = vec![
            (request(&json!({"name": name})), None, CODE_CONFIGURATION),
            (request(&json!({"ipam": {"type": name}})), None, CODE_CONFIGURATION),
            (request(&json!({})), Some("CNI_CONTAINERID"), CODE_ENVIRONMENT),
        ];
        // An interface may have many names; only those that are paths or break lines are no names.
        if name.contains(['/', ' ', '\n']) || name == ".." {
            cases.push((request(&json!({})), Some("CNI_IFNAME"), CODE_ENVIRONMENT));
        }
        if name != "-x" {
            cases.push((request(&json!({"bridge": name})), None, CODE_CONFIGURATION));
            cases.push((request(&json!({"ebpf": {"uplinks": [name]}})), None, CODE_CONFIGURATION));
        }
        if !name.starts_with('/') {
            cases.push((request(&json!({"ipam": {"dataDir": name}})), None, CODE_CONFIGURATION));
            cases.push((request(&json!({"ebpf": {"bpffs": name}})), None, CODE_CONFIGURATION));
            cases.push((request(&json!({"logFile": name})), None, CODE_CONFIGURATION));
        }
        for (stdin, variable, code) in cases {
            for verb in ["ADD", "DEL", "CHECK"] {
                let mut env = vec![
                    ("CNI_CONTAINERID", "pod1"),
                    ("CNI_NETNS", "/run/netns/pod1"),
                    ("CNI_IFNAME", "eth0"),
                ];
                if let Some(variable) = variable {
                    env.retain(|(key, _)| *key != variable);
                    env.push((variable, name));
                }
                let error = refused(exec(&node, plugin::NAME, verb, &env, &stdin.to_string()))?;
                equal(&format!("{verb} with {variable:?} {name:?} of {stdin}: {error}"), error.code, code)?;
                ensure!(!error.msg.contains('\n'), "more than one line: {error}");
            }
        }
    }
    equal("files that a name made", node.tree("/run")?.contains(&"hit".into()), false)?;
    Snapshot::take(&node)?.ensure_equals(&before)
}

/// A range that is full has every lease's owner looked up.
fn hostile_lease() -> Result<()> {
    let range = json!([[{"subnet": "10.1.0.0/24", "rangeStart": "10.1.0.2", "rangeEnd": "10.1.0.2"}]]);
    let changes = json!({"ipam": {"ranges": range}});
    let mut scene = Scene::new(Node::new()?, ebpf_bridge_lab::libcni::Conflist::of(request(&changes)));
    // Were the owner a path, this would be its record: of a pod that is gone.
    let script = "mkdir -p /var/lib/cni/networks/n1 /run/ebpf-bridge/n1; \
                  printf '../../lab/x\\r\\neth0' >/var/lib/cni/networks/n1/10.1.0.2; \
                  printf '%s' \"$RECORD\" >'/run/lab/x@eth0'";
    let record = json!({
        "network": "n1", "containerId": "x", "ifname": "eth0", "netns": "/run/netns/gone", "bridge": "br0",
        "veth": "vethgone", "addresses": [], "lease": {"type": "none"}, "bpffs": null, "notAccelerated": null,
        "pod": null, "created": 0,
    });
    let status = scene.node.command("sh").args(["-ec", script]).env("RECORD", record.to_string()).status()?;
    ensure!(status.success(), "writing the lease: {status}");
    equal("the code", refused(scene.wire("pod1").map(|pod| pod.address()))?.code, 100)?;
    let gc = config::with(
        request(&changes),
        &json!({"cni.dev/valid-attachments": [{"containerID": "pod9", "ifname": "eth0"}]}),
    );
    exec(&scene.node, plugin::NAME, "GC", &[], &gc.to_string())?;
    equal("leases left", scene.node.tree("/var/lib/cni/networks")?, Vec::<String>::new())
}

fn modes() -> Result<()> {
    let scene = Scene::with_pods(Variant::Auto, 1)?;
    for tree in ["/run/ebpf-bridge", "/sys/fs/bpf/ebpf-bridge"] {
        let listed = scene.node.call(&format!("find {tree} -printf %y:%m:%U:%p\\n"))?;
        ensure!(listed.lines().count() > 2, "too few under {tree}: {listed}");
        for line in listed.lines() {
            let right = line.starts_with("d:700:0:") || line.starts_with("f:600:0:");
            ensure!(right, "not root's alone: {line}");
        }
    }
    Ok(())
}
