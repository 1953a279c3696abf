//! `cargo xtask bench`: our plugin beside what else there is, in ratios that hold on this machine.
//!
//! Rates of one machine say little on another, and this one may be shared. So everything is measured in rounds; each
//! round takes one sample of every variant of a workload in turn, in another order than the round before; what
//! counts is the ratio of medians.

mod chart;
mod lifecycle;
mod machine;
mod meter;
mod options;
mod progress;
mod report;
mod results;
mod rig;
mod rules;
mod server;
mod stand;
mod targets;
mod traffic;
mod variant;
mod workload;

use std::env;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use ebpf_bridge_lab::{plugin, traffic as lab};
use serde_json::{Value, json};

pub(crate) use self::options::Options;
use self::options::Plan;
use self::progress::Progress;
use self::results::Results;
use self::server::Cpus;
use self::stand::Stand;
use crate::build;
use crate::fault::Fault;
use crate::workspace::Workspace;

/// Builds what is missing, measures, and writes results, report and charts.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    let plan = options.plan();
    if plan.workloads.is_empty() {
        let names = workload::Workload::all().iter().map(|w| w.name()).collect::<Vec<_>>().join(", ");
        return Err(Fault::new("no workload has that name", format!("choose of {names}")).into());
    }
    if let Some(dir) = &options.reference {
        plugin::choose_reference(dir.canonicalize().with_context(|| format!("no {}", dir.display()))?);
    }
    machine::check()?;
    if env::var_os(plugin::PATH_VARIABLE).is_none() {
        plugin::choose(build::run(workspace)?);
    }
    let cpus = lab::cpus()?;
    let about = machine::describe(cpus.len())?;
    let results = measure(&plan, choose(&cpus)?)?;
    let out = options.out.clone().unwrap_or_else(|| workspace.target.join("bench"));
    write(&out, &plan, about, &results)
}

/// The first CPU for clients and the last for servers: with two they are as far apart as they can be.
fn choose(cpus: &[usize]) -> Result<Cpus> {
    ensure!(!cpus.is_empty(), "no CPU");
    Ok(Cpus { client: cpus[0], server: cpus[cpus.len() - 1] })
}

fn measure(plan: &Plan, cpus: Cpus) -> Result<Results> {
    eprintln!("setting up {} workloads", plan.workloads.len());
    let stand = Stand::build(plan, cpus)?;
    let mut results = Results::default();
    let in_round: usize = plan.workloads.iter().map(|workload| workload.variants().len()).sum();
    let mut progress = Progress::new(in_round * plan.rounds as usize);
    for round in 0..plan.rounds {
        progress.round(round, plan.rounds);
        for &workload in &plan.workloads {
            let mut variants = workload.variants().to_vec();
            let first = round as usize % variants.len();
            variants.rotate_left(first);
            for variant in variants {
                let what = format!("{}: {}", workload.title(), variant.title());
                progress.sample(&what);
                let again = |error| {
                    eprintln!("\n{what}: {error:#}; once more");
                    stand.sample(workload, variant)
                };
                let sample = stand.sample(workload, variant).or_else(again).context(what.clone())?;
                results.push(workload, variant, sample);
            }
        }
    }
    progress.end();
    Ok(results)
}

fn write(out: &Path, plan: &Plan, mut about: Value, results: &Results) -> Result<()> {
    fs::create_dir_all(out).with_context(|| format!("making {}", out.display()))?;
    about["plan"] = json!({"quick": plan.quick, "rounds": plan.rounds, "sampleSeconds": plan.seconds,
        "burstMillis": plan.burst.as_millis() as u64, "repeats": plan.repeats});
    about["results"] = results.json();
    about["targets"] = targets::json(results);
    let charts = chart::draw(out, results)?;
    let report = report::markdown(&about, results, &charts);
    for (name, text) in [("results.json", format!("{about:#}\n")), ("report.md", report.clone())] {
        let path = out.join(name);
        fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
    }
    println!("{}", report::targets(results));
    println!("results, report and charts are in {}", out.display());
    Ok(())
}
