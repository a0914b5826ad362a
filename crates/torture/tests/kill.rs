//! The program is killed dozens of times in each durability, in a file and, where the system grants
//! one, on a block device.
//!
//! `HELIOX_LONG=1` kills thousands of times. A failure leaves nothing behind but its words; run
//! `heliox-torture kill` with the seed that they name for more.
#![allow(clippy::unwrap_used, clippy::panic)] // a test may

use std::path::{Path, PathBuf};

use heliox_torture::kill::{run, KillPlan, KillReport, LoopDevice, Mode};

fn plan(dir: &Path, device: Option<PathBuf>, mode: Mode, rounds: u64) -> KillPlan {
    let many = std::env::var_os("HELIOX_LONG").is_some();
    KillPlan {
        program: env!("CARGO_BIN_EXE_heliox-torture").into(),
        dir: dir.join("store"),
        device,
        mode,
        rounds: if many { rounds * 100 } else { rounds },
        seconds_per_round: 0.5,
        threads: 6,
        seed: 1,
        // What else runs on the machine may hold a process up for long.
        slack_ms: 5000,
        canary: None,
    }
}

fn kill(plan: &KillPlan) -> KillReport {
    let report = run(plan, &mut |_| {}).unwrap();
    println!("{}", report.json(plan.mode));
    assert_eq!(
        report.violations,
        Vec::<String>::new(),
        "seed {}",
        plan.seed
    );
    assert_eq!(report.rounds, plan.rounds);
    assert!(report.kills * 2 > plan.rounds && report.acknowledged > 0);
    report
}

#[test]
fn nothing_acknowledged_under_sync_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    let report = kill(&plan(dir.path(), None, Mode::Sync, 12));
    assert_eq!(report.lost, 0);
    assert!(report.segments_collected > 0 && report.checkpoints > 0);
}

#[test]
fn under_bounded_no_more_is_lost_than_stated() {
    let dir = tempfile::tempdir().unwrap();
    kill(&plan(dir.path(), None, Mode::Bounded, 10));
}

#[test]
fn without_durability_a_suffix_is_lost_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    kill(&plan(dir.path(), None, Mode::None, 10));
}

#[test]
fn a_block_device_loses_no_more_than_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let device = match LoopDevice::make(&dir.path().join("device"), 68 << 20) {
        Ok(device) => device,
        Err(failure) => {
            println!("skipped: {failure}");
            return;
        }
    };
    kill(&plan(
        dir.path(),
        Some(device.path().to_owned()),
        Mode::Sync,
        6,
    ));
}

/// The other process is not fooled: a load that is not verified would pass these.
#[cfg(feature = "canary")]
mod planted {
    use super::*;

    fn finds(canary: &str, mode: Mode) {
        let dir = tempfile::tempdir().unwrap();
        let mut plan = plan(dir.path(), None, mode, 60);
        plan.canary = Some(canary.to_owned());
        let report = run(&plan, &mut |_| {}).unwrap();
        println!(
            "{canary}: after {} kills: {:?}",
            report.kills,
            report.violations.first()
        );
        assert!(!report.violations.is_empty(), "{canary} was not found");
    }

    #[test]
    fn a_sync_that_is_skipped_is_found() {
        finds("sync-skipped", Mode::Sync);
    }

    #[test]
    fn half_a_batch_is_found() {
        finds("commit-ignored", Mode::None);
    }

    #[test]
    fn a_forgotten_range_delete_is_found() {
        finds("range-delete-forgotten", Mode::None);
    }
}
