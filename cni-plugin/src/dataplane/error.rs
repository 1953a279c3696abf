//! Why eBPF is not to be had.

use std::{io, path::PathBuf};

use crate::host::HostError;

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
    #[error("cannot {action} {path:?}: {source}")]
    Pin {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why it failed.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The kernel refused the object.
    #[error("cannot load the eBPF programs: {0}")]
    Load(Box<dyn std::error::Error + Send + Sync>),
    /// A map could not be used.
    #[error("cannot use the eBPF map {name}: {source}")]
    Map {
        /// Its name.
        name: &'static str,
        /// Why not.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A program could not be attached to a TCX hook.
    #[error("cannot attach {program} to {device}: {source}")]
    Attach {
        /// Name of the program.
        program: &'static str,
        /// Name of the device.
        device: String,
        /// Why it failed.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// An uplink is not there.
    #[error("the uplink {0:?} of ebpf.uplinks does not exist")]
    NoSuchUplink(String),
    /// The host could not be looked at.
    #[error(transparent)]
    Host(#[from] HostError),
}

impl DataplaneError {
    pub(super) fn pin(
        action: &'static str,
        path: impl Into<PathBuf>,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self::Pin { action, path: path.into(), source: source.into() }
    }

    pub(super) fn attach(
        program: &'static str,
        device: &str,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self::Attach { program, device: device.to_owned(), source: source.into() }
    }
}
