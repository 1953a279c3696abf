//! What the tests of the programs need to know of an address family.

use std::net::IpAddr;

use anyhow::Result;
use ebpf_bridge_common::flow::{Flow, FlowKey, Seen};
use ebpf_bridge_common::headers::{Ethernet, Ip, Ipv4, Ipv6, TcpRest, Transport};
use ebpf_bridge_common::learn::{After, has_rest, learn, see, wire_len};
use ebpf_bridge_common::wire::Stash;
use ebpf_bridge_lab::bpf::{Bench, Device};

/// An address family, as the programs have it.
pub(super) trait Family: Ip<Address: std::fmt::Debug> + 'static {
    /// The address of host `last` in network `net`.
    fn address(net: u8, last: u8) -> IpAddr;
    /// Puts the flow into the map, sealed for the key.
    fn insert(bench: &mut Bench, key: &FlowKey<Self::Address>, flow: &Flow<Self::Address>) -> Result<()> {
        Self::put(bench, key, &Flow { seal: flow.seal(key), ..*flow })
    }
    /// The same with the seal it has.
    fn put(bench: &mut Bench, key: &FlowKey<Self::Address>, flow: &Flow<Self::Address>) -> Result<()>;
    fn flow(bench: &mut Bench, key: &FlowKey<Self::Address>) -> Result<Option<Flow<Self::Address>>>;
    fn remove(bench: &mut Bench, key: &FlowKey<Self::Address>) -> Result<()>;
    fn stash(bench: &Bench) -> Result<Stash<Self::Address>>;
}

macro_rules! family {
    ($header:ty, $address:ty, $flows:literal, $stash:literal, |$net:ident, $last:ident| $make:expr) => {
        impl Family for $header {
            fn address($net: u8, $last: u8) -> IpAddr {
                $make.into()
            }

            fn put(bench: &mut Bench, key: &FlowKey<$address>, flow: &Flow<$address>) -> Result<()> {
                Ok(bench.flows::<$address>($flows)?.insert(key, flow, 0)?)
            }

            fn flow(bench: &mut Bench, key: &FlowKey<$address>) -> Result<Option<Flow<$address>>> {
                match bench.flows::<$address>($flows)?.get(key, 0) {
                    Ok(flow) => Ok(Some(flow)),
                    Err(aya::maps::MapError::KeyNotFound) => Ok(None),
                    Err(error) => Err(error.into()),
                }
            }

            fn remove(bench: &mut Bench, key: &FlowKey<$address>) -> Result<()> {
                Ok(bench.flows::<$address>($flows)?.remove(key)?)
            }

            fn stash(bench: &Bench) -> Result<Stash<$address>> {
                bench.stash::<$address>($stash)
            }
        }
    };
}

family!(Ipv4, u32, "FLOWS4", "STASH4", |net, last| [10, net, 0, last]);
family!(Ipv6, [u32; 4], "FLOWS6", "STASH6", |net, last| [
    0x2001,
    0xdb8,
    net.into(),
    0,
    0xfedc,
    0,
    0x1234,
    last.into()
]);

/// Key and appearance of a packet, as it passes `device`.
pub(super) fn observe<I: Family>(frame: &[u8], ifindex: u32) -> (FlowKey<I::Address>, Seen) {
    let macs = header::<Ethernet>(frame, 0).macs;
    let ip: I = header(frame, size_of::<Ethernet>());
    let at = size_of::<Ethernet>() + size_of::<I>();
    let transport: Transport = header(frame, at);
    let rest: Option<TcpRest> = has_rest(ip.protocol()).then(|| header(frame, at + size_of::<Transport>()));
    let key = FlowKey {
        ifindex,
        protocol: ip.protocol().into(),
        saddr: ip.saddr(),
        daddr: ip.daddr(),
        sport: transport.sport,
        dport: transport.dport,
    };
    (key, see(&macs, &ip, &transport, rest.as_ref(), wire_len(&ip, rest.as_ref(), 0)))
}

/// A flow and the key it is found by.
pub(super) type Entry<A> = (FlowKey<A>, Flow<A>);

/// The flow that makes `after`, leaving by `to`, of `before`, coming in by `from`; learned in the epoch `epoch`, now.
pub(super) fn flow<I: Family>(
    bench: &Bench,
    (before, from): (&[u8], Device),
    (after, to): (&[u8], Device),
    epoch: u32,
) -> Result<Entry<I::Address>> {
    let (key, seen) = observe::<I>(before, bench.index(from));
    let (key_after, seen_after) = observe::<I>(after, bench.index(to));
    let learned = learn::<I>(&key, &seen, &After { seen: seen_after, key: key_after });
    let flow = learned.map_err(|reason| anyhow::anyhow!("not learned: {}", reason.name()))?;
    Ok((key, Flow { learned_ns: super::now()?, epoch, ..flow }))
}

fn header<T: Copy>(frame: &[u8], offset: usize) -> T {
    assert!(offset + size_of::<T>() <= frame.len(), "a frame too short for the test");
    // SAFETY: within bounds; the header types are integers only, any bytes are a value.
    unsafe { frame.as_ptr().add(offset).cast::<T>().read_unaligned() }
}
