//! Why an address could not be leased or freed.

use std::io;
use std::net::IpAddr;
use std::path::PathBuf;

use thiserror::Error;

use super::owner::Owner;
use super::store::StoreError;

/// An operation of the built-in host-local failed.
#[derive(Debug, Error)]
pub enum IpamError {
    /// The network's name cannot name a directory.
    #[error("name is {name:?}, but must be usable as the name of a directory of leases")]
    NetworkName {
        /// The value as received.
        name: String,
    },
    /// The resolver configuration cannot be read.
    #[error("cannot read {path:?}, which ipam.resolvConf names: {source}")]
    ResolvConf {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// An address was asked for that no range offers.
    #[error("the requested address {ip} is not one to lease; allowed are {pools}")]
    RequestedOutside {
        /// The address.
        ip: IpAddr,
        /// All ranges, as "first-last".
        pools: String,
    },
    /// An address was asked for that is its subnet's gateway.
    #[error("the requested address {ip} is a gateway of the range {pool}, which is never leased")]
    RequestedGateway {
        /// The address.
        ip: IpAddr,
        /// The range set, as "first-last".
        pool: String,
    },
    /// An address was asked for that is leased.
    #[error("the requested address {ip} is leased to {owner}")]
    RequestedTaken {
        /// The address.
        ip: IpAddr,
        /// Who holds it.
        owner: Owner,
    },
    /// Every address of a range set is leased.
    #[error("no address left in {pool}: {used} of {total} are leased")]
    RangeFull {
        /// The range set, as "first-last".
        pool: String,
        /// Leases in the set.
        used: u128,
        /// Addresses the set has to lease.
        total: u128,
    },
    /// The lease directory failed us.
    #[error(transparent)]
    Store(#[from] StoreError),
}
