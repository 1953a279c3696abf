//! `cargo xtask test kernels`: Debian's kernels, booted in qemu without the machine's own taking part.

mod archive;
mod release;

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;

use self::archive::Archive;
use self::release::Release;
use crate::workspace::Workspace;

/// Which kernels, and whether to look for newer ones.
#[derive(Args)]
pub(crate) struct Options {
    /// Fetch the packages anew, also those that are in the cache
    #[arg(long)]
    fresh: bool,
}

/// Fetches the kernels.
pub(super) fn run(workspace: &Workspace, options: &Options) -> Result<ExitCode> {
    let mut archive = None;
    for release in &Release::ALL {
        let kernel = match release.known(workspace)?.filter(|_| !options.fresh) {
            Some(kernel) => kernel,
            None => release.fetch(workspace, opened(&mut archive, workspace)?)?,
        };
        println!("{}: {}", kernel.version, kernel.image.display());
    }
    Ok(ExitCode::SUCCESS)
}

/// The archive, whose lists take a while and are read when the first package is missing.
fn opened<'a>(archive: &'a mut Option<Archive>, workspace: &Workspace) -> Result<&'a Archive> {
    match archive {
        Some(archive) => Ok(archive),
        None => Ok(archive.insert(Archive::open(workspace)?)),
    }
}
