//! qemu: the machine's own, or the package unpacked below the cache.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use super::archive::Archive;
use super::guest::Guest;
use crate::process::{clean, which};
use crate::workspace::Workspace;

const PROGRAM: &str = "qemu-system-x86_64";
const PACKAGE: &str = "qemu-system-x86";
/// Below the unpacked package and its libraries, where the C library's loader finds all of them.
const LIBRARIES: &str = "usr/lib/x86_64-linux-gnu";
/// Memory for the guest, of which the files of its system take a part, MiB.
const MEMORY: u32 = 3072;

/// What starts virtual machines, by software alone: /dev/kvm is not for everyone.
pub(super) enum Qemu {
    Installed(PathBuf),
    Unpacked(PathBuf),
}

impl Qemu {
    /// The one on PATH, else the one in the cache.
    pub(super) fn known(workspace: &Workspace) -> Option<Qemu> {
        let root = root(workspace);
        let unpacked = root.join("usr/bin").join(PROGRAM).is_file().then_some(Qemu::Unpacked(root));
        which(PROGRAM).map(Qemu::Installed).or(unpacked)
    }

    /// Downloads and unpacks it.
    pub(super) fn fetch(workspace: &Workspace, archive: &Archive) -> Result<Qemu> {
        let root = root(workspace);
        archive.unpack_program(PACKAGE, &root)?;
        Ok(Qemu::Unpacked(root))
    }

    /// A machine that boots `guest`, and ends when it shuts down or restarts. Its first serial port goes to the
    /// file `console`, the second to the file `report`.
    pub(super) fn boots(&self, guest: &Guest<'_>, console: &Path, report: &Path) -> Command {
        let mut command = self.command();
        command.args(["-accel", "tcg,thread=multi", "-smp", "2", "-m", &MEMORY.to_string()]);
        command.args(["-cpu", guest.cpu, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]);
        for file in [console, report] {
            command.arg("-serial").arg(format!("file:{}", file.display()));
        }
        command.arg("-kernel").arg(&guest.kernel.image).arg("-initrd").arg(guest.initramfs);
        // A restart at once when the kernel panics, which ends the machine.
        command.args(["-append", "console=ttyS0 panic=-1 oops=panic quiet rdinit=/init"]);
        command
    }

    fn command(&self) -> Command {
        match self {
            Qemu::Installed(program) => clean(program),
            Qemu::Unpacked(root) => {
                let libraries = root.join(LIBRARIES);
                let mut command = clean(root.join("lib64/ld-linux-x86-64.so.2"));
                let also = root.join("lib/x86_64-linux-gnu");
                let path = format!("{}:{}", libraries.display(), also.display());
                command.arg("--library-path").arg(path).arg(root.join("usr/bin").join(PROGRAM));
                for data in ["usr/share/qemu", "usr/share/seabios"] {
                    command.arg("-L").arg(root.join(data));
                }
                command.env("QEMU_MODULE_DIR", libraries.join("qemu"));
                command
            }
        }
    }
}

fn root(workspace: &Workspace) -> PathBuf {
    workspace.cache.join("kernels/qemu")
}
