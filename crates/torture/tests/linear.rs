//! Histories of real threads are linearizable, under collection, checkpoints and sweeps.
//!
//! `HELIOX_LONG=1` checks many more. Wrong histories are in the library's own tests.
#![allow(clippy::unwrap_used)] // a test may

use heliox_torture::linear::{run, LinearPlan};

#[cfg(not(feature = "canary"))]
fn check(threads: usize, operations: u64) {
    let many = std::env::var_os("HELIOX_LONG").is_some();
    let plan = LinearPlan {
        threads,
        operations: if many { operations * 100 } else { operations },
        seed: 1,
    };
    let report = run(&plan, &mut |_| {}).unwrap();
    println!("{}", report.json());
    assert_eq!(report.violations, Vec::<String>::new());
    assert_eq!(report.undecided, 0);
    assert!(report.overlaps > 0.0, "the threads never met");
    assert!(report.segments_collected > 0 && report.checkpoints > 0);
}

#[cfg(not(feature = "canary"))] // one canary is planted in the whole process
#[test]
fn few_threads_are_linearizable() {
    check(3, 20_000);
}

#[cfg(not(feature = "canary"))]
#[test]
fn many_threads_are_linearizable() {
    check(6, 20_000);
}

#[cfg(feature = "canary")]
#[test]
fn a_snapshot_that_forgets_is_found() {
    heliox_torture::canary::plant("snapshot-not-noted").unwrap();
    let plan = LinearPlan {
        threads: 4,
        operations: 200_000,
        seed: 1,
    };
    let report = run(&plan, &mut |_| {}).unwrap();
    println!("{} histories", report.histories);
    assert!(!report.violations.is_empty());
}
