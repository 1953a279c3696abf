//! `--record`: what the repository keeps of a run.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use ebpf_bridge_lab::plugin;

use crate::process::{Captured, clean};
use crate::workspace::Workspace;

/// Between these lines of the page is the table.
const BEGIN: &str = "<!-- written by `cargo xtask test kernels --record` -->\n";
const END: &str = "<!-- end -->\n";
const BUDGET: &str = "tests/tests/verifier/budget.txt";
const PAGE: &str = "docs/kernels.md";

/// Puts the table into its page.
pub(super) fn table(workspace: &Workspace, table: &str) -> Result<()> {
    let text = read(&workspace.root.join(PAGE))?;
    let parts = text.split_once(BEGIN).and_then(|(before, rest)| Some((before, rest.split_once(END)?.1)));
    let (before, after) = parts.with_context(|| format!("{PAGE} has no place for the table"))?;
    write(&workspace.root.join(PAGE), &format!("{before}{BEGIN}\n{table}\n{END}{after}"))
}

/// The same for the kernel that runs here.
pub(super) fn own_budget(workspace: &Workspace, plugin: &Path, suite: &Path) -> Result<()> {
    let mut own = clean(suite);
    own.arg("verifier: ").env(plugin::PATH_VARIABLE, plugin);
    let said = Captured::of(&mut own)?.stdout;
    let release = read(Path::new("/proc/sys/kernel/osrelease"))?;
    budget(workspace, &release, &said.lines().map(str::to_owned).collect::<Vec<_>>())
}

/// Puts what a suite said of the verifier's work into the budget, in place of what was there for the kernel's series.
pub(super) fn budget(workspace: &Workspace, kernel: &str, lines: &[String]) -> Result<()> {
    let counts: Vec<String> = lines.iter().filter_map(|line| count(line)).collect();
    if counts.is_empty() {
        // The suite had other tests to run, or ended early.
        return Ok(());
    }
    let series = kernel.splitn(3, '.').take(2).collect::<Vec<_>>().join(".");
    ensure!(series.contains('.'), "no kernel's version: {kernel}");
    let path = workspace.root.join(BUDGET);
    let text = read(&path)?;
    let own = format!("{series} ");
    let mut kept: Vec<String> =
        text.lines().filter(|line| !line.starts_with(&own)).map(str::to_owned).collect();
    kept.extend(counts.iter().map(|count| format!("{series} {count}")));
    kept.sort_by_key(|line| age(line));
    write(&path, &(kept.join("\n") + "\n"))
}

/// The series a line is of, as numbers; comments have none and come first.
fn age(line: &str) -> Option<(u32, u32)> {
    let (major, minor) = line.split_whitespace().next()?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// Of `verifier processed 1234 instructions of NAME`: program and count.
fn count(line: &str) -> Option<String> {
    let (count, program) = line.strip_prefix("verifier processed ")?.split_once(" instructions of ")?;
    Some(format!("{program} {count}"))
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_budget_is_in_the_order_of_the_kernels() {
        let mut lines = ["# kernel", "6.12 a 1", "5.10 a 1", "6.1 b 2", "6.1 a 1"];
        lines.sort_by_key(|line| age(line));
        assert_eq!(lines, ["# kernel", "5.10 a 1", "6.1 b 2", "6.1 a 1", "6.12 a 1"]);
        assert_eq!(count("verifier processed 12 instructions of a").as_deref(), Some("a 12"));
    }
}
