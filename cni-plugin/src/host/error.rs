//! What the kernel refused.

use std::io;

/// A failed operation, the object it was for and the kernel's reason.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} {object}: {source}")]
pub struct HostError {
    /// What was tried, as a verb.
    pub action: &'static str,
    /// What it was tried on.
    pub object: String,
    /// Why it failed, with its errno.
    pub source: io::Error,
}

impl HostError {
    pub(crate) fn new(action: &'static str, object: impl ToString, source: impl Into<io::Error>) -> Self {
        Self { action, object: object.to_string(), source: source.into() }
    }

    /// The errno, if the kernel gave one.
    pub fn errno(&self) -> Option<nix::errno::Errno> {
        self.source.raw_os_error().map(nix::errno::Errno::from_raw)
    }
}
