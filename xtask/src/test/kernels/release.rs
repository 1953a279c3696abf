//! Debian's kernels: where each comes from.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::archive::Archive;
use crate::workspace::Workspace;

/// A line of kernels in a suite of Debian's archive.
pub(super) struct Release {
    /// The suite of the archive.
    pub(super) suite: &'static str,
    /// What qemu should pretend to be. Its emulation is not perfect: 6.12 and newer panic on `max`, and now and then
    /// in a cmpxchg16b.
    pub(super) cpu: &'static str,
}

/// A kernel, unpacked.
pub(super) struct Kernel {
    /// As `uname -r` says it.
    pub(super) version: String,
    /// What a boot loader loads.
    pub(super) image: PathBuf,
    /// The directory of its modules.
    pub(super) modules: PathBuf,
    /// Where it is unpacked.
    pub(super) root: PathBuf,
}

/// The package that depends on the newest kernel of a suite, without drivers of real hardware.
const NEWEST: &str = "linux-image-cloud-amd64";

impl Release {
    pub(super) const ALL: [Release; 4] = [
        Release { suite: "bullseye", cpu: "max" },
        Release { suite: "bookworm", cpu: "max" },
        Release { suite: "bookworm-backports", cpu: "Haswell,-cx16" },
        Release { suite: "trixie-backports", cpu: "Haswell,-cx16" },
    ];

    /// The suite's kernel, if the cache has one.
    pub(super) fn known(&self, workspace: &Workspace) -> Result<Option<Kernel>> {
        Kernel::find(&self.root(workspace))
    }

    /// Downloads and unpacks the suite's newest kernel.
    pub(super) fn fetch(&self, workspace: &Workspace, archive: &Archive) -> Result<Kernel> {
        let root = self.root(workspace);
        archive.unpack(&archive.parts(NEWEST, self.suite)?, &root)?;
        Kernel::find(&root)?.with_context(|| format!("{NEWEST} of {} has no kernel", self.suite))
    }

    fn root(&self, workspace: &Workspace) -> PathBuf {
        workspace.cache.join("kernels").join(self.suite)
    }
}

impl Kernel {
    /// The kernel below `root`. Its modules tell the version; the image is in /boot, or beside them since 7.0.
    fn find(root: &Path) -> Result<Option<Kernel>> {
        for modules in ["lib/modules", "usr/lib/modules"].map(|dir| root.join(dir)) {
            let Ok(entries) = fs::read_dir(&modules) else { continue };
            for entry in entries {
                let modules = entry.with_context(|| format!("cannot list {}", modules.display()))?.path();
                let version = modules.file_name().unwrap_or_default().to_string_lossy().into_owned();
                let images = [root.join(format!("boot/vmlinuz-{version}")), modules.join("vmlinuz")];
                if let Some(image) = images.into_iter().find(|image| image.is_file()) {
                    return Ok(Some(Kernel { version, image, modules, root: root.to_owned() }));
                }
            }
        }
        Ok(None)
    }
}
