//! Archives the kernel unpacks into its first file system (Documentation/driver-api/early-userspace).

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, ensure};

use super::release::Kernel;
use crate::process::{Captured, clean};

/// The parts of a kernel's modules that networking needs.
const PARTS: [&str; 5] = ["kernel/net", "kernel/drivers/net", "kernel/lib", "kernel/crypto", "kernel/arch"];

/// Packs a directory.
pub(super) fn pack(root: &Path, archive: &Path) -> Result<()> {
    let mut find = clean("find").arg(".").current_dir(root).stdout(Stdio::piped()).spawn()?;
    let names = find.stdout.take().context("find has no output")?;
    let out = File::create(archive).with_context(|| format!("cannot create {}", archive.display()))?;
    let mut cpio = clean("busybox");
    cpio.args(["cpio", "-o", "-H", "newc"]).current_dir(root).stdin(names).stdout(out).stderr(Stdio::null());
    let packed = cpio.status().context("cannot run busybox")?.success() && find.wait()?.success();
    ensure!(packed, "cannot pack {}", root.display());
    Ok(())
}

/// One archive after the other, which the kernel unpacks in turn.
pub(super) fn join(archives: &[&Path], joined: &Path) -> Result<()> {
    let mut out = File::create(joined).with_context(|| format!("cannot create {}", joined.display()))?;
    for archive in archives {
        let mut part = File::open(archive).with_context(|| format!("cannot read {}", archive.display()))?;
        io::copy(&mut part, &mut out).with_context(|| format!("cannot write {}", joined.display()))?;
    }
    out.flush().context("cannot write an archive")
}

/// A kernel's modules as an archive of their own, packed once.
pub(super) fn modules(kernel: &Kernel) -> Result<PathBuf> {
    let archive = kernel.root.join("modules.cpio");
    if archive.is_file() {
        return Ok(archive);
    }
    println!("packing the modules of {}", kernel.version);
    let root = kernel.root.join("modules");
    if root.exists() {
        fs::remove_dir_all(&root).with_context(|| format!("cannot remove {}", root.display()))?;
    }
    let tree = root.join("usr/lib/modules").join(&kernel.version);
    fs::create_dir_all(&tree).with_context(|| format!("cannot create {}", tree.display()))?;
    for part in PARTS.iter().filter(|part| kernel.modules.join(part).is_dir()) {
        let to = tree.join(part);
        fs::create_dir_all(to.parent().context("no parent")?)?;
        Captured::of(clean("cp").arg("-r").arg(kernel.modules.join(part)).arg(&to))?.success()?;
    }
    for list in ["modules.builtin", "modules.order"] {
        fs::copy(kernel.modules.join(list), tree.join(list)).with_context(|| format!("no {list}"))?;
    }
    // busybox, which loads them, reads no compressed ones; these are since 6.10.
    Captured::of(clean("find").arg(&tree).args(["-name", "*.ko.xz", "-exec", "xz", "-d", "{}", "+"]))?
        .success()?;
    symlink("usr/lib", root.join("lib")).context("cannot link /lib")?;
    let mut depmod = clean("busybox");
    depmod.args(["depmod", "-b"]).arg(&root).arg(&kernel.version);
    Captured::of(&mut depmod)?.success()?;
    let new = archive.with_extension("new");
    pack(&root, &new)?;
    fs::rename(&new, &archive).context("cannot keep the packed modules")?;
    fs::remove_dir_all(&root).context("cannot remove what was packed")?;
    Ok(archive)
}
