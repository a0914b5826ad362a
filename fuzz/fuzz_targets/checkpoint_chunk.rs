//! libFuzzer around `heliox_fuzz::targets::checkpoint_chunk`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| heliox_fuzz::targets::checkpoint_chunk(data));
