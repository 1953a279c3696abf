//! The feature tests: the built plugin, run in the lab the way a runtime runs it.
//!
//! `cargo xtask test` builds the plugin and runs them. What a test lacks on this machine makes it ignored, with the
//! reason in its printed name.

mod address;
mod bench;
mod chained;
mod change;
mod check;
mod cluster;
mod cni_check;
mod conf;
mod conflist;
mod conformance;
mod containerd;
mod control;
mod del;
mod delegate;
mod differential;
mod equivalence;
mod fast;
mod identity;
mod idle;
mod install;
mod invalid;
mod keys;
mod killed;
mod lab;
mod latency;
mod lifecycle;
mod modes;
mod parallel;
mod path;
mod policy;
mod programs;
mod protocol;
mod reach;
mod reroute;
mod rules;
mod services;
mod suite;
mod uplink;
mod wiring;

use std::process::ExitCode;

use libtest_mimic::Arguments;
use suite::Suite;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let mut suite = Suite::default();
    lab::register(&mut suite);
    wiring::register(&mut suite);
    address::register(&mut suite);
    lifecycle::register(&mut suite);
    cluster::register(&mut suite);
    keys::register(&mut suite);
    killed::register(&mut suite);
    differential::register(&mut suite);
    conflist::register(&mut suite);
    reach::register(&mut suite);
    fast::register(&mut suite);
    equivalence::register(&mut suite);
    modes::register(&mut suite);
    change::register(&mut suite);
    control::register(&mut suite);
    policy::register(&mut suite);
    services::register(&mut suite);
    chained::register(&mut suite);
    invalid::register(&mut suite);
    path::register(&mut suite);
    reroute::register(&mut suite);
    uplink::register(&mut suite);
    idle::register(&mut suite);
    identity::register(&mut suite);
    del::register(&mut suite);
    cni_check::register(&mut suite);
    conformance::register(&mut suite);
    delegate::register(&mut suite);
    parallel::register(&mut suite);
    latency::register(&mut suite);
    bench::register(&mut suite);
    programs::register(&mut suite);
    protocol::register(&mut suite);
    containerd::register(&mut suite);
    conf::register(&mut suite);
    install::register(&mut suite);
    suite.run(&arguments)
}
