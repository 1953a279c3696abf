//! `doctor`: everything that may keep pods from being wired or from being fast, each with the command that mends it.

mod bundle;
pub(super) mod check;
mod configuration;
mod kernel;
mod leases;
mod network;
mod pods;
mod programs;
mod sysctls;

use std::path::Path;

use serde_json::json;

use self::check::{Check, Finding, Verdict, examine};
use super::{
    Judged, Report, SCHEMA_VERSION,
    node::{Node, Sources},
    paint,
};

/// All checks, in the order they are told in: what others rest on comes first.
pub(super) static CHECKS: &[&[Check]] = &[
    kernel::CHECKS,
    configuration::CHECKS,
    network::CHECKS,
    leases::CHECKS,
    programs::CHECKS,
    sysctls::CHECKS,
    pods::CHECKS,
];

/// Runs all checks, and writes what they found and were based on to `bundle`.
pub(super) fn doctor(bpffs: &Path, sources: &Sources, bundle: Option<&Path>) -> anyhow::Result<Judged> {
    let node = Node::look_with(bpffs, sources)?;
    let findings = examine(CHECKS.iter().copied().flatten(), &node);
    let judged = report(&findings);
    if let Some(path) = bundle {
        bundle::write(path, &node, &judged.report)?;
    }
    Ok(judged)
}

fn report(findings: &[Finding]) -> Judged {
    let mut table = String::new();
    for finding in findings {
        let mark = match finding.verdict {
            Verdict::Fine(_) => paint::good("ok"),
            Verdict::Note(_) => paint::notable("--"),
            Verdict::Wrong { .. } => paint::bad("!!"),
            Verdict::Unknown(_) => paint::notable("??"),
        };
        table.push_str(&format!("{mark} {:<13} {}\n", finding.check.area, finding.verdict.text()));
        if let Some(fix) = finding.fix() {
            table.push_str(&format!("{:17}fix: {}\n", "", paint::command(fix)));
        }
    }
    let wrong = findings.iter().filter(|finding| finding.is_wrong()).count();
    table.push_str(&match wrong {
        0 => "nothing to mend\n".to_owned(),
        1 => "1 thing to mend\n".to_owned(),
        more => format!("{more} things to mend\n"),
    });
    let found: Vec<_> = findings.iter().map(Finding::document).collect();
    let json = json!({ "schemaVersion": SCHEMA_VERSION, "healthy": wrong == 0, "findings": found });
    Judged { report: Report { json, table }, healthy: wrong == 0 }
}
