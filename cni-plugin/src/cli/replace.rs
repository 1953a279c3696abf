//! Replacing a file so that whoever opens it sees the old one or the new one, whole, also after a power cut.

use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::Path,
    process,
};

/// Puts `content` at `path`: to a file beside it, synced, then renamed over it. `mode` are its permissions.
pub(super) fn replace(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // Neither a container runtime nor the node exporter reads a name that ends in a number.
    let mut name = OsString::from(".");
    name.push(path.file_name().ok_or(io::ErrorKind::InvalidFilename)?);
    name.push(format!(".{}", process::id()));
    let temporary = directory.join(name);
    let written = write(&temporary, content, mode).and_then(|()| fs::rename(&temporary, path));
    if let Err(error) = written {
        // It may not have come to be.
        let _ = fs::remove_file(&temporary);
        return Err(error);
    }
    // The name is durable once its directory is.
    File::open(directory)?.sync_all()
}

fn write(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    // Made anew: a file left by a killed process of the same number may be running.
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    file.write_all(content)?;
    // The umask has had its say.
    file.set_permissions(fs::Permissions::from_mode(mode))?;
    file.sync_all()
}
