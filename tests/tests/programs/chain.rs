//! Both programs in turn, as a flow passes them: noted, translated by the kernel (here: by the test), learned, carried.

use anyhow::{Context, Result, bail, ensure};
use ebpf_bridge_common::flow::{FLOW_ADDRESS, FLOW_IP, FLOW_L2, FLOW_PORT, FLOW_TO_POD, Flow};
use ebpf_bridge_common::reason::{Egress, Ingress};
use ebpf_bridge_common::wire::{CONFIG_PLAIN, CONFIG_TCP, Config, TAG};
use ebpf_bridge_lab::bpf::{Bench, Device, Input, Output};
use ebpf_bridge_lab::frame::{Frame, Transport};

use super::family::{Family, observe};
use super::{CONFIG, Case, PASS, REDIRECT, TCP, UDP, UDP_BARE, bench, packet, register_both};
use crate::check::equal;
use crate::suite::Suite;

/// A flow from `from` to the other device.
#[derive(Clone, Copy)]
struct Chain {
    from: Device,
    translate: fn(&mut Frame),
    config: Config,
    /// Mark and priority in the pod, or on the wire.
    left_with: (u32, u32),
}

/// What netfilter and qdisc classification left on the packet that was learned from.
const MARK_AND_PRIORITY: (u32, u32) = (0x4000, 2);

pub(super) fn register(suite: &mut Suite) {
    let out = Chain {
        from: Device::Pod,
        translate: |frame| (frame.ports[0], frame.ttl) = (61_000, frame.ttl - 1),
        config: CONFIG,
        left_with: MARK_AND_PRIORITY,
    };
    register_both(suite, &[], "a flow through SNAT is learned and repeated", out);
    let pod = Chain {
        from: Device::Out,
        translate: |frame| (frame.ports[1], frame.ttl) = (8_080, frame.ttl - 1),
        left_with: (0, 0),
        ..out
    };
    register_both(suite, &[], "a flow through DNAT is learned and repeated, no mark enters the pod", pod);
    let plain = Config { flags: CONFIG_TCP | CONFIG_PLAIN, ..CONFIG };
    let host_end = Chain { config: plain, left_with: MARK_AND_PRIORITY, ..pod };
    register_both(suite, &[], "a flow to a pod's host end keeps its mark", host_end);
    let bridged = Chain { translate: |_| {}, ..pod };
    register_both(suite, &[], "a bridged flow is learned and repeated", bridged);
}

impl Case for Chain {
    fn run<I: Family>(self) -> Result<()> {
        for transport in [TCP, UDP, UDP_BARE] {
            let mut bench = bench()?;
            bench.configure(self.config)?;
            let first = packet::<I>(transport);
            let (left, learned) = self.learn::<I>(&mut bench, &first)?;
            self.expect::<I>(&bench, &learned, &first, &left)?;
            let next = Frame { payload: vec![7; 33], ttl: 9, ..next(&first) };
            let input = next.build();
            let output = bench.ingress(self.from, &Input { frame: &input, ..Input::default() })?;
            equal("the reason", output.reason, Ingress::Redirected)?;
            equal("the action", output.action, REDIRECT)?;
            equal("mark and priority", (output.mark, output.priority), self.left_with)?;
            let expected = self.kernel::<I>(&next).build();
            ensure!(output.frame == expected, "carried as {:x?}, not {expected:x?}", output.frame);
        }
        Ok(())
    }
}

impl Chain {
    fn to(&self) -> Device {
        if self.from == Device::Pod { Device::Out } else { Device::Pod }
    }

    /// What the kernel makes of a packet of the flow. Only a flow that is translated is routed here.
    fn kernel<I: Family>(&self, frame: &Frame) -> Frame {
        let mut after = frame.clone();
        (self.translate)(&mut after);
        if after.ports[0] != frame.ports[0] {
            after.addresses[0] = I::address(100, 2);
        }
        if after.ports[1] != frame.ports[1] {
            after.addresses[1] = I::address(1, 9);
        }
        if after != *frame {
            after.macs = [[2, 0, 0, 0, 9, 1], [2, 0, 0, 0, 9, 2]];
        }
        after
    }

    /// Passes `first` through both programs, again if the machine took longer than a note lives.
    fn learn<I: Family>(&self, bench: &mut Bench, first: &Frame) -> Result<(Frame, Flow<I::Address>)> {
        let (before, after) = (first.build(), self.kernel::<I>(first));
        let key = observe::<I>(&before, bench.index(self.from)).0;
        let left = after.build();
        for _ in 0..20 {
            let noted = bench.ingress(self.from, &Input { frame: &before, ..Input::default() })?;
            equal("the reason of the first", noted.reason, Ingress::NoFlow)?;
            let tag = I::stash(bench)?.last | u32::from(TAG);
            let (mark, priority) = MARK_AND_PRIORITY;
            let input = Input { frame: &left, tag, mark, priority, ..Input::default() };
            let Output { reason, action, frame, .. } = bench.egress(self.to(), &input)?;
            equal("the action at egress", action, PASS)?;
            ensure!(frame == left, "egress changed the packet");
            if reason != Egress::StashGone {
                equal("the reason at egress", reason, Egress::Learned)?;
                return Ok((after, I::flow(bench, &key)?.context("not in the map")?));
            }
        }
        bail!("twenty times 20 ms passed between ingress and egress")
    }

    /// The flow says what was done, and no more.
    fn expect<I: Family>(
        &self,
        bench: &Bench,
        flow: &Flow<I::Address>,
        first: &Frame,
        after: &Frame,
    ) -> Result<()> {
        let (_, seen) = observe::<I>(&first.build(), bench.index(self.from));
        let (key, seen_after) = observe::<I>(&after.build(), bench.index(self.to()));
        let translated = first != after;
        let flags = if translated { FLOW_L2 | FLOW_ADDRESS | FLOW_PORT | FLOW_IP } else { 0 };
        let kind = if self.to() == Device::Pod { FLOW_TO_POD } else { 0 };
        equal("flags", flow.flags, flags | kind)?;
        equal("epoch", flow.epoch, self.config.epoch)?;
        equal("device", flow.ifindex, bench.index(self.to()))?;
        equal("MACs before", flow.macs_in, seen.macs)?;
        equal("MACs after", flow.macs_out, seen_after.macs)?;
        equal("source", flow.saddr, key.saddr)?;
        equal("destination", flow.daddr, key.daddr)?;
        equal("ports", (flow.sport, flow.dport), (key.sport, key.dport))?;
        equal("TTL step", flow.ttl_step, u8::from(translated))?;
        equal("longest packet", usize::from(flow.max_len), first.build().len() - super::IP)?;
        equal("mark and priority", (flow.mark, flow.priority), MARK_AND_PRIORITY)?;
        let age = super::now()?.checked_sub(flow.learned_ns).context("learned in the future")?;
        ensure!(age < 1_000_000_000, "learned {age} ns ago");
        Ok(())
    }
}

/// Another packet of the flow.
fn next(first: &Frame) -> Frame {
    let transport = match first.transport {
        Transport::Tcp { sequence, acknowledgement } => {
            Transport::Tcp { sequence: sequence + 101, acknowledgement: acknowledgement + 7 }
        }
        udp => udp,
    };
    Frame { transport, id: first.id + 1, ..first.clone() }
}
