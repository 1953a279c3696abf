//! The fast path: where the programs are, and whether they may work.

use std::collections::BTreeMap;

use super::check::{Check, Verdict};
use crate::{
    cli::node::{Node, name, own},
    dataplane::{self, Missing},
    verbs::Difference,
};

pub(super) const CHECKS: &[Check] = &[
    Check { area: "programs", name: "bpffs", examine: bpffs },
    Check { area: "programs", name: "switch", examine: switch },
    Check { area: "programs", name: "attached", examine: attached },
    Check { area: "programs", name: "bridge_path", examine: bridge_path },
];

fn bpffs(node: &Node) -> anyhow::Result<Vec<Verdict>> {
    let path = node.bpffs.display();
    if dataplane::is_mounted(&node.bpffs) {
        return Ok(Verdict::fine(format!("a BPF file system is at {path}")));
    }
    if node.records()?.iter().all(|record| record.bpffs.is_none()) {
        return Ok(Verdict::note(format!("no BPF file system is at {path}; the first ADD mounts one")));
    }
    let what = format!("no BPF file system is at {path}, so no programs can be kept loaded");
    Ok(vec![Verdict::wrong(what, format!("mount -t bpf bpf {path}"))])
}

/// The kill switch.
fn switch(node: &Node) -> anyhow::Result<Vec<Verdict>> {
    let is_off = node.settings()?.is_some_and(|settings| settings.enabled == 0);
    let what = "the fast path is switched off: every packet takes the bridge path";
    Ok(if is_off { vec![Verdict::wrong(what, format!("{} on", own()))] } else { Vec::new() })
}

/// The programs on every device that should have them.
fn attached(node: &Node) -> anyhow::Result<Vec<Verdict>> {
    let mut missing: Vec<&Missing> = Vec::new();
    for difference in node.differences()? {
        let Difference::Programs(one) = difference else { continue };
        if !matches!(one, Missing::Liberal(_)) && !missing.contains(&one) {
            missing.push(one);
        }
    }
    if !missing.is_empty() {
        let wrong = |one: &Missing| Verdict::wrong(one.to_string(), format!("{} repair", own()));
        return Ok(missing.into_iter().map(wrong).collect());
    }
    let devices = node.devices()?;
    if devices.is_empty() {
        return Ok(Verdict::note("no device has programs"));
    }
    let pods = node.records()?;
    let mut told: BTreeMap<String, usize> = BTreeMap::new();
    for device in &devices {
        let (name, how) = (&device.name, device.how());
        let is_pod = pods.iter().any(|pod| pod.veth == *name);
        let what = if is_pod { format!("pods' veths ({how})") } else { format!("{name} ({how})") };
        *told.entry(what).or_default() += 1;
    }
    let told = told.into_iter().map(|(what, count)| match what.strip_prefix("pods' veths") {
        Some(how) => format!("{count} pods' veths{how}"),
        None => what,
    });
    Ok(Verdict::fine(format!("on {}", told.collect::<Vec<_>>().join(" and "))))
}

/// Pods that their ADD had to leave on the bridge path.
fn bridge_path(node: &Node) -> anyhow::Result<Vec<Verdict>> {
    let mut verdicts = Vec::new();
    for (pod, compared) in node.compared()? {
        let Some(why) = &pod.not_accelerated else { continue };
        let what = format!("pod {} takes the bridge path: {why}", name(pod));
        verdicts.push(if compared.as_ref().is_ok_and(|state| state.may_become_fast) {
            Verdict::wrong(what, format!("{} repair", own()))
        } else {
            Verdict::Note(what)
        });
    }
    Ok(verdicts)
}
