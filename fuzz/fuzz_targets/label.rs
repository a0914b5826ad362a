//! libFuzzer around `heliox_fuzz::targets::label`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| heliox_fuzz::targets::label(data));
