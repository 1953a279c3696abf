//! The log file, which many short processes write to at once, and which must not fill the disk.

use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::Path,
};

use nix::fcntl::{Flock, FlockArg};

/// A file of this size, in bytes, is put aside as `<name>.1`, in place of the one put aside before.
const FULL: u64 = 8 << 20;

/// Opens the log file to append to; puts a full one aside first.
pub(super) fn open(path: &Path) -> io::Result<File> {
    open_below(path, FULL)
}

fn open_below(path: &Path, full: u64) -> io::Result<File> {
    let file = append(path)?;
    if file.metadata()?.len() < full {
        return Ok(file);
    }
    // The lock belongs to the full file itself: it is put aside once, however many find it full. Whoever has it open goes
    // on writing to its end under the new name, so no line is lost.
    let file = Flock::lock(file, FlockArg::LockExclusive).map_err(|(_, errno)| errno)?;
    let has_the_name = fs::metadata(path).is_ok_and(|named| same(&named, file.metadata().ok().as_ref()));
    if has_the_name {
        let mut aside = OsString::from(path);
        aside.push(".1");
        fs::rename(path, aside)?;
    }
    append(path)
}

fn append(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).mode(0o600).open(path)
}

fn same(one: &fs::Metadata, other: Option<&fs::Metadata>) -> bool {
    other.is_some_and(|other| (one.dev(), one.ino()) == (other.dev(), other.ino()))
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, io::Write, thread};

    use super::*;

    /// Each write opens the file anew, as each call does.
    #[test]
    fn no_line_is_lost_or_torn_when_many_find_the_file_full() {
        const WRITERS: usize = 8;
        const LINES: usize = 200;
        const FULL: u64 = 40 * (WRITERS * LINES) as u64 * 3 / 4;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        thread::scope(|scope| {
            for writer in 0..WRITERS {
                let path = &path;
                scope.spawn(move || {
                    for line in 0..LINES {
                        // 40 bytes.
                        let text = format!("{writer:03} {line:035}\n");
                        open_below(path, FULL).unwrap().write_all(text.as_bytes()).unwrap();
                    }
                });
            }
        });
        let aside = fs::read_to_string(directory.path().join("log.1")).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        // Those who had it open before may have written a line each.
        assert!((FULL..FULL + 40 * WRITERS as u64 + 1).contains(&(aside.len() as u64)), "{}", aside.len());
        let lines: BTreeSet<&str> = aside.lines().chain(text.lines()).collect();
        assert_eq!(lines.len(), WRITERS * LINES);
        assert!(lines.iter().all(|line| line.len() == 39), "a torn line");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2);
    }
}
