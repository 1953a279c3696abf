//! Where the time of our programs goes.

use anyhow::{Context, Result};
use ebpf_bridge_lab::observe::{Profile, count_runs};
use serde::{Deserialize, Serialize};

use super::load::Load;
use super::options::Plan;
use super::route::Route;
use super::server::Cpus;
use super::stand::Stand;
use super::traffic;
use super::variant::Variant;
use super::workload::Workload;

/// One program under one load.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Row {
    /// The workload's title.
    pub(super) load: String,
    /// What a unit of work is.
    pub(super) unit: String,
    pub(super) program: String,
    /// Runs for each unit of work.
    pub(super) runs_per_unit: f64,
    pub(super) nanos_per_run: f64,
    /// CPU time of the whole machine for each unit of work, of which the program is a part.
    pub(super) cpu_micros_per_unit: f64,
    pub(super) instructions: u32,
    pub(super) machine_code_bytes: u32,
    pub(super) verified_instructions: Option<u32>,
}

/// Whether the load is one that shows the programs at work, and the first packet of flows.
fn shows(workload: &Workload) -> bool {
    use Load::{Connections, Datagrams, ManyFlows, RoundTrips, Streams};
    let loads = [Datagrams(64), ManyFlows, RoundTrips { pinned: true }, Streams(1), Connections];
    match *workload {
        Workload::Traffic(load, Route::Pod | Route::Outside) => loads.contains(&load),
        _ => false,
    }
}

/// Repeats loads while the kernel counts the programs' runs, which the samples are spared.
pub(super) fn measure(stand: &Stand, plan: &Plan, cpus: Cpus) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for &workload in plan.workloads.iter().filter(|workload| shows(workload)) {
        let Workload::Traffic(load, route) = workload else { continue };
        let rig = stand.rig(Variant::Accelerated, route)?;
        let node = rig.node().context("no node")?;
        let _counting = count_runs()?;
        let before = Profile::of(node)?;
        let samples = traffic::measure(rig, load, route, plan, cpus)?;
        let after = Profile::of(node)?;
        let sample = samples.first().context("no sample")?.1;
        let work = sample.work.context("no work")?;
        let ran = after.iter().zip(&before).map(|(after, before)| after.since(before));
        rows.extend(ran.filter(|program| program.runs > 0).map(|program| Row {
            load: workload.title(),
            unit: load.work().into(),
            runs_per_unit: program.runs as f64 / work,
            nanos_per_run: program.time.as_nanos() as f64 / program.runs as f64,
            cpu_micros_per_unit: sample.cpu.unwrap_or_default(),
            instructions: program.instructions,
            machine_code_bytes: program.machine_code,
            verified_instructions: program.verified,
            program: program.name,
        }));
    }
    Ok(rows)
}

impl Row {
    /// The program's time for each unit of work, in ns.
    pub(super) fn time(&self) -> f64 {
        self.runs_per_unit * self.nanos_per_run
    }
}
