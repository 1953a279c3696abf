//! Where programs and maps are pinned: `<bpffs>/ebpf-bridge/v<ABI>/`.

use std::{
    fs::{self, DirBuilder, File},
    io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};

use ebpf_bridge_common::ABI;
use nix::fcntl::{Flock, FlockArg};

use super::error::DataplaneError;

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

    /// True if the programs of this version are loaded.
    pub fn exist(&self) -> bool {
        self.directory().is_dir()
    }

    /// Where this version's pins are.
    pub(super) fn directory(&self) -> PathBuf {
        self.root.join(format!("v{ABI}"))
    }

    /// Where they are made before they are shown, all at once.
    pub(super) fn staging(&self) -> PathBuf {
        self.root.join(format!("v{ABI}-loading"))
    }

    /// A map or program. Names are ours, of the object.
    pub(super) fn pin(&self, name: &str) -> PathBuf {
        self.directory().join(name)
    }

    /// Pins of TCX links. An interface index is not used twice, so a pin never speaks of another device.
    pub(super) fn links(&self) -> PathBuf {
        self.directory().join("links")
    }

    /// Makes the root directory and keeps other loaders out until the lock is dropped.
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
