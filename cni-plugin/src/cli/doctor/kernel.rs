//! The kernel, and what this process may ask of it.

use std::{fs, path::Path};

use nix::sys::utsname::uname;

use super::check::{Check, Verdict};
use crate::cli::node::{Node, own};

pub(super) const CHECKS: &[Check] = &[
    Check { area: "kernel", name: "version", examine: version },
    Check { area: "kernel", name: "btf", examine: btf },
    Check { area: "privileges", name: "capabilities", examine: capabilities },
];

/// `bpf_redirect_peer` is of 5.10.
const OLDEST: (u32, u32) = (5, 10);

fn version(_: &Node) -> anyhow::Result<Vec<Verdict>> {
    let name = uname()?;
    let release = name.release().to_string_lossy();
    let mut numbers =
        release.split(|c: char| !c.is_ascii_digit()).map(|text| text.parse::<u32>().unwrap_or(0));
    let found = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if found >= OLDEST {
        return Ok(Verdict::fine(format!("Linux {release}")));
    }
    let what = format!("Linux {release} is older than 5.10, the oldest that can run the programs");
    Ok(vec![Verdict::wrong(what, "boot a kernel of 5.10 or newer")])
}

/// The programs need none; bpftool and crash reports show more with it.
fn btf(_: &Node) -> anyhow::Result<Vec<Verdict>> {
    let path = Path::new("/sys/kernel/btf/vmlinux");
    if path.exists() {
        return Ok(Verdict::fine(format!("BTF at {}", path.display())));
    }
    Ok(Verdict::note("the kernel has no BTF; the programs do without"))
}

/// Bits of `linux/capability.h`. Entering namespaces takes CAP_SYS_ADMIN, all else CAP_NET_ADMIN and CAP_BPF.
const NEEDED: [(&str, u32); 2] = [("CAP_NET_ADMIN", 12), ("CAP_SYS_ADMIN", 21)];

fn capabilities(_: &Node) -> anyhow::Result<Vec<Verdict>> {
    let status = fs::read_to_string("/proc/self/status")?;
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = u64::from_str_radix(effective.unwrap_or_default().trim(), 16)?;
    let missing: Vec<&str> =
        NEEDED.iter().filter(|(_, bit)| effective >> bit & 1 == 0).map(|(name, _)| *name).collect();
    if missing.is_empty() {
        return Ok(Verdict::fine("may administer the network and load programs"));
    }
    let what = format!("without {} most of what follows cannot be looked at", missing.join(" and "));
    Ok(vec![Verdict::wrong(what, format!("sudo {} doctor", own()))])
}
