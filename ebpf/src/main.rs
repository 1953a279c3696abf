//! The tc programs of ebpf-bridge.
//!
//! They decide nothing. `flow_ingress` notes a packet and tags it; `flow_egress_pod` and
//! `flow_egress_out` compare what leaves with the note and record what the kernel did; for the next
//! second `flow_ingress` repeats that for the packets of the same flow. Whatever is in doubt is passed on.
//!
//! A program that passes a packet returns -1 (`TC_ACT_UNSPEC`, which is also `TCX_NEXT`): `TC_ACT_OK` would
//! overwrite `skb->tc_index` and hide the packet from the programs after ours.
#![no_std]
#![no_main]
#![allow(
    clippy::needless_borrows_for_generic_args,
    reason = "a map's key or value given by value is copied once more, on a stack of 512 bytes"
)]

mod clock;
mod egress;
mod ingress;
mod maps;
mod packet;
mod repeat;
mod report;

use aya_ebpf::{macros::classifier, programs::TcContext};

/// On every pod veth's host end and every uplink: carries packets of known flows, notes the others.
#[classifier]
pub fn flow_ingress(ctx: TcContext) -> i32 {
    ingress::run(&ctx)
}

/// On every pod veth's host end: records flows that end in the pod.
#[classifier]
pub fn flow_egress_pod(ctx: TcContext) -> i32 {
    egress::run(&ctx, ebpf_bridge_common::flow::FLOW_TO_POD)
}

/// On every uplink: records flows that leave the node.
#[classifier]
pub fn flow_egress_out(ctx: TcContext) -> i32 {
    egress::run(&ctx, 0)
}

/// Lets the programs call helpers that are for GPL-compatible programs only.
#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";

#[cfg(not(test))]
#[panic_handler]
fn panic(_info: &core::panic::PanicInfo<'_>) -> ! {
    // The verifier refuses a program that can get here; the compiler wants the function all the same.
    loop {}
}
