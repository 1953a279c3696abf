//! Whatever the plugin reads from outside, as functions of bytes. libFuzzer looks for bytes that make one panic or
//! hang (`cargo xtask fuzz`); what it found worth keeping is replayed by `cargo test` (`tests/replay.rs`).
//!
//! The functions call the code of the plugin and of the eBPF programs as it is, up to the point where it would
//! touch the node. What they assert is what the specification or the kernel asks for, never what we happen to do.

mod config;
mod environment;
mod lease;
mod packet;
mod record;
mod result;
mod told;

/// One kind of input.
pub struct Target {
    /// Name, also that of its directory under `corpus/`.
    pub name: &'static str,
    /// Reads an input of this kind.
    ///
    /// # Panics
    /// If the input is handled wrongly.
    pub run: fn(&[u8]),
}

/// Every kind of input.
pub const TARGETS: [Target; 6] = [
    Target { name: "config", run: config::run },
    Target { name: "environment", run: environment::run },
    Target { name: "result", run: result::run },
    Target { name: "record", run: record::run },
    Target { name: "lease", run: lease::run },
    Target { name: "packet", run: packet::run },
];

/// Gives `input` to the target called `name`.
///
/// # Panics
/// If the input is handled wrongly, or there is no such target.
pub fn run(name: &str, input: &[u8]) {
    let target = TARGETS.iter().find(|target| target.name == name).expect("a target of this name");
    (target.run)(input);
}
