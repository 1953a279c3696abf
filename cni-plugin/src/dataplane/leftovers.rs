//! Pins that nothing needs any more.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::{error::DataplaneError, pins::Pins};
use crate::host::LinuxHost;

/// Pins of devices that are gone; and those of other builds and ABIs, which an ADD by this build takes over from.
///
/// # Errors
/// If the devices cannot be listed.
pub fn leftover_pins(pins: &Pins, host: &LinuxHost) -> Result<Vec<PathBuf>, DataplaneError> {
    let links = host.node().links()?;
    let is_gone = |path: &PathBuf| {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let index = name.split('-').find_map(|part| part.parse::<u32>().ok());
        index.is_some_and(|index| !links.iter().any(|(_, link)| link.index == index))
    };
    let pinned = fs::read_dir(pins.links()).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut left: Vec<PathBuf> = pinned.filter(is_gone).collect();
    if pins.are_ours() {
        left.extend(pins.others());
    }
    left.sort();
    Ok(left)
}

/// Removes such a pin. Whoever loads meanwhile is waited for; what he has removed is gone.
///
/// # Errors
/// If it cannot be removed.
pub fn remove_pin(pins: &Pins, path: &Path) -> Result<(), DataplaneError> {
    let _lock = pins.lock()?;
    let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    match removed {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(DataplaneError::pin("remove", path, error))
        }
        _ => Ok(()),
    }
}
