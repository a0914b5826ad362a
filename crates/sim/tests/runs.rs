//! A few whole runs: every promise holds, and the same seed gives the same run.

use heliox_sim::{generate, replay};

#[test]
fn promises_hold_and_runs_repeat_byte_for_byte() {
    let mut crashes = 0;
    for seed in 1..=6 {
        let (setup, events) = generate(seed, 1500);
        let report = replay(&setup, &events);
        assert_eq!(report.violation, None, "seed {seed}");
        assert_eq!(report, replay(&setup, &events), "seed {seed}");
        crashes += report.counts.crashes;
    }
    assert!(crashes > 0, "no run crashed");
}

#[test]
fn seeds_differ() {
    let digest = |seed| {
        let (setup, events) = generate(seed, 300);
        replay(&setup, &events).digest
    };
    assert_ne!(digest(1), digest(2));
}
