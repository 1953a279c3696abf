//! Everything the chosen workloads need, set up once.

use anyhow::{Context, Result, bail};

use super::lifecycle::Site;
use super::options::Plan;
use super::results::Sample;
use super::rig::Rig;
use super::server::Cpus;
use super::traffic;
use super::variant::Variant;
use super::workload::{Route, Workload};

/// The set-ups by variant, each used by the workloads that share it.
pub(super) struct Stand<'a> {
    plan: &'a Plan,
    cpus: Cpus,
    rigs: Vec<(Variant, bool, Rig)>,
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
        match need(workload) {
            Need::Rig { ruled } if self.rig(variant, ruled).is_none() => {
                self.rigs.push((variant, ruled, Rig::new(variant, ruled, self.cpus)?));
            }
            Need::Site(others) if self.site(variant, others).is_none() => {
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
        match (workload, need(workload)) {
            (Workload::Traffic(load, route), Need::Rig { ruled }) => {
                let rig = self.rig(variant, ruled).context("no such rig")?;
                traffic::measure(rig, load, route, self.plan, self.cpus)
            }
            (Workload::Pods(operation, _), Need::Site(others)) => {
                self.site(variant, others).context("no such site")?.time(operation, self.plan.repeats)
            }
            (_, Need::Site(others)) => self.site(variant, others).context("no such site")?.weigh(),
            (_, Need::Rig { .. }) => bail!("only traffic has a rig"),
        }
    }

    fn rig(&self, variant: Variant, ruled: bool) -> Option<&Rig> {
        self.rigs.iter().find(|rig| rig.0 == variant && rig.1 == ruled).map(|rig| &rig.2)
    }

    fn site(&self, variant: Variant, others: Option<usize>) -> Option<&Site> {
        self.sites.iter().find(|site| site.0 == variant && site.1 == others).map(|site| &site.2)
    }
}

/// What a workload is measured on.
enum Need {
    /// Pods for traffic, on a node with the rules of a cluster or without.
    Rig { ruled: bool },
    /// A node with so many other pods, or the one where memory is noted.
    Site(Option<usize>),
}

fn need(workload: Workload) -> Need {
    match workload {
        Workload::Traffic(_, route) => Need::Rig { ruled: route == Route::Ruled },
        Workload::Pods(_, others) => Need::Site(Some(others)),
        Workload::Memory => Need::Site(None),
    }
}
