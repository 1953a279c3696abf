//! The feature tests: the built plugin, run in the lab the way a runtime runs it.
//!
//! `cargo xtask test` builds the plugin and runs them. What a test lacks on this machine makes it ignored, with the
//! reason in its printed name.

mod suite;

use std::process::ExitCode;

use libtest_mimic::Arguments;
use suite::Suite;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let suite = Suite::default();
    suite.run(&arguments)
}
