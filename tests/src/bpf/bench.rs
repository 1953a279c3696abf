//! The three programs and their maps, in a network namespace of their own.

use std::os::fd::{AsFd, OwnedFd};

use anyhow::{Context as _, Result, bail, ensure};
use aya::maps::{Array, HashMap, MapData, PerCpuArray};
use aya::programs::SchedClassifier;
use aya::{Ebpf, EbpfLoader, Pod};
use ebpf_bridge_common::flow::{Flow, FlowKey};
use ebpf_bridge_common::reason::{Egress, Ingress};
use ebpf_bridge_common::wire::{Config, Stash};
use nix::net::if_::if_nametoindex;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

use super::entry::{self, Context, Field};
use super::syscall;
use crate::Place;

/// A device of the bench.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Device {
    /// A pod's veth, with `flow_egress_pod`.
    Pod,
    /// An uplink, with `flow_egress_out`.
    Out,
}

/// A packet and what is known of it beside its bytes.
#[derive(Debug, Clone, Default)]
pub struct Input<'a> {
    /// From the Ethernet header on.
    pub frame: &'a [u8],
    /// `skb->tc_index`.
    pub tag: u32,
    /// Tag kept beside the packet; 0 for none.
    pub vlan: u16,
    /// Payload per segment, bytes; 0 unless a GSO frame.
    pub gso_size: u32,
    /// fwmark.
    pub mark: u32,
    /// Queueing priority.
    pub priority: u32,
    /// The device summed the packet up; a wrong sum afterwards is an error.
    pub device_checksum: bool,
    /// How many more times the program runs on it.
    pub again: u32,
}

/// What became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output<R> {
    /// The one reason counted.
    pub reason: R,
    /// What the program returned.
    pub action: i32,
    /// The bytes.
    pub frame: Vec<u8>,
    /// fwmark.
    pub mark: u32,
    /// Queueing priority.
    pub priority: u32,
    /// Mean time of a run, the way in included.
    pub nanoseconds: u32,
}

/// Programs, maps and two devices. Every run is on the same CPU, and so sees the notes of the runs before.
pub struct Bench {
    place: Place,
    ebpf: Ebpf,
    ingress: (OwnedFd, OwnedFd),
    pod: (OwnedFd, OwnedFd),
    out: (OwnedFd, OwnedFd),
    devices: [u32; 2],
    cpu: usize,
}

impl Bench {
    /// The object the crates were built with.
    pub const OBJECT: Option<&'static [u8]> = ebpf_bridge::dataplane::OBJECT;

    /// A bench with the programs enabled for TCP and UDP, and nothing learned.
    pub fn new() -> Result<Bench> {
        let place = Place::new()?;
        place.call("ip link add pod type veth peer name out")?;
        let devices = place.run_in(|| Ok([if_nametoindex("pod")?, if_nametoindex("out")?]))?;
        let mut ebpf =
            EbpfLoader::new().btf(None).load(Self::OBJECT.context("built without the eBPF object")?)?;
        let mut enter = |name| -> Result<_> {
            let program: &mut SchedClassifier =
                ebpf.program_mut(name).with_context(|| format!("no program {name}"))?.try_into()?;
            program.load().with_context(|| format!("loading {name}"))?;
            entry::into(&program.fd()?.as_fd()).with_context(|| format!("making a way in to {name}"))
        };
        let (ingress, pod, out) =
            (enter("flow_ingress")?, enter("flow_egress_pod")?, enter("flow_egress_out")?);
        let allowed = sched_getaffinity(Pid::from_raw(0))?;
        let cpu = (0..CpuSet::count()).find(|&cpu| allowed.is_set(cpu) == Ok(true)).context("no CPU")?;
        Ok(Bench { place, ebpf, ingress, pod, out, devices, cpu })
    }

    /// A device's interface index.
    pub fn index(&self, device: Device) -> u32 {
        self.devices[device as usize]
    }

    /// The packet comes in by `device`.
    pub fn ingress(&self, device: Device, input: &Input) -> Result<Output<Ingress>> {
        self.run(&self.ingress.0, device, input, Ingress::ALL, Ingress::index)
    }

