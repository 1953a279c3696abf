//! The differences that are meant. Each has its reason in `docs/differences.md`, under the same name.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

/// Beginning of a difference's line, and the heading of its reason.
const ALLOWED: &[(&str, &str)] = &[
    ("pod lo ", "lo is up in the pod"),
    ("pod link txqlen: 1000 / absent", "The veth has the kernel's queue length"),
    ("gateway link txqlen: 1000 / absent", "The veth has the kernel's queue length"),
    ("port link txqlen: 1000 / absent", "The veth has the kernel's queue length"),
    ("pod ipv6 sysctl accept_ra: 0 / 1", "The pod does not listen to router advertisements"),
    ("pod ipv6 sysctl ndisc_notify: 1 / 0", "IPv6 addresses are announced"),
    ("pod ipv4 sysctl arp_notify: 1 / 0", "Notifications are on without addresses, too"),
    ("pod ipv6 sysctl accept_dad: 0 / 1", "No IPv6 address of the pod waits for detection"),
    (
        "pod address link-local: 64 \"link\" null null null / 64 \"link\" true",
        "No IPv6 address of the pod waits for detection",
    ),
    (
        "bridge address \"fd00:1::1\": 64 \"global\" null null null / 64 \"global\" true",
        "The IPv6 gateway does not wait for detection",
    ),
];

pub(super) fn is_allowed(line: &str) -> bool {
    ALLOWED.iter().any(|(start, _)| line.starts_with(start))
}

pub(super) fn explained() -> Result<()> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("docs").join("differences.md");
    let text = fs::read_to_string(&page).with_context(|| format!("reading {}", page.display()))?;
    for (start, heading) in ALLOWED {
        ensure!(
            text.contains(&format!("## {heading}\n")),
            "no heading {heading:?} for what starts with {start:?}"
        );
    }
    Ok(())
}
