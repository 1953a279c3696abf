//! What is attached on this node: one record per attachment, written before anything is made and removed
//! last, so that whatever happens in between (an ADD killed half-way, a lost namespace, a changed
//! configuration) DEL and GC know what there may be to take away.
//!
//! Records live in `/run`, which, like the interfaces they describe, does not outlive a reboot.
//!
//! The lock is held only for moments. An ADD takes it shared to write its record; from then on the record
//! itself keeps shared things alive. Who removes a record and finds himself the last takes it exclusively,
//! looks again, and takes the shared things away.

mod record;

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io,
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use nix::fcntl::{Flock, FlockArg};

pub use record::{LeaseSource, Record};

use crate::cni::request::{Attachment, is_name};

/// Where records live.
pub const STATE_DIR: &str = "/run/ebpf-bridge";

/// A failed access to the records.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} {}: {source}", .path.display())]
pub struct StateError {
    action: &'static str,
    path: PathBuf,
    source: io::Error,
}

impl StateError {
    fn new(action: &'static str, path: &Path, source: impl Into<io::Error>) -> Self {
        Self { action, path: path.to_owned(), source: source.into() }
    }
}

/// The records of this node.
#[derive(Debug, Clone)]
pub struct Records {
    directory: PathBuf,
}

/// Nobody can write a record while this is held. Removes the directory when it is dropped and empty.
pub struct Alone<'a> {
    records: &'a Records,
    _lock: Flock<File>,
}

impl Drop for Alone<'_> {
    fn drop(&mut self) {
        // Fails while there are records, which is right.
        let _ = fs::remove_dir(&self.records.directory);
    }
}

impl Records {
    /// The records in a directory, [`STATE_DIR`] but in tests.
    pub fn at(directory: impl Into<PathBuf>) -> Self {
        Self { directory: directory.into() }
    }

    /// Writes a record, the first of an ADD before anything is made.
    pub fn write(&self, record: &Record) -> Result<(), StateError> {
        let written = self.try_write(record);
        if written.is_err()
            && let Ok(alone) = self.alone()
            && alone.network_is_empty(&record.network).unwrap_or(false)
        {
            // The directories that were made for it.
            alone.forget_network(&record.network);
        }
        written
    }

    fn try_write(&self, record: &Record) -> Result<(), StateError> {
        let path = self.path(&record.network, &record.attachment());
        let directory = self.directory.join(&record.network);
        let _shared = self.lock(FlockArg::LockShared)?;
        create_directory(&directory)?;
        let text = serde_json::to_vec(record).map_err(|error| StateError::new("encode", &path, error))?;
        // Readers skip names that start with a dot. The process id makes the name ours.
        let temporary = directory.join(format!(".{}", std::process::id()));
        let written = write(&temporary, &text).and_then(|()| fs::rename(&temporary, &path));
        written.map_err(|error| {
            // On a full disk it would only take room.
            let _ = fs::remove_file(&temporary);
            StateError::new("write", &path, error)
        })
    }

