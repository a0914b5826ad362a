//! libFuzzer around `heliox_fuzz::segments::segment_scan`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| heliox_fuzz::segments::segment_scan(data));
