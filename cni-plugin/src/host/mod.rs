//! Effects on the host: the trait that carries out steps, its real implementation and the journal.

pub mod boot;
mod carrier;
mod dad;
mod error;
#[cfg(test)]
mod fake;
pub mod iptables;
mod journal;
mod linux;
mod netlink;
mod netns;
pub mod nft;
pub mod sysctl;
mod verify;
pub mod vlan_probe;

pub use error::HostError;
pub use journal::Journal;
pub use linux::LinuxHost;
pub use netlink::{FilterPlace, Hook, Link, Netlink};
pub use netns::{Netns, NetnsError};

use crate::plan::{Observed, Step};

/// Something that steps can be carried out on.
pub trait Host {
    /// Looks at what a plan depends on.
    fn observe(&mut self, bridge: &str) -> Result<Observed, HostError>;

    /// Carries out a step. Returns the step that undoes it, or `None` if nothing has changed or nothing
    /// needs undoing.
    fn apply(&mut self, step: &Step) -> Result<Option<Step>, HostError>;
}
