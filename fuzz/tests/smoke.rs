//! Runs every target on its seeds and on pseudo-random mutations of them, with any toolchain.
//!
//! `HELIOX_FUZZ_RUNS` inputs each (default 20,000) from `HELIOX_FUZZ_SEED` (default 1). An input
//! that fails is kept in `fuzz/artifacts/`, where libFuzzer keeps its own.
#![forbid(unsafe_code)]

use heliox_fuzz::mutate::{input, Random};
use heliox_fuzz::{Target, TARGETS};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::Path;

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(default)
}

fn survives(target: &Target, data: &[u8]) -> bool {
    catch_unwind(AssertUnwindSafe(|| (target.run)(data))).is_ok()
}

fn run(target: &Target, data: &[u8]) {
    if survives(target, data) {
        return;
    }
    let directory = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("artifacts")
        .join(target.name);
    let path = directory.join(format!("smoke-{:08x}", crc(data)));
    std::fs::create_dir_all(&directory).expect("a place for the input");
    std::fs::write(&path, data).expect("the input is kept");
    let (name, len, path) = (target.name, data.len(), path.display());
    panic!("{name} fails on {len} bytes, kept as {path}");
}

fn crc(data: &[u8]) -> u32 {
    heliox_format::checksum::checksum(heliox_fuzz::targets::SALT, 0, data)
}

#[test]
fn every_target_bears_mutated_input() {
    let runs = number("HELIOX_FUZZ_RUNS", 20_000);
    let seed = number("HELIOX_FUZZ_SEED", 1);
    for target in TARGETS {
        let seeds = (target.seeds)();
        assert!(!seeds.is_empty(), "{} has no seeds", target.name);
        seeds.iter().for_each(|data| run(target, data));
        let mut random = Random::new(seed);
        for _ in 0..runs {
            run(target, &input(&mut random, &seeds));
        }
    }
}

#[test]
fn every_target_has_its_libfuzzer_binary_and_none_is_left_over() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz_targets");
    let mut files: Vec<String> = std::fs::read_dir(directory)
        .expect("fuzz_targets can be read")
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    let mut wanted: Vec<String> = TARGETS
        .iter()
        .map(|target| format!("{}.rs", target.name))
        .collect();
    files.sort();
    wanted.sort();
    assert_eq!(files, wanted);
}

#[test]
fn a_target_that_fails_is_noticed() {
    let canary = Target {
        name: "canary",
        run: |data| assert!(data.len() < 3),
        seeds: Vec::new,
    };
    assert!(survives(&canary, b"two"[..2].as_ref()));
    assert!(!survives(&canary, b"four"));
}
