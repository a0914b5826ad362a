//! Replays the corpus of every target and mutates from it, with any toolchain; several targets at a
//! time.
//!
//! Each target then gets `HELIOX_FUZZ_RUNS` inputs (default 20,000), or as many as
//! `HELIOX_FUZZ_SECONDS` allow (default 6), drawn from `HELIOX_FUZZ_SEED` (default 1).
//! `HELIOX_FUZZ_TARGET` names one target, to run it alone. An input that fails is kept in
//! `fuzz/artifacts/`, where libFuzzer keeps its own.
#![forbid(unsafe_code)]

use heliox_fuzz::mutate::{input, Random};
use heliox_fuzz::{Target, TARGETS};
use std::collections::BTreeSet;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{channel, RecvTimeoutError, Sender};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// No input takes as long as a second; one that takes so long does not end.
const INPUT_TIME_MAX: Duration = Duration::from_secs(60);
/// What the whole corpus may weigh: it is cloned with the source.
const CORPUS_BYTES_MAX: u64 = 1 << 20;

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(default)
}

fn survives(target: &Target, data: &[u8]) -> bool {
    catch_unwind(AssertUnwindSafe(|| (target.run)(data))).is_ok()
}

/// Runs an input; if it fails, says so.
fn run(target: &Target, data: &[u8]) -> Result<(), String> {
    if survives(target, data) {
        return Ok(());
    }
    let directory = directory_of("artifacts", target);
    let path = directory.join(format!("smoke-{:08x}", crc(data)));
    std::fs::create_dir_all(&directory).expect("a place for the input");
    std::fs::write(&path, data).expect("the input is kept");
    let (name, len, path) = (target.name, data.len(), path.display());
    Err(format!("{name} fails on {len} bytes, kept as {path}"))
}

fn crc(data: &[u8]) -> u32 {
    heliox_format::checksum::checksum(heliox_fuzz::targets::SALT, 0, data)
}

fn directory_of(kind: &str, target: &Target) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    root.join(kind).join(target.name)
}

fn names_in(directory: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(directory);
    let entries = entries.unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    entries
        .map(|entry| entry.expect("an entry").file_name())
        .map(|name| name.to_string_lossy().into_owned())
        .collect()
}

/// The kept inputs of a target, in order.
fn corpus(target: &Target) -> Vec<Vec<u8>> {
    let directory = directory_of("corpus", target);
    names_in(&directory)
        .iter()
        .map(|name| std::fs::read(directory.join(name)).expect("a file of the corpus"))
        .collect()
}

/// Ends the process unless it hears something in time: an input that hangs cannot be stopped.
fn watch(name: &'static str) -> Sender<()> {
    let (heart, beats) = channel();
    std::thread::spawn(move || loop {
        match beats.recv_timeout(INPUT_TIME_MAX) {
            Ok(()) => {}
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {
                eprintln!("{name}: an input does not end");
                std::process::exit(1);
            }
        }
    });
    heart
}

/// Runs a target; gives how many inputs it had, kept ones not counted.
fn run_target(target: &Target) -> Result<u64, String> {
    let (runs, seconds) = (
        number("HELIOX_FUZZ_RUNS", 20_000),
        number("HELIOX_FUZZ_SECONDS", 6),
    );
    let heart = watch(target.name);
    let seeds = (target.seeds)();
    assert!(!seeds.is_empty(), "{} has no seeds", target.name);
    let kept: Vec<Vec<u8>> = seeds.into_iter().chain(corpus(target)).collect();
    for data in &kept {
        run(target, data)?;
        let _ = heart.send(());
    }
    let mut random = Random::new(number("HELIOX_FUZZ_SEED", 1));
    let begun = Instant::now();
    let most = Duration::from_secs(seconds);
    for done in 0..runs {
        if begun.elapsed() > most {
            return Ok(done);
        }
        run(target, &input(&mut random, &kept))?;
        if done % 64 == 0 {
            let _ = heart.send(());
        }
    }
    Ok(runs)
}

#[test]
fn every_target_bears_its_corpus_and_mutations_of_it() {
    let next = AtomicUsize::new(0);
    let failures = Mutex::new(Vec::new());
    let only = std::env::var("HELIOX_FUZZ_TARGET").ok();
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(target) = TARGETS.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if only.as_ref().is_some_and(|name| name != target.name) {
                        continue;
                    }
                    match run_target(target) {
                        Ok(runs) => println!("{}: {runs} inputs", target.name),
                        Err(failure) => failures.lock().expect("no panic").push(failure),
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().expect("no panic");
    assert!(failures.is_empty(), "{failures:#?}");
}

#[test]
fn every_target_has_its_libfuzzer_binary_and_its_corpus_and_none_is_left_over() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let names: BTreeSet<String> = TARGETS.iter().map(|t| t.name.to_owned()).collect();
    let binaries = names.iter().map(|name| format!("{name}.rs")).collect();
    assert_eq!(names_in(&root.join("fuzz_targets")), binaries);
    assert_eq!(names_in(&root.join("corpus")), names);
    let kept = TARGETS.iter().flat_map(corpus);
    let bytes: u64 = kept.map(|data| data.len() as u64).sum();
    assert!(bytes <= CORPUS_BYTES_MAX, "the corpus has {bytes} bytes");
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
