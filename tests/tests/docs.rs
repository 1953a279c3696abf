//! What people read: links lead somewhere, and what the tool says is explained.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use ebpf_bridge_common::reason::{Egress, Ingress};
use ebpf_bridge_lab::plugin;

use crate::suite::Suite;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

pub(crate) fn register(suite: &mut Suite) {
    suite.test("docs: every relative link leads to a file", links);
    suite.test("docs: every verb of the tool is told of", verbs);
    suite.test("docs: every reason is told of in troubleshooting", reasons);
}

/// Every page, with its text.
fn pages() -> Result<Vec<(PathBuf, String)>> {
    let mut pages = Vec::new();
    for directory in [ROOT.into(), format!("{ROOT}/docs")] {
        for entry in fs::read_dir(directory)? {
            let path = entry?.path();
            if path.extension().is_some_and(|kind| kind == "md") {
                let text = fs::read_to_string(&path)?;
                pages.push((path, text));
            }
        }
    }
    Ok(pages)
}

fn links() -> Result<()> {
    let mut seen = 0;
    for (page, text) in pages()? {
        let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        for target in targets.filter(|target| !target.contains("://")) {
            let file = target.split('#').next().unwrap_or_default();
            let path = page.parent().unwrap_or(Path::new(ROOT)).join(file);
            ensure!(path.exists(), "{}: {target} leads nowhere", page.display());
            seen += 1;
        }
    }
    ensure!(seen > 10, "only {seen} links");
    Ok(())
}

fn verbs() -> Result<()> {
    let help = String::from_utf8(Command::new(plugin::path()?).arg("help").output()?.stdout)?;
    let commands = help.split("Commands:\n").nth(1).context("no commands")?;
    let verbs = commands.lines().take_while(|line| line.starts_with("  "));
    // A deeper indentation goes on with the words of the line before.
    let verbs =
        verbs.filter(|line| !line.starts_with("   ")).filter_map(|line| line.split_whitespace().next());
    let verbs: Vec<_> = verbs.filter(|verb| *verb != "help").collect();
    ensure!(verbs.len() > 15, "only {verbs:?}");
    // Not CHANGELOG, which nobody reads to find out what there is.
    let pages = pages()?.into_iter().filter(|(page, _)| !page.ends_with("CHANGELOG.md"));
    let text: String = pages.map(|(_, text)| text).collect();
    for verb in verbs {
        let told = [format!("`{verb}`"), format!("`{verb} "), format!("ebpf-bridge {verb}")];
        ensure!(told.iter().any(|words| text.contains(words)), "nothing tells of {verb}");
    }
    Ok(())
}

fn reasons() -> Result<()> {
    let text = fs::read_to_string(format!("{ROOT}/docs/troubleshooting.md"))?;
    let ingress = Ingress::ALL.iter().map(|reason| reason.name());
    for name in ingress.chain(Egress::ALL.iter().map(|reason| reason.name())) {
        ensure!(text.contains(&format!("`{name}`")), "nothing tells of {name}");
    }
    Ok(())
}
