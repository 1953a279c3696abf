//! The results as Markdown: `page.md`, whose prose stands still, with everything measured put in.

use std::fmt::Write;

use serde_json::Value;

use super::chart::{self, Picture};
use super::outcome::Outcome;
use super::profile::Row;
use super::results::{Results, Series};
use super::route::Route;
use super::table::{aligned, figure};
use super::targets::{self, Aim, Verdict};
use super::variant::Variant;
use super::workload::Workload;

const PAGE: &str = include_str!("page.md");

/// The whole report. Charts are looked for in `images`, a directory with its slash, or nothing.
pub(super) fn markdown(outcome: &Outcome, images: &str) -> String {
    let results = &outcome.results;
    let image = |picture: &Picture| format!("![{}]({images}{})\n\n", picture.title, picture.file);
    let pictures = chart::pictures(results);
    let picture =
        |file: &str| pictures.iter().find(|picture| picture.file == file).map_or(String::new(), image);
    let routes = Route::ALL.map(|route| section(results, route, &picture(&chart::file(route))));
    let operations = |workload: &Workload| matches!(workload, Workload::Pods(..) | Workload::Stall);
    let executions = |workload: &Workload| matches!(workload, Workload::Execution(_));
    let parts = [
        ("conditions", conditions(&outcome.about)),
        ("summary", picture(chart::SUMMARY)),
        ("targets", targets(results)),
        ("gaps", gaps(outcome)),
        ("routes", routes.concat()),
        ("operations", picture(chart::ADD_DEL) + &medians(results, operations)),
        ("executions", medians(results, executions)),
        ("profile", profile(&outcome.profile)),
    ];
    let fill = |page: String, (name, text): &(&str, String)| {
        page.replace(&format!("<!-- {name} -->\n"), &format!("{}\n", text.trim_end()))
    };
    parts.iter().fold(PAGE.to_owned(), fill)
}

fn conditions(about: &Value) -> String {
    let plain = |value: &Value| value.as_str().map_or_else(|| value.to_string(), Into::into);
    let (machine, plan) = (&about["machine"], &about["plan"]);
    let (cores, memory) = (&machine["cores"], &machine["memoryGB"]);
    let [cpu, kernel, load] = ["cpu", "kernel", "loadAverage"].map(|key| plain(&machine[key]));
    let kind = if machine["virtual"] == true { "a virtual machine of" } else { "" };
    let run = if plan["quick"] == true { "A quick run" } else { "A run" };
    let (rounds, seconds, burst) = (&plan["rounds"], &plan["sampleSeconds"], &plan["burstMillis"]);
    let versions = about["versions"].as_object().into_iter().flatten();
    let versions = versions.map(|(name, version)| format!("{name}: {}", plain(version)));
    format!(
        "{run} of {}: {rounds} interleaved rounds, samples of {seconds} s by tools and {burst} ms by generators.\n\
         Machine: {kind} {cores} cores ({cpu}), {memory} GB, Linux {kernel}; load average before: {load}.\n\
         Versions: {}.\n",
        plain(&about["date"]),
        versions.collect::<Vec<_>>().join("; "),
    )
}

/// The table of targets, also for a terminal.
pub(super) fn targets(results: &Results) -> String {
    let rows: Vec<_> = targets::verdicts(results).iter().map(row).collect();
    aligned(&["workload", "variant", "against", "target", "measured", ""], &rows)
}

fn row(verdict: &Verdict) -> Vec<String> {
    let workload = verdict.target.workload;
    let (against, bound) = match verdict.target.aim {
        Aim::Times(least, against) => (against.title().into(), format!("at least {least:.2}x")),
        Aim::AtMost(most) => (String::new(), format!("at most {most} {}", workload.unit())),
        Aim::Flat(most, than) => (than.title(), format!("at most {most:.2}x")),
    };
    let met = if verdict.met { "met" } else { "**gap**" };
    let variant = verdict.target.variant.title().into();
    vec![workload.title(), variant, against, bound, format!("{:.2}", verdict.measured), met.into()]
}

/// What is missing, with what the programs take of it.
fn gaps(outcome: &Outcome) -> String {
    let verdicts = targets::verdicts(&outcome.results);
    let missed: Vec<_> = verdicts.iter().filter(|verdict| !verdict.met).collect();
    if missed.is_empty() {
        return "All targets of what was measured are met.\n".into();
    }
    let mut text = String::from(
        "Not met, with the programs' part of the time. What was tried is in [tuning.md](tuning.md).\n\n",
    );
    for verdict in missed {
        let cells = row(verdict);
        let against = if cells[2].is_empty() { String::new() } else { format!(" of {}", cells[2]) };
        let _ = write!(text, "- {}: {}{against} instead of {}.", cells[0], cells[4], cells[3]);
        for row in outcome.profile.iter().filter(|row| row.load == cells[0]) {
            let _ = write!(
                text,
                " {}: {:.0} ns of {:.2} us per {}.",
                row.program,
                row.time(),
                row.cpu_micros_per_unit,
                row.unit
            );
        }
        text.push('\n');
    }
    text
}

