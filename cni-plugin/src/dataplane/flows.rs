//! The learned flows, read back.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use aya::{
    Pod,
    maps::{HashMap, Map, MapData, MapError},
};
use ebpf_bridge_common::flow::{FLOW_TO_POD, Flow, FlowKey};

use super::{
    error::DataplaneError,
    maps::{FLOWS4, FLOWS6, failed, open},
    pins::Pins,
};

/// A flow in one direction, and what the kernel did to its last packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Learned {
    /// 6 TCP, 17 UDP.
    pub protocol: u32,
    /// Device its packets come in by.
    pub from_device: u32,
    /// Where its packets come from.
    pub source: SocketAddr,
    /// Where they are sent to.
    pub destination: SocketAddr,
    /// Device they leave by.
    pub to_device: u32,
    /// That is a pod's veth.
    pub to_pod: bool,
    /// Their source on leaving.
    pub source_after: SocketAddr,
    /// Their destination on leaving.
    pub destination_after: SocketAddr,
    /// When the kernel carried the last one, in ns of CLOCK_MONOTONIC.
    pub learned_ns: u64,
    /// When the flow was first seen, in s of CLOCK_MONOTONIC; 0 if programs of an earlier build have not noted it.
    pub since_s: u32,
    /// Epoch of the configuration then.
    pub epoch: u32,
}

/// Every flow of both families that the maps hold, also those that have ended. Nothing, if nothing is loaded.
///
/// # Errors
/// If a map cannot be read.
pub fn flows(pins: &Pins) -> Result<Vec<Learned>, DataplaneError> {
    if !pins.exist() {
        return Ok(Vec::new());
    }
    let mut flows = read(pins, FLOWS4, |address: u32| Ipv4Addr::from(address.to_ne_bytes()).into())?;
    flows.extend(read(pins, FLOWS6, |address: [u32; 4]| {
        let mut bytes = [0; 16];
        for (four, word) in bytes.chunks_exact_mut(4).zip(address) {
            four.copy_from_slice(&word.to_ne_bytes());
        }
        Ipv6Addr::from(bytes).into()
    })?);
    Ok(flows)
}

/// `ip` makes an address of what stands in the packet, in network order.
fn read<A: Copy>(
    pins: &Pins,
    name: &'static str,
    ip: impl Fn(A) -> IpAddr,
) -> Result<Vec<Learned>, DataplaneError>
where
    FlowKey<A>: Pod,
    Flow<A>: Pod,
{
    let map: HashMap<MapData, FlowKey<A>, Flow<A>> =
        Map::LruHashMap(open(pins, name)?).try_into().map_err(|error: MapError| failed(name, error))?;
    let socket = |address: A, port: u16| SocketAddr::new(ip(address), u16::from_be(port));
    let mut found = Vec::new();
    for entry in map.iter() {
        // One that goes while the map is read is no failure.
        let Ok((key, flow)) = entry else { continue };
        found.push(Learned {
            protocol: key.protocol,
            from_device: key.ifindex,
            source: socket(key.saddr, key.sport),
            destination: socket(key.daddr, key.dport),
            to_device: flow.ifindex,
            to_pod: flow.flags & FLOW_TO_POD != 0,
            source_after: socket(flow.saddr, flow.sport),
            destination_after: socket(flow.daddr, flow.dport),
            learned_ns: flow.learned_ns,
            since_s: flow.since_s,
            epoch: flow.epoch,
        });
    }
    Ok(found)
}
