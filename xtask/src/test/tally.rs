//! What the test harnesses said, added up. libtest and libtest-mimic speak the same lines.

use std::fmt;

/// Counts over all suites, and every skipped test with its reason.
#[derive(Default)]
pub(super) struct Tally {
    pub(super) passed: u64,
    pub(super) failed: u64,
    pub(super) skipped: u64,
    pub(super) skips: Vec<String>,
}

impl Tally {
    /// Takes in one line of output.
    pub(super) fn hear(&mut self, line: &str) {
        let line = line.trim();
        if let Some(counts) = line.strip_prefix("test result: ") {
            self.add(counts);
        } else if let Some((name, reason)) =
            line.strip_prefix("test ").and_then(|test| test.split_once(" ... ignored"))
        {
            let reason = reason.trim_start_matches([',', ' ']);
            let name = name.trim();
            self.skips.push(if reason.is_empty() { name.to_owned() } else { format!("{name}: {reason}") });
        }
    }

    /// Adds `ok. 3 passed; 0 failed; 1 ignored; ...`.
    fn add(&mut self, counts: &str) {
        for count in counts.split_once(". ").map_or("", |(_, counts)| counts).split("; ") {
            let Some((number, what)) = count.split_once(' ') else { continue };
            let Ok(number) = number.parse::<u64>() else { continue };
            match what {
                "passed" => self.passed += number,
                "failed" => self.failed += number,
                "ignored" => self.skipped += number,
                _ => {}
            }
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines as libtest and libtest-mimic print them.
    const OUTPUT: &str = "\
running 3 tests
test cni::roundtrip ... ok
test cni::slow ... ignored, needs a node
test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s

running 2 tests
test [lab] containerd (skipped: no containerd) ... ignored
test pod_to_pod ... FAILED
test result: FAILED. 0 passed; 1 failed; 1 ignored; 0 measured; 4 filtered out; finished in 2.00s
";

    #[test]
    fn suites_add_up_and_skips_keep_their_reason() {
        let mut tally = Tally::default();
        OUTPUT.lines().for_each(|line| tally.hear(line));
        assert_eq!(tally.to_string(), "2 passed, 1 failed, 2 skipped");
        assert_eq!(tally.skips, ["cni::slow: needs a node", "[lab] containerd (skipped: no containerd)"]);
    }
}
