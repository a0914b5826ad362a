//! libFuzzer around `heliox_fuzz::targets::frame_block`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| heliox_fuzz::targets::frame_block(data));
