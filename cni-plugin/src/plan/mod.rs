//! What is to be done, as data. Pure: from the configuration, what was observed and the lease to a list of
//! steps; [`crate::host`] carries them out and answers each with the step that undoes it.

mod add;
mod step;

pub use add::{AddressConflict, Addressing, Observed, Placement, add, routes};
pub use step::{Side, Step, Sysctl};
