#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| ebpf_bridge_fuzz::run("packet", input));
