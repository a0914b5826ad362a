//! libFuzzer around `heliox_fuzz::volumes::volume_open`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| heliox_fuzz::volumes::volume_open(data));
