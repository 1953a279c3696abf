//! Finds the eBPF object built by `cargo xtask build-ebpf` and hands it to `src/dataplane/object.rs`.
//!
//! `EBPF_BRIDGE_OBJECT` names it; unset, `<target>/ebpf/ebpf-bridge.o` is taken if it is there. Without an
//! object the crate still builds: such a plugin has the bridge path only, and says so.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

const OBJECT: &str = "EBPF_BRIDGE_OBJECT";

fn main() {
    println!("cargo::rustc-check-cfg=cfg(ebpf_object)");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed={OBJECT}");
    println!("cargo::rerun-if-env-changed=CARGO_TARGET_DIR");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let Some(object) = find(&out) else {
        println!("cargo::warning=built without the eBPF object: run cargo xtask build");
        return;
    };
    println!("cargo::rerun-if-changed={}", object.display());
    let copied = fs::read(&object).and_then(|bytes| {
        fs::write(out.join("ebpf-bridge.o"), &bytes)?;
        Ok(identity(&bytes))
    });
    match copied {
        Ok(identity) => {
            println!("cargo::rustc-env=EBPF_OBJECT_ID={identity:016x}");
            println!("cargo::rustc-cfg=ebpf_object");
        }
        Err(error) => println!(
            "cargo::error=cannot read the eBPF object {} ({error}): run cargo xtask build",
            object.display()
        ),
    }
}

/// FNV-1a, 64 bits: tells this object from that of another build, no more.
fn identity(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ *byte as u64).wrapping_mul(0x100_0000_01b3))
}

fn find(out: &Path) -> Option<PathBuf> {
    if let Some(named) = env::var_os(OBJECT).filter(|name| !name.is_empty()) {
        return Some(PathBuf::from(named));
    }
    let place = target_dir(out)?.join("ebpf");
    let object = place.join("ebpf-bridge.o");
    if object.is_file() {
        return Some(object);
    }
    // Cargo takes a watched path that does not exist for changed, and would rebuild the crate every time. So
    // watch the directory the object will appear in.
    if fs::create_dir_all(&place).is_ok() {
        println!("cargo::rerun-if-changed={}", place.display());
    }
    None
}

/// The target directory. Cargo does not tell build scripts, but tags it, unless it was there before cargo.
fn target_dir(out: &Path) -> Option<PathBuf> {
    if let Some(tagged) = out.ancestors().find(|dir| dir.join("CACHEDIR.TAG").is_file()) {
        return Some(tagged.to_path_buf());
    }
    let named = env::var_os("CARGO_TARGET_DIR").map(PathBuf::from).filter(|dir| dir.is_absolute());
    named.or_else(|| Some(Path::new(env!("CARGO_MANIFEST_DIR")).parent()?.join("target")))
}
