//! The network configuration: as received ([`netconf`]) and as meant ([`network`]). Nothing after this
//! module sees raw JSON, except an IPAM plugin that is executed with it.

mod asked;
mod ebpf;
mod list;
mod netconf;
mod network;
mod pod_cidr;
mod schema;
#[cfg(test)]
mod tests;
mod vlan;

pub use ebpf::{Attach, EbpfConfig, Mode};
pub use list::{List, ListError, TYPE};
pub use netconf::{AttachmentRef, ConfigError, NetConf};
pub use network::{Gateway, Ipam, LogConfig, MasqueradeBackend, Network};
pub use pod_cidr::NodeRoute;
pub use schema::schema;
pub use vlan::Vlans;
