//! `status`: one line for each area, fine or with the command that mends it.

use std::path::Path;

use serde_json::{Value, json};

use super::{
    Judged, Report, SCHEMA_VERSION,
    doctor::{
        CHECKS,
        check::{Finding, Verdict, examine},
    },
    node::{Device, Node, Sources},
    paint,
};
/// What is shown, in this order. `doctor` looks at more.
const AREAS: [&str; 7] = ["configs", "bridge", "leases", "programs", "conntrack", "masquerade", "last ADD"];

pub(super) fn status(bpffs: &Path, sources: &Sources, brief: bool) -> anyhow::Result<Judged> {
    let node = Node::look_with(bpffs, sources)?;
    // Nothing can be said of pods without them.
    node.records()?;
    let checks = CHECKS.iter().copied().flatten().filter(|check| AREAS.contains(&check.area));
    let findings = examine(checks, &node);
    let areas =
        AREAS.map(|area| (area, findings.iter().filter(|f| f.check.area == area).collect::<Vec<_>>()));
    let healthy = !findings.iter().any(Finding::is_wrong);
    let table =
        if brief { summary(&areas) } else { areas.iter().map(|(area, found)| line(area, found)).collect() };
    let told: Vec<_> = areas.iter().map(|(area, found)| document(area, found)).collect();
    let json = json!({
        "schemaVersion": SCHEMA_VERSION, "healthy": healthy, "areas": told, "devices": devices(&node)?,
    });
    Ok(Judged { report: Report { json, table }, healthy })
}

/// The first thing that is wrong and how many more there are, or all that is fine.
fn line(area: &str, found: &[&Finding]) -> String {
    let wrong: Vec<_> = found.iter().filter(|finding| finding.is_wrong()).collect();
    let Some(first) = wrong.first() else {
        let is_known = |finding: &&&Finding| !matches!(finding.verdict, Verdict::Unknown(_));
        let mark = if found.iter().all(|finding| is_known(&finding)) {
            paint::good("ok")
        } else {
            paint::notable("??")
        };
        return format!("{mark} {area:<11} {}\n", text(found));
    };
    let more =
        if wrong.len() > 1 { format!(" (and {} more, see doctor)", wrong.len() - 1) } else { String::new() };
    let fix = paint::command(first.fix().unwrap_or_default());
    format!("{} {area:<11} {}{more}\n{:15}fix: {fix}\n", paint::bad("!!"), first.verdict.text(), "")
}

fn text(found: &[&Finding]) -> String {
    found.iter().map(|finding| finding.verdict.text()).collect::<Vec<_>>().join("; ")
}

fn summary(areas: &[(&str, Vec<&Finding>)]) -> String {
    let wrong = areas.iter().filter(|(_, found)| found.iter().any(|finding| finding.is_wrong()));
    let names: Vec<&str> = wrong.map(|(area, _)| *area).collect();
    match names.as_slice() {
        [] => format!("{}\n", paint::good("healthy")),
        names => format!("{}: {}\n", paint::bad("unhealthy"), names.join(", ")),
    }
}

fn document(area: &str, found: &[&Finding]) -> Value {
    let wrong: Vec<_> = found.iter().filter(|finding| finding.is_wrong()).collect();
    let text = wrong.first().map_or_else(|| text(found), |finding| finding.verdict.text().to_owned());
    let fixes: Vec<&str> = wrong.iter().filter_map(|finding| finding.fix()).collect();
    json!({ "area": area, "healthy": wrong.is_empty(), "text": text, "fixes": fixes })
}

/// Which programs are on which device.
fn devices(node: &Node) -> anyhow::Result<Vec<Value>> {
    let pods = node.records()?;
    let device = |device: Device| {
        let kind = if pods.iter().any(|pod| pod.veth == device.name) { "pod" } else { "uplink" };
        let programs: Vec<&str> = device.attached.iter().map(|(program, _)| program.name()).collect();
        json!({
            "ifname": device.name, "ifindex": device.index, "kind": kind, "attach": device.how(),
            "programs": programs,
        })
    };
    Ok(node.devices()?.into_iter().map(device).collect())
}
