//! How much work the verifier had with each program.

use std::fs;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, RawFd};

use anyhow::{Context, Result};
use aya::EbpfLoader;
use aya::maps::Map;
use aya_obj::Object;
use aya_obj::generated::bpf_insn;

use super::{Bench, syscall};

/// The programs of the object, by their names in it.
const PROGRAMS: [&str; 3] = ["flow_ingress", "flow_egress_pod", "flow_egress_out"];

/// A kernel's first two numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Series(pub u32, pub u32);

impl Series {
    /// Of the running kernel.
    pub fn running() -> Result<Series> {
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").context("reading the release")?;
        Series::parse(&release)
    }

    /// Of a release such as `6.1.0-50-cloud-amd64`, or `6.1`.
    pub fn parse(release: &str) -> Result<Series> {
        let mut numbers = release.trim().split(|c: char| !c.is_ascii_digit()).map(str::parse);
        let (Some(Ok(major)), Some(Ok(minor))) = (numbers.next(), numbers.next()) else {
            anyhow::bail!("no kernel release: {release:?}");
        };
        Ok(Series(major, minor))
    }
}

/// Loads each program, and tells how many instructions the verifier processed: those of all paths it followed, of
/// which the kernel allows a million.
///
/// The kernel tells it in the verifier's log, 5.2 and newer. aya keeps that of a refused program only, and so the
/// programs are loaded from their instructions.
pub fn verified() -> Result<Vec<(&'static str, u32)>> {
    let data = Bench::OBJECT.context("built without the eBPF object")?;
    // Instructions name maps by their descriptors.
    let loaded = EbpfLoader::new().btf(None).load(data)?;
    let mut object = Object::parse(data)?;
    let sections = object.functions.keys().map(|&(section, _)| section).collect();
    let maps = object.maps.clone();
    let maps = maps.iter().map(|(name, map)| {
        let kernels = loaded.map(name).with_context(|| format!("no map {name}"))?;
        Ok((name.as_str(), descriptor(kernels)?, map))
    });
    object.relocate_maps(maps.collect::<Result<Vec<_>>>()?.into_iter(), &sections)?;
    object.relocate_calls(&sections)?;
    let count = |name| {
        let program = object.programs.get(name).with_context(|| format!("no program {name}"))?;
        let function = object.functions.get(&program.function_key());
        let instructions = &function.with_context(|| format!("no instructions of {name}"))?.instructions;
        let said = syscall::load_with_statistics(&words(instructions));
        let said = said.with_context(|| format!("loading {name}"))?;
        Ok((name, processed(&said).with_context(|| format!("no count: {said:?}"))?))
    };
    PROGRAMS.into_iter().map(count).collect()
}

/// Of `processed 1234 insns (limit 1000000) ...`, a line of the log.
fn processed(log: &str) -> Option<u32> {
    let line = log.lines().find_map(|line| line.strip_prefix("processed "))?;
    line.split_once(" insns")?.0.parse().ok()
}

fn descriptor(map: &Map) -> Result<RawFd> {
    let (Map::Array(map) | Map::PerCpuArray(map) | Map::LruHashMap(map) | Map::RingBuf(map)) = map else {
        anyhow::bail!("a map of another kind: {map:?}");
    };
    Ok(map.fd().as_fd().as_raw_fd())
}

/// The eight bytes of each instruction.
fn words(instructions: &[bpf_insn]) -> Vec<u64> {
    // SAFETY: `struct bpf_insn` is eight bytes without padding, and any eight bytes are a u64.
    instructions.iter().map(|&instruction| unsafe { mem::transmute::<bpf_insn, u64>(instruction) }).collect()
}
