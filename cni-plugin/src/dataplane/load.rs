//! Loading the programs and maps once per node, and opening them on every later ADD.

use std::{
    fs,
    path::{Path, PathBuf},
};

use aya::{
    Ebpf, EbpfLoader,
    programs::{ProgramError, ProgramFd, ProgramInfo, SchedClassifier},
};

use super::{
    error::DataplaneError,
    maps,
    object::{OBJECT, PROGRAMS_NAME},
    pins::{Pins, make_directory},
    replace,
};
use crate::host::{Hook, LinuxHost};

/// One of our programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    /// On every device.
    Ingress,
    /// On pods' host veths.
    EgressPod,
    /// On uplinks.
    EgressOut,
}

impl Program {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Ingress, Self::EgressPod, Self::EgressOut];

    /// Name in the object, of the pin, and of the filter. The kernel keeps 15 bytes of it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ingress => "flow_ingress",
            Self::EgressPod => "flow_egress_pod",
            Self::EgressOut => "flow_egress_out",
        }
    }

    /// Hook it is for.
    pub(super) fn hook(self) -> Hook {
        match self {
            Self::Ingress => Hook::Ingress,
            Self::EgressPod | Self::EgressOut => Hook::Egress,
        }
    }

    /// Its pin.
    pub(super) fn pin(self, pins: &Pins) -> PathBuf {
        pins.programs().join(self.name())
    }

    fn info(self, pins: &Pins) -> Result<ProgramInfo, DataplaneError> {
        // Not SchedClassifier::from_pin, which has aya probe the kernel's features for 9 ms first.
        let path = self.pin(pins);
        ProgramInfo::from_pin(&path).map_err(|error| DataplaneError::pin("open", path, error))
    }

    /// The kernel's id of the loaded program.
    pub(super) fn id(self, pins: &Pins) -> Result<u32, DataplaneError> {
        self.info(pins).map(|info| info.id())
    }

    /// The loaded program.
    pub(super) fn open(self, pins: &Pins) -> Result<ProgramFd, DataplaneError> {
        let opened = self.info(pins)?.fd();
        opened.map_err(|error| DataplaneError::pin("open", self.pin(pins), error))
    }
}

/// Loads and pins the programs and maps unless somebody has. Programs of another build are replaced wherever
/// they are attached; the maps stay, if the ABI is the same, and with them what has been learned.
pub(super) fn ensure_loaded(pins: &Pins, host: &LinuxHost, max_flows: u32) -> Result<(), DataplaneError> {
    if pins.are_ours() {
        return Ok(());
    }
    let _lock = pins.lock()?;
    // Somebody may have been faster.
    if pins.are_ours() {
        return Ok(());
    }
    load(pins, max_flows)?;
    replace::others(pins, host)
}

/// Loads the object and pins everything new into the staging directory, which then is put in place by a rename:
/// whoever finds the directory finds it complete, also after a crash.
fn load(pins: &Pins, max_flows: u32) -> Result<(), DataplaneError> {
    let object = OBJECT.ok_or(DataplaneError::NotBuilt)?;
    let staging = pins.staging();
    if staging.exists() {
        fs::remove_dir_all(&staging).map_err(|error| DataplaneError::pin("remove", &staging, error))?;
    }
    let maps_exist = pins.exist();
    let mut loader = EbpfLoader::new();
    // The programs need no kernel types; reading vmlinux's costs 40 ms.
    loader.btf(None).map_max_entries(maps::FLOWS4, max_flows).map_max_entries(maps::FLOWS6, max_flows);
    if maps_exist {
        maps::check_shapes(pins)?;
        for name in maps::ALL {
            loader.map_pin_path(name, pins.map(name));
        }
    }
    let mut ebpf = loader.load(object).map_err(|error| DataplaneError::Load(error.into()))?;
    let programs = staging.join(PROGRAMS_NAME);
    make_directory(&programs)?;
    for program in Program::ALL {
        pin_program(&mut ebpf, program.name(), &programs)?;
    }
    if maps_exist {
        return place(&programs, &pins.programs());
    }
    make_directory(&staging.join("links"))?;
    for name in maps::ALL {
        let path = staging.join(name);
        let map = ebpf.map(name).ok_or_else(|| DataplaneError::Load(format!("no map {name}").into()))?;
        map.pin(&path).map_err(|error| DataplaneError::pin("pin", &path, error))?;
    }
    place(&staging, &pins.directory())
}

fn place(from: &Path, to: &Path) -> Result<(), DataplaneError> {
    fs::rename(from, to).map_err(|error| DataplaneError::pin("create", to, error))?;
    log::info!("loaded the eBPF programs, pinned under {}", to.display());
    Ok(())
}

fn pin_program(ebpf: &mut Ebpf, name: &'static str, directory: &Path) -> Result<(), DataplaneError> {
    let load = |error: ProgramError| DataplaneError::Load(error.into());
    let program = ebpf.program_mut(name);
    let program = program.ok_or_else(|| DataplaneError::Load(format!("no program {name}").into()))?;
    let program: &mut SchedClassifier = program.try_into().map_err(load)?;
    program.load().map_err(load)?;
    let path = directory.join(name);
    program.pin(&path).map_err(|error| DataplaneError::pin("pin", &path, error))
}
