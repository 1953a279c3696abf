//! Leases on disk, in the format of the reference host-local, so that either plugin can follow the other:
//!
//! ```text
//! <dataDir>/<network>/lock                 flock, see `lock`
//! <dataDir>/<network>/10.1.0.2             "<container id>\r\n<interface>", one file per leased address
//! <dataDir>/<network>/last_reserved_ip.0   the address leased last from range set 0
//! ```
//!
//! A lease appears under its name complete or not at all. The reference creates the file first and writes
//! it second; what it leaves when killed in between is empty, belongs to nobody, and counts as free here.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use thiserror::Error;

use super::lock::DirLock;
use super::owner::Owner;

#[cfg(test)]
mod tests;

/// Mode of lease files, the reference's.
const MODE: u32 = 0o644;
/// Where a lease is written before it gets its name. Only the holder of the lock uses it.
const DRAFT: &str = ".lease";
const LAST_PREFIX: &str = "last_reserved_ip.";

/// A file operation on the lease directory failed.
#[derive(Debug, Error)]
#[error("cannot {operation} {path:?}")]
pub struct StoreError {
    /// What was tried.
    pub operation: &'static str,
    /// On which file or directory.
    pub path: PathBuf,
    /// What the kernel said.
    pub source: io::Error,
}

impl StoreError {
    pub(super) fn io(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self { operation, path: path.to_owned(), source }
    }
}

/// The lease directory of one network.
#[derive(Debug, Clone)]
pub(super) struct Store {
    dir: PathBuf,
}

impl Store {
    pub(super) fn new(dir: PathBuf) -> Self {
        Self { dir }
    }

    /// Waits for the lock and creates the directory when missing.
    pub(super) fn lock(&self) -> Result<Locked, StoreError> {
        Ok(Locked { dir: self.dir.clone(), lock: DirLock::create(&self.dir)? })
    }

    /// Waits for the lock; `None` when the directory does not exist, which stays so.
    pub(super) fn lock_existing(&self) -> Result<Option<Locked>, StoreError> {
        Ok(DirLock::existing(&self.dir)?.map(|lock| Locked { dir: self.dir.clone(), lock }))
    }

    /// The leased addresses as they are now, without waiting for the lock. Reads names and sizes only.
    pub(super) fn leased(&self) -> Result<Vec<IpAddr>, StoreError> {
        let mut leased = names(&self.dir)?;
        leased.retain(|ip| size(&self.dir.join(ip.to_string())).is_ok_and(|size| size > Some(0)));
        Ok(leased)
    }

    /// Every lease with its owner and its time, as they are now, without waiting for the lock.
    pub(super) fn peek(&self) -> Result<Vec<(IpAddr, Owner, SystemTime)>, StoreError> {
        let mut found = Vec::new();
        for ip in names(&self.dir)? {
            let path = self.dir.join(ip.to_string());
            // One that is gone by now is none.
            let Ok(content) = fs::read(&path) else { continue };
            let Ok(time) = fs::metadata(&path).and_then(|metadata| metadata.modified()) else { continue };
            found
                .extend(Owner::from_lease(&String::from_utf8_lossy(&content)).map(|owner| (ip, owner, time)));
        }
        Ok(found)
    }

    /// The address leased last from range set `set`, if that is known.
    pub(super) fn last(&self, set: usize) -> Option<IpAddr> {
        last(&self.dir, set)
    }
}

/// The lease directory of one network while we hold its lock.
#[derive(Debug)]
pub(super) struct Locked {
    dir: PathBuf,
    lock: DirLock,
}

