//! `cargo xtask setup`: find or get what builds the eBPF programs.

use anyhow::Result;

use crate::toolchain::Toolchain;
use crate::workspace::Workspace;

pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let found = Toolchain::find(workspace)?;
    println!("ready: {}, {}", found.rustc, found.linker.display());
    Ok(())
}
