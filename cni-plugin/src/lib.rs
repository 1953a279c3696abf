//! ebpf-bridge: a CNI bridge plugin whose established flows are carried by eBPF.
//!
//! The story is in [`verbs`]: an ADD reads the request ([`cni`]), validates the configuration ([`config`]), leases
//! addresses ([`ipam`]), plans ([`plan`]), carries the plan out so that it can be undone ([`host`]), attaches
//! the programs ([`dataplane`]) and answers. [`state`] remembers what is attached. [`cli`] is for operators.

pub mod capture;
pub mod cli;
pub mod cni;
pub mod config;
pub mod dataplane;
pub mod host;
pub mod ipam;
pub mod logging;
pub mod plan;
pub mod state;
pub mod verbs;