    /// The packet goes out by `device`.
    pub fn egress(&self, device: Device, input: &Input) -> Result<Output<Egress>> {
        let program = if device == Device::Pod { &self.pod.0 } else { &self.out.0 };
        self.run(program, device, input, Egress::ALL, Egress::index)
    }

    fn run<R: Copy>(
        &self,
        program: &OwnedFd,
        device: Device,
        input: &Input,
        reasons: &[R],
        index: impl Fn(R) -> u32,
    ) -> Result<Output<R>> {
        let context = Context::default()
            .with(Field::Ifindex, self.index(device))
            .with(Field::Tag, input.tag)
            .with(Field::Vlan, input.vlan.into())
            .with(Field::GsoSize, input.gso_size)
            .with(Field::Mark, input.mark)
            .with(Field::Priority, input.priority);
        let flags = if input.device_checksum { syscall::CHECKSUM_COMPLETE } else { 0 };
        let before = self.counters(reasons, &index)?;
        let ran = self.place.run_in(|| {
            let mut cpus = CpuSet::new();
            cpus.set(self.cpu)?;
            sched_setaffinity(Pid::from_raw(0), &cpus)?;
            syscall::test_run(program, flags, 1 + input.again, input.frame, &context).context("a test run")
        })?;
        ensure!(ran.value != entry::LOST, "the program was not reached");
        let after = self.counters(reasons, &index)?;
        let moved = after.iter().zip(before).map(|(after, before)| after - before).collect::<Vec<_>>();
        let Some(place) = moved.iter().position(|&count| count == 1 + u64::from(input.again)) else {
            bail!("no reason was counted once for each run: {moved:?}");
        };
        ensure!(moved.iter().sum::<u64>() == moved[place], "another reason was counted too: {moved:?}");
        let reason = reasons[place];
        let (mark, priority) = (ran.context.get(Field::Mark), ran.context.get(Field::Priority));
        let syscall::Ran { value: action, packet: frame, nanoseconds, .. } = ran;
        Ok(Output { reason, action, frame, mark, priority, nanoseconds })
    }

    fn counters<R: Copy>(&self, reasons: &[R], index: impl Fn(R) -> u32) -> Result<Vec<u64>> {
        let map: PerCpuArray<_, u64> = self.ebpf.map("COUNTERS").context("no COUNTERS")?.try_into()?;
        reasons.iter().map(|&reason| Ok(map.get(&index(reason), 0)?[self.cpu])).collect()
    }

    /// The configuration cell, to be changed.
    pub fn configure(&mut self, config: Config) -> Result<()> {
        let mut map: Array<_, Config> = self.ebpf.map_mut("CONFIG").context("no CONFIG")?.try_into()?;
        Ok(map.set(0, config, 0)?)
    }

    /// What was learned, to be read and changed; `map` is FLOWS4 or FLOWS6.
    pub fn flows<A>(&mut self, map: &str) -> Result<HashMap<&mut MapData, FlowKey<A>, Flow<A>>>
    where
        FlowKey<A>: Pod,
        Flow<A>: Pod,
    {
        Ok(self.ebpf.map_mut(map).with_context(|| format!("no {map}"))?.try_into()?)
    }

    /// Empties both flow maps.
    pub fn forget(&mut self) -> Result<()> {
        fn empty<A>(mut map: HashMap<&mut MapData, FlowKey<A>, Flow<A>>) -> Result<()>
        where
            FlowKey<A>: Pod,
            Flow<A>: Pod,
        {
            let keys = map.keys().collect::<Result<Vec<_>, _>>()?;
            Ok(keys.iter().try_for_each(|key| map.remove(key))?)
        }
        empty(self.flows::<u32>("FLOWS4")?)?;
        empty(self.flows::<[u32; 4]>("FLOWS6")?)
    }

    /// The notes of the CPU that the runs are on; `map` is STASH4 or STASH6.
    pub fn stash<A: Copy>(&self, map: &str) -> Result<Stash<A>>
    where
        Stash<A>: Pod,
    {
        let map: PerCpuArray<_, Stash<A>> =
            self.ebpf.map(map).with_context(|| format!("no {map}"))?.try_into()?;
        Ok(map.get(&0, 0)?[self.cpu])
    }
}
