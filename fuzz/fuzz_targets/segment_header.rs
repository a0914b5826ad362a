//! libFuzzer around `heliox_fuzz::targets::segment_header`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| heliox_fuzz::targets::segment_header(data));
