//! Features by kernel, from what the suites said.

use std::fmt::Write as _;

use ebpf_bridge_lab::features::{self, Feature};

use super::guest::Outcome;

/// What became of a test, or of all tests of a feature.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Verdict {
    Passed,
    Failed,
    Skipped(String),
}

/// What a suite said of each of its tests.
pub(super) struct Column {
    kernel: String,
    tests: Vec<(String, Verdict)>,
}

impl Column {
    pub(super) fn of(kernel: &str, outcome: &Outcome) -> Column {
        Column {
            kernel: kernel.to_owned(),
            tests: outcome.lines.iter().filter_map(|line| test(line)).collect(),
        }
    }

    /// What a feature's tests say together; nothing if none of them came to an end.
    fn verdict(&self, feature: &Feature) -> Option<Verdict> {
        let of_it = || self.tests.iter().filter(|test| feature.has(&test.0)).map(|test| &test.1);
        let worst =
            [of_it().find(|verdict| **verdict == Verdict::Failed), of_it().find(|v| **v != Verdict::Passed)];
        worst.into_iter().flatten().next().or_else(|| of_it().next()).cloned()
    }
}

/// A line such as `test NAME (skipped: REASON) ... ignored`, of which a skipped test has the part in parentheses.
fn test(line: &str) -> Option<(String, Verdict)> {
    let (name, said) = line.strip_prefix("test ")?.split_once(" ... ")?;
    let name = name.trim();
    let (name, reason) = name.split_once(" (skipped: ").unwrap_or((name, ""));
    let verdict = match said.trim() {
        "ok" => Verdict::Passed,
        "ignored" => Verdict::Skipped(reason.trim_end_matches(')').to_owned()),
        _ => Verdict::Failed,
    };
    Some((name.to_owned(), verdict))
}

/// A table in Markdown, and below it why a kernel cannot do what it cannot.
pub(super) fn markdown(columns: &[Column]) -> String {
    let mut text = String::from("| feature |");
    columns.iter().for_each(|column| text += &format!(" {} |", column.kernel));
    text += &format!("\n|---|{}\n", "---|".repeat(columns.len()));
    let mut reasons: Vec<String> = Vec::new();
    for feature in features::all() {
        let cells = columns.iter().map(|column| match column.verdict(feature) {
            None => "not reached".to_owned(),
            Some(Verdict::Passed) => "yes".to_owned(),
            Some(Verdict::Failed) => "**failed**".to_owned(),
            Some(Verdict::Skipped(reason)) => {
                let known = reasons.iter().position(|known| *known == reason);
                let number = known.unwrap_or_else(|| {
                    reasons.push(reason);
                    reasons.len() - 1
                });
                format!("no ({})", number + 1)
            }
        });
        let cells: Vec<String> = cells.collect();
        let _ = writeln!(text, "| {} | {} |", feature.title, cells.join(" | "));
    }
    for (number, reason) in reasons.iter().enumerate() {
        let _ = write!(text, "\n{}. {reason}", number + 1);
    }
    text + "\n"
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_feature_is_as_good_as_its_worst_test() {
        let lines = [
            "test modes: required works where eBPF does        ... ok",
            "test vlan: CHECK is told that the pod's VLAN is gone ... ok",
            "test vlan: DEL leaves the bridge and the gateway inside the VLAN ... FAILED",
            "test uplink: its programs are attached by tcx (skipped: the kernel has no TCX) ... ignored",
        ];
        let lines = lines.map(str::to_owned).to_vec();
        let outcome = Outcome { lines, fault: None, took: Duration::ZERO };
        let table = markdown(&[Column::of("5.10", &outcome)]);
        assert!(table.contains("| Programs load (`ebpf.mode` required) | yes |"), "{table}");
        assert!(table.contains("| CHECK and DEL of VLANs | **failed** |"), "{table}");
        assert!(table.contains("| Veths by clsact, uplinks by TCX | no (1) |"), "{table}");
        assert!(table.contains("| `vlanTrunk`: tagged frames | not reached |"), "{table}");
        assert!(table.ends_with("\n1. the kernel has no TCX\n"), "{table}");
    }
}
