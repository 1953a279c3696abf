//! What is to be done, as data. Pure: from the configuration, what was observed and the lease to a list of
//! steps; [`crate::host`] carries them out and answers each with the step that undoes it.

mod add;
mod addressing;
mod check;
mod observed;
mod pod;
mod repair;
mod step;

pub use add::{Placement, PlanError, add, subnets};
pub use addressing::{Addressing, complete, routes};
pub use check::{Expectation, check, format_mac, lost};
pub use observed::{Bridge, Observed, PodRoute};
pub use repair::repair;
pub use step::{Side, Step, Sysctl};
