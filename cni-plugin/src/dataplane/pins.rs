//! Where things are pinned:
//!
//! ```text
//! <bpffs>/ebpf-bridge/v<ABI>/FLOWS4, ...                   maps, shared by all builds with this ABI
//! <bpffs>/ebpf-bridge/v<ABI>/programs-<id>/flow_ingress, ...   programs of one build
//! <bpffs>/ebpf-bridge/v<ABI>/links/<ifindex>-flow_ingress, ... TCX links
//! ```

use std::{
    fs::{self, DirBuilder, File},
    io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};

use ebpf_bridge_common::ABI;
use nix::fcntl::{Flock, FlockArg};

use super::{error::DataplaneError, object::PROGRAMS_NAME};

/// The pins of one node.
#[derive(Debug, Clone)]
pub struct Pins {
    root: PathBuf,
}

impl Pins {
    /// The pins under a BPF file system's mount point.
    pub fn under(bpffs: &Path) -> Self {
        Self { root: bpffs.join("ebpf-bridge") }
    }

    /// True if the maps of this ABI are there.
    pub fn exist(&self) -> bool {
        self.directory().is_dir()
    }

    /// Whether one may look. That there is nothing is fine.
    ///
    /// # Errors
    /// The kernel's answer: mostly that only root may.
    pub fn may_look(&self) -> Result<(), DataplaneError> {
        match fs::metadata(self.directory()) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                Err(DataplaneError::pin("look at", self.directory(), error))
            }
            _ => Ok(()),
        }
    }

    /// True if the programs of this very build are loaded.
    pub(super) fn are_ours(&self) -> bool {
        self.programs().is_dir()
    }

    /// Where this ABI's pins are.
    pub(super) fn directory(&self) -> PathBuf {
        self.root.join(format!("v{ABI}"))
    }

    /// Where pins are made before they are shown, all at once.
    pub(super) fn staging(&self) -> PathBuf {
        self.root.join("loading")
    }

    /// Where this build's programs are.
    pub(super) fn programs(&self) -> PathBuf {
        self.directory().join(PROGRAMS_NAME)
    }

    /// A map.
    pub(super) fn map(&self, name: &str) -> PathBuf {
        self.directory().join(name)
    }

    /// Directories of other ABIs, and of programs of other builds.
    pub(super) fn others(&self) -> Vec<PathBuf> {
        let entries = |path: &Path| -> Vec<PathBuf> {
            fs::read_dir(path)
                .map(|dir| dir.flatten().map(|entry| entry.path()).collect())
                .unwrap_or_default()
        };
        let abis = entries(&self.root).into_iter().filter(|path| *path != self.directory());
        let is_programs = |path: &PathBuf| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("programs-"))
        };
        let builds = entries(&self.directory()).into_iter().filter(is_programs);
        abis.chain(builds.filter(|path| *path != self.programs())).collect()
    }

    /// Pins of TCX links. An interface index is not used twice, so a pin never speaks of another device.
    pub(super) fn links(&self) -> PathBuf {
        self.directory().join("links")
    }

    /// Makes the root directory and keeps others out, who load or change the configuration, until the lock is dropped.
    pub(super) fn lock(&self) -> Result<Flock<File>, DataplaneError> {
        let failed = |action, error: io::Error| DataplaneError::pin(action, &self.root, error);
        make_directory(&self.root)?;
        let directory = File::open(&self.root).map_err(|error| failed("open", error))?;
        Flock::lock(directory, FlockArg::LockExclusive).map_err(|(_, errno)| failed("lock", errno.into()))
    }

    /// Removes every pin and directory of ours.
    pub(super) fn remove(&self) -> Result<(), DataplaneError> {
        match fs::remove_dir_all(&self.root) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(DataplaneError::pin("remove", &self.root, error))
            }
            _ => Ok(()),
        }
    }
}

/// Makes a directory that only root may use; that it exists is fine.
pub(super) fn make_directory(path: &Path) -> Result<(), DataplaneError> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|error| DataplaneError::pin("create", path, error))
}
