//! Upgrades: putting this build's programs where another build's are, without a moment in which there is none.

use std::{
    fs,
    os::fd::AsFd,
    path::{Path, PathBuf},
};

use aya::programs::{
    SchedClassifier,
    links::{FdLink, PinnedLink},
    tc::SchedClassifierLink,
};

use super::{
    attach::{Device, place},
    error::{Cause, DataplaneError},
    load::Program,
    pins::Pins,
    uplinks::CLSACT,
};
use crate::host::LinuxHost;

/// Replaces the programs of other builds on every device and removes their pins, and the maps of other ABIs.
/// Call it with the pins' lock held.
pub(super) fn others(pins: &Pins, host: &LinuxHost) -> Result<(), DataplaneError> {
    let others = pins.others();
    if others.is_empty() {
        return Ok(());
    }
    for (name, link) in host.node().links()? {
        filters(pins, host, Device { name: &name, index: link.index })?;
    }
    // Of this ABI and of the others: links are pinned beside the maps.
    links(pins, &pins.links())?;
    for other in &others {
        links(pins, &other.join("links"))?;
    }
    for other in others {
        fs::remove_dir_all(&other).map_err(|error| DataplaneError::pin("remove", &other, error))?;
        log::info!("replaced the programs of {}", other.display());
    }
    Ok(())
}

/// Replaces our clsact filters on a device; the kernel swaps the program of a filter in one step.
fn filters(pins: &Pins, host: &LinuxHost, device: Device<'_>) -> Result<(), DataplaneError> {
    for program in Program::ALL {
        let names = host.node().filters(device.name, device.index, program.hook())?;
        if names.iter().any(|name| name == program.name()) {
            let fd = program.open(pins)?;
            host.node().replace_filter(place(device, program), fd.as_fd(), program.name())?;
        }
    }
    Ok(())
}

/// Points every pinned TCX link of a directory to our program and keeps its pin among ours.
fn links(pins: &Pins, directory: &Path) -> Result<(), DataplaneError> {
    let Ok(entries) = fs::read_dir(directory) else { return Ok(()) };
    for path in entries.flatten().map(|entry| entry.path()) {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let program = Program::ALL.into_iter().find(|program| name.ends_with(program.name()));
        let updated = match program {
            Some(program) => update(pins, program, &path),
            None if name.starts_with(CLSACT) => Ok(()),
            None => continue,
        };
        match updated {
            Ok(()) => keep(&path, &pins.links().join(&name))?,
            // The device is gone: the link is a husk, and goes with its directory or now.
            Err(error) => {
                log::debug!("{error}");
                let _ = fs::remove_file(&path);
            }
        }
    }
    Ok(())
}

fn keep(path: &Path, kept: &Path) -> Result<(), DataplaneError> {
    if kept == path {
        return Ok(());
    }
    fs::rename(path, kept).map_err(|error| DataplaneError::pin("move", path, error))
}

fn update(pins: &Pins, program: Program, path: &PathBuf) -> Result<(), DataplaneError> {
    let failed = |error: Cause| DataplaneError::pin("update", path, error);
    let link: FdLink = PinnedLink::from_pin(path).map_err(|error| failed(error.into()))?.into();
    let link = SchedClassifierLink::try_from(link).map_err(|error| failed(error.into()))?;
    let mut loaded = SchedClassifier::from_pin(program.pin(pins)).map_err(|error| failed(error.into()))?;
    // Dropping the result closes our descriptor; the pin holds the link.
    loaded.attach_to_link(link).map(drop).map_err(|error| failed(error.into()))
}
