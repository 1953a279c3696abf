//! What one execution of a plugin takes: time to start, memory, system calls, other programs.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use ebpf_bridge_lab::Node;
use ebpf_bridge_lab::libcni::{Conflist, Container, Runtime, exec};
use serde_json::json;

use super::lifecycle::Site;
use super::results::Sample;
use super::rig;
use super::statistics::median;
use super::workload::{Figure, OPERATIONS, Workload};

/// Where plugins are, in a node.
const PLUGINS: &str = "/opt/cni/bin";
const SAID: &str = "/run/lab/said";
const VERSION: &str = r#"{"cniVersion": "1.0.0"}"#;

/// Programs that execute a plugin and say something about it.
///
/// GNU time(1) starts it from a process smaller than any plugin: the kernel counts the memory of the one that forked
/// too (`ru_maxrss` of getrusage(2) outlives execve(2)).
const TOOLS: [(&str, &str); 2] = [
    ("weighed", "time --format=%M --output=/run/lab/said"),
    ("traced", "strace --follow-forks --summary-only --summary-columns=calls,name --output=/run/lab/said"),
];

/// Puts a script for each tool and plugin among the plugins.
pub(super) fn prepare(node: &Node) -> Result<()> {
    node.run_in(|| {
        for (name, tool) in TOOLS {
            for kind in ["ebpf-bridge", "bridge"] {
                let path = format!("{PLUGINS}/{name}-{kind}");
                let script = format!("#!/bin/sh\nexec {tool} {PLUGINS}/{kind}\n");
                fs::write(&path, script).with_context(|| format!("writing {path}"))?;
                fs::set_permissions(&path, Permissions::from_mode(0o755))?;
            }
        }
        Ok(())
    })
}

/// All of it, once; the time is the median of some.
pub(super) fn measure(site: &Site, repeats: u32) -> Result<Vec<(Workload, Sample)>> {
    let memory = through(site, "weighed")?;
    let traced = through(site, "traced")?;
    let kilobytes = number(&memory[0])?;
    let mut figures =
        vec![(Figure::Start, start(site, repeats)?), (Figure::Memory, kilobytes as f64 / 1024.0)];
    for (operation, said) in OPERATIONS.into_iter().zip(&traced) {
        let Summary { calls, programs } = Summary::parse(said)?;
        figures.push((Figure::Calls(operation), calls as f64));
        figures.push((Figure::Programs(operation), programs as f64));
    }
    Ok(figures.into_iter().map(|(figure, value)| (Workload::Execution(figure), Sample::of(value))).collect())
}

/// What a tool says of ADD and of DEL.
fn through(site: &Site, tool: &str) -> Result<[String; 2]> {
    let (node, container) = (&site.scene.node, Container::of(&site.passers_by[0]));
    let mut plugin = rig::plugin(site.variant);
    plugin["type"] = json!(format!("{tool}-{}", kind(site)?));
    let runtime = Runtime::new(Conflist::of(plugin));
    runtime.add(node, &container)?;
    let added = node.read(SAID)?;
    runtime.del(node, &container)?;
    Ok([added, node.read(SAID)?])
}

fn kind(site: &Site) -> Result<String> {
    let plugin = rig::plugin(site.variant);
    Ok(plugin["type"].as_str().context("a plugin without a type")?.into())
}

/// In ms.
fn start(site: &Site, repeats: u32) -> Result<f64> {
    let kind = kind(site)?;
    let times = (0..repeats).map(|_| {
        let start = Instant::now();
        exec(&site.scene.node, &kind, "VERSION", &[], VERSION)?;
        Ok(start.elapsed().as_secs_f64() * 1e3)
    });
    Ok(median(times.collect::<Result<Vec<_>>>()?.into_iter()))
}

/// What strace(1) counted.
#[derive(Debug, PartialEq, Eq)]
struct Summary {
    calls: u64,
    /// Successful or not: a shell that looks for a program along PATH tries.
    programs: u64,
}

impl Summary {
    fn parse(said: &str) -> Result<Self> {
        let lines = said.lines().filter_map(|line| {
            let (count, name) = line.trim().split_once(char::is_whitespace)?;
            Some((count.parse::<u64>().ok()?, name.trim()))
        });
        let rows: Vec<_> = lines.collect();
        let find = |name| rows.iter().find(|row| row.1 == name).map(|row| row.0);
        let calls = find("total").with_context(|| format!("strace said {said:?}"))?;
        Ok(Self { calls, programs: find("execve").unwrap_or(0) })
    }
}

fn number(text: &str) -> Result<u64> {
    let number = text.trim().parse().with_context(|| format!("time said {text:?}"))?;
    ensure!(number > 0, "time measured nothing");
    Ok(number)
}

#[cfg(test)]
mod tests {
    use super::Summary;

    /// As strace 6.1 prints it.
    #[test]
    fn a_summary_is_read() {
        let said = "    calls syscall\n--------- ----------------\n       12 read\n        3 execve\n\
                    --------- ----------------\n       15 total\n";
        assert_eq!(Summary::parse(said).unwrap(), Summary { calls: 15, programs: 3 });
        assert!(Summary::parse("nothing").is_err());
    }
}
