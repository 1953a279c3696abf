//! What a node looks like, asked of the kernel's own tools, and what the plugin says about itself.

mod link;
mod profile;
mod programs;
mod snapshot;
mod stats;
mod status;

pub use link::{Link, default_gateways, link};
pub use profile::{Profile, count_runs};
pub use programs::{Program, has_tcx, programs};
pub use snapshot::Snapshot;
pub use stats::Stats;
pub use status::{Device, PodStatus, Status};
