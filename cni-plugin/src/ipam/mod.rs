//! The built-in IPAM: what the reference plugin `host-local` does, in this process.
//!
//! Configuration and files on disk are the reference's, so a node can switch in either direction with live
//! leases. The parts, from pure to effect: [`Range`] and [`RangeSet`] are arithmetic, [`HostLocalConfig`] is
//! validation, `store` and `lock` are the files, [`HostLocal`] leases and frees.
//!
//! Nothing on the usual way reads every lease. The caller keeps a record of each attachment anyway and
//! passes the addresses in it as a *hint*; a hint is never trusted, the one file it names is read and must
//! name the same owner.

mod config;
mod error;
mod host_local;
mod lock;
mod owner;
mod range;
mod resolv;
mod set;
mod store;

pub(crate) use config::Spec as IpamSpec;
pub use config::{ConfigError, DEFAULT_DATA_DIR, HostLocalConfig};
pub use error::IpamError;
pub use host_local::{Gone, HostLocal, Lease, Usage};
pub use owner::Owner;
pub use range::{Range, RangeError, RangeSpec};
pub use set::{RangeSet, SetError};
pub use store::StoreError;
