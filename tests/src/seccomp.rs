//! A process some of whose system calls fail, while it may do everything else root may.
//!
//! Taking CAP_SYS_ADMIN away would also forbid entering namespaces, and a file in the way of a mount point would be
//! another fault than the one meant. So a seccomp filter answers for the kernel.

use std::io;
use std::sync::Arc;

use nix::errno::Errno;
use nix::libc::{self, sock_filter};

const LOAD_WORD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const JUMP_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
/// Where `struct seccomp_data` has the number of the system call, and the low half of its first argument (seccomp(2)).
const OFFSET_NR: u32 = 0;
const OFFSET_FIRST: u32 = if cfg!(target_endian = "little") { 16 } else { 20 };

/// A system call that fails.
#[derive(Clone, Copy, Debug)]
pub struct Denial {
    call: libc::c_long,
    first: Option<u32>,
    errno: Errno,
}

impl Denial {
    /// Every call of this number.
    pub const fn of(call: libc::c_long, errno: Errno) -> Denial {
        Denial { call, first: None, errno }
    }

    /// Only those of bpf(2) with this command (`enum bpf_cmd`).
    pub const fn bpf(command: u32, errno: Errno) -> Denial {
        Denial { call: libc::SYS_bpf, first: Some(command), errno }
    }
}

/// mount(2) and its newer relatives.
pub(crate) const MOUNTS: [Denial; 4] = [
    Denial::of(libc::SYS_mount, Errno::EPERM),
    Denial::of(libc::SYS_fsopen, Errno::EPERM),
    Denial::of(libc::SYS_fsmount, Errno::EPERM),
    Denial::of(libc::SYS_move_mount, Errno::EPERM),
];

/// The filter for some denials, made where memory may be allocated.
#[derive(Clone)]
pub(crate) struct Filter(Arc<[sock_filter]>);

impl Filter {
    pub(crate) fn new(denials: &[Denial]) -> Filter {
        let mut program = Vec::new();
        for Denial { call, first, errno } in denials {
            let answer = statement(RETURN, libc::SECCOMP_RET_ERRNO | *errno as u32);
            program.push(statement(LOAD_WORD, OFFSET_NR));
            match first {
                None => program.extend([unless(*call as u32, 1), answer]),
                Some(first) => {
                    let look = statement(LOAD_WORD, OFFSET_FIRST);
                    program.extend([unless(*call as u32, 3), look, unless(*first, 1), answer]);
                }
            }
        }
        program.push(statement(RETURN, libc::SECCOMP_RET_ALLOW));
        Filter(program.into())
    }

    /// Puts the filter on this process, across exec.
    ///
    /// Safe to call between fork and exec: it uses the stack and one system call.
    pub(crate) fn install(&self) -> io::Result<()> {
        let program = libc::sock_fprog { len: self.0.len() as u16, filter: self.0.as_ptr().cast_mut() };
        // SAFETY: `program` and the filter it points to live until the call returns; the kernel copies both and
        // writes neither.
        let result = unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program) };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

fn statement(code: u16, k: u32) -> sock_filter {
    sock_filter { code, jt: 0, jf: 0, k }
}

/// Jumps `distance` instructions ahead unless the word loaded last is `value`.
fn unless(value: u32, distance: u8) -> sock_filter {
    sock_filter { code: JUMP_EQUAL, jt: 0, jf: distance, k: value }
}
