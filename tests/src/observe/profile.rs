//! What our programs are, and how much of the CPU's time they take, as the kernel counts it.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use aya::programs::ProgramInfo;
use aya::sys::{Stats, enable_stats};

use crate::Node;

const PINS: &str = "/sys/fs/bpf/ebpf-bridge";
/// Bytes of an instruction (`struct bpf_insn` of include/uapi/linux/bpf.h).
const INSTRUCTION: u32 = 8;

/// One program of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// Its name.
    pub name: String,
    /// Runs while the kernel counted them.
    pub runs: u64,
    /// Time of these runs, with that of counting.
    pub time: Duration,
    /// Instructions as the kernel keeps them, after the verifier.
    pub instructions: u32,
    /// Bytes of machine code; 0 without JIT.
    pub machine_code: u32,
    /// Instructions the verifier went through, on all paths, 5.16 and newer.
    pub verified: Option<u32>,
}

impl Profile {
    /// All programs pinned on a node, by name.
    pub fn of(node: &Node) -> Result<Vec<Profile>> {
        node.run_in(|| {
            let mut found = Vec::new();
            for abi in entries(Path::new(PINS))? {
                let builds = entries(&abi)?.into_iter().filter(|path| is_programs(path));
                for build in builds {
                    found.extend(entries(&build)?.iter().map(|pin| read(pin)).collect::<Result<Vec<_>>>()?);
                }
            }
            found.sort_by(|one: &Profile, other| one.name.cmp(&other.name));
            Ok(found)
        })
    }

    /// The same with what was counted since `before`.
    pub fn since(&self, before: &Profile) -> Profile {
        Profile { runs: self.runs - before.runs, time: self.time - before.time, ..self.clone() }
    }
}

/// Has the kernel count runs of programs while the value lives, of all on the machine: `BPF_ENABLE_STATS`, 5.8 and newer.
/// That costs them some 20 ns a run.
pub fn count_runs() -> Result<OwnedFd> {
    enable_stats(Stats::RunTime).context("having the kernel count runs")
}

fn read(pin: &Path) -> Result<Profile> {
    let info = ProgramInfo::from_pin(pin).with_context(|| format!("asking about {}", pin.display()))?;
    Ok(Profile {
        name: pin.file_name().unwrap_or_default().to_string_lossy().into(),
        runs: info.run_count(),
        time: info.run_time(),
        instructions: info.size_translated().unwrap_or(0) / INSTRUCTION,
        machine_code: info.size_jitted(),
        verified: info.verified_instruction_count(),
    })
}

fn is_programs(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("programs-"))
}

fn entries(directory: &Path) -> Result<Vec<PathBuf>> {
    let listed = fs::read_dir(directory).with_context(|| format!("listing {}", directory.display()))?;
    listed.map(|entry| Ok(entry?.path())).collect()
}
