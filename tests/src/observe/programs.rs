//! Which tc programs sit on a device, asked of the kernel.

use std::fmt;
use std::io;
use std::mem::size_of;

use anyhow::{Context, Result};
use nix::libc;
use nix::net::if_::if_nametoindex;

use crate::Place;

/// `BPF_PROG_QUERY` of `enum bpf_cmd`, `BPF_TCX_INGRESS` and `BPF_TCX_EGRESS` of `enum bpf_attach_type`
/// (include/uapi/linux/bpf.h).
const PROG_QUERY: libc::c_long = 16;
const TCX: [(&str, u32); 2] = [("ingress", 46), ("egress", 47)];

/// A program on a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// `ingress` or `egress`.
    pub direction: String,
    /// Its name, for clsact filters; the number of programs in the chain, for TCX.
    pub name: String,
    /// `clsact` or `tcx`.
    pub attach: String,
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} ({})", self.direction, self.name, self.attach)
    }
}

/// The clsact filters and the TCX programs of one device of a place.
pub fn programs(place: &Place, device: &str) -> Result<Vec<Program>> {
    let mut found = Vec::new();
    for (direction, attach_type) in TCX {
        let filters = place.call_json(&format!("tc -j filter show dev {device} {direction}"))?;
        let names = filters
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|filter| filter["options"]["bpf_name"].as_str());
        found.extend(names.map(|name| Program {
            direction: direction.into(),
            name: name.into(),
            attach: "clsact".into(),
        }));
        let count = place.run_in(|| {
            tcx_count(if_nametoindex(device)?, attach_type)
                .with_context(|| format!("asking for TCX on {device}"))
        })?;
        if let Some(count) = count.filter(|&count| count > 0) {
            found.push(Program {
                direction: direction.into(),
                name: format!("{count} program(s)"),
                attach: "tcx".into(),
            });
        }
    }
    Ok(found)
}

/// The member `query` of `union bpf_attr`, as of Linux 6.6.
#[repr(C)]
#[derive(Default)]
struct QueryAttr {
    target_ifindex: u32,
    attach_type: u32,
    query_flags: u32,
    attach_flags: u32,
    prog_ids: u64,
    count: u32,
    padding: u32,
    prog_attach_flags: u64,
    link_ids: u64,
    link_attach_flags: u64,
    revision: u64,
}

/// Whether the kernel has TCX (6.6 and newer).
pub fn has_tcx() -> Result<bool> {
    // Every namespace has a `lo`, and it is the first link.
    Ok(Place::new()?.run_in(|| Ok(tcx_count(1, TCX[0].1)?))?.is_some())
}

/// How many programs one TCX hook of a device of the current namespace has; `None` where the kernel has no TCX.
fn tcx_count(ifindex: u32, attach_type: u32) -> io::Result<Option<u32>> {
    let mut attr = QueryAttr { target_ifindex: ifindex, attach_type, ..QueryAttr::default() };
    // SAFETY: `attr` is a whole `query` member, alive during the call; with a null `prog_ids` only `count` is written.
    let result = unsafe { libc::syscall(libc::SYS_bpf, PROG_QUERY, &mut attr, size_of::<QueryAttr>()) };
    match io::Error::last_os_error() {
        _ if result == 0 => Ok(Some(attr.count)),
        // Before 6.6 the attach type is unknown, and so is the attribute's length.
        error if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::E2BIG | libc::ENOENT)) => Ok(None),
        error => Err(error),
    }
}
