//! Power failures under many threads: every image that the device may hold, where they are few.
//!
//! `HELIOX_LONG=1` tries many more; `heliox-torture power --seed n` repeats a seed's choices, though
//! not how its threads met.
#![allow(clippy::unwrap_used)] // a test may

use heliox_torture::power::{run, PowerPlan};

#[cfg(not(feature = "canary"))] // one canary is planted in the whole process
#[test]
fn every_image_is_a_prefix_of_what_each_thread_did() {
    let many = std::env::var_os("HELIOX_LONG").is_some();
    let plan = PowerPlan {
        seed: 1,
        images: if many { 40_000 } else { 250 },
        threads: 4,
    };
    let report = run(&plan, &mut |_| {}).unwrap();
    println!("{}", report.json());
    assert_eq!(report.violations, Vec::<String>::new());
    assert!(report.images >= plan.images && report.moments_exhausted > 0);
}

#[cfg(feature = "canary")]
mod planted {
    use super::*;

    #[test]
    fn a_sync_that_is_skipped_is_found() {
        heliox_torture::canary::plant("sync-skipped").unwrap();
        let plan = PowerPlan {
            seed: 2,
            images: 5000,
            threads: 4,
        };
        let report = run(&plan, &mut |_| {}).unwrap();
        println!(
            "after {} images: {:?}",
            report.images,
            report.violations.first()
        );
        assert!(!report.violations.is_empty());
    }
}
