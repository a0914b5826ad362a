//! A soak of a few seconds, and that its limits are watched: each planted defect breaks the one
//! that is there for it.
//!
//! `heliox-torture soak` runs as long as one likes.
#![allow(clippy::unwrap_used, clippy::panic)] // a test may

use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use heliox_torture::soak::{run, SoakPlan, SoakReport};

fn plan(dir: &Path, seconds: f64, plant: Option<&str>) -> SoakPlan {
    SoakPlan {
        program: env!("CARGO_BIN_EXE_heliox-torture").into(),
        dir: dir.to_owned(),
        duration: Duration::from_secs_f64(seconds),
        memory_bytes: 32 << 20,
        capacity_bytes: 160 << 20,
        full_percent: 55,
        threads: 4,
        seed: 1,
        // What else runs on the machine may hold it up for long.
        gap: Duration::from_secs(60),
        // A run this short begins with caches that fill.
        growth_percent: 60,
        plant: plant.map(str::to_owned),
    }
}

/// One run at a time: they look at the process as a whole.
static ONE: Mutex<()> = Mutex::new(());

fn soak(plan: &SoakPlan) -> SoakReport {
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut shares = Vec::new();
    let report = run(plan, &mut |share, _| shares.push(share)).unwrap();
    assert_eq!(shares.len(), report.samples.len());
    assert_eq!(
        report.json()["violations"].as_array().unwrap().len(),
        report.violations.len()
    );
    report
}

#[test]
fn a_short_soak_does_everything_and_holds() {
    let dir = tempfile::tempdir().unwrap();
    let report = soak(&plan(dir.path(), 5.0, None));
    println!("{}", report.table());
    assert_eq!(report.violations, Vec::<String>::new());
    let count = |name: &str| report.counts.iter().find(|(n, _)| *n == name).unwrap().1;
    for name in [
        "puts",
        "batches",
        "range_deletes",
        "scans",
        "reopens",
        "backups",
    ] {
        assert!(count(name) > 0, "no {name}");
    }
    assert!(report.checked_records > 10_000);
    let series = std::fs::read_to_string(dir.path().join("series.csv")).unwrap();
    assert_eq!(series.lines().count(), report.samples.len() + 1);
}

/// What a run with a planted defect complains of.
fn complaint(plant: &str) -> String {
    let dir = tempfile::tempdir().unwrap();
    let words = soak(&plan(dir.path(), 1.5, Some(plant)))
        .violations
        .join("; ");
    println!("{plant}: {words}");
    words
}

#[test]
fn a_leak_of_file_descriptors_is_found() {
    assert!(complaint("leak-fd").contains("open file descriptors grew"));
}

#[test]
fn a_leak_of_memory_is_found() {
    assert!(complaint("leak-memory").contains("resident bytes grew"));
}

#[test]
fn a_value_that_is_not_as_expected_is_found() {
    assert!(complaint("wrong-model").contains("scan of key"));
}

#[test]
fn what_makes_no_sense_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let unknown = run(&plan(dir.path(), 1.0, Some("leak")), &mut |_, _| ()).unwrap_err();
    assert!(unknown.to_string().contains("leak-fd"), "{unknown}");
    std::fs::create_dir(dir.path().join("store")).unwrap();
    let there = run(&plan(dir.path(), 1.0, None), &mut |_, _| ()).unwrap_err();
    assert!(there.to_string().contains("another directory"), "{there}");
}
