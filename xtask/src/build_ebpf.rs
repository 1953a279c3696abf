//! `cargo xtask build-ebpf`: the eBPF programs, to `target/ebpf/ebpf-bridge.o`.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::fault::Fault;
use crate::process::{self, Captured};
use crate::toolchain::Toolchain;
use crate::workspace::Workspace;

/// The kernel runs programs in its own byte order.
const TARGET: &str = if cfg!(target_endian = "big") { "bpfeb-unknown-none" } else { "bpfel-unknown-none" };
/// What the loader cannot do without: the programs, their maps, types for the verifier, and the licence.
const SECTIONS: [&str; 4] = ["classifier", "maps", ".BTF", "license"];

/// Builds the object and returns its path.
pub(crate) fn run(workspace: &Workspace) -> Result<PathBuf> {
    let toolchain = Toolchain::known_or_found(workspace)?;
    println!("building the eBPF programs with {}", toolchain.rustc);
    let mut cargo = cargo(workspace, &toolchain, "build");
    cargo.arg("--release");
    let said = Captured::of(&mut cargo)?;
    let log = workspace.log("build-ebpf");
    said.keep(&log)?;
    if !said.status.success() {
        return Err(explain(&said.stderr, &log).into());
    }
    eprint!("{}", said.stderr);
    let built = target_dir(workspace).join(TARGET).join("release/ebpf-bridge");
    check(&built)?;
    let object = workspace.object();
    place(&built, &object)?;
    println!("built {}", object.display());
    Ok(object)
}

/// `cargo <verb>` of the BPF toolchain, on the eBPF workspace, for the BPF target.
pub(crate) fn cargo(workspace: &Workspace, toolchain: &Toolchain, verb: &str) -> Command {
    let mut cargo = process::clean(&toolchain.rustc.cargo);
    cargo.current_dir(workspace.root.join("ebpf")).args([verb, "--quiet", "--locked", "--target", TARGET]);
    cargo.arg("-Zbuild-std=core").arg("--target-dir").arg(target_dir(workspace));
    cargo
        .env("RUSTC", &toolchain.rustc.path)
        .env("RUSTC_WRAPPER", "")
        .env("PATH", path(&toolchain.rustc.cargo));
    cargo.env(format!("CARGO_TARGET_{}_LINKER", TARGET.replace('-', "_").to_uppercase()), &toolchain.linker);
    // aya-ebpf's bindings differ by host; the linker writes BTF only when asked, from debug info.
    let arch = format!("--cfg=bpf_target_arch=\"{}\"", env::consts::ARCH);
    cargo.env("CARGO_ENCODED_RUSTFLAGS", [arch.as_str(), "-Cdebuginfo=2", "-Clink-arg=--btf"].join("\x1f"));
    if toolchain.rustc.is_stable() {
        cargo.env("RUSTC_BOOTSTRAP", "1");
    }
    cargo
}

/// PATH with the toolchain's own directory first: cargo looks for its clippy there.
fn path(cargo: &Path) -> OsString {
    let own = cargo.parent().map(Path::to_path_buf);
    let inherited = env::var_os("PATH").unwrap_or_default();
    env::join_paths(own.into_iter().chain(env::split_paths(&inherited))).unwrap_or(inherited)
}

fn target_dir(workspace: &Workspace) -> PathBuf {
    workspace.target.join("bpf")
}

/// One sentence for what cargo said; compiler errors, which are for the reader, are shown as they are.
fn explain(stderr: &str, log: &Path) -> Fault {
    let log = format!("all of it: {}", log.display());
    let has = |needles: &[&str]| needles.iter().any(|needle| stderr.contains(needle));
    if has(&["error: linking with"]) {
        return unlinked(stderr, &log);
    }
    if has(&["--locked was passed", "because --locked"]) {
        let sentence = format!("ebpf/Cargo.lock does not match ebpf/Cargo.toml ({log})");
        return Fault::new(sentence, "cargo update --workspace --manifest-path ebpf/Cargo.toml");
    }
    if has(&[
        "failed to download",
        "failed to get",
        "Unable to update",
        "Could not resolve host",
        "spurious network",
    ]) {
        let sentence = format!("cargo cannot fetch what the eBPF programs depend on ({log})");
        return Fault::new(sentence, "cargo fetch --locked --manifest-path ebpf/Cargo.toml");
    }
    eprint!("{stderr}");
    if has(&["error[E", "could not compile `ebpf-bridge"]) {
        return Fault::new("the eBPF programs do not compile, see above", "cargo xtask build-ebpf");
    }
    Fault::new(format!("the eBPF programs could not be built, see above ({log})"), "cargo xtask setup")
}

/// A linker that fails: of what it and rustc say about it, the one line that is the linker's own error.
fn unlinked(stderr: &str, log: &str) -> Fault {
    let after = stderr.split_once("error: linking with").map_or("", |(_, after)| after);
    let own = after.lines().map(|line| line.trim().trim_start_matches("= note:").trim_start());
    let starts = ["ERROR", "Error:", "error:", "LLVM ERROR", "/"];
    let is_error = |line: &&str| starts.iter().any(|start| line.starts_with(start));
    let said = own.take_while(|line| !line.starts_with("error: could not compile")).find(is_error);
    let said: String = said.unwrap_or("it does not say why").chars().take(300).collect();
    // LLVM names the function when it is the program, not the toolchain, that is at fault.
    let mend = if said.contains("in function") { "cargo xtask build-ebpf" } else { "cargo xtask setup" };
    Fault::new(format!("bpf-linker cannot link the eBPF programs: {said} ({log})"), mend)
}

/// Whether every section the loader needs is named in the object.
fn check(built: &Path) -> Result<()> {
    let bytes = fs::read(built).with_context(|| format!("cannot read {}", built.display()))?;
    let named = |section: &str| {
        let name = [section.as_bytes(), b"\0"].concat();
        bytes.windows(name.len()).any(|window| window == name)
    };
    match SECTIONS.iter().find(|section| !named(section)) {
        None => Ok(()),
        Some(missing) => Err(Fault::new(
            format!("the eBPF object has no section {missing}, so this toolchain or linker is not fit"),
            "cargo clean && cargo xtask setup && cargo xtask build-ebpf",
        )
        .into()),
    }
}

/// Copies `from` to `to`, but leaves an equal `to` alone, so that nothing is rebuilt for it.
pub(crate) fn place(from: &Path, to: &Path) -> Result<()> {
    let bytes = fs::read(from).with_context(|| format!("cannot read {}", from.display()))?;
    if fs::read(to).is_ok_and(|old| old == bytes) {
        return Ok(());
    }
    let dir = to.parent().context("it has no directory")?;
    fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
    // A running plugin cannot be written to (ETXTBSY), but it can be replaced.
    let new = to.with_extension("new");
    fs::copy(from, &new).with_context(|| format!("cannot write {}", new.display()))?;
    fs::rename(&new, to).with_context(|| format!("cannot write {}", to.display()))
}
