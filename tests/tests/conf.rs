//! What users copy from `conf/`: every list there is valid, and wires pods that are accelerated.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use ebpf_bridge::config::List;
use ebpf_bridge_lab::libcni::Conflist;
use ebpf_bridge_lab::{Need, Node, Scene, Stats, traffic};
use serde_json::{Value, json};

use crate::check::{equal, eventually};
use crate::suite::Suite;

const DIR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../conf");

pub(crate) fn register(suite: &mut Suite) {
    suite.test("conf: every list is found valid by the plugin", all_are_valid);
    // flannel's own plugin is no part of any distribution: `conflist` tries its delegate.
    for name in ["10-ebpf-bridge", "crio", "nerdctl", "podman", "dual-stack"] {
        let needs = [Need::Bpf, Need::Peer("portmap"), Need::Peer("firewall"), Need::Peer("tuning")];
        suite
            .test_with(&needs, format!("conf: {name}.conflist wires pods, accelerated"), move || wires(name));
    }
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("reading {}", path.display()))
}

fn all_are_valid() -> Result<()> {
    let files = fs::read_dir(DIR)?.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    let lists: Vec<_> =
        files.iter().filter(|path| path.extension().is_some_and(|kind| kind == "conflist")).collect();
    equal("lists in conf/", lists.len(), 6)?;
    for path in lists {
        let list = List::parse(&read(path)?).with_context(|| path.display().to_string())?;
        equal(&format!("networks in {}", path.display()), list.networks()?.len(), 1)?;
    }
    Ok(())
}

fn wires(name: &str) -> Result<()> {
    let list: Value = serde_json::from_slice(&read(&Path::new(DIR).join(format!("{name}.conflist")))?)?;
    let ranges = list["plugins"][0]["ipam"]["ranges"].as_array().map_or(0, Vec::len);
    // podman's is of 0.4.0, whose layout the lab does not read; `conformance` compares those.
    let mut scene = Scene::new(Node::new()?, Conflist::read(&list)?.version("1.0.0"));
    scene.wire("client")?;
    let mapping = json!([{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}]);
    scene.wire_with("server", |container| container.capability("portMappings", mapping))?;
    let (client, server) = (&scene.pods[0], &scene.pods[1]);
    equal("addresses", server.result.ips.len(), ranges)?;
    let outside = scene.node.outside();
    traffic::upload(client, outside, outside.address(), 1 << 20)?;
    for ip in &server.result.ips {
        let before = Stats::read(&scene.node)?.redirected();
        // Learned by then.
        eventually("packets take the fast path", traffic::PATIENCE, || {
            traffic::upload(client, server, ip.address.ip(), 4 << 20)?;
            Ok(Stats::read(&scene.node)?.redirected() > before)
        })?;
    }
    let status = scene.status()?;
    let slow: Vec<_> = status.pods.iter().filter(|pod| !pod.accelerated).collect();
    ensure!(slow.is_empty(), "not accelerated: {slow:?}");
    scene.unwire()
}
