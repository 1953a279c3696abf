//! `cargo xtask bench`: our plugin beside what else there is, in ratios that hold on this machine.
//!
//! Rates of one machine say little on another, and this one may be shared. So everything is measured in rounds; each
//! round takes one sample of every variant of a trial in turn, in another order than the round before; what counts is
//! the ratio of medians.

mod chart;
mod docs;
mod draw;
mod execution;
mod lifecycle;
mod load;
mod machine;
mod meter;
mod options;
mod outcome;
mod profile;
mod progress;
mod report;
mod results;
mod rig;
mod route;
mod rules;
mod server;
mod stall;
mod stand;
mod statistics;
mod table;
mod targets;
mod traffic;
mod trial;
mod variant;
mod workload;

use std::env;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use ebpf_bridge_lab::{Place, plugin, traffic as lab};

pub(crate) use self::options::Options;
use self::options::Plan;
use self::outcome::Outcome;
use self::progress::Progress;
use self::results::Results;
use self::server::Cpus;
use self::stand::Stand;
use self::trial::Stage;
use crate::build;
use crate::workspace::Workspace;

/// Builds what is missing, measures, and writes results, report and charts; or reports once more what was measured.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    let out = options.from.as_ref().or(options.out.as_ref());
    let out = out.cloned().unwrap_or_else(|| workspace.target.join("bench"));
    let outcome = match &options.from {
        Some(dir) => Outcome::read(dir)?,
        None => measure(workspace, options)?,
    };
    outcome.write(&out)?;
    if let Some(seconds) = outcome.about["plan"]["tookSeconds"].as_u64() {
        println!("measured within {} min {} s\n", seconds / 60, seconds % 60);
    }
    println!("{}", report::targets(&outcome.results));
    println!("results, report and charts are in {}", out.display());
    if options.docs { docs::write_all(workspace, &outcome) } else { Ok(()) }
}

fn measure(workspace: &Workspace, options: &Options) -> Result<Outcome> {
    let plan = options.plan()?;
    if let Some(dir) = &options.reference {
        plugin::choose_reference(dir.canonicalize().with_context(|| format!("no {}", dir.display()))?);
    }
    machine::check()?;
    if env::var_os(plugin::PATH_VARIABLE).is_none() {
        plugin::choose(build::run(workspace)?);
    }
    Place::allow_many()?;
    let cpus = lab::cpus()?;
    let mut about = machine::describe(cpus.len(), &plan)?;
    let start = Instant::now();
    let cpus = choose(&cpus)?;
    let mut stand = Stand::new(&plan, cpus);
    let results = take(&plan, &mut stand)?;
    eprintln!("profiling the programs");
    let profile = profile::measure(&stand, &plan, cpus)?;
    about["plan"]["tookSeconds"] = start.elapsed().as_secs().into();
    Ok(Outcome { about, results, profile })
}

/// The first CPU for clients and the last for servers: with two they are as far apart as they can be.
fn choose(cpus: &[usize]) -> Result<Cpus> {
    ensure!(!cpus.is_empty(), "no CPU");
    Ok(Cpus { client: cpus[0], server: cpus[cpus.len() - 1] })
}

fn take(plan: &Plan, stand: &mut Stand) -> Result<Results> {
    let stages = trial::stages(&plan.workloads, plan.rounds);
    let samples = stages.iter().map(|stage| {
        let in_round: usize = stage.trials.iter().map(|trial| trial.variants().len()).sum();
        in_round * stage.rounds as usize
    });
    let mut progress = Progress::new(samples.sum());
    let mut results = Results::default();
    for stage in &stages {
        progress.stage(&stage.title());
        stand.prepare(stage)?;
        for round in 0..stage.rounds {
            progress.round(round, stage.rounds);
            take_round(stage, round, stand, &mut results, &mut progress)?;
        }
    }
    progress.end();
    Ok(results)
}

fn take_round(
    stage: &Stage,
    round: u32,
    stand: &Stand,
    results: &mut Results,
    progress: &mut Progress,
) -> Result<()> {
    for &trial in &stage.trials {
        let mut variants = trial.variants().to_vec();
        let first = round as usize % variants.len();
        variants.rotate_left(first);
        for variant in variants {
            let what = format!("{}: {}", trial.title(), variant.title());
            progress.sample(&what);
            let again = |error| {
                eprintln!("\n{what}: {error:#}; once more");
                stand.sample(trial, variant)
            };
            let samples = stand.sample(trial, variant).or_else(again).context(what.clone())?;
            for (workload, sample) in samples {
                results.push(workload, variant, sample);
            }
        }
    }
    Ok(())
}
