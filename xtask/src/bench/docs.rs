//! What the repository says about a run: docs/benchmarks.md, its charts, and a part of the README.

use std::fs;

use anyhow::{Context, Result};

use super::outcome::{Outcome, write};
use super::targets::{self, Aim};
use super::{chart, report, table};
use crate::workspace::Workspace;

const BEGIN: &str = "<!-- benchmarks: written by `cargo xtask bench --docs` -->\n";
const END: &str = "<!-- benchmarks end -->\n";

/// Writes them.
pub(super) fn write_all(workspace: &Workspace, outcome: &Outcome) -> Result<()> {
    let docs = workspace.root.join("docs");
    let images = docs.join("img");
    fs::create_dir_all(&images).with_context(|| format!("making {}", images.display()))?;
    chart::draw(&images, &outcome.results)?;
    write(&docs.join("benchmarks.md"), &report::markdown(outcome, "img/"))?;
    let readme = workspace.root.join("README.md");
    let text = fs::read_to_string(&readme).with_context(|| format!("reading {}", readme.display()))?;
    let text = replaced(&text, &part(outcome)).with_context(|| format!("no {BEGIN:?} in the README"))?;
    write(&readme, &text)?;
    println!("docs/benchmarks.md, docs/img and README.md are written");
    Ok(())
}

/// One chart and one table: of each traffic target against a rival, what came of it.
fn part(outcome: &Outcome) -> String {
    let verdicts = targets::verdicts(&outcome.results);
    let rows = verdicts.iter().filter_map(|verdict| {
        let Aim::Times(least, against) = verdict.target.aim else { return None };
        let measured = format!("{:.2}x", verdict.measured);
        let target = format!("{least:.2}x{}", if verdict.met { "" } else { " (gap)" });
        Some(vec![verdict.target.workload.title(), against.title().into(), measured, target])
    });
    let rows: Vec<_> = rows.collect();
    format!(
        "![Pod traffic on one node](docs/img/{})\n\n{}\nMore, and how it was measured: [docs/benchmarks.md](docs/benchmarks.md).\n",
        chart::SUMMARY,
        table::aligned(&["", "against", "measured", "target"], &rows)
    )
}

/// A text with other words between the marks; none if it has no such marks.
fn replaced(text: &str, part: &str) -> Option<String> {
    let (before, rest) = text.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}{part}{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::{BEGIN, END, replaced};

    #[test]
    fn only_what_is_between_the_marks_is_replaced() {
        let text = format!("one\n{BEGIN}old\n{END}two\n");
        assert_eq!(replaced(&text, "new\n"), Some(format!("one\n{BEGIN}new\n{END}two\n")));
        assert_eq!(replaced("no marks", "new"), None);
    }

    #[test]
    fn the_readme_has_the_marks() {
        let readme = include_str!("../../../README.md");
        assert!(replaced(readme, "").is_some());
    }
}
