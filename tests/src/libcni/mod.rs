//! A small container runtime's side of CNI: what libcni does, written from the specification.
//!
//! Source: the CNI specification 1.1.0, sections 2 (execution protocol) and 3 (execution of network
//! configurations).

mod exec;
mod interrupted;
mod list;
mod result;
mod runtime;

pub use exec::{Output, PluginError, exec};
pub use interrupted::{End, exec_interrupted, exec_killed};
pub use list::{Conflist, Container};
pub use result::{AddResult, Interface, IpConfig, Route};
pub use runtime::Runtime;
