//! What the repository says about a run: docs/benchmarks.md, its charts, and a part of the README.

use std::fs;

use anyhow::{Context, Result};

use super::load::Load;
use super::outcome::{Outcome, write};
use super::results::Results;
use super::route::Route;
use super::table::{aligned, figure};
use super::variant::Variant;
use super::workload::{Crowd, OPERATIONS, Workload};
use super::{chart, report};
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
    let text =
        replaced(&text, &part(&outcome.results)).with_context(|| format!("no {BEGIN:?} in the README"))?;
    write(&readme, &text)?;
    println!("docs/benchmarks.md, docs/img and README.md are written");
    Ok(())
}

/// One chart and one table.
fn part(results: &Results) -> String {
    let rows: Vec<_> = rows().into_iter().filter_map(|workload| row(results, workload)).collect();
    let head = ["", "ebpf-bridge", "reference bridge", "ratio", "of the limit"];
    format!(
        "![Pod traffic on one node](docs/img/{})\n\n{}\n\
         The limit is a bare wire from pod to pod, and the node's own network to outside. How it was measured, the targets and the\n\
         gaps are in [docs/benchmarks.md](docs/benchmarks.md).\n",
        chart::SUMMARY,
        aligned(&head, &rows)
    )
}

fn rows() -> Vec<Workload> {
    let rr = Load::RoundTrips { pinned: true };
    let loads = [Load::Datagrams(64), rr, Load::Streams(1), Load::Connections];
    let routes = [Route::Pod, Route::Outside, Route::Ruled];
    let traffic = routes.map(|route| loads.map(|load| Workload::Traffic(load, route)));
    let beside = Crowd { others: 50, parallel: false };
    let operations = OPERATIONS.map(|operation| Workload::Pods(operation, beside));
    [traffic.concat(), operations.to_vec()].concat()
}

/// None if it was not measured.
fn row(results: &Results, workload: Workload) -> Option<Vec<String>> {
    let median = |variant| {
        let series = results.of(workload, variant)?;
        Some(format!("{} {}", figure(series.median()), workload.unit()))
    };
    let ratio = results.ratio(workload, Variant::Accelerated, Variant::Reference)?;
    let limits = [Variant::Wire, Variant::Host].into_iter();
    let limit = limits.filter_map(|limit| results.ratio(workload, Variant::Accelerated, limit)).next();
    Some(vec![
        workload.title(),
        median(Variant::Accelerated)?,
        median(Variant::Reference)?,
        format!("{ratio:.2}"),
        limit.map_or(String::new(), |limit| format!("{:.0} %", 100.0 * limit)),
    ])
}

/// A text with other words between the marks; none if it has no such marks.
fn replaced(text: &str, part: &str) -> Option<String> {
    let (before, rest) = text.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}{part}{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::{BEGIN, END, part, replaced};
    use crate::bench::load::Load;
    use crate::bench::results::{Results, Sample};
    use crate::bench::route::Route;
    use crate::bench::variant::Variant::{Accelerated, Reference, Wire};
    use crate::bench::workload::Workload;

    #[test]
    fn the_table_compares_with_reference_and_limit() {
        let workload = Workload::Traffic(Load::Datagrams(64), Route::Pod);
        let mut results = Results::default();
        for (variant, value) in [(Accelerated, 150.0), (Reference, 100.0), (Wire, 200.0)] {
            results.push(workload, variant, Sample::of(value));
        }
        let expected = "| UDP 64 B, pod to pod | 150 packets/s | 100 packets/s    | 1.50  | 75 %         |";
        assert!(part(&results).contains(expected), "{}", part(&results));
    }

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