impl Locked {
    /// Whose `ip` is; `None` when it is free.
    pub(super) fn owner_of(&self, ip: IpAddr) -> Result<Option<Owner>, StoreError> {
        let path = self.path(ip);
        match fs::read(&path) {
            Ok(content) => Ok(Owner::from_lease(&String::from_utf8_lossy(&content))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(StoreError::io("read", &path)(error)),
        }
    }

    /// When `ip` was leased; `None` when it is free.
    pub(super) fn leased_at(&self, ip: IpAddr) -> Result<Option<SystemTime>, StoreError> {
        let path = self.path(ip);
        match fs::metadata(&path).and_then(|metadata| metadata.modified()) {
            Ok(time) => Ok(Some(time)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(StoreError::io("examine", &path)(error)),
        }
    }

    /// Every lease with its owner: one read per lease. What cannot be read is nobody's and stays; one odd
    /// file must not keep a whole network from being cleaned.
    pub(super) fn leases(&self) -> Result<Vec<(IpAddr, Owner)>, StoreError> {
        let mut leases = Vec::new();
        for ip in names(&self.dir)? {
            match self.owner_of(ip) {
                Ok(owner) => leases.extend(owner.map(|owner| (ip, owner))),
                Err(error) => log::warn!("{error}: {}", error.source),
            }
        }
        Ok(leases)
    }

    /// Leases `ip`, which comes from range set `set`, to `owner`. False when it is taken.
    pub(super) fn reserve(&self, ip: IpAddr, set: usize, owner: &Owner) -> Result<bool, StoreError> {
        let (draft, path) = (self.dir.join(DRAFT), self.path(ip));
        match size(&path).map_err(StoreError::io("examine", &path))? {
            None => {}
            Some(0) => remove_file(&path)?,
            Some(_) => return Ok(false),
        }
        // A draft left by a killed process is a file of its own: never truncate it, it may have its name
        // already.
        remove_file(&draft)?;
        write(&draft, true, &owner.to_lease())?;
        let named = fs::hard_link(&draft, &path);
        remove_file(&draft)?;
        match named {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(false),
            Err(error) => return Err(StoreError::io("create the lease", &path)(error)),
        }
        write(&last_path(&self.dir, set), false, &ip.to_string())?;
        Ok(true)
    }

    /// Frees `ip`. An address that is free already is fine.
    pub(super) fn remove(&self, ip: IpAddr) -> Result<(), StoreError> {
        remove_file(&self.path(ip))
    }

    /// The address leased last from range set `set`, if that is known.
    pub(super) fn last(&self, set: usize) -> Option<IpAddr> {
        last(&self.dir, set)
    }

    /// Removes the directory when no lease is left in it, so that the last DEL on a node leaves nothing of
    /// ours; files we do not know keep it. The last thing to do under a lock.
    ///
    /// That forgets which address was leased last: the next pod of an empty network gets the first one. A
    /// reference plugin that waits for the lock at this moment finds the directory gone and fails its ADD,
    /// which the runtime repeats.
    pub(super) fn tidy(&self) -> Result<(), StoreError> {
        let mut state = Vec::new();
        for entry in fs::read_dir(&self.dir).map_err(StoreError::io("list", &self.dir))? {
            let entry = entry.map_err(StoreError::io("list", &self.dir))?;
            match entry.file_name().to_str() {
                Some("lock") => {}
                Some(name) if name == DRAFT || name.starts_with(LAST_PREFIX) => state.push(entry.path()),
                Some(name) if is_address(name) && size(&entry.path()).is_ok_and(|size| size == Some(0)) => {
                    state.push(entry.path());
                }
                // Somebody's lease, most likely, and so no reason to list the other thousands.
                _ => return Ok(()),
            }
        }
        state.iter().try_for_each(|path| remove_file(path))?;
        self.lock.remove_with_dir(&self.dir)
    }

    fn path(&self, ip: IpAddr) -> PathBuf {
        self.dir.join(ip.to_string())
    }
}

fn last_path(dir: &Path, set: usize) -> PathBuf {
    dir.join(format!("{LAST_PREFIX}{set}"))
}

/// It only spreads the addresses; a missing or torn file costs nothing but that.
fn last(dir: &Path, set: usize) -> Option<IpAddr> {
    fs::read_to_string(last_path(dir, set)).ok()?.trim().parse().ok()
}

/// The addresses that files in `dir` are named after; none when there is no such directory.
fn names(dir: &Path) -> Result<Vec<IpAddr>, StoreError> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(StoreError::io("list", dir)(error)),
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(StoreError::io("list", dir))?;
        names.extend(entry.file_name().to_str().and_then(|name| name.parse::<IpAddr>().ok()));
    }
    Ok(names)
}

fn is_address(name: &str) -> bool {
    name.parse::<IpAddr>().is_ok()
}

/// Size of the file in bytes; `None` when there is none.
fn size(path: &Path) -> io::Result<Option<u64>> {
    match fs::symlink_metadata(path) {
        Ok(metadata) => Ok(Some(metadata.len())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Writes a file that must not exist yet, or replaces the content of one that may.
///
/// Replacing shortens the file after writing it, not before: ext4 takes a file that is emptied and written
/// anew for one that must reach the disk at once (mount option auto_da_alloc), which costs milliseconds.
fn write(path: &Path, new: bool, content: &str) -> Result<(), StoreError> {
    let mut file = OpenOptions::new()
        .write(true)
        .mode(MODE)
        .create_new(new)
        .create(true)
        .truncate(false)
        .open(path)
        .map_err(StoreError::io("create", path))?;
    file.write_all(content.as_bytes())
        .and_then(|()| file.set_len(content.len() as u64))
        .map_err(StoreError::io("write", path))
}

fn remove_file(path: &Path) -> Result<(), StoreError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(StoreError::io("remove", path)(error)),
        _ => Ok(()),
    }
}
