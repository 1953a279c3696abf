//! bpf(2), as far as aya does not reach: flags of a test run, and a program from its instructions.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use nix::libc;

use super::entry::Context;

/// `enum bpf_cmd`, `enum bpf_map_type` and `enum bpf_prog_type` of include/uapi/linux/bpf.h.
const MAP_CREATE: libc::c_long = 0;
const MAP_UPDATE_ELEM: libc::c_long = 2;
const PROG_LOAD: libc::c_long = 5;
const PROG_TEST_RUN: libc::c_long = 10;
const PROG_ARRAY: u32 = 3;
const SCHED_CLS: u32 = 3;

/// `BPF_F_TEST_SKB_CHECKSUM_COMPLETE`: the packet comes with a sum over all of it, and leaving with a wrong one
/// is EBADMSG.
pub(super) const CHECKSUM_COMPLETE: u32 = 1 << 2;

/// # Safety
/// `attr` is the member of `union bpf_attr` that belongs to `command`, and what it points to is valid.
unsafe fn bpf<T>(command: libc::c_long, attr: &mut T) -> io::Result<i32> {
    // SAFETY: the caller's promise; the kernel reads and writes `size_of::<T>()` bytes of `attr`.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, attr as *mut T, size_of::<T>()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as i32) }
}

/// An array with one slot for a program to jump to.
pub(super) fn jump_table(to: &impl AsRawFd) -> io::Result<OwnedFd> {
    #[repr(C)]
    struct Create {
        map_type: u32,
        key_size: u32,
        value_size: u32,
        max_entries: u32,
    }
    #[repr(C)]
    struct Update {
        map_fd: u32,
        padding: u32,
        key: u64,
        value: u64,
        flags: u64,
    }
    let mut create = Create { map_type: PROG_ARRAY, key_size: 4, value_size: 4, max_entries: 1 };
    // SAFETY: the first members of the map-create attribute, without pointers.
    let fd = unsafe { bpf(MAP_CREATE, &mut create) }?;
    // SAFETY: the kernel gave us the descriptor.
    let map = unsafe { OwnedFd::from_raw_fd(fd) };
    let (key, value) = (0u32, to.as_raw_fd());
    let mut update = Update {
        map_fd: map.as_raw_fd() as u32,
        padding: 0,
        key: &raw const key as u64,
        value: &raw const value as u64,
        flags: 0,
    };
    // SAFETY: key and value are of the map's sizes and outlive the call.
    unsafe { bpf(MAP_UPDATE_ELEM, &mut update) }?;
    Ok(map)
}

/// Loads a tc program.
pub(super) fn load(instructions: &[u64]) -> io::Result<OwnedFd> {
    prog_load(instructions, 0, &mut [])
}

/// `BPF_LOG_STATS` of include/linux/bpf_verifier.h: only the counts of the verifier's work, 5.2 and newer.
const LOG_STATS: u32 = 4;

/// Loads a tc program, and returns what the verifier says of its work.
pub(super) fn load_with_statistics(instructions: &[u64]) -> io::Result<String> {
    let mut log = vec![0; 4096];
    prog_load(instructions, LOG_STATS, &mut log)?;
    log.truncate(log.iter().position(|&byte| byte == 0).unwrap_or(log.len()));
    Ok(String::from_utf8_lossy(&log).into_owned())
}

fn prog_load(instructions: &[u64], log_level: u32, log: &mut [u8]) -> io::Result<OwnedFd> {
    #[repr(C)]
    struct Load {
        prog_type: u32,
        insn_cnt: u32,
        insns: u64,
        license: u64,
        log_level: u32,
        log_size: u32,
        log_buf: u64,
    }
    let mut load = Load {
        prog_type: SCHED_CLS,
        insn_cnt: instructions.len() as u32,
        insns: instructions.as_ptr() as u64,
        license: c"GPL".as_ptr() as u64,
        log_level,
        log_size: log.len() as u32,
        // Without a log the kernel wants no address of one.
        log_buf: if log.is_empty() { 0 } else { log.as_mut_ptr() as u64 },
    };
    // SAFETY: the first members of the program-load attribute; the pointers outlive the call, and the kernel writes
    // no more than `log_size` bytes.
    let fd = unsafe { bpf(PROG_LOAD, &mut load) }?;
    // SAFETY: the kernel gave us the descriptor.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The member `test` of `union bpf_attr`.
#[repr(C)]
#[derive(Default)]
struct Run {
    prog_fd: u32,
    retval: u32,
    data_size_in: u32,
    data_size_out: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    duration: u32,
    ctx_size_in: u32,
    ctx_size_out: u32,
    ctx_in: u64,
    ctx_out: u64,
    flags: u32,
    cpu: u32,
    batch_size: u32,
    padding: u32,
}

/// What a test run left behind.
pub(super) struct Ran {
    /// The program's value in the last run.
    pub value: i32,
    pub packet: Vec<u8>,
    pub context: Context,
    /// Mean time of a run, ns.
    pub nanoseconds: u32,
}

/// Runs the program `repeat` times on the same packet, with [`CHECKSUM_COMPLETE`] or no flags.
pub(super) fn test_run(
    program: &impl AsRawFd,
    flags: u32,
    repeat: u32,
    packet: &[u8],
    context: &Context,
) -> io::Result<Ran> {
    // A program may make a packet longer by a tag, not more.
    let mut after = vec![0; packet.len() + 8];
    let mut context_after = Context::default();
    let mut run = Run {
        prog_fd: program.as_raw_fd() as u32,
        data_size_in: packet.len() as u32,
        data_size_out: after.len() as u32,
        data_in: packet.as_ptr() as u64,
        data_out: after.as_mut_ptr() as u64,
        repeat,
        ctx_size_in: size_of::<Context>() as u32,
        ctx_size_out: size_of::<Context>() as u32,
        ctx_in: &raw const *context as u64,
        ctx_out: &raw mut context_after as u64,
        flags,
        ..Run::default()
    };
    // SAFETY: every pointer comes with the size of what it points to, and all outlive the call.
    unsafe { bpf(PROG_TEST_RUN, &mut run) }?;
    after.truncate(run.data_size_out as usize);
    Ok(Ran { value: run.retval as i32, packet: after, context: context_after, nanoseconds: run.duration })
}
