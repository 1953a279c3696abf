//! Why eBPF is not to be had.

use std::{error::Error, fmt, io, path::PathBuf};

use crate::host::HostError;

/// A failure of aya's with all that caused it: the errno is at the end.
#[derive(Debug)]
pub struct Cause(Box<dyn Error + Send + Sync>);

impl<E: Into<Box<dyn Error + Send + Sync>>> From<E> for Cause {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = self.0.to_string();
        let mut next = self.0.source();
        while let Some(cause) = next {
            // Some tell their cause themselves.
            let cause_text = cause.to_string();
            if !text.ends_with(&cause_text) {
                text = format!("{text}: {cause_text}");
            }
            next = cause.source();
        }
        f.write_str(&text)
    }
}

/// A failed step of loading or attaching.
#[derive(Debug, thiserror::Error)]
pub enum DataplaneError {
    /// The binary was built without the programs.
    #[error("this binary was built without the eBPF programs; build it with cargo xtask build")]
    NotBuilt,
    /// There is no BPF file system and it cannot be mounted.
    #[error("no BPF file system (bpffs) at {path:?}, and none can be mounted there: {source}")]
    Bpffs {
        /// The mount point.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A pin could not be made, opened or removed.
    #[error("cannot {action} {path:?}: {cause}")]
    Pin {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why it failed.
        cause: Cause,
    },
    /// The kernel refused the object.
    #[error("cannot load the eBPF programs: {0}")]
    Load(Cause),
    /// A map could not be used.
    #[error("cannot use the eBPF map {name}: {cause}")]
    Map {
        /// Its name.
        name: &'static str,
        /// Why not.
        cause: Cause,
    },
    /// A program could not be attached to a TCX hook.
    #[error("cannot attach {program} to {device}: {cause}")]
    Attach {
        /// Name of the program.
        program: &'static str,
        /// Name of the device.
        device: String,
        /// Why it failed.
        cause: Cause,
    },
    /// An uplink is not there.
    #[error("the uplink {0:?} of ebpf.uplinks does not exist")]
    NoSuchUplink(String),
    /// The host could not be looked at.
    #[error(transparent)]
    Host(#[from] HostError),
}

impl DataplaneError {
    pub(super) fn pin(action: &'static str, path: impl Into<PathBuf>, cause: impl Into<Cause>) -> Self {
        Self::Pin { action, path: path.into(), cause: cause.into() }
    }

    pub(super) fn attach(program: &'static str, device: &str, cause: impl Into<Cause>) -> Self {
        Self::Attach { program, device: device.to_owned(), cause: cause.into() }
    }
}
