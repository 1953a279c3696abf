//! The lock of a network's lease directory: flock(2) on its file `lock`, as the reference host-local takes
//! it. The kernel drops it with the process, however that ends.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

use super::store::StoreError;

/// Holds the lock of a lease directory until dropped.
#[derive(Debug)]
pub(super) struct DirLock {
    path: PathBuf,
    _file: Flock<File>,
}

impl DirLock {
    /// Waits for the lock of `dir`, creating the directory when it is missing.
    pub(super) fn create(dir: &Path) -> Result<Self, StoreError> {
        loop {
            match DirBuilder::new().recursive(true).mode(0o755).create(dir) {
                // It was there at the first look and gone at the second; a dangling link never is a directory.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && !dir.is_symlink() => {}
                made => made.map_err(StoreError::io("create the lease directory", dir))?,
            }
            // None: the last lease went, and the directory with it, between our two steps.
            if let Some(lock) = Self::existing(dir)? {
                return Ok(lock);
            }
        }
    }

    /// Waits for the lock of `dir`; `None` when there is no such directory.
    pub(super) fn existing(dir: &Path) -> Result<Option<Self>, StoreError> {
        let path = dir.join("lock");
        loop {
            // The mode is the reference's.
            let opened = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o750)
                .open(&path);
            let file = match opened {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(StoreError::io("open", &path)(error)),
            };
            let lock = wait(file).map_err(StoreError::io("lock", &path))?;
            // Whoever held it before us may have removed the directory: then we hold a file nobody else will
            // ever find, and must start over.
            if is_at(&lock, &path).map_err(StoreError::io("examine", &path))? {
                return Ok(Some(Self { path, _file: lock }));
            }
        }
    }

    /// Removes the lock file, then the directory if that leaves it empty.
    ///
    /// The file must go before the directory can. From then on another process may take a new lock, so
    /// nothing but the removal of an empty directory, which the kernel decides, may follow.
    pub(super) fn remove_with_dir(&self, dir: &Path) -> Result<(), StoreError> {
        fs::remove_file(&self.path).map_err(StoreError::io("remove", &self.path))?;
        match fs::remove_dir(dir) {
            Err(error)
                if !matches!(error.kind(), io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::NotFound) =>
            {
                Err(StoreError::io("remove the empty lease directory", dir)(error))
            }
            _ => Ok(()),
        }
    }
}

fn wait(mut file: File) -> io::Result<Flock<File>> {
    loop {
        match Flock::lock(file, FlockArg::LockExclusive) {
            Ok(lock) => return Ok(lock),
            Err((unlocked, Errno::EINTR)) => file = unlocked,
            Err((_, errno)) => return Err(errno.into()),
        }
    }
}

/// True when `path` still names the file that is open as `file`.
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let held = file.metadata()?;
    match fs::symlink_metadata(path) {
        Ok(named) => Ok((named.dev(), named.ino()) == (held.dev(), held.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}