    /// The record of an attachment. One that cannot be understood is as good as none.
    pub fn read(&self, network: &str, attachment: &Attachment) -> Result<Option<Record>, StateError> {
        let path = self.path(network, attachment);
        match fs::read(&path) {
            Ok(text) => Ok(serde_json::from_slice(&text).ok()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(StateError::new("read", &path, error)),
        }
    }

    /// The records of all attachments on this node, read one by one.
    pub fn all(&self) -> Result<impl Iterator<Item = Result<Record, StateError>>, StateError> {
        let listed = self.list(None)?.into_iter();
        Ok(listed.filter_map(|(network, attachment)| self.read(&network, &attachment).transpose()))
    }

    /// Removes the record of an attachment; that it is gone is fine.
    pub fn remove(&self, network: &str, attachment: &Attachment) -> Result<(), StateError> {
        let path = self.path(network, attachment);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(StateError::new("remove", &path, error))
            }
            _ => Ok(()),
        }
    }

    /// Attachments that have a record, of one network or of all, as (network, attachment).
    pub fn list(&self, network: Option<&str>) -> Result<Vec<(String, Attachment)>, StateError> {
        let networks = match network {
            Some(network) => vec![network.to_owned()],
            None => self.networks()?,
        };
        let mut found = Vec::new();
        for network in networks {
            let attachments = self.attachments(&network)?;
            found.extend(attachments.map(|attachment| (network.clone(), attachment)));
        }
        Ok(found)
    }

    fn networks(&self) -> Result<Vec<String>, StateError> {
        Ok(names(&self.directory)?.filter(|name| is_name(name)).collect())
    }

    /// Read one by one: whoever asks whether there are any need not read hundreds.
    fn attachments(&self, network: &str) -> Result<impl Iterator<Item = Attachment>, StateError> {
        let directory = self.directory.join(network);
        let files = if directory.is_dir() { Some(names(&directory)?) } else { None };
        Ok(files.into_iter().flatten().filter_map(|file| parse_file_name(&file)))
    }

    /// True if a DEL removed the last record of the network, or of the node, and then got no further: it was killed.
    /// Whoever deletes records by hand deletes directories, and must not cost the living pods their rules.
    pub fn left_unfinished(&self, network: &str) -> Result<bool, StateError> {
        let emptied = || Ok(self.directory.is_dir() && names(&self.directory)?.next().is_none());
        if self.directory.join(network).is_dir() { Ok(true) } else { emptied() }
    }

    /// Keeps others from writing a record until dropped.
    pub fn alone(&self) -> Result<Alone<'_>, StateError> {
        Ok(Alone { records: self, _lock: self.lock(FlockArg::LockExclusive)? })
    }

    /// Locks the directory itself, so that no lock file is left over. Whoever held it before may have removed it:
    /// then what we hold is a directory nobody else will ever find.
    fn lock(&self, kind: FlockArg) -> Result<Flock<File>, StateError> {
        let failed = |error: io::Error| StateError::new("lock", &self.directory, error);
        loop {
            create_directory(&self.directory)?;
            let directory = match File::open(&self.directory) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                opened => opened.map_err(failed)?,
            };
            let lock = Flock::lock(directory, kind).map_err(|(_, errno)| failed(errno.into()))?;
            let held = lock.metadata().map_err(failed)?.ino();
            if fs::metadata(&self.directory).is_ok_and(|named| named.ino() == held) {
                return Ok(lock);
            }
        }
    }

    fn path(&self, network: &str, attachment: &Attachment) -> PathBuf {
        // Container ids have no '@', so the first one separates.
        self.directory.join(network).join(format!("{}@{}", attachment.container_id, attachment.ifname))
    }
}

impl Alone<'_> {
    /// True if the network has no attachment.
    pub fn network_is_empty(&self, network: &str) -> Result<bool, StateError> {
        Ok(self.records.attachments(network)?.next().is_none())
    }

    /// Removes the directory of a network that is empty, which says that nothing is left of it.
    pub fn forget_network(&self, network: &str) {
        // Left over temporary files of killed processes keep it; they are no records.
        let directory = self.records.directory.join(network);
        for name in names(&directory).into_iter().flatten() {
            let _ = fs::remove_file(directory.join(name));
        }
        let _ = fs::remove_dir(&directory);
    }

    /// True if the node has no attachment.
    pub fn node_is_empty(&self) -> Result<bool, StateError> {
        for network in self.records.networks()? {
            if self.records.attachments(&network)?.next().is_some() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// True if another attachment than this one uses the bridge.
    pub fn bridge_is_shared(&self, bridge: &str, record: &Record) -> Result<bool, StateError> {
        let own = (record.network.clone(), record.attachment());
        for (network, attachment) in self.records.list(None)? {
            if (&network, &attachment) != (&own.0, &own.1) {
                let other = self.records.read(&network, &attachment)?;
                if other.is_some_and(|other| other.bridge == bridge) {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }
}

fn parse_file_name(name: &str) -> Option<Attachment> {
    let (container_id, ifname) = name.split_once('@').filter(|(id, _)| is_name(id))?;
    Some(Attachment { container_id: container_id.to_owned(), ifname: ifname.to_owned() })
}

fn write(path: &Path, text: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(path)?;
    io::Write::write_all(&mut file, text)
}

fn create_directory(path: &Path) -> Result<(), StateError> {
    let created = DirBuilder::new().recursive(true).mode(0o700).create(path);
    created.map_err(|error| StateError::new("create", path, error))
}

fn names(directory: &Path) -> Result<impl Iterator<Item = String> + use<>, StateError> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => Some(entries),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(StateError::new("list", directory, error)),
    };
    let entries = entries.into_iter().flatten().flatten();
    Ok(entries.filter_map(|entry| entry.file_name().into_string().ok()))
}

#[cfg(test)]
mod tests;
