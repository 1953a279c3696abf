//! The undo of an allocation: addresses leased so far are freed unless all sets could be served.

use std::net::IpAddr;

use super::super::owner::Owner;
use super::super::store::{Locked, StoreError};

/// The locked leases, and which of them this allocation made. Dropped before [`commit`](Self::commit), it
/// frees those again.
pub(super) struct Journal {
    leases: Locked,
    fresh: Vec<IpAddr>,
    committed: bool,
}

impl Journal {
    pub(super) fn new(leases: Locked) -> Self {
        Self { leases, fresh: Vec::new(), committed: false }
    }

    pub(super) fn leases(&self) -> &Locked {
        &self.leases
    }

    /// Leases `ip` to `owner` and notes it. False when it is taken.
    pub(super) fn reserve(&mut self, ip: IpAddr, set: usize, owner: &Owner) -> Result<bool, StoreError> {
        // Noted first: reserving may fail after the lease got its name.
        self.fresh.push(ip);
        let reserved = self.leases.reserve(ip, set, owner);
        if matches!(reserved, Ok(false)) {
            self.fresh.pop();
        }
        reserved
    }

    /// Keeps the leases. The lock is held until the journal is dropped.
    pub(super) fn commit(&mut self) {
        self.committed = true;
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        if self.committed {
            return;
        }
        for ip in self.fresh.drain(..) {
            if let Err(error) = self.leases.remove(ip) {
                log::warn!("{ip} stays leased after a failed allocation: {error}");
            }
        }
        if let Err(error) = self.leases.tidy() {
            log::warn!("after a failed allocation: {error}");
        }
    }
}
