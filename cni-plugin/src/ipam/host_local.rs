//! Leasing and freeing addresses, each verb under the network's lock.

use std::net::IpAddr;
use std::path::{Component, Path, PathBuf};
use std::time::SystemTime;

use ipnetwork::IpNetwork;

use self::journal::Journal;
use self::pick::Pick;
use super::config::HostLocalConfig;
use super::error::IpamError;
use super::owner::Owner;
use super::resolv;
use super::set::RangeSet;
use super::store::{Locked, Store, StoreError};
use crate::cni::types::{Dns, Ip, Route};

mod journal;
mod pick;
#[cfg(test)]
mod tests;

/// Asked whether the owner of a lease of this age is certainly gone.
pub type Gone<'a> = dyn Fn(&Owner, SystemTime) -> bool + 'a;

/// What an ADD gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// One address per range set, in their order.
    pub ips: Vec<Ip>,
    /// The configured routes.
    pub routes: Vec<Route>,
    /// Name resolution, from `resolvConf`.
    pub dns: Dns,
}

/// How full one range set is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Usage {
    /// The range set, as "first-last".
    pub pool: String,
    /// Addresses leased.
    pub used: u128,
    /// Addresses there are to lease.
    pub total: u128,
}

impl Usage {
    /// True when nothing is left to lease.
    pub fn is_full(&self) -> bool {
        self.used >= self.total
    }
}

/// The host-local IPAM of one network.
#[derive(Debug, Clone)]
pub struct HostLocal {
    ranges: Vec<RangeSet>,
    routes: Vec<Route>,
    resolv_conf: Option<PathBuf>,
    store: Store,
}

impl HostLocal {
    /// The IPAM of `network` as `config` wants it. Touches nothing.
    pub fn new(network: &str, config: HostLocalConfig) -> Result<Self, IpamError> {
        let store = Store::new(lease_dir(network, &config.data_dir)?);
        let HostLocalConfig { ranges, routes, resolv_conf, .. } = config;
        Ok(Self { ranges, routes, resolv_conf, store })
    }

    /// The IPAM of `network` without ranges: good for [`release`](Self::release) and
    /// [`retain`](Self::retain), which must work when the configuration has become unusable.
    pub fn unconfigured(network: &str, data_dir: &Path) -> Result<Self, IpamError> {
        let store = Store::new(lease_dir(network, data_dir)?);
        Ok(Self { ranges: Vec::new(), routes: Vec::new(), resolv_conf: None, store })
    }

    /// Leases one address from each range set to `owner`, all or none.
    ///
    /// `hint` holds the addresses the caller's record of this attachment names; those that are this owner's
    /// are given back to it. Without a record the owner counts as new: finding a lease that only the files
    /// know of would mean to read them all. `requested` addresses are leased and no others in their set.
    /// Before a set counts as full, all leases are read once and `gone` is asked, under the lock, which
    /// owners are certainly gone; their addresses are free then.
    ///
    /// # Errors
    /// [`IpamError::RangeFull`] and the `Requested` ones; a failure leaves no lease that was not there before.
    pub fn allocate(
        &self,
        owner: &Owner,
        hint: &[IpAddr],
        requested: &[IpAddr],
        gone: &Gone<'_>,
    ) -> Result<Lease, IpamError> {
        let dns = self.dns()?;
        let requests = self.assign(requested)?;
        let locked = self.store.lock()?;
        let mut journal = Journal::new(locked);
        let mut ips = Vec::with_capacity(self.ranges.len());
        for (index, set) in self.ranges.iter().enumerate() {
            let mut pick = Pick { journal: &mut journal, index, set, owner, gone };
            let ip = match requests[index] {
                Some(ip) => pick.requested(ip)?,
                None => pick.any(hint)?,
            };
            ips.push(ip);
        }
        // The caller's new record will not name these any more, so nobody would ever free them.
        free(journal.leases(), owner, hint.iter().filter(|ip| !ips.contains(ip)))?;
        journal.commit();
        let ips = ips.into_iter().filter_map(|ip| self.to_result(ip)).collect();
        Ok(Lease { ips, routes: self.routes.clone(), dns })
    }

    /// Frees all addresses of `owner`. None, or no lease directory, is fine, and nothing is created.
    ///
    /// Only when `hint` does not account for an address per range set are all leases read.
    pub fn release(&self, owner: &Owner, hint: &[IpAddr]) -> Result<(), IpamError> {
        let Some(locked) = self.store.lock_existing()? else { return Ok(()) };
        let freed = free(&locked, owner, hint.iter());
        let swept = match freed {
            Ok(freed) if freed >= self.ranges.len().max(1) => Ok(Vec::new()),
            _ => remove_where(&locked, |lease| lease.covers(owner)),
        };
        let tidied = locked.tidy();
        freed.and(swept).and(tidied).map_err(IpamError::from)
    }

    /// Those of `ips` that are not leased to `owner`.
    pub fn not_leased(&self, owner: &Owner, ips: &[IpAddr]) -> Result<Vec<IpAddr>, IpamError> {
        let Some(locked) = self.store.lock_existing()? else { return Ok(ips.to_vec()) };
        let mut lost = Vec::new();
        for &ip in ips {
            if !locked.owner_of(ip)?.is_some_and(|holder| holder.covers(owner)) {
                lost.push(ip);
            }
        }
        Ok(lost)
    }

