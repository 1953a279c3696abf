//! What the eBPF programs and the process that loads them agree on: the layout of every map, the
//! numbers of the reasons, and the packet logic that needs no kernel (so that it is tested, and fuzzed,
//! on the host).
//!
//! Wire types are integers only, `repr(C)`, with explicit padding and asserted sizes. Addresses and
//! ports are kept as they stand in the packet (network byte order in memory); everything else is in
//! host order.
#![cfg_attr(not(test), no_std)]

pub mod checksum;
pub mod flow;
pub mod headers;
pub mod learn;
pub mod reason;
pub mod rewrite;
pub mod wire;

/// Version of the map layouts and reason numbers. It is part of the pin path, so two versions of the
/// binary never share a map they would read differently.
pub const ABI: u32 = 1;
