//! libFuzzer around `heliox_fuzz::targets::record_stream`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| heliox_fuzz::targets::record_stream(data));
