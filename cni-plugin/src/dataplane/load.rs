//! Loading the programs and maps once per node, and opening them on every later ADD.

use std::{fs, path::Path};

use aya::{
    Ebpf, EbpfLoader,
    programs::{ProgramError, SchedClassifier},
};

use super::{
    error::DataplaneError,
    maps,
    object::OBJECT,
    pins::{Pins, make_directory},
};

/// Name of the program at ingress.
pub(super) const INGRESS: &str = "flow_ingress";
/// Name of the program at a pod's egress hook.
pub(super) const EGRESS_POD: &str = "flow_egress_pod";
/// Name of the program at an uplink's egress hook.
pub(super) const EGRESS_OUT: &str = "flow_egress_out";

/// The programs, loaded.
pub(super) struct Loaded {
    pub ingress: SchedClassifier,
    pub egress_pod: SchedClassifier,
    pub egress_out: SchedClassifier,
}

/// Opens the pinned programs, loading and pinning them first if nobody has.
pub(super) fn open_or_load(pins: &Pins, max_flows: u32) -> Result<Loaded, DataplaneError> {
    if !pins.exist() {
        let _lock = pins.lock()?;
        // Somebody may have been faster.
        if !pins.exist() {
            load(pins, max_flows)?;
        }
    }
    open(pins)
}

fn open(pins: &Pins) -> Result<Loaded, DataplaneError> {
    let program = |name: &str| {
        let path = pins.pin(name);
        SchedClassifier::from_pin(&path).map_err(|error| DataplaneError::pin("open", path, error))
    };
    Ok(Loaded {
        ingress: program(INGRESS)?,
        egress_pod: program(EGRESS_POD)?,
        egress_out: program(EGRESS_OUT)?,
    })
}

/// Loads the object and pins everything into the staging directory, which becomes the real one by a rename:
/// whoever finds the directory finds it complete, also after a crash.
fn load(pins: &Pins, max_flows: u32) -> Result<(), DataplaneError> {
    let object = OBJECT.ok_or(DataplaneError::NotBuilt)?;
    let staging = pins.staging();
    if staging.exists() {
        fs::remove_dir_all(&staging).map_err(|error| DataplaneError::pin("remove", &staging, error))?;
    }
    let mut ebpf = EbpfLoader::new()
        // The programs need no kernel types; reading vmlinux's costs 40 ms.
        .btf(None)
        .map_max_entries(maps::FLOWS4, max_flows)
        .map_max_entries(maps::FLOWS6, max_flows)
        .load(object)
        .map_err(|error| DataplaneError::Load(error.into()))?;
    make_directory(&staging)?;
    make_directory(&staging.join("links"))?;
    for name in [INGRESS, EGRESS_POD, EGRESS_OUT] {
        pin_program(&mut ebpf, name, &staging)?;
    }
    for name in maps::ALL {
        let path = staging.join(name);
        let map = ebpf.map(name).ok_or_else(|| DataplaneError::Load(format!("no map {name}").into()))?;
        map.pin(&path).map_err(|error| DataplaneError::pin("pin", &path, error))?;
    }
    let directory = pins.directory();
    fs::rename(&staging, &directory).map_err(|error| DataplaneError::pin("create", &directory, error))?;
    log::info!("loaded the eBPF programs, pinned under {}", directory.display());
    Ok(())
}

fn pin_program(ebpf: &mut Ebpf, name: &'static str, directory: &Path) -> Result<(), DataplaneError> {
    let load = |error: ProgramError| DataplaneError::Load(error.into());
    let program =
        ebpf.program_mut(name).ok_or_else(|| DataplaneError::Load(format!("no program {name}").into()))?;
    let program: &mut SchedClassifier = program.try_into().map_err(load)?;
    program.load().map_err(load)?;
    let path = directory.join(name);
    program.pin(&path).map_err(|error| DataplaneError::pin("pin", &path, error))
}
