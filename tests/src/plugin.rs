//! Where the plugin under test and its peers are.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use anyhow::{Context, Result, bail};

/// The plugin's name in a network configuration (`type`) and in CNI_PATH.
pub const NAME: &str = "ebpf-bridge";
/// Names the binary to test instead of the one `cargo xtask build` leaves.
pub const PATH_VARIABLE: &str = "EBPF_BRIDGE_BIN";
/// Where distributions install the reference plugins.
const REFERENCE_DIRS: [&str; 2] = ["/usr/lib/cni", "/usr/libexec/cni"];

/// Names the archive of a release, which `cargo xtask test` packs.
const RELEASE_VARIABLE: &str = "EBPF_BRIDGE_DIST";

static CHOSEN: OnceLock<PathBuf> = OnceLock::new();
static REFERENCE: OnceLock<PathBuf> = OnceLock::new();

/// Says where the plugin was built, for a program that knows better than [`path`] would. The first word counts.
pub fn choose(path: PathBuf) {
    CHOSEN.get_or_init(|| path);
}

/// The plugin under test: `EBPF_BRIDGE_BIN`, else what was chosen, else `target/dist/ebpf-bridge` of this workspace.
///
/// # Errors
/// If there is no such file; the message names the command that makes it.
pub fn path() -> Result<PathBuf> {
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("target").join("dist").join(NAME);
    let chosen = || CHOSEN.get().cloned().unwrap_or(built);
    let path = env::var_os(PATH_VARIABLE).map_or_else(chosen, PathBuf::from);
    match fs::canonicalize(&path) {
        Ok(found) => Ok(found),
        Err(_) => bail!("no plugin at {}: run `cargo xtask build`", path.display()),
    }
}

/// The archive of a release with the plugin under test, if one was packed.
pub fn release() -> Option<PathBuf> {
    env::var_os(RELEASE_VARIABLE).map(PathBuf::from).filter(|path| path.is_file())
}

/// Says where other builds of the reference plugins are. The first word counts.
pub fn choose_reference(dir: PathBuf) {
    REFERENCE.get_or_init(|| dir);
}

/// The directory of the reference plugins: the one chosen, else where distributions install them.
pub fn reference_dir() -> Option<&'static Path> {
    let installed = || REFERENCE_DIRS.map(Path::new).into_iter().find(|dir| dir.is_dir());
    REFERENCE.get().map(PathBuf::as_path).or_else(installed)
}

/// The reference plugins of this machine (Debian: `containernetworking-plugins`); none is no error.
pub fn reference_plugins() -> Result<Vec<PathBuf>> {
    let Some(dir) = reference_dir() else {
        return Ok(Vec::new());
    };
    let shown = dir.display();
    let entries = fs::read_dir(dir).with_context(|| format!("listing {shown}"))?;
    entries.map(|entry| Ok(entry.with_context(|| format!("listing {shown}"))?.path())).collect()
}
