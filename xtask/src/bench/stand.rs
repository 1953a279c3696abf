//! Everything the chosen workloads need, set up once.

use anyhow::{Context, Result};

use super::lifecycle::Site;
use super::options::Plan;
use super::results::Sample;
use super::rig::Rig;
use super::servers::Cpus;
use super::traffic;
use super::variant::Variant;
use super::workload::Workload;

/// The set-ups by variant, each used by the workloads that share it.
pub(super) struct Stand<'a> {
    plan: &'a Plan,
    cpus: Cpus,
    rigs: Vec<(Variant, Rig)>,
    sites: Vec<(Variant, Option<usize>, Site)>,
}

impl<'a> Stand<'a> {
    pub(super) fn build(plan: &'a Plan, cpus: Cpus) -> Result<Self> {
        let mut stand = Self { plan, cpus, rigs: Vec::new(), sites: Vec::new() };
        for &workload in &plan.workloads {
            for &variant in workload.variants() {
                stand
                    .prepare(workload, variant)
                    .with_context(|| format!("setting up {} for {}", variant.title(), workload.title()))?;
            }
        }
        Ok(stand)
    }

    fn prepare(&mut self, workload: Workload, variant: Variant) -> Result<()> {
        match others(workload) {
            None if self.rig(variant).is_none() => self.rigs.push((variant, Rig::new(variant, self.cpus)?)),
            Some(others) if self.site(variant, others).is_none() => {
                let site = match others {
                    Some(count) => Site::new(variant, count)?,
                    None => Site::weighed(variant)?,
                };
                self.sites.push((variant, others, site));
            }
            _ => {}
        }
        Ok(())
    }

    /// Measures once.
    pub(super) fn sample(&self, workload: Workload, variant: Variant) -> Result<Sample> {
        let site = || self.site(variant, others(workload).flatten()).context("no such site");
        match workload {
            Workload::Traffic(load, route) => {
                let rig = self.rig(variant).context("no such rig")?;
                traffic::measure(rig, load, route, self.plan, self.cpus)
            }
            Workload::Pods(operation, _) => site()?.time(operation, self.plan.repeats),
            Workload::Memory => site()?.weigh(),
        }
    }

    fn rig(&self, variant: Variant) -> Option<&Rig> {
        self.rigs.iter().find(|(of, _)| *of == variant).map(|(_, rig)| rig)
    }

    fn site(&self, variant: Variant, others: Option<usize>) -> Option<&Site> {
        self.sites.iter().find(|site| site.0 == variant && site.1 == others).map(|site| &site.2)
    }
}

/// The site of a workload: with so many other pods, or the one where memory is noted; none for traffic.
fn others(workload: Workload) -> Option<Option<usize>> {
    match workload {
        Workload::Traffic(..) => None,
        Workload::Pods(_, others) => Some(Some(others)),
        Workload::Memory => Some(None),
    }
}