/// Chart, medians and details of a route.
fn section(results: &Results, route: Route, image: &str) -> String {
    let of_route = |workload: &Workload| matches!(*workload, Workload::Traffic(_, of) if of == route);
    let table = medians(results, of_route);
    if table.is_empty() {
        return String::new();
    }
    let mut title = route.title().to_owned();
    title[..1].make_ascii_uppercase();
    let details: Vec<_> = series(results, of_route).map(detail).collect();
    let head = ["workload", "variant", "quartiles", "min to max", "CPU", "sent again", "lost", "fast"];
    format!(
        "### {title}\n\n{image}{table}\n<details><summary>Spread, CPU time, losses</summary>\n\n{}\n</details>\n\n",
        aligned(&head, &details)
    )
}

fn series(results: &Results, which: impl Fn(&Workload) -> bool) -> impl Iterator<Item = &Series> {
    let workloads = Workload::all().into_iter().filter(which);
    workloads
        .flat_map(move |workload| workload.variants().iter().filter_map(move |&v| results.of(workload, v)))
}

/// A line for each workload, a column for each variant that takes part.
fn medians(results: &Results, which: impl Fn(&Workload) -> bool + Copy) -> String {
    let workloads = Workload::all().into_iter().filter(which);
    let workloads: Vec<_> =
        workloads.filter(|&workload| results.of(workload, Variant::Accelerated).is_some()).collect();
    let takes_part = |variant: &Variant| workloads.iter().any(|&w| results.of(w, *variant).is_some());
    let variants: Vec<_> = Variant::ALL.into_iter().filter(takes_part).collect();
    if workloads.is_empty() {
        return String::new();
    }
    let head = ["workload", "unit"].into_iter().chain(variants.iter().map(|variant| variant.title()));
    let head: Vec<_> = head.chain(["x reference"]).collect();
    let rows: Vec<_> = workloads
        .iter()
        .map(|&workload| {
            let name = match workload {
                Workload::Traffic(load, _) => load.title(),
                _ => workload.title(),
            };
            let median =
                |&variant: &Variant| results.of(workload, variant).map(|series| figure(series.median()));
            let medians = variants.iter().map(|variant| median(variant).unwrap_or_default());
            let ratio = results.ratio(workload, Variant::Accelerated, Variant::Reference);
            let ratio = ratio.map_or(String::new(), |ratio| format!("{ratio:.2}"));
            [name, workload.unit().into()].into_iter().chain(medians).chain([ratio]).collect()
        })
        .collect();
    aligned(&head, &rows)
}

fn detail(series: &Series) -> Vec<String> {
    let (load, work) = match series.workload {
        Workload::Traffic(load, _) => (load.title(), load.work()),
        other => (other.title(), ""),
    };
    let between =
        |low, high| format!("{} to {}", figure(series.quantile(low)), figure(series.quantile(high)));
    let count = |count: Option<u64>| count.map_or(String::new(), |count| count.to_string());
    let share = series.median_of(|sample| sample.fast_share);
    let cpu = series.median_of(|sample| sample.cpu);
    vec![
        load,
        series.variant.title().into(),
        between(0.25, 0.75),
        between(0.0, 1.0),
        cpu.map_or(String::new(), |time| format!("{time:.2} us/{work}")),
        count(series.sum_of(|sample| sample.retransmits)),
        count(series.sum_of(|sample| sample.lost)),
        share.map_or(String::new(), |share| format!("{:.1} %", 100.0 * share)),
    ]
}

fn profile(rows: &[Row]) -> String {
    let head = ["load", "program", "runs", "ns a run", "of CPU time"];
    let line = |row: &Row| {
        let share = row.time() / 10.0 / row.cpu_micros_per_unit;
        vec![
            row.load.clone(),
            row.program.clone(),
            format!("{:.2}/{}", row.runs_per_unit, row.unit),
            format!("{:.0}", row.nanos_per_run),
            format!("{share:.1} % of {:.2} us", row.cpu_micros_per_unit),
        ]
    };
    let mut programs: Vec<Vec<String>> = Vec::new();
    for row in rows {
        let verified = row.verified_instructions.map_or(String::new(), |count| count.to_string());
        let (instructions, code) = (row.instructions.to_string(), row.machine_code_bytes.to_string());
        let program = vec![row.program.clone(), instructions, code, verified];
        if !programs.contains(&program) {
            programs.push(program);
        }
    }
    let sizes = aligned(&["program", "instructions", "bytes of machine code", "verified"], &programs);
    format!("{}\n{sizes}", aligned(&head, &rows.iter().map(line).collect::<Vec<_>>()))
}
