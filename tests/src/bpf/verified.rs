//! How much work the verifier had with each program.

use std::fs;

use anyhow::{Context, Result};
use aya::EbpfLoader;
use aya::programs::SchedClassifier;

use super::Bench;

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
pub fn verified() -> Result<Vec<(&'static str, u32)>> {
    let object = Bench::OBJECT.context("built without the eBPF object")?;
    let mut ebpf = EbpfLoader::new().btf(None).load(object)?;
    let mut count = |name| {
        let program = ebpf.program_mut(name).with_context(|| format!("no program {name}"))?;
        let program: &mut SchedClassifier = program.try_into()?;
        program.load().with_context(|| format!("loading {name}"))?;
        let count = program.info()?.verified_instruction_count();
        Ok((name, count.context("the kernel does not tell what the verifier did")?))
    };
    PROGRAMS.into_iter().map(&mut count).collect()
}

/// Why [`verified`] has no answer here, if it has none.
pub(crate) fn verified_missing() -> Option<String> {
    let old = Series::running().is_ok_and(|series| series < Series(5, 16));
    old.then(|| "the kernel does not tell how much its verifier did, before 5.16".into())
}
