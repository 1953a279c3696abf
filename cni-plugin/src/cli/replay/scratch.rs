//! A node for one process and its children: namespaces that go with them.

use std::{
    fs::{self, File},
    net::Ipv4Addr,
    os::fd::AsFd,
    path::{Path, PathBuf},
};

use anyhow::Context;
use ipnetwork::{IpNetwork, Ipv4Network};
use nix::{
    mount::{MsFlags, mount},
    sched::{CloneFlags, setns, unshare},
};

use crate::{cni::types::Route, host::LinuxHost};

/// Where leases go whose directory was elsewhere.
pub(super) const LEASES: &str = "/run/ebpf-bridge-leases";
const NETNS: &str = "/run/netns";

/// That this process is in its own namespaces.
pub(super) struct Scratch {}

impl Scratch {
    /// Leaves the host's network and mounts for good. The new node has these uplinks; the first has the default route.
    pub(super) fn enter(uplinks: &[String]) -> anyhow::Result<Self> {
        unshare(CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS)
            .context("a replay makes namespaces, for which it needs root")?;
        hide_the_hosts_files()?;
        let host = LinuxHost::open(None)?;
        host.node().set_up("lo")?;
        for (number, name) in uplinks.iter().enumerate() {
            add_uplink(&host, name, number as u8)?;
        }
        Ok(Self {})
    }

    /// A pod's network namespace, by its path.
    pub(super) fn pod(&self, number: usize) -> anyhow::Result<PathBuf> {
        let path = Path::new(NETNS).join(format!("pod{number}"));
        File::create(&path).with_context(|| format!("cannot create {}", path.display()))?;
        let own = File::open("/proc/thread-self/ns/net").context("cannot open the node's namespace")?;
        unshare(CloneFlags::CLONE_NEWNET).context("cannot make a network namespace")?;
        let bound = bind("/proc/thread-self/ns/net", &path);
        setns(own.as_fd(), CloneFlags::CLONE_NEWNET).context("cannot return to the node's namespace")?;
        bound.map(|()| path)
    }
}

/// What a plugin keeps on a node is in `/run` and `/var/lib`; `/sys` shows the devices of the namespace it was mounted in.
fn hide_the_hosts_files() -> anyhow::Result<()> {
    mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>)
        .context("cannot make the mounts private")?;
    for (kind, place) in [("tmpfs", "/run"), ("tmpfs", "/var/lib"), ("sysfs", "/sys")] {
        mount(Some(kind), place, Some(kind), MsFlags::empty(), None::<&str>)
            .with_context(|| format!("cannot mount {kind} on {place}"))?;
    }
    fs::create_dir(NETNS).with_context(|| format!("cannot create {NETNS}"))
}

fn bind(from: &str, to: &Path) -> anyhow::Result<()> {
    mount(Some(from), to, None::<&str>, MsFlags::MS_BIND, None::<&str>)
        .with_context(|| format!("cannot bind a namespace to {}", to.display()))
}

/// In 198.18.0.0/15, which is nobody's (RFC 2544).
fn add_uplink(host: &LinuxHost, name: &str, number: u8) -> anyhow::Result<()> {
    let node = host.node();
    node.create_pair(name, &format!("far{number}"))?;
    let index = node.need(name)?.index;
    let address = |last| Ipv4Addr::new(198, 18, number, last);
    node.add_address(name, index, Ipv4Network::new(address(2), 24)?.into(), false)?;
    if number == 0 {
        let everything: IpNetwork = Ipv4Network::new(Ipv4Addr::UNSPECIFIED, 0)?.into();
        node.add_route(name, index, &Route::via(everything, address(1).into()))?;
    }
    Ok(())
}
