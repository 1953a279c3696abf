//! `status`: pods and devices.

use std::{fmt::Write, path::Path};

use serde_json::{Value, json};

use super::{Report, SCHEMA_VERSION};
use crate::{
    dataplane::{self, Attached, Pins, Program},
    host::LinuxHost,
    state::{Record, Records, STATE_DIR},
};

pub(super) fn status(bpffs: &Path) -> anyhow::Result<Report> {
    let host = LinuxHost::open(None)?;
    let records = Records::at(STATE_DIR);
    let mut pods: Vec<Record> = Vec::new();
    for (network, attachment) in records.list(None)? {
        pods.extend(records.read(&network, &attachment)?);
    }
    let mut table = String::new();
    let mut devices = Vec::new();
    let pins = Pins::under(bpffs);
    for (name, link) in host.node().links()? {
        let attached = dataplane::attached(&pins, &host, &name, link.index);
        devices.extend(device(&name, link.index, &attached, &pods, &mut table)?);
    }
    for pod in &pods {
        let addresses: Vec<String> = pod.addresses.iter().map(ToString::to_string).collect();
        let how = pod
            .not_accelerated
            .as_deref()
            .map_or_else(|| "accelerated".to_owned(), |why| format!("bridge path: {why}"));
        writeln!(
            table,
            "pod {}/{} {} {} {how}",
            pod.network,
            pod.container_id,
            pod.ifname,
            addresses.join(",")
        )?;
    }
    if table.is_empty() {
        table.push_str("no pods on this node\n");
    }
    let pods: Vec<Value> = pods.iter().map(pod).collect();
    Ok(Report { json: json!({ "schemaVersion": SCHEMA_VERSION, "devices": devices, "pods": pods }), table })
}

fn device(
    name: &str,
    index: u32,
    attached: &[(Program, Attached)],
    pods: &[Record],
    table: &mut String,
) -> anyhow::Result<Option<Value>> {
    let Some((_, how)) = attached.first() else { return Ok(None) };
    let how = match how {
        Attached::Clsact => "clsact",
        Attached::Tcx => "tcx",
    };
    let kind = if pods.iter().any(|pod| pod.veth == name) { "pod" } else { "uplink" };
    let programs: Vec<&str> = attached.iter().map(|(program, _)| program.name()).collect();
    writeln!(table, "device {name} {kind} {how} {}", programs.join(","))?;
    Ok(Some(json!({
        "ifname": name, "ifindex": index, "kind": kind, "attach": how, "programs": programs,
    })))
}

fn pod(pod: &Record) -> Value {
    json!({
        "network": pod.network, "containerId": pod.container_id, "ifname": pod.ifname, "veth": pod.veth,
        "addresses": pod.addresses, "accelerated": pod.not_accelerated.is_none(),
        "why": pod.not_accelerated.as_deref().unwrap_or_default(),
        "kubernetes": pod.pod.as_ref().map(|(namespace, name)| json!({ "namespace": namespace, "name": name })),
        "created": pod.created,
    })
}
