//! libFuzzer around `heliox_fuzz::program::arguments`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| heliox_fuzz::program::arguments(data));
