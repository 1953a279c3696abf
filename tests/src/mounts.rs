//! The file systems a node has for itself.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use anyhow::{Context, Result};
use nix::mount::{MsFlags, mount};

use crate::plugin;

/// Where plugins are found in a node: ours as `ebpf-bridge`, the reference plugins under their own names.
pub(crate) const PLUGIN_DIR: &str = "/opt/cni/bin";
const CGROUPS: &str = "/sys/fs/cgroup";
const BPFFS: &str = "/sys/fs/bpf";

/// Arranges the mounts of a new mount namespace for the network namespace the caller is in.
///
/// The mount points `/var/lib/cni`, `/etc/cni` and `/opt/cni` are made, empty, on the machine if it lacks them.
pub(crate) fn prepare(with_bpffs: bool) -> Result<()> {
    let peers = plugin::reference_plugins()?;
    mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>)
        .context("making the mounts private")?;
    for path in ["/run", "/var/lib/cni", "/etc/cni", "/opt/cni"] {
        mount_new("tmpfs", path)?;
    }
    // Runtimes bind namespaces here, and those in mount namespaces of their own must see each other's.
    mount_new("tmpfs", "/run/netns")?;
    mount(None::<&str>, "/run/netns", None::<&str>, MsFlags::MS_SHARED, None::<&str>)
        .context("sharing /run/netns")?;
    mount_sysfs()?;
    if with_bpffs {
        mount_new("bpf", BPFFS)?;
    }
    fs::create_dir_all(PLUGIN_DIR)?;
    for peer in peers {
        link_plugin(&peer, peer.file_name().context("a plugin without a name")?.as_ref())?;
    }
    if let Ok(ours) = plugin::path() {
        link_plugin(&ours, plugin::NAME.as_ref())?;
    }
    Ok(())
}

/// sysfs shows the devices of the network namespace it was mounted from, so a node needs its own. It would hide the
/// control groups, which a container runtime needs: they are carried over.
fn mount_sysfs() -> Result<()> {
    let carried = "/run/lab/cgroup";
    let has_cgroups = Path::new(CGROUPS).is_dir();
    fs::create_dir_all(carried)?;
    if has_cgroups {
        let flags = MsFlags::MS_BIND | MsFlags::MS_REC;
        mount(Some(CGROUPS), carried, None::<&str>, flags, None::<&str>)
            .context("keeping the control groups")?;
    }
    mount_new("sysfs", "/sys")?;
    if has_cgroups {
        mount(Some(carried), CGROUPS, None::<&str>, MsFlags::MS_MOVE, None::<&str>)
            .context("putting the control groups back")?;
    }
    fs::remove_dir(carried).context("removing the emptied mount point")
}

fn mount_new(kind: &str, path: &str) -> Result<()> {
    if kind == "tmpfs" {
        fs::create_dir_all(path).with_context(|| format!("making the mount point {path}"))?;
    }
    mount(Some(kind), path, Some(kind), MsFlags::empty(), None::<&str>)
        .with_context(|| format!("mounting {kind} on {path}"))
}

fn link_plugin(program: &Path, name: &Path) -> Result<()> {
    let link = Path::new(PLUGIN_DIR).join(name);
    symlink(program, &link).with_context(|| format!("linking {} to {}", link.display(), program.display()))
}
