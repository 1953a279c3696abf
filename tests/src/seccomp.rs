//! A process that may do everything root may, except mount.
//!
//! Taking CAP_SYS_ADMIN away would also forbid entering namespaces, and a file in the way of the mount point would
//! be another fault than the one meant. So a seccomp filter answers EPERM to the calls that mount.

use std::io;

use nix::libc;

const LOAD_WORD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const JUMP_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
/// Where `struct seccomp_data` has the number of the system call (seccomp(2)).
const OFFSET_NR: u32 = 0;

/// Makes mount(2), fsopen(2), fsmount(2) and move_mount(2) fail with EPERM in this process, across exec.
///
/// Safe to call between fork and exec: it uses the stack and one system call.
pub(crate) fn forbid_mounts() -> io::Result<()> {
    let mut filter = [
        statement(LOAD_WORD, OFFSET_NR),
        deny_jump(libc::SYS_mount, 3),
        deny_jump(libc::SYS_fsopen, 2),
        deny_jump(libc::SYS_fsmount, 1),
        libc::sock_filter { code: JUMP_EQUAL, jt: 0, jf: 1, k: libc::SYS_move_mount as u32 },
        statement(RETURN, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        statement(RETURN, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: `program` and the filter it points to live until the call returns; the kernel copies both.
    let result = unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn statement(code: u16, k: u32) -> libc::sock_filter {
    libc::sock_filter { code, jt: 0, jf: 0, k }
}

/// Jumps `distance` instructions ahead, to the denial, if the call is `number`; else goes on with the next one.
fn deny_jump(number: libc::c_long, distance: u8) -> libc::sock_filter {
    libc::sock_filter { code: JUMP_EQUAL, jt: distance, jf: 0, k: number as u32 }
}
