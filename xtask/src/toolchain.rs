//! What builds the eBPF programs: a rustc with its library sources, its cargo, and a bpf-linker to match.

mod candidates;
mod linker;
mod obtain;
mod record;
mod rustc;

use std::path::PathBuf;

use anyhow::Result;

pub(crate) use self::rustc::Rustc;
use crate::fault::Fault;
use crate::workspace::Workspace;

/// The Rust compiler to use, whatever it can do.
const RUSTC: &str = "EBPF_BRIDGE_RUSTC";
/// The cargo that belongs to it; unset, the one beside it.
const CARGO: &str = "EBPF_BRIDGE_CARGO";
/// The bpf-linker to use, whatever its LLVM.
const LINKER: &str = "EBPF_BRIDGE_BPF_LINKER";

/// Everything `build-ebpf` needs, found to fit together.
pub(crate) struct Toolchain {
    pub(crate) rustc: Rustc,
    pub(crate) linker: PathBuf,
}

impl Toolchain {
    /// The recorded toolchain if it is still as it was, else a new search; with an override, always a search.
    pub(crate) fn known_or_found(workspace: &Workspace) -> Result<Self> {
        match record::read(workspace) {
            Some(known) => Ok(known),
            None => Self::find(workspace),
        }
    }

    /// Searches in the fixed order, gets what is missing, and records the outcome. Prints every candidate and
    /// why it was taken or refused.
    pub(crate) fn find(workspace: &Workspace) -> Result<Self> {
        println!("a Rust toolchain that can build BPF programs (rustc {}+, library sources):", rustc::OLDEST);
        let rustc = match candidates::search()? {
            Some(rustc) => rustc,
            None => obtain::rustc()?,
        };
        println!("a bpf-linker whose LLVM is not older than {}:", rustc.llvm);
        let linker = linker::find_or_build(workspace, &rustc)?;
        let found = Self { rustc, linker };
        record::write(workspace, &found)?;
        Ok(found)
    }
}

/// Prints one candidate: where it comes from, what it is, and the verdict.
fn report(place: &str, what: &str, verdict: &str) {
    println!("  {place:<9} {what}: {verdict}");
}

/// The one thing to say when no toolchain can be had.
fn nothing(reason: &str) -> Fault {
    Fault::new(
        format!("no Rust toolchain here can build BPF programs and none could be fetched ({reason})"),
        "rustup toolchain install nightly --profile minimal --component rust-src && cargo xtask setup",
    )
}
