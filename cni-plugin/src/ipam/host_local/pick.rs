//! Which address of a range set an owner gets.

use std::net::IpAddr;

use super::super::error::IpamError;
use super::super::owner::Owner;
use super::super::set::RangeSet;
use super::journal::Journal;
use super::{Gone, Usage, usage};

/// The choice of one address from one range set.
pub(super) struct Pick<'a> {
    pub(super) journal: &'a mut Journal,
    pub(super) index: usize,
    pub(super) set: &'a RangeSet,
    pub(super) owner: &'a Owner,
    pub(super) gone: &'a Gone<'a>,
}

impl Pick<'_> {
    /// Exactly `ip`, or an error.
    pub(super) fn requested(&mut self, ip: IpAddr) -> Result<IpAddr, IpamError> {
        loop {
            match self.journal.leases().owner_of(ip)? {
                Some(holder) if holder.covers(self.owner) => return Ok(ip),
                Some(holder) if !self.is_gone(ip, &holder)? => {
                    return Err(IpamError::RequestedTaken { ip, owner: holder });
                }
                Some(holder) => self.reclaim(ip, &holder)?,
                None => self.journal.leases().remove(ip)?,
            }
            // False only if a reference plugin got in between because it waited for a lock that is no more.
            if self.journal.reserve(ip, self.index, self.owner)? {
                return Ok(ip);
            }
        }
    }

    /// The address the owner had, the next free one, or one whose owner is gone.
    pub(super) fn any(&mut self, hint: &[IpAddr]) -> Result<IpAddr, IpamError> {
        for &ip in hint.iter().filter(|ip| self.set.offers(**ip)) {
            if self.journal.leases().owner_of(ip)?.is_some_and(|holder| holder.covers(self.owner)) {
                return Ok(ip);
            }
        }
        if let Some(ip) = self.next_free()? {
            return Ok(ip);
        }
        let leases = self.journal.leases().leases()?;
        let ours = |(ip, holder): &&(IpAddr, Owner)| self.set.offers(*ip) && holder.covers(self.owner);
        if let Some((ip, _)) = leases.iter().find(ours) {
            return Ok(*ip);
        }
        for (ip, holder) in leases.iter().filter(|(ip, _)| self.set.offers(*ip)) {
            if self.is_gone(*ip, holder)? {
                self.reclaim(*ip, holder)?;
            }
        }
        self.next_free()?.ok_or_else(|| {
            let leased: Vec<IpAddr> = leases.into_iter().map(|(ip, _)| ip).collect();
            let Usage { pool, used, total } = usage(self.set, &leased);
            IpamError::RangeFull { pool, used, total }
        })
    }

    fn is_gone(&self, ip: IpAddr, holder: &Owner) -> Result<bool, IpamError> {
        let leased = self.journal.leases().leased_at(ip)?;
        Ok(leased.is_some_and(|leased| (self.gone)(holder, leased)))
    }

    fn reclaim(&self, ip: IpAddr, holder: &Owner) -> Result<(), IpamError> {
        log::info!("reclaimed {ip} from {holder}, which is gone");
        Ok(self.journal.leases().remove(ip)?)
    }

    /// Leases the first free address after the one leased last.
    fn next_free(&mut self) -> Result<Option<IpAddr>, IpamError> {
        let last = self.journal.leases().last(self.index);
        for (ip, _) in self.set.candidates(last) {
            if self.journal.reserve(ip, self.index, self.owner)? {
                return Ok(Some(ip));
            }
        }
        Ok(None)
    }
}
