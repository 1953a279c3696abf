//! An LRU map gives the memory of an entry to another flow whenever it likes, also while a program reads it.

use anyhow::Result;
use ebpf_bridge_common::flow::{Flow, FlowKey};
use ebpf_bridge_common::reason::Ingress;
use ebpf_bridge_lab::bpf::{Device, Input};

use super::family::{Family, flow};
use super::{CONFIG, Case, UDP, bench, packet, register_both};
use crate::check::equal;
use crate::suite::Suite;

pub(super) fn register(suite: &mut Suite) {
    register_both(suite, &[], "an entry that has become another flow's is not used", Another);
    register_both(suite, &[], "an entry that is partly another flow's is not used", Torn);
}

/// All of it, as after an eviction.
#[derive(Clone, Copy)]
struct Another;

impl Case for Another {
    fn run<I: Family>(self) -> Result<()> {
        let changes: [fn(&mut FlowKey<I::Address>); 5] = [
            |key| key.sport ^= 1,
            |key| key.dport ^= 0x100,
            |key| key.ifindex += 1,
            |key| key.protocol = 6,
            |key| std::mem::swap(&mut key.saddr, &mut key.daddr),
        ];
        for change in changes {
            refused::<I>(|key, flow| {
                let mut other = *key;
                change(&mut other);
                flow.seal = flow.seal(&other);
            })?;
        }
        Ok(())
    }
}

/// Each field of it, the others being the flow's own.
#[derive(Clone, Copy)]
struct Torn;

impl Case for Torn {
    fn run<I: Family>(self) -> Result<()> {
        let changes: [fn(&mut Flow<I::Address>); 13] = [
            |flow| flow.learned_ns += 1,
            |flow| flow.ifindex += 1,
            |flow| flow.address_difference ^= 0x8000_0000,
            |flow| flow.port_difference ^= 1,
            |flow| flow.mark = 1,
            |flow| flow.priority = 1,
            |flow| flow.macs_out[0] ^= 2,
            |flow| flow.saddr = flow.daddr,
            |flow| flow.daddr = flow.saddr,
            |flow| flow.dport ^= 0x8000,
            |flow| flow.max_len += 1,
            |flow| flow.flags ^= 1,
            |flow| flow.dscp_out = 4,
        ];
        for change in changes {
            refused::<I>(|key, flow| {
                flow.seal = flow.seal(key);
                change(flow);
            })?;
        }
        Ok(())
    }
}

/// The packet whose entry was changed so is the kernel's.
fn refused<I: Family>(change: impl Fn(&FlowKey<I::Address>, &mut Flow<I::Address>)) -> Result<()> {
    let mut bench = bench()?;
    let frame = packet::<I>(UDP).build();
    let (key, mut flow) = flow::<I>(&bench, (&frame, Device::Pod), (&frame, Device::Out), CONFIG.epoch)?;
    change(&key, &mut flow);
    I::put(&mut bench, &key, &flow)?;
    let output = bench.ingress(Device::Pod, &Input { frame: &frame, ..Input::default() })?;
    equal("the reason", output.reason, Ingress::Stale)
}
