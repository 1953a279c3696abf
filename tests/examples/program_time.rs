//! How long the programs take for a packet, by the kernel's test runs: `cargo run --release -p ebpf-bridge-lab --example program_time`.
//!
//! Of each case the best of many means: what interrupts a run only makes it longer. The way in (a jump and two
//! stores) is in every figure, and the same.

use std::net::IpAddr;

use anyhow::Result;
use ebpf_bridge_common::flow::{FLOW_ADDRESS, FLOW_IP, FLOW_L2, FLOW_PORT, FLOW_TO_POD, Flow, FlowKey};
use ebpf_bridge_common::wire::{CONFIG_TCP, Config};
use ebpf_bridge_lab::bpf::{Bench, Device, Input};
use ebpf_bridge_lab::frame::{Frame, Transport};

/// Means taken of each case, and runs in each.
const SAMPLES: usize = 60;
const RUNS: u32 = 20_000;
/// Of the TCP flags' byte in a frame over IPv4.
const FLAGS: usize = 14 + 20 + 13;

const TCP: Transport = Transport::Tcp { sequence: 1, acknowledgement: 1 };
const UDP: Transport = Transport::Udp { checksum: true };
const NAT: u8 = FLOW_L2 | FLOW_ADDRESS | FLOW_PORT | FLOW_IP;

fn main() -> Result<()> {
    let mut bench = Bench::new()?;
    bench.configure(Config {
        renew_ns: u64::MAX,
        events_until_ns: 0,
        enabled: 1,
        epoch: 0,
        flags: CONFIG_TCP,
        padding: 0,
    })?;
    for (family, frame) in [("IPv4", frame([10, 1, 0, 2], [10, 1, 0, 3])), ("IPv6", frame6())] {
        for (name, transport) in [("UDP", UDP), ("TCP", TCP)] {
            let frame = Frame { transport, ..frame.clone() };
            for (what, flags) in [("to a pod", FLOW_TO_POD), ("out", FLOW_L2), ("out, translated", NAT)] {
                bench.forget()?;
                carry(&mut bench, &frame, flags)?;
                report(&bench, &format!("{family} {name} carried {what}"), &frame.build())?;
            }
            bench.forget()?;
            report(&bench, &format!("{family} {name} noted"), &frame.build())?;
        }
    }
    let mut syn = Frame { transport: TCP, ..frame([10, 1, 0, 2], [10, 1, 0, 3]) }.build();
    syn[FLAGS] = 2;
    report(&bench, "IPv4 SYN passed", &syn)?;
    let best = best(|| Ok(bench.egress(Device::Pod, &input(&syn))?.nanoseconds))?;
    println!("{:32}{best:4} ns", "untagged at egress");
    Ok(())
}

fn frame(from: impl Into<IpAddr>, to: impl Into<IpAddr>) -> Frame {
    Frame {
        macs: [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]],
        addresses: [from.into(), to.into()],
        ttl: 64,
        dscp: 0,
        ecn: 0,
        id: 1,
        dont_fragment: true,
        ports: [40_000, 443],
        transport: UDP,
        payload: vec![0x5a; 64],
    }
}

fn frame6() -> Frame {
    frame([0xfd00, 0x10, 1, 0, 0, 0, 0, 2], [0xfd00, 0x10, 1, 0, 0, 0, 0, 3])
}

fn input(frame: &[u8]) -> Input<'_> {
    Input { frame, again: RUNS - 1, ..Input::default() }
}

fn best(run: impl Fn() -> Result<u32>) -> Result<u32> {
    (0..SAMPLES).map(|_| run()).try_fold(u32::MAX, |best, ns| Ok(best.min(ns?)))
}

fn report(bench: &Bench, what: &str, frame: &[u8]) -> Result<()> {
    let best = best(|| Ok(bench.ingress(Device::Pod, &input(frame))?.nanoseconds))?;
    println!("{what:32}{best:4} ns");
    Ok(())
}

/// Inserts a flow that rewrites what `flags` say, each to what it was: the next run finds the same packet.
fn carry(bench: &mut Bench, frame: &Frame, flags: u8) -> Result<()> {
    match frame.addresses {
        [IpAddr::V4(from), IpAddr::V4(to)] => {
            let [saddr, daddr] = [from, to].map(|address| u32::from_ne_bytes(address.octets()));
            let entry = entry(bench, frame, [saddr, daddr], flags);
            Ok(bench.flows::<u32>("FLOWS4")?.insert(entry.0, entry.1, 0)?)
        }
        [from, to] => {
            let words = |address: IpAddr| match address {
                IpAddr::V6(address) => {
                    let bytes = address.octets();
                    std::array::from_fn(|word| {
                        u32::from_ne_bytes(std::array::from_fn(|byte| bytes[4 * word + byte]))
                    })
                }
                IpAddr::V4(_) => [0; 4],
            };
            let entry = entry(bench, frame, [words(from), words(to)], flags);
            Ok(bench.flows::<[u32; 4]>("FLOWS6")?.insert(entry.0, entry.1, 0)?)
        }
    }
}

fn entry<A: Copy>(bench: &Bench, frame: &Frame, [saddr, daddr]: [A; 2], flags: u8) -> (FlowKey<A>, Flow<A>) {
    let [sport, dport] = frame.ports.map(u16::to_be);
    let macs = std::array::from_fn(|word| {
        let bytes = frame.macs.as_flattened();
        u16::from_ne_bytes([bytes[2 * word], bytes[2 * word + 1]])
    });
    let protocol = if matches!(frame.transport, TCP) { 6 } else { 17 };
    let key = FlowKey { ifindex: bench.index(Device::Pod), protocol, saddr, daddr, sport, dport };
    let flow = Flow {
        learned_ns: 1,
        epoch: 0,
        ifindex: bench.index(Device::Out),
        address_difference: 0,
        port_difference: 0,
        mark: 0,
        priority: 0,
        macs_in: macs,
        macs_out: macs,
        saddr,
        daddr,
        sport,
        dport,
        max_len: 1500,
        flags,
        ttl_step: 0,
        dscp_in: 0,
        dscp_out: 0,
        padding: [0; 2],
        since_s: 0,
        seal: 0,
    };
    (key, Flow { seal: flow.seal(&key), ..flow })
}
