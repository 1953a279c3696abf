//! The list of tests, each with what it needs.

use std::env;
use std::process::ExitCode;
use std::sync::{PoisonError, RwLock};

use anyhow::{Result, ensure};
use ebpf_bridge_lab::{Need, features};
use libtest_mimic::{Arguments, Failed, Trial};

/// Held for reading by every test that runs, for writing by one that measures and wants the machine to itself.
static MACHINE: RwLock<()> = RwLock::new(());

/// The tests registered so far.
#[derive(Default)]
pub(crate) struct Suite {
    trials: Vec<Trial>,
    known: Vec<(Need, Option<String>)>,
}

impl Suite {
    /// Registers a test that needs no more than every test does: the lab and the built plugin.
    pub(crate) fn test(
        &mut self,
        name: impl Into<String>,
        body: impl FnOnce() -> Result<()> + Send + 'static,
    ) {
        self.test_with(&[], name, body);
    }

    /// Registers a test that needs more. If anything is missing it is counted as ignored and its name says what.
    pub(crate) fn test_with(
        &mut self,
        needs: &[Need],
        name: impl Into<String>,
        body: impl FnOnce() -> Result<()> + Send + 'static,
    ) {
        self.add(needs, name.into(), || {
            let _shared = MACHINE.read().unwrap_or_else(PoisonError::into_inner);
            body()
        });
    }

    /// Registers a test that measures: no other runs beside it.
    pub(crate) fn test_alone(
        &mut self,
        needs: &[Need],
        name: impl Into<String>,
        body: impl FnOnce() -> Result<()> + Send + 'static,
    ) {
        self.add(needs, name.into(), || {
            let _alone = MACHINE.write().unwrap_or_else(PoisonError::into_inner);
            body()
        });
    }

    fn add(&mut self, needs: &[Need], name: String, body: impl FnOnce() -> Result<()> + Send + 'static) {
        let needs = [&[Need::Lab, Need::Plugin], needs].concat();
        let trial = match needs.into_iter().find_map(|need| self.missing(need)) {
            Some(missing) => {
                Trial::test(format!("{name} (skipped: {missing})"), || Ok(())).with_ignored_flag(true)
            }
            None => Trial::test(name, || body().map_err(|error| Failed::from(format!("{error:#}")))),
        };
        self.trials.push(trial);
    }

    /// Registers a test of the table of features itself: each needs tests, which are found by their names.
    pub(crate) fn test_features(&mut self) {
        let names: Vec<String> = self.trials.iter().map(|trial| trial.name().to_owned()).collect();
        self.test("lab: each feature of the table of kernels has its tests", move || {
            let idle = features::all().find(|feature| !names.iter().any(|name| feature.has(name)));
            ensure!(idle.is_none(), "no test shows {:?}", idle.map(|feature| feature.title));
            Ok(())
        });
    }

    /// Runs what the command line selects, or of that the core only, if the environment asks for it.
    pub(crate) fn run(mut self, arguments: &Arguments) -> ExitCode {
        if env::var_os(features::CORE_VARIABLE).is_some() {
            self.trials.retain(|trial| features::all().any(|feature| feature.has(trial.name())));
        }
        libtest_mimic::run(arguments, self.trials).exit_code()
    }

    fn missing(&mut self, need: Need) -> Option<String> {
        if let Some((_, answer)) = self.known.iter().find(|(known, _)| *known == need) {
            return answer.clone();
        }
        let answer = need.missing();
        self.known.push((need, answer.clone()));
        answer
    }
}
