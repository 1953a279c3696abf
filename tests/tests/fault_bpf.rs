//! eBPF that fails at one point: where the configuration requires it the ADD fails, where it does not the pod takes the
//! bridge path.

use std::sync::Arc;

use anyhow::Result;
use ebpf_bridge_lab::{Denial, Need};
use nix::errno::Errno;
use nix::libc;
use serde_json::json;

use crate::fault::{Fault, does_without, fails_clean, first_fails_clean, scene};
use crate::suite::Suite;

const CODE_EBPF: u32 = 102;
/// `enum bpf_cmd` of include/uapi/linux/bpf.h.
const MAP_CREATE: u32 = 0;
const PROG_LOAD: u32 = 5;
const OBJ_PIN: u32 = 6;
const OBJ_GET: u32 = 7;
const LINK_CREATE: u32 = 28;

/// What fails, how, whether only the first pod of a node meets it, and a word that tells.
type Case = (&'static str, Arc<dyn Fault + Send + Sync>, bool, &'static str);

pub(crate) fn register(suite: &mut Suite) {
    for (what, fault, first, word) in calls().into_iter().chain(file_systems()) {
        let again = fault.clone();
        let name = format!("fault: {what}, and eBPF is required: the ADD fails");
        suite.test_with(&[Need::Bpf], name, move || {
            let scene = scene("required", &json!({}))?;
            let fails = if first { first_fails_clean } else { fails_clean };
            fails(&*fault, scene, CODE_EBPF, &[word])
        });
        suite.test_with(&[Need::Bpf], format!("fault: {what}: the pod takes the bridge path"), move || {
            does_without(&*again, scene("auto", &json!({}))?, &[word])
        });
    }
    suite.test_with(&[Need::Bpf], "fault: a TCX hook for pods that fails, and eBPF is required", tcx);
}

fn calls() -> Vec<Case> {
    let of = |what, denial: Denial, first, word| -> Case { (what, Arc::new(vec![denial]), first, word) };
    let all = |errno| Denial::of(libc::SYS_bpf, errno);
    vec![
        of("no permission for bpf(2)", all(Errno::EPERM), false, "Operation not permitted"),
        of("a kernel without bpf(2)", all(Errno::ENOSYS), false, "not implemented"),
        of("maps that cannot be made", Denial::bpf(MAP_CREATE, Errno::ENOMEM), true, "memory"),
        // aya finds that the kernel has no features, and then that it cannot relocate the programs.
        of(
            "programs that cannot be loaded",
            Denial::bpf(PROG_LOAD, Errno::EPERM),
            true,
            "cannot load the eBPF",
        ),
        of("pins that cannot be made", Denial::bpf(OBJ_PIN, Errno::ENOSPC), true, "No space left"),
        of("pins that cannot be opened", Denial::bpf(OBJ_GET, Errno::EACCES), false, "Permission denied"),
    ]
}

fn file_systems() -> Vec<Case> {
    let case = |what, make: &'static str, mend: &'static str, word| -> Case {
        (what, Arc::new((make, mend)), false, word)
    };
    vec![
        case(
            "a bpffs that is read-only",
            "mount -o remount,ro /sys/fs/bpf",
            "mount -o remount,rw /sys/fs/bpf",
            "Read-only file system",
        ),
        case(
            "a bpffs where our directory is a link to nowhere",
            "test -e /sys/fs/bpf/ebpf-bridge && mv /sys/fs/bpf/ebpf-bridge /sys/fs/bpf/foreign; \
             ln -s /nowhere /sys/fs/bpf/ebpf-bridge",
            "test -L /sys/fs/bpf/ebpf-bridge && rm /sys/fs/bpf/ebpf-bridge; \
             test ! -e /sys/fs/bpf/foreign || mv /sys/fs/bpf/foreign /sys/fs/bpf/ebpf-bridge",
            "ebpf-bridge",
        ),
    ]
}

/// By default pods' veths get clsact filters, which bpf(2) has no part in.
fn tcx() -> Result<()> {
    let scene = scene("required", &json!({"ebpf": {"attach": "tcx", "uplinks": []}}))?;
    let denied = vec![Denial::bpf(LINK_CREATE, Errno::EPERM)];
    fails_clean(&denied, scene, CODE_EBPF, &["flow_ingress", "Operation not permitted"])
}
