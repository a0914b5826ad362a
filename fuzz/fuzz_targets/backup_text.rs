//! libFuzzer around `heliox_fuzz::texts::backup_text`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| heliox_fuzz::texts::backup_text(data));
