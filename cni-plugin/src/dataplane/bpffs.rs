//! The BPF file system.

use std::{fs, io, path::Path};

use nix::{
    mount::{MsFlags, mount},
    sys::statfs::{BPF_FS_MAGIC, Statfs, statfs},
};

use super::error::DataplaneError;

/// True if a BPF file system is mounted at `path`.
pub fn is_mounted(path: &Path) -> bool {
    statfs(path).is_ok_and(is_bpf)
}

fn is_bpf(found: Statfs) -> bool {
    found.filesystem_type() == BPF_FS_MAGIC
}

/// Mounts a BPF file system at `path` unless there is one.
pub(super) fn ensure_mounted(path: &Path) -> Result<(), DataplaneError> {
    let failed = |source: io::Error| DataplaneError::Bpffs { path: path.to_owned(), source };
    match statfs(path) {
        Ok(found) if is_bpf(found) => return Ok(()),
        Ok(_) => {}
        Err(nix::errno::Errno::ENOENT) => fs::create_dir_all(path).map_err(failed)?,
        Err(errno) => return Err(failed(errno.into())),
    }
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    mount(Some("bpf"), path, Some("bpf"), flags, Some("mode=0700")).map_err(|errno| failed(errno.into()))?;
    log::info!("mounted a BPF file system at {}", path.display());
    Ok(())
}
