//! Attachments on record, looked at and repaired by an operator: what CHECK compares, without a runtime.

use super::{
    Difference, VerbError,
    add::{accelerate, declined, random_mac},
    check, lease,
};
use crate::{
    config::Network,
    host::{Host, HostError, LinuxHost, Netns},
    plan,
    state::{Record, Records, STATE_DIR},
};

/// An attachment on record, its pod's namespace open.
pub struct Attached {
    network: Network,
    record: Record,
    host: LinuxHost,
}

impl Attached {
    /// Opens the namespace of the record, and reads the configuration it was made by.
    ///
    /// # Errors
    /// If the namespace is gone, or the record is of an earlier build that kept no configuration.
    pub fn open(record: &Record) -> Result<Self, VerbError> {
        if record.conf.is_null() {
            return Err(VerbError::NoConfiguration);
        }
        let host = LinuxHost::open(Some(Netns::open(&record.netns)?))?;
        Ok(Self { network: Network::read(record.conf.clone())?, record: record.clone(), host })
    }

    /// What is not as the ADD left it.
    ///
    /// # Errors
    /// If the node or the pod cannot be looked at.
    pub fn differences(&mut self) -> Result<Vec<Difference>, VerbError> {
        check::differences(&self.network, &self.record, &self.record.result(), &mut self.host)
    }

    /// True if the pod takes the bridge path, and that could be another time.
    pub fn may_become_fast(&self) -> bool {
        self.record.not_accelerated.is_some() && declined(&self.network).is_none()
    }

    /// Does again what has been undone, and returns what has been restored and what is still missing.
    ///
    /// # Errors
    /// The first step that failed; those before it are done.
    pub fn repair(&mut self) -> Result<(Vec<Difference>, Vec<Difference>), VerbError> {
        let before = self.differences()?;
        self.redo()?;
        lease::restore(&self.network, &self.record, &Records::at(STATE_DIR))?;
        if self.may_become_fast() || before.iter().any(|one| matches!(one, Difference::Programs(_))) {
            self.accelerate()?;
        }
        let after = self.differences()?;
        let (left, restored) = before.into_iter().partition(|one| after.contains(one));
        Ok((restored, left))
    }

    /// All is looked at first: what a step restores, later ones may build on.
    fn redo(&mut self) -> Result<(), VerbError> {
        let mac = self.record.bridge_mac.map_or_else(random_mac, Ok);
        let mac = mac.map_err(|error| HostError::new("read", "/dev/urandom", error))?;
        let mut needed = Vec::new();
        for (step, expected) in plan::repair(&self.network, &self.record, mac)? {
            if !self.host.holds(&expected)? {
                needed.push(step);
            }
        }
        for step in needed {
            self.host.apply(&step)?;
        }
        Ok(())
    }

    /// Attaches the programs, also to a pod that its ADD had to leave on the bridge path.
    fn accelerate(&mut self) -> Result<(), VerbError> {
        let before = self.record.not_accelerated.take();
        accelerate(&self.network, &mut self.record, &self.host)?;
        let records = Records::at(STATE_DIR);
        // A DEL may have been faster.
        let there = records.read(&self.record.network, &self.record.attachment())?.is_some();
        if there && before != self.record.not_accelerated {
            records.write(&self.record)?;
        }
        Ok(())
    }
}
