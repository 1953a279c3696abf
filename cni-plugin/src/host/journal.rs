//! Carrying out a plan so that it can be undone.

use super::{Host, HostError};
use crate::plan::Step;

/// Something done that can be undone.
#[derive(Debug)]
struct Done {
    /// Others rely on it as soon as they see it. The undoing step alone would not tell: a bridge is deleted like a veth.
    shared: bool,
    undo: Step,
}

/// What has been done so far, in order.
#[derive(Debug, Default)]
pub struct Journal {
    done: Vec<Done>,
}

impl Journal {
    /// Carries out a plan up to its end or the first failure. What was done is in the journal either way.
    pub fn run(&mut self, host: &mut dyn Host, plan: &[Step]) -> Result<(), HostError> {
        for step in plan {
            log::debug!("{step:?}");
            if let Some(undo) = host.apply(step)? {
                self.done.push(Done { shared: step.is_shared(), undo });
            }
        }
        Ok(())
    }

    /// Undoes everything, last step first. Without `shared`, what other attachments may rely on is left.
    /// Returns what could not be undone; the rest is undone all the same.
    pub fn roll_back(self, host: &mut dyn Host, shared: bool) -> Vec<HostError> {
        let done = self.done.iter().rev().filter(|done| shared || !done.shared);
        done.filter_map(|Done { undo, .. }| {
            log::debug!("undo: {undo:?}");
            host.apply(undo).err()
        })
        .collect()
    }
}

#[cfg(test)]
mod tests;
