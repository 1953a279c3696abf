//! Network namespaces: opening the pod's, and being inside it for a while.

use std::{
    fs::File,
    io,
    os::{fd::AsFd, unix::fs::MetadataExt},
    path::{Path, PathBuf},
};

use nix::{
    sched::{CloneFlags, setns},
    sys::statfs::{FsType, fstatfs},
};

/// `NSFS_MAGIC` of `linux/magic.h`.
const NSFS_MAGIC: FsType = FsType(0x6e73_6673);

/// Why `CNI_NETNS` cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum NetnsError {
    /// It cannot be opened.
    #[error("CNI_NETNS is {path:?}, which cannot be opened: {source}")]
    Open {
        /// The path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is a file of another kind.
    #[error("CNI_NETNS is {0:?}, which is not a network namespace")]
    NotANamespace(PathBuf),
    /// It is where we are ourselves.
    #[error("CNI_NETNS is {0:?}, which is the host's own network namespace; a container's is needed")]
    IsTheHosts(PathBuf),
}

/// An open network namespace that is not ours.
#[derive(Debug)]
pub struct Netns {
    file: File,
    own: File,
}

impl Netns {
    /// Opens a namespace by path.
    ///
    /// # Errors
    /// See [`NetnsError`]; nothing has been touched then.
    pub fn open(path: &Path) -> Result<Self, NetnsError> {
        let failed = |source: io::Error| NetnsError::Open { path: path.to_owned(), source };
        let file = File::open(path).map_err(failed)?;
        if fstatfs(&file).map_err(|errno| failed(errno.into()))?.filesystem_type() != NSFS_MAGIC {
            return Err(NetnsError::NotANamespace(path.to_owned()));
        }
        let own = File::open("/proc/thread-self/ns/net").map_err(failed)?;
        let (theirs, ours) = (file.metadata().map_err(failed)?, own.metadata().map_err(failed)?);
        if (theirs.dev(), theirs.ino()) == (ours.dev(), ours.ino()) {
            return Err(NetnsError::IsTheHosts(path.to_owned()));
        }
        Ok(Self { file, own })
    }

    /// Runs `work` on this thread inside the namespace and comes back, also if it panics.
    pub fn enter<T>(&self, work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        setns(self.file.as_fd(), CloneFlags::CLONE_NEWNET)?;
        let back = Back { own: &self.own };
        let result = work();
        drop(back);
        result
    }

    /// The namespace as a file descriptor, for a netlink attribute.
    pub fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Leads back to our namespace on every path out.
struct Back<'a> {
    own: &'a File,
}

impl Drop for Back<'_> {
    fn drop(&mut self) {
        if setns(self.own.as_fd(), CloneFlags::CLONE_NEWNET).is_err() {
            // Going on would do the host's work in the pod.
            std::process::abort();
        }
    }
}
