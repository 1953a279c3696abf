//! Everything the trials need, set up before they run.

use anyhow::{Context, Result};

use super::lifecycle::Site;
use super::load::Load;
use super::options::Plan;
use super::results::Sample;
use super::rig::Rig;
use super::route::{Route, Rules};
use super::server::Cpus;
use super::traffic;
use super::trial::{Stage, Trial};
use super::variant::Variant;
use super::workload::Workload;
use super::{execution, stall};

/// The set-ups by variant, each used by the trials that share it.
pub(super) struct Stand<'a> {
    plan: &'a Plan,
    cpus: Cpus,
    rigs: Vec<(Variant, Rules, Rig)>,
    sites: Vec<(Variant, Site)>,
}

impl<'a> Stand<'a> {
    pub(super) fn new(plan: &'a Plan, cpus: Cpus) -> Self {
        Self { plan, cpus, rigs: Vec::new(), sites: Vec::new() }
    }

    /// Sets up what a stage needs beyond what there is.
    pub(super) fn prepare(&mut self, stage: &Stage) -> Result<()> {
        for &trial in &stage.trials {
            for &variant in trial.variants() {
                self.set_up(trial, variant)
                    .with_context(|| format!("setting up {} for {}", variant.title(), trial.title()))?;
            }
        }
        Ok(())
    }

    fn set_up(&mut self, trial: Trial, variant: Variant) -> Result<()> {
        if let Trial::Traffic(load, route) = trial {
            if self.rig(variant, route).is_err() {
                let rules = route.rules(variant);
                self.rigs.push((variant, rules, Rig::new(variant, rules)?));
            }
            let rules = route.rules(variant);
            let rigs = self.rigs.iter_mut().filter(|rig| rig.0 == variant && rig.1 == rules);
            let streams = matches!(load, Load::Streams(_));
            return rigs.filter(|_| streams).try_for_each(|rig| rig.2.serve(self.cpus));
        }
        if self.site(variant).is_err() {
            self.sites.push((variant, Site::new(variant)?));
        }
        let mut sites = self.sites.iter_mut().filter(|site| site.0 == variant);
        sites.try_for_each(|site| site.1.prepare(trial))
    }

    /// Measures once.
    pub(super) fn sample(&self, trial: Trial, variant: Variant) -> Result<Vec<(Workload, Sample)>> {
        let repeats = self.plan.repeats;
        match trial {
            Trial::Traffic(load, route) => {
                traffic::measure(self.rig(variant, route)?, load, route, self.plan, self.cpus)
            }
            Trial::Pods(crowd) => self.site(variant)?.time(crowd, repeats),
            Trial::Stall => stall::measure(self.site(variant)?),
            Trial::Execution => execution::measure(self.site(variant)?, repeats),
        }
    }

    /// Where a variant carries traffic.
    pub(super) fn rig(&self, variant: Variant, route: Route) -> Result<&Rig> {
        let rules = route.rules(variant);
        let found = self.rigs.iter().find(|rig| rig.0 == variant && rig.1 == rules);
        Ok(&found.context("no such rig")?.2)
    }

    fn site(&self, variant: Variant) -> Result<&Site> {
        Ok(&self.sites.iter().find(|site| site.0 == variant).context("no such site")?.1)
    }
}
