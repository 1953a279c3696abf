//! The file system of a guest: this machine's own programs with their libraries, the plugin and the lab suite.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use ebpf_bridge_lab::plugin;

use crate::fault::Fault;
use crate::process::{Captured, clean, which};

/// What the suite and the plugin run. Everything else is an applet of busybox.
const PROGRAMS: [&str; 9] =
    ["dash", "ip", "tc", "bridge", "nft", "iptables", "ip6tables", "iptables-save", "ip6tables-save"];
/// Reference plugins that are compared with.
const PEERS: [&str; 3] = ["bridge", "host-local", "portmap"];
/// Directories that every guest has, also as mount points of the lab's nodes.
const DIRECTORIES: [&str; 16] = [
    "proc",
    "sys",
    "dev",
    "tmp",
    "run",
    "root",
    "applets",
    "mnt",
    "etc/cni",
    "opt/cni",
    "var/lib/cni",
    "var/log",
    "usr/bin",
    "usr/sbin",
    "usr/lib",
    "usr/lib64",
];
const INIT: &str = include_str!("init.sh");

/// A directory that becomes the guest's root.
pub(super) struct Userland {
    root: PathBuf,
    taken: BTreeSet<PathBuf>,
}

impl Userland {
    /// Makes `root` anew, with everything but the kernel's modules.
    pub(super) fn build(root: &Path, plugin: &Path, suite: &Path, filter: Option<&str>) -> Result<()> {
        if root.exists() {
            fs::remove_dir_all(root).with_context(|| format!("cannot remove {}", root.display()))?;
        }
        let mut userland = Userland { root: root.to_owned(), taken: BTreeSet::new() };
        userland.directories()?;
        for program in PROGRAMS.into_iter().chain(["busybox"]) {
            userland.program(program)?;
        }
        userland.link("/usr/bin/sh", Path::new("dash"))?;
        // Whom the kernel asks for a module.
        userland.link("/usr/sbin/modprobe", Path::new("../bin/busybox"))?;
        userland.extensions()?;
        userland.peers()?;
        userland.place(plugin, "/opt/ebpf-bridge")?;
        userland.libraries(plugin)?;
        userland.suite(suite)?;
        if let Some(filter) = filter {
            userland.text("filter", filter)?;
        }
        userland.text("init", INIT)
    }

    fn directories(&self) -> Result<()> {
        for name in DIRECTORIES {
            let dir = self.root.join(name);
            fs::create_dir_all(&dir).with_context(|| format!("cannot create {}", dir.display()))?;
        }
        for name in ["bin", "sbin", "lib", "lib64"] {
            self.link(&format!("/{name}"), &Path::new("usr").join(name))?;
        }
        Ok(())
    }

    /// A program by the name it is called by.
    fn program(&mut self, name: &str) -> Result<()> {
        let Some(path) = which(name) else {
            let sentence = format!("the guests run `{name}`, which is not here");
            return Err(Fault::new(sentence, "cargo xtask test kernels, as root on Debian").into());
        };
        let file = fs::canonicalize(&path).with_context(|| format!("no {}", path.display()))?;
        self.file(&file)?;
        // Also where alternatives lead from name to name: which program it is to be, it sees by its name.
        let called = Path::new("/usr/bin").join(name);
        if called != file && !self.root.join(format!("usr/bin/{name}")).exists() {
            self.link(&called.to_string_lossy(), &file)?;
        }
        Ok(())
    }

    /// The matches and targets of iptables, which it loads by their names.
    fn extensions(&mut self) -> Result<()> {
        let dirs = fs::read_dir("/usr/lib").context("cannot list /usr/lib")?;
        let dirs = dirs.flatten().map(|entry| entry.path().join("xtables"));
        for dir in dirs.chain(["/usr/lib/xtables".into()]).filter(|dir| dir.is_dir()) {
            for file in fs::read_dir(&dir).with_context(|| format!("cannot list {}", dir.display()))? {
                self.file(&file?.path())?;
            }
        }
        Ok(())
    }

    fn peers(&mut self) -> Result<()> {
        let Some(dir) = plugin::reference_dir() else { return Ok(()) };
        for file in PEERS.map(|name| dir.join(name)).iter().filter(|file| file.is_file()) {
            self.file(file)?;
        }
        Ok(())
    }

    /// The suite without the tables for a debugger, which are most of it.
    fn suite(&mut self, suite: &Path) -> Result<()> {
        let placed = self.root.join("opt/lab");
        let mut strip = clean("strip");
        Captured::of(strip.arg("-o").arg(&placed).arg(suite))?.success()?;
        self.libraries(suite)
    }

    /// A file of this machine, at the same place, with the libraries it is linked with.
    fn file(&mut self, file: &Path) -> Result<()> {
        if self.taken.insert(file.to_owned()) {
            self.place(file, &file.to_string_lossy())?;
            self.libraries(file)?;
        }
        Ok(())
    }

    fn libraries(&mut self, file: &Path) -> Result<()> {
        // A static program is no failure of ours.
        let listed = Captured::of(clean("ldd").arg(file))?.stdout;
        for library in listed.split_whitespace().filter(|word| word.starts_with('/')) {
            if self.taken.insert(library.into()) {
                self.place(Path::new(library), library)?;
            }
        }
        Ok(())
    }

    fn place(&self, from: &Path, at: &str) -> Result<()> {
        let to = self.root.join(at.trim_start_matches('/'));
        if let Some(dir) = to.parent() {
            fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
        }
        fs::copy(from, &to).with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))?;
        Ok(())
    }

    fn link(&self, at: &str, to: &Path) -> Result<()> {
        let at = self.root.join(at.trim_start_matches('/'));
        symlink(to, &at).with_context(|| format!("cannot link {}", at.display()))
    }

    /// An executable script.
    fn text(&self, name: &str, text: &str) -> Result<()> {
        let path = self.root.join(name);
        let written = fs::write(&path, text)
            .and_then(|()| fs::set_permissions(&path, fs::Permissions::from_mode(0o755)));
        written.with_context(|| format!("cannot write {}", path.display()))
    }
}
