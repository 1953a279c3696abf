//! A container image made of one static busybox, as the archive that `docker save` writes and every runtime reads. A test machine has no image registry, and one binary is all that the tests' containers run.

use std::env;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::json;
use sha2::{Digest, Sha256};
use tar::{Builder, EntryType, Header};

/// The image's name in the runtime. The host part keeps the runtime from reading it as a name on a public registry.
pub const NAME: &str = "localhost/ebpf-bridge/busybox:lab";

/// What the tests' containers call; each becomes a link to the one binary.
const APPLETS: [&str; 7] = ["sh", "sleep", "timeout", "dd", "wc", "httpd", "wget"];

/// Writes the image to `archive`. Without a command of its own a container sleeps, so the image is also fit to be
/// the pause container of a pod.
///
/// # Errors
/// If there is no `busybox` on PATH. It has to be a static one (Debian: `busybox-static`).
pub(crate) fn write(archive: &Path) -> Result<()> {
    let layer = layer(&busybox()?)?;
    let config = serde_json::to_vec(&json!({
        "architecture": architecture(),
        "os": "linux",
        "config": { "Env": ["PATH=/bin"], "Cmd": ["sleep", "infinity"] },
        "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{}", hex(&Sha256::digest(&layer)))] },
    }))?;
    let manifest = serde_json::to_vec(&json!([{
        "Config": "config.json", "RepoTags": [NAME], "Layers": ["layer.tar"],
    }]))?;

    let mut tar = Builder::new(Vec::new());
    for (name, content) in [("manifest.json", &manifest), ("config.json", &config), ("layer.tar", &layer)] {
        append_file(&mut tar, name, 0o644, content)?;
    }
    fs::write(archive, tar.into_inner()?).with_context(|| format!("writing {}", archive.display()))
}

fn busybox() -> Result<Vec<u8>> {
    let path = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&path).map(|dir| dir.join("busybox")).find(|file| file.is_file());
    let file = found.context("no busybox on PATH")?;
    fs::read(&file).with_context(|| format!("reading {}", file.display()))
}

fn layer(busybox: &[u8]) -> Result<Vec<u8>> {
    let mut tar = Builder::new(Vec::new());
    append_file(&mut tar, "bin/busybox", 0o755, busybox)?;
    for applet in APPLETS {
        let mut link = header(EntryType::Symlink, 0o777, 0);
        tar.append_link(&mut link, format!("bin/{applet}"), "busybox")?;
    }
    Ok(tar.into_inner()?)
}

fn append_file(tar: &mut Builder<Vec<u8>>, name: &str, mode: u32, content: &[u8]) -> Result<()> {
    let mut file = header(EntryType::Regular, mode, content.len() as u64);
    tar.append_data(&mut file, name, content).with_context(|| format!("appending {name}"))
}

fn header(kind: EntryType, mode: u32, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(size);
    header
}

/// The OCI image specification names architectures as Go does.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
