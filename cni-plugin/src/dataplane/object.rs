//! The eBPF object, embedded by `build.rs`.

/// The ELF object with the tc programs and their maps, 8-byte aligned as the ELF parser needs it; `None` when
/// the crate was built before `cargo xtask build-ebpf`.
#[cfg(ebpf_object)]
pub const OBJECT: Option<&[u8]> =
    Some(aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/ebpf-bridge.o")));

/// The ELF object with the tc programs and their maps; `None`: this crate was built before
/// `cargo xtask build-ebpf`, and has the bridge path only.
#[cfg(not(ebpf_object))]
pub const OBJECT: Option<&[u8]> = None;

/// Name of the directory of this build's programs: programs of another build are replaced.
#[cfg(ebpf_object)]
pub const PROGRAMS_NAME: &str = concat!("programs-", env!("EBPF_OBJECT_ID"));

/// Name of the directory of this build's programs; there are none.
#[cfg(not(ebpf_object))]
pub const PROGRAMS_NAME: &str = "programs-none";

/// The identity of the embedded programs; `None` without any.
pub const BUILD: Option<&str> = option_env!("EBPF_OBJECT_ID");
