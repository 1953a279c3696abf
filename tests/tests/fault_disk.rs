//! Disks that are full or read-only: under the leases, and under the plugin's own records.

use anyhow::{Context, Result};
use serde_json::json;

use crate::check::refused;
use crate::fault::{Fault, fails_clean, says, scene, shell};
use crate::suite::Suite;

const CODE_IO: u32 = 5;

/// A directory's file system, so small that it can be filled, and what fills it. What is there stays.
struct Disk {
    directory: &'static str,
    how: How,
}

#[derive(Clone, Copy)]
enum How {
    /// No room for a byte more.
    Full,
    /// No room for a file more.
    Crowded,
    ReadOnly,
}

impl Fault for Disk {
    fn make(&self, node: &mut ebpf_bridge_lab::Node) -> Result<()> {
        let directory = self.directory;
        let options = match self.how {
            How::Full => "size=16k",
            How::Crowded => "nr_inodes=12",
            How::ReadOnly => "size=1m",
        };
        // Over the old one, with its content: rename(2) and link(2) must not cross file systems.
        let mut script = format!(
            "mkdir -p {directory} /run/lab/copy; cp -a {directory}/. /run/lab/copy/; \
             mount -t tmpfs -o mode=700,{options} tmpfs {directory}; cp -a /run/lab/copy/. {directory}/; "
        );
        script += &match self.how {
            How::Full => format!("head -c 1m /dev/zero >{directory}/.foreign || true"),
            How::Crowded => {
                format!("for i in $(seq 20); do touch {directory}/.foreign$i 2>/dev/null || true; done")
            }
            How::ReadOnly => format!("mount -o remount,ro {directory}"),
        };
        shell(node, &script)
    }

    fn mend(&self, node: &mut ebpf_bridge_lab::Node) -> Result<()> {
        let directory = self.directory;
        // What is left beside the filling must be what was there before.
        let script = format!(
            "mount -o remount,rw {directory}; rm -f {directory}/.foreign*; find {directory} -mindepth 1 -printf '%P\\n' \
             | sort >/run/lab/now; find /run/lab/copy -mindepth 1 -printf '%P\\n' | sort | diff - /run/lab/now >&2; \
             umount {directory}; rm -rf /run/lab/copy; rmdir {directory} 2>/dev/null || true"
        );
        shell(node, &script)
    }
}

pub(crate) fn register(suite: &mut Suite) {
    for (what, directory) in
        [("lease directory", "/var/lib/cni/networks"), ("directory of records", "/run/ebpf-bridge")]
    {
        for (state, how) in
            [("full", How::Full), ("without room for a file", How::Crowded), ("read-only", How::ReadOnly)]
        {
            suite.test(
                format!("fault: a {what} that is {state} fails the ADD and nothing is left"),
                move || {
                    fails_clean(&Disk { directory, how }, scene("auto", &json!({}))?, CODE_IO, &[directory])
                },
            );
        }
    }
    suite.test("fault: a DEL with a read-only lease directory fails, and the next one completes it", del);
}

fn del() -> Result<()> {
    let mut scene = scene("auto", &json!({}))?;
    scene.wire("pod0")?;
    let container = scene.pods[0].container.clone();
    let directory = "/var/lib/cni";
    shell(&scene.node, &format!("mount -o remount,ro {directory}"))?;
    let error = refused(scene.runtime.del(&scene.node, &container))?;
    says(&error, CODE_IO, &[directory])?;
    shell(&scene.node, &format!("mount -o remount,rw {directory}"))?;
    scene.runtime.del(&scene.node, &container).context("the next DEL")?;
    let left = [scene.node.tree("/var/lib/cni/networks")?, scene.node.tree("/run/ebpf-bridge")?].concat();
    crate::check::equal("left", left, Vec::<String>::new())
}
