//! `ls`: the pods of this node.

use std::{
    path::Path,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde_json::{Value, json};

use super::{
    Report, SCHEMA_VERSION,
    node::{Node, is_named},
    table::{age, columns},
};
use crate::state::Record;

/// Characters of a container id that tell one from the other, as in crictl.
const ID: usize = 13;

pub(super) fn ls(bpffs: &Path, asked: Option<&str>) -> anyhow::Result<Report> {
    let node = Node::look(bpffs)?;
    let head = ["CONTAINER", "POD", "NETWORK", "IF", "ADDRESS", "VETH", "AGE", "PATH"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    let mut pods = Vec::new();
    for pod in node.records()?.iter().filter(|pod| asked.is_none_or(|asked| is_named(pod, asked))) {
        let why = node.not_accelerated(pod)?;
        rows.push(row(pod, why.as_deref()));
        pods.push(document(pod, why.as_deref()));
    }
    let table = if pods.is_empty() { "no pods on this node\n".to_owned() } else { columns(&rows) };
    Ok(Report { json: json!({ "schemaVersion": SCHEMA_VERSION, "pods": pods }), table })
}

fn row(pod: &Record, why: Option<&str>) -> Vec<String> {
    let addresses: Vec<String> = pod.addresses.iter().map(ToString::to_string).collect();
    let dash = |text: String| if text.is_empty() { "-".to_owned() } else { text };
    vec![
        pod.container_id.chars().take(ID).collect(),
        pod.pod.as_ref().map_or_else(|| "-".to_owned(), |(namespace, name)| format!("{namespace}/{name}")),
        pod.network.clone(),
        pod.ifname.clone(),
        dash(addresses.join(",")),
        pod.veth.clone(),
        age(since(pod)),
        why.map_or_else(|| "fast".to_owned(), |why| format!("bridge: {why}")),
    ]
}

/// How long ago its ADD began.
pub(super) fn since(pod: &Record) -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.saturating_sub(Duration::from_secs(pod.created))
}

fn document(pod: &Record, why: Option<&str>) -> Value {
    json!({
        "network": pod.network, "containerId": pod.container_id, "ifname": pod.ifname, "veth": pod.veth,
        "addresses": pod.addresses, "accelerated": why.is_none(), "why": why.unwrap_or_default(),
        "kubernetes": pod.pod.as_ref().map(|(namespace, name)| json!({ "namespace": namespace, "name": name })),
        "created": pod.created, "ageSeconds": since(pod).as_secs(),
    })
}
