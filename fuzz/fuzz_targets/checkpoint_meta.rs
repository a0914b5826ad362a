//! libFuzzer around `heliox_fuzz::targets::checkpoint_meta`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| heliox_fuzz::targets::checkpoint_meta(data));
