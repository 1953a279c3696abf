//! What the container runtime finds: network configurations and the binary.

use std::{env, fs, os::unix::fs::PermissionsExt};

use super::check::{Check, Verdict};
use crate::{
    cli::{
        confs::Conf,
        node::{Node, own},
    },
    config::TYPE,
};

pub(super) const CHECKS: &[Check] = &[
    Check { area: "configs", name: "order", examine: order },
    Check { area: "configs", name: "validity", examine: validity },
    Check { area: "binary", name: "binary", examine: binary },
];

/// Which file wins, and who else is there.
fn order(node: &Node) -> anyhow::Result<Vec<Verdict>> {
    let confs = node.confs()?;
    let directory = node.sources.conf_dir.display();
    let Some(ours) = confs.iter().find(|conf| conf.is_ours()) else {
        return Ok(vec![nothing_of_ours(node, &confs)?]);
    };
    let winner = confs.iter().find(|conf| conf.list.is_ok());
    if let Some(winner) = winner.filter(|winner| winner.path != ours.path) {
        let path = winner.path.display();
        let what = format!(
            "{} comes before {} in {directory}, so the runtime wires pods with it and not with {TYPE}",
            winner.name(),
            ours.name()
        );
        return Ok(vec![Verdict::wrong(what, format!("mv {path} {path}.disabled"))]);
    }
    let networks = node.networks();
    let names: Vec<&str> = networks.iter().map(|network| network.name.as_str()).collect();
    let mut verdicts = Verdict::fine(format!("{} comes first: network {}", ours.name(), names.join(", ")));
    let others: Vec<String> = confs.iter().filter(|conf| conf.path != ours.path).map(Conf::name).collect();
    if !others.is_empty() {
        verdicts.push(Verdict::Note(format!("also in {directory}, and not used: {}", others.join(", "))));
    }
    Ok(verdicts)
}

fn nothing_of_ours(node: &Node, confs: &[Conf]) -> anyhow::Result<Verdict> {
    let directory = node.sources.conf_dir.display();
    if node.records().is_ok_and(|records| !records.is_empty()) {
        let what =
            format!("nothing in {directory} names {TYPE}; this node's pods were wired by another file");
        return Ok(Verdict::Note(what));
    }
    let names: Vec<String> = confs.iter().map(Conf::name).collect();
    let what = match names.as_slice() {
        [] => format!("there is no network configuration in {directory}"),
        names => format!("no network configuration in {directory} names {TYPE}, only {}", names.join(", ")),
    };
    let fix = format!("{} install --pod-cidr 10.244.0.0/24 --conf-dir {directory}", own());
    Ok(Verdict::wrong(what, fix))
}

/// Files that are broken: some runtimes stop at the first.
fn validity(node: &Node) -> anyhow::Result<Vec<Verdict>> {
    let confs = node.confs()?;
    let wrong = confs.iter().filter_map(|conf| {
        let path = conf.path.display();
        let error = match &conf.list {
            Err(error) => error,
            Ok(list) if conf.is_ours() => &list.networks().err()?,
            Ok(_) => return None,
        };
        Some(Verdict::wrong(format!("{path}: {error}"), format!("mv {path} {path}.broken")))
    });
    Ok(wrong.collect())
}

/// The binary is where the runtime looks for it, and is the one that is asked.
fn binary(node: &Node) -> anyhow::Result<Vec<Verdict>> {
    let path = node.sources.bin_dir.join(TYPE);
    let own_path = env::current_exe()?;
    let fix = format!("{} install --bin-dir {}", own(), node.sources.bin_dir.display());
    let metadata = match fs::metadata(&path) {
        Err(error) => {
            let what = format!("the runtime finds no plugin at {}: {error}", path.display());
            return Ok(vec![Verdict::wrong(what, fix)]);
        }
        Ok(metadata) => metadata,
    };
    if metadata.permissions().mode() & 0o111 == 0 {
        let what = format!("{} cannot be executed", path.display());
        return Ok(vec![Verdict::wrong(what, format!("chmod 755 {}", path.display()))]);
    }
    if fs::read(&path)? != fs::read(&own_path)? {
        let what = format!("{} is another build than this one, {}", path.display(), own_path.display());
        return Ok(vec![Verdict::wrong(what, fix)]);
    }
    Ok(Verdict::fine(format!("{} is this build", path.display())))
}
