//! `uninstall`: the configuration first, so that no pod comes after it; the binary only when nothing needs it for a DEL.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::Context;
use serde_json::json;

use super::{
    Report, SCHEMA_VERSION,
    install::{Place, is_our_binary, is_our_conf, there},
};
use crate::{
    config::List,
    dataplane,
    host::{LinuxHost, iptables, nft},
    state::{Records, STATE_DIR},
};

/// What has been taken away, and what has not.
#[derive(Default)]
struct Outcome {
    removed: Vec<String>,
    stays: Vec<(String, String)>,
}

pub(super) fn uninstall(place: &Place, bpffs: &Path) -> anyhow::Result<Report> {
    let mut outcome = Outcome::default();
    let networks = remove_conf(&place.conf(), &mut outcome)?;
    let others = other_confs(&place.conf_dir)?;
    let records = Records::at(STATE_DIR);
    let alone = records.alone()?;
    let pods = records.list(None)?.len();
    if pods == 0 {
        remove_from_kernel(&networks, bpffs, &mut outcome)?;
    } else {
        let why = format!("{pods} pods of this node need them; remove the pods, then uninstall again");
        outcome.stays.push(("routes, rules and programs".to_owned(), why));
    }
    let binary = place.binary();
    for conf in &others {
        let why = format!("it names ebpf-bridge and is not {}; delete it", place.conf().display());
        outcome.stays.push((conf.display().to_string(), why));
    }
    if pods > 0 || !others.is_empty() {
        outcome.stays.push((binary.display().to_string(), "the runtime calls it for them".to_owned()));
    } else {
        remove_file(&binary, is_our_binary, &mut outcome)?;
    }
    drop(alone);
    Ok(report(&outcome))
}

/// Removes the configuration, and returns its networks: (name, whether it masquerades with iptables).
fn remove_conf(path: &Path, outcome: &mut Outcome) -> anyhow::Result<Vec<(String, bool)>> {
    let ours = fs::read(path).ok().and_then(|text| List::parse(&text).ok()).map(|list| list.ours());
    remove_file(path, is_our_conf, outcome)?;
    let network = |conf: &serde_json::Value| {
        Some((conf["name"].as_str()?.to_owned(), conf["ipMasqBackend"] == "iptables"))
    };
    Ok(ours.iter().flatten().filter_map(network).collect())
}

/// Configurations that still name us.
fn other_confs(directory: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.with_context(|| format!("cannot list {}", directory.display()))?,
    };
    let is_conf = |path: &PathBuf| {
        path.extension().is_some_and(|kind| kind == "conflist" || kind == "conf" || kind == "json")
    };
    let paths = entries.flatten().map(|entry| entry.path());
    let mut ours: Vec<_> = paths.filter(is_conf).filter(|path| there(path, is_our_conf)).collect();
    ours.sort();
    Ok(ours)
}

/// Everything that outlives the pods. The last DEL has taken most of it away.
fn remove_from_kernel(
    networks: &[(String, bool)],
    bpffs: &Path,
    outcome: &mut Outcome,
) -> anyhow::Result<()> {
    let host = LinuxHost::open(None)?;
    host.node().remove_node_routes()?;
    nft::remove_table()?;
    for (network, _) in networks.iter().filter(|(_, by_iptables)| *by_iptables) {
        iptables::remove(network)?;
    }
    if let Some(error) = dataplane::tear_down(bpffs, &host).into_iter().next() {
        return Err(error.into());
    }
    outcome.removed.push("routes to other nodes, masquerade rules, programs and their pins".to_owned());
    Ok(())
}

fn remove_file(path: &Path, is_ours: fn(&[u8]) -> bool, outcome: &mut Outcome) -> anyhow::Result<()> {
    let shown = path.display().to_string();
    if there(path, is_ours) {
        fs::remove_file(path).with_context(|| format!("cannot remove {shown}"))?;
        outcome.removed.push(shown);
    } else if path.exists() {
        outcome.stays.push((shown, "it is not ours".to_owned()));
    }
    Ok(())
}

fn report(outcome: &Outcome) -> Report {
    let removed = outcome.removed.iter().map(|what| format!("removed {what}\n"));
    let stays = outcome.stays.iter().map(|(what, why)| format!("stays   {what}: {why}\n"));
    let table = removed.chain(stays).collect();
    let stays: Vec<_> = outcome.stays.iter().map(|(what, why)| json!({ "what": what, "why": why })).collect();
    let json = json!({ "schemaVersion": SCHEMA_VERSION, "removed": outcome.removed, "stays": stays });
    Report { json, table }
}
