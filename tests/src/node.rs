//! A node: the machine a container runtime and our plugin believe to be on.

use std::fs;
use std::ops::Deref;
use std::path::Path;

use anyhow::{Context, Result};

use crate::seccomp::{Denial, MOUNTS};
use crate::{Outside, Place, Pod, mounts, outside};

/// A node with an uplink `eth0` to an [`Outside`] host that is its default route. It goes with the value.
///
/// Dereferences to its [`Place`]: `node.command("ip")` and `node.run_in(|| ...)` run in its namespaces.
pub struct Node {
    place: Place,
    outside: Outside,
}

impl Node {
    /// A node with a bpffs of its own at `/sys/fs/bpf`.
    pub fn new() -> Result<Node> {
        Node::build(Place::with_mounts(|| mounts::prepare(true))?)
    }

    /// A node with no bpffs, on which no process can mount one: mount(2) fails with EPERM, whoever calls.
    pub fn without_bpffs() -> Result<Node> {
        let mut place = Place::with_mounts(|| mounts::prepare(false))?;
        place.deny(&MOUNTS);
        Node::build(place)
    }

    /// Makes these system calls fail in every process started on the node from now on; none ends that.
    pub fn deny(&mut self, denials: &[Denial]) {
        self.place.deny(denials);
    }

    /// Takes capabilities, by their numbers (capabilities(7)), from every process started on the node from now on.
    pub fn drop_capabilities(&mut self, numbers: &[u32]) {
        self.place.drop_capabilities(numbers);
    }

    fn build(place: Place) -> Result<Node> {
        place.call("ip link set lo up")?;
        let outside = outside::attach(&place).context("connecting the outside host")?;
        Ok(Node { place, outside })
    }

    /// The host at the other end of the uplink. It has no route to any pod, so an answer proves a translation.
    pub fn outside(&self) -> &Outside {
        &self.outside
    }

    /// A new, empty network namespace at `/run/netns/<name>`, to be wired by a plugin.
    pub fn pod(&self, name: &str) -> Result<Pod> {
        Pod::new(&self.place, name)
    }

    /// The text of a file in the node's mount namespace.
    pub fn read(&self, path: impl AsRef<Path>) -> Result<String> {
        let path = path.as_ref();
        self.run_in(|| fs::read_to_string(path).with_context(|| format!("reading {}", path.display())))
    }

    /// Writes a file in the node's mount namespace, and makes its directory.
    pub fn write(&self, path: impl AsRef<Path>, text: &str) -> Result<()> {
        let path = path.as_ref();
        self.run_in(|| {
            fs::create_dir_all(path.parent().context("a path without a directory")?)?;
            fs::write(path, text).with_context(|| format!("writing {}", path.display()))
        })
    }

    /// Everything below a directory of the node's mount namespace, as sorted relative paths. No directory, nothing.
    pub fn tree(&self, dir: impl AsRef<Path>) -> Result<Vec<String>> {
        let dir = dir.as_ref();
        self.run_in(|| {
            let mut found = Vec::new();
            if dir.is_dir() {
                walk(dir, dir, &mut found)?;
            }
            found.sort();
            Ok(found)
        })
    }
}

impl Deref for Node {
    type Target = Place;

    fn deref(&self) -> &Place {
        &self.place
    }
}

fn walk(root: &Path, dir: &Path, found: &mut Vec<String>) -> Result<()> {
    for entry in fs::read_dir(dir).with_context(|| format!("listing {}", dir.display()))? {
        let path = entry.with_context(|| format!("listing {}", dir.display()))?.path();
        found.push(path.strip_prefix(root)?.display().to_string());
        if path.is_dir() && !path.is_symlink() {
            walk(root, &path, found)?;
        }
    }
    Ok(())
}
