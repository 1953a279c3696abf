//! Carrying out a plan so that it can be undone.

use super::{Host, HostError};
use crate::plan::Step;

/// The undo steps of what has been done so far, in order.
#[derive(Debug, Default)]
pub struct Journal {
    undo: Vec<Step>,
}

impl Journal {
    /// Carries out a plan up to its end or the first failure. What was done is in the journal either way.
    pub fn run(&mut self, host: &mut dyn Host, plan: &[Step]) -> Result<(), HostError> {
        for step in plan {
            log::debug!("{step:?}");
            if let Some(undo) = host.apply(step)? {
                self.undo.push(undo);
            }
        }
        Ok(())
    }

    /// Undoes everything, last step first. Without `shared`, what other attachments may rely on is left.
    /// Returns what could not be undone; the rest is undone all the same.
    pub fn roll_back(self, host: &mut dyn Host, shared: bool) -> Vec<HostError> {
        let undo = self.undo.iter().rev().filter(|step| shared || !step.is_shared());
        undo.filter_map(|step| {
            log::debug!("undo: {step:?}");
            host.apply(step).err()
        })
        .collect()
    }
}
