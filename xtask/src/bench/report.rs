//! The results as Markdown.

use std::fmt::Write;

use serde_json::Value;

use super::chart::Chart;
use super::results::{Results, Series};
use super::targets::{self, Aim, Verdict};
use super::variant::Variant;
use super::workload::Workload;

/// What every reader of the numbers has to know.
const LIMITS: &str = "\
- The uplink is a veth pair to another namespace of the same machine: no hardware, no driver, no wire.
- The machine may be shared, and have few cores. Only ratios within one run mean something.
- TCP streams are iperf3's, client and server on a CPU each where there are two. The rest comes from generators of our
  own that keep both ends on one CPU, so the rate is what the path costs; the sources say why.
- The rules are iptables' own, none of which the traffic matches; the policy rules look at every packet, those of the
  Services only at the first one of a connection.
- CPU time is the whole machine's during the sample, by clock ticks of 10 ms, whatever else it does.";

/// The whole report.
pub(super) fn markdown(about: &Value, results: &Results, charts: &[Chart]) -> String {
    let mut text = String::from("# Benchmark of ebpf-bridge\n\n");
    text += &conditions(about);
    text += "\n## Targets\n\nRatios of medians: more than 1 is in favour of ebpf-bridge, accelerated.\n\n";
    text += &targets(results);
    for chart in charts {
        let _ = writeln!(text, "\n## {}", chart.title);
        if chart.drawn {
            let _ = writeln!(text, "\n![{}]({})", chart.title, chart.file);
        }
        for &workload in &chart.workloads {
            text += &table(results, workload);
        }
    }
    let _ = writeln!(text, "\n## What this does not show\n\n{LIMITS}");
    text
}

fn conditions(about: &Value) -> String {
    let mut text = String::new();
    let (machine, plan) = (&about["machine"], &about["plan"]);
    let _ = writeln!(text, "- {}", plain(&about["date"]));
    let kind = [&machine["architecture"], &machine["cpu"]].map(plain).join(", ");
    let load = plain(&machine["loadAverage"]);
    let (cores, kernel) = (&machine["cores"], plain(&machine["kernel"]));
    let _ = writeln!(text, "- {cores} cores ({kind}), Linux {kernel}, load average {load} before");
    let kind = if plan["quick"] == true { "quick run, " } else { "" };
    let _ = writeln!(
        text,
        "- {kind}{} interleaved rounds; samples of {} s by tools, {} ms by generators",
        plan["rounds"], plan["sampleSeconds"], plan["burstMillis"]
    );
    let versions = about["versions"].as_object().into_iter().flatten();
    let versions = versions.map(|(name, version)| format!("{name}: {}", plain(version)));
    let _ = writeln!(text, "- {}", versions.collect::<Vec<_>>().join("; "));
    text
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| "unknown".into(), Into::into)
}

/// The table of targets, also for a terminal.
pub(super) fn targets(results: &Results) -> String {
    let verdicts = targets::verdicts(results);
    let rows = verdicts.iter().map(row).collect::<Vec<_>>();
    let head = ["workload", "against", "target", "measured", ""].map(String::from);
    aligned(&head, &rows)
}

fn row(verdict: &Verdict) -> [String; 5] {
    let workload = verdict.target.workload;
    let (against, bound) = match verdict.target.aim {
        Aim::Times(least, against) => (against.title(), format!("{least:.2}")),
        Aim::AtMost(most) => ("", format!("at most {most} {}", workload.unit())),
    };
    let met = if verdict.met { "met" } else { "**gap**" };
    [workload.title(), against.into(), bound, format!("{:.2}", verdict.measured), met.into()]
}

fn table(results: &Results, workload: Workload) -> String {
    let head = ["variant", "median", "min to max", "against the reference", "CPU", "sent again", "fast"];
    let all = workload.variants().iter().filter_map(|&variant| results.of(workload, variant));
    let rows = all.map(|series| measured(results, series)).collect::<Vec<_>>();
    if rows.is_empty() {
        return String::new();
    }
    format!("\n**{}**, {}\n\n{}", workload.title(), workload.unit(), aligned(&head.map(String::from), &rows))
}

fn measured(results: &Results, series: &Series) -> [String; 7] {
    let (workload, (low, high)) = (series.workload, series.range());
    let ratio = results.ratio(workload, series.variant, Variant::Reference);
    let cpu = match workload {
        Workload::Traffic(load, _) => {
            let time = series.median_of(|sample| sample.cpu);
            time.map(|time| format!("{time:.2} us/{}", load.cpu_unit()))
        }
        _ => None,
    };
    let share = series.median_of(|sample| sample.fast_share);
    [
        series.variant.title().into(),
        figure(series.median()),
        format!("{} to {}", figure(low), figure(high)),
        ratio.map_or(String::new(), |ratio| format!("{ratio:.2}")),
        cpu.unwrap_or_default(),
        series.sum_of(|sample| sample.retransmits).map_or(String::new(), |count| count.to_string()),
        share.map_or(String::new(), |share| format!("{:.1} %", 100.0 * share)),
    ]
}

/// A number with as many digits as mean something.
pub(super) fn figure(value: f64) -> String {
    match value {
        value if value >= 1e4 => format!("{:.1}k", value / 1e3),
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}

/// A Markdown table whose columns also line up as plain text.
fn aligned<const N: usize>(head: &[String; N], rows: &[[String; N]]) -> String {
    let widths: [usize; N] = std::array::from_fn(|column| {
        let cells = rows.iter().chain([head]).map(|row| row[column].chars().count());
        cells.max().unwrap_or(0)
    });
    let line = |row: &[String; N]| {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}"));
        format!("| {} |\n", cells.collect::<Vec<_>>().join(" | "))
    };
    let rule = widths.map(|width| "-".repeat(width));
    [head, &rule].into_iter().chain(rows).map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::figure;

    #[test]
    fn figures_are_short() {
        assert_eq!([1_234_567.0, 123.4, 12.34, 1.234].map(figure), ["1234.6k", "123", "12.3", "1.23"]);
    }
}
