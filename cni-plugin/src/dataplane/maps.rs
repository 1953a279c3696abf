//! The pinned maps, typed. Opening one compares its key and value sizes with ours.

use aya::maps::{Array, HashMap, Map, MapData, PerCpuArray};
use ebpf_bridge_common::{
    flow::{Flow, FlowKey},
    reason::{Egress, Ingress},
    wire::Config,
};

use super::{
    error::{Cause, DataplaneError},
    pins::Pins,
};

pub(super) const FLOWS4: &str = "FLOWS4";
pub(super) const FLOWS6: &str = "FLOWS6";
const CONFIG: &str = "CONFIG";
const COUNTERS: &str = "COUNTERS";

/// Every map, by the name of its pin.
pub(super) const ALL: [&str; 8] = [FLOWS4, FLOWS6, "STASH4", "STASH6", CONFIG, "CLOCK", COUNTERS, "AYA_LOGS"];

/// Packets counted since the programs were loaded, by reason, summed over CPUs. A GSO frame is one packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counters {
    /// Of `flow_ingress`.
    pub ingress: Vec<(Ingress, u64)>,
    /// Of `flow_egress_pod` and `flow_egress_out`.
    pub egress: Vec<(Egress, u64)>,
}

pub(super) fn failed(name: &'static str, cause: impl Into<Cause>) -> DataplaneError {
    DataplaneError::Map { name, cause: cause.into() }
}

pub(super) fn open(pins: &Pins, name: &'static str) -> Result<MapData, DataplaneError> {
    MapData::from_pin(pins.map(name)).map_err(|error| failed(name, error))
}

/// Compares the pinned flow maps with our types; aya reuses a pin unchecked.
pub(super) fn check_shapes(pins: &Pins) -> Result<(), DataplaneError> {
    HashMap::<MapData, FlowKey<u32>, Flow<u32>>::try_from(Map::LruHashMap(open(pins, FLOWS4)?))
        .map_err(|error| failed(FLOWS4, error))?;
    HashMap::<MapData, FlowKey<[u32; 4]>, Flow<[u32; 4]>>::try_from(Map::LruHashMap(open(pins, FLOWS6)?))
        .map_err(|error| failed(FLOWS6, error))?;
    config(pins).map(drop)
}

/// The map with the one configuration cell.
pub(super) fn config(pins: &Pins) -> Result<Array<MapData, Config>, DataplaneError> {
    Map::Array(open(pins, CONFIG)?).try_into().map_err(|error: aya::maps::MapError| failed(CONFIG, error))
}

/// Reads the configuration cell.
pub(super) fn read(map: &Array<MapData, Config>) -> Result<Config, DataplaneError> {
    map.get(&0, 0).map_err(|error| failed(CONFIG, error))
}

/// Writes the configuration cell.
pub(super) fn write(map: &mut Array<MapData, Config>, config: Config) -> Result<(), DataplaneError> {
    map.set(0, config, 0).map_err(|error| failed(CONFIG, error))
}

/// Reads all counters.
pub(super) fn counters(pins: &Pins) -> Result<Counters, DataplaneError> {
    let map: PerCpuArray<MapData, u64> = Map::PerCpuArray(open(pins, COUNTERS)?)
        .try_into()
        .map_err(|error: aya::maps::MapError| failed(COUNTERS, error))?;
    let sum = |index: u32| {
        let values = map.get(&index, 0).map_err(|error| failed(COUNTERS, error))?;
        Ok::<u64, DataplaneError>(values.iter().sum())
    };
    Ok(Counters {
        ingress: Ingress::ALL
            .iter()
            .map(|&r| Ok((r, sum(r.index())?)))
            .collect::<Result<_, DataplaneError>>()?,
        egress: Egress::ALL
            .iter()
            .map(|&r| Ok((r, sum(r.index())?)))
            .collect::<Result<_, DataplaneError>>()?,
    })
}
