//! libFuzzer around `heliox_fuzz::program::import`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| heliox_fuzz::program::import(data));
