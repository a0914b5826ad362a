//! libFuzzer around `heliox_fuzz::scripts::store_ops`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| heliox_fuzz::scripts::store_ops(data));
