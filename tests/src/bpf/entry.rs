//! A test run cannot set `skb->tc_index`, nor a VLAN tag kept beside the packet. So each program is entered through
//! a few instructions that take both from `skb->cb`, which a test run can set.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use super::syscall;

/// `struct __sk_buff` of include/uapi/linux/bpf.h, as 32-bit words.
#[repr(C)]
#[derive(Clone)]
pub(super) struct Context([u32; 48]);

impl Default for Context {
    fn default() -> Self {
        Self([0; 48])
    }
}

/// Fields of [`Context`]: a word's number, four times which is its offset.
#[derive(Clone, Copy)]
pub(super) enum Field {
    Mark = 2,
    Priority = 8,
    Ifindex = 10,
    TcIndex = 11,
    /// `cb[0]`: what becomes `tc_index`.
    Tag = 12,
    /// `cb[1]`: VLAN to tag the packet with; 0 for none.
    Vlan = 13,
    GsoSize = 44,
}

impl Context {
    pub(super) fn get(&self, field: Field) -> u32 {
        self.0[field as usize]
    }

    pub(super) fn with(mut self, field: Field, value: u32) -> Self {
        self.0[field as usize] = value;
        self
    }
}

/// `struct bpf_insn` of include/uapi/linux/bpf.h.
fn instruction(code: u8, to: u8, from: u8, offset: i16, immediate: i32) -> u64 {
    u64::from_ne_bytes({
        let ([o0, o1], [i0, i1, i2, i3]) = (offset.to_ne_bytes(), immediate.to_ne_bytes());
        [code, registers(to, from), o0, o1, i0, i1, i2, i3]
    })
}

/// Two four-bit fields, whose order is that of the machine's bytes.
fn registers(to: u8, from: u8) -> u8 {
    if cfg!(target_endian = "little") { from << 4 | to } else { to << 4 | from }
}

fn load(to: u8, field: Field) -> u64 {
    instruction(0x61, to, 6, field as i16 * 4, 0)
}

fn set(to: u8, immediate: i32) -> u64 {
    instruction(0xb7, to, 0, 0, immediate)
}

fn copy(to: u8, from: u8) -> u64 {
    instruction(0xbf, to, from, 0, 0)
}

fn call(helper: i32) -> u64 {
    instruction(0x85, 0, 0, 0, helper)
}

const EXIT: u64 = 0x95;
/// Helpers of `enum bpf_func_id`.
const TAIL_CALL: i32 = 12;
const VLAN_PUSH: i32 = 18;

/// What a run returns that did not get to the program.
pub(super) const LOST: i32 = 99;

/// The way in to `program`, which the second descriptor keeps open.
pub(super) fn into(program: &impl AsRawFd) -> io::Result<(OwnedFd, OwnedFd)> {
    let table = syscall::jump_table(program)?;
    let store = |field: Field, from: u8| instruction(0x63, 6, from, field as i16 * 4, 0);
    let instructions = [
        copy(6, 1),
        load(2, Field::Vlan),
        // if r2 == 0, skip the push
        instruction(0x15, 2, 0, 4, 0),
        copy(3, 2),
        set(2, u16::to_be(0x8100) as i32),
        copy(1, 6),
        call(VLAN_PUSH),
        load(2, Field::Tag),
        store(Field::TcIndex, 2),
        copy(1, 6),
        // r2 = the map with this descriptor, in two parts
        instruction(0x18, 2, 1, 0, table.as_raw_fd()),
        0,
        set(3, 0),
        call(TAIL_CALL),
        set(0, LOST),
        EXIT,
    ];
    Ok((syscall::load(&instructions)?, table))
}

/// A program that does nothing.
pub(super) fn nothing() -> io::Result<OwnedFd> {
    syscall::load(&[set(0, 0), EXIT])
}