    /// Every lease with its owner and its time, as they are now. Takes no lock.
    pub fn leases(&self) -> Result<Vec<(IpAddr, Owner, SystemTime)>, IpamError> {
        Ok(self.store.peek()?)
    }

    /// What an owner without leases would get now. Takes no lock and leases nothing; a full set gives nothing.
    pub fn preview(&self) -> Result<Lease, IpamError> {
        let leased = self.store.leased()?;
        let free = self.ranges.iter().enumerate().filter_map(|(index, set)| {
            let mut candidates = set.candidates(self.store.last(index));
            candidates.find(|(ip, _)| !leased.contains(ip)).map(|(ip, _)| ip)
        });
        let ips = free.filter_map(|ip| self.to_result(ip)).collect();
        Ok(Lease { ips, routes: self.routes.clone(), dns: self.dns()? })
    }

    /// Frees every address whose owner is not in `valid`, and returns those addresses.
    pub fn retain(&self, valid: &[Owner]) -> Result<Vec<IpAddr>, IpamError> {
        let Some(locked) = self.store.lock_existing()? else { return Ok(Vec::new()) };
        let freed = remove_where(&locked, |lease| !valid.iter().any(|owner| lease.covers(owner)))?;
        locked.tidy()?;
        Ok(freed)
    }

    /// How full each range set is, in their order.
    ///
    /// Takes no lock: a count is out of date when it arrives anyway, and STATUS should not wait for an ADD.
    pub fn usage(&self) -> Result<Vec<Usage>, IpamError> {
        let leased = self.store.leased()?;
        Ok(self.ranges.iter().map(|set| usage(set, &leased)).collect())
    }

    fn dns(&self) -> Result<Dns, IpamError> {
        let Some(path) = &self.resolv_conf else { return Ok(Dns::default()) };
        resolv::read(path).map_err(|source| IpamError::ResolvConf { path: path.clone(), source })
    }

    /// Sorts the requested addresses to their range sets.
    fn assign(&self, requested: &[IpAddr]) -> Result<Vec<Option<IpAddr>>, IpamError> {
        let mut requests = vec![None; self.ranges.len()];
        for &ip in requested {
            let place = self.ranges.iter().position(|set| set.range_of(ip).is_some());
            match place {
                Some(index) if self.ranges[index].is_gateway(ip) => {
                    return Err(IpamError::RequestedGateway { ip, pool: self.ranges[index].to_string() });
                }
                // Two requests for one set: as with the reference, the set cannot serve both.
                Some(index) if requests[index].is_none_or(|other| other == ip) => requests[index] = Some(ip),
                _ => {
                    let pools: Vec<String> = self.ranges.iter().map(RangeSet::to_string).collect();
                    return Err(IpamError::RequestedOutside { ip, pools: pools.join(" and ") });
                }
            }
        }
        Ok(requests)
    }

    fn to_result(&self, ip: IpAddr) -> Option<Ip> {
        let range = self.ranges.iter().find_map(|set| set.range_of(ip))?;
        let address = IpNetwork::new(ip, range.subnet().prefix()).ok()?;
        Some(Ip { interface: None, address, gateway: Some(range.gateway()) })
    }
}

/// The directory of `network`'s leases; its name must not lead out of `data_dir`.
fn lease_dir(network: &str, data_dir: &Path) -> Result<PathBuf, IpamError> {
    let mut components = Path::new(network).components();
    match (components.next(), components.next()) {
        (Some(Component::Normal(name)), None) if name == network => Ok(data_dir.join(name)),
        _ => Err(IpamError::NetworkName { name: network.to_owned() }),
    }
}

/// Frees those of `ips` that are leased to `owner`, and counts them.
fn free<'a>(
    locked: &Locked,
    owner: &Owner,
    ips: impl Iterator<Item = &'a IpAddr>,
) -> Result<usize, StoreError> {
    let mut freed = 0;
    for &ip in ips {
        if locked.owner_of(ip)?.is_some_and(|holder| holder.covers(owner)) {
            locked.remove(ip)?;
            freed += 1;
        }
    }
    Ok(freed)
}

/// Reads all leases and frees those whose owner is `unwanted`. Goes on after a failure and reports the first.
fn remove_where(locked: &Locked, unwanted: impl Fn(&Owner) -> bool) -> Result<Vec<IpAddr>, StoreError> {
    let mut freed = Vec::new();
    let mut failure = None;
    for (ip, _) in locked.leases()?.into_iter().filter(|(_, owner)| unwanted(owner)) {
        match locked.remove(ip) {
            Ok(()) => freed.push(ip),
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    failure.map_or(Ok(freed), Err)
}

fn usage(set: &RangeSet, leased: &[IpAddr]) -> Usage {
    let used = leased.iter().filter(|ip| set.offers(**ip)).count() as u128;
    Usage { pool: set.to_string(), used, total: set.capacity() }
}
