//! Snapshots against overwrites, collection and sweeps.

use super::*;

/// Two keys are written one after the other, so a snapshot shows the first at most one ahead of the
/// second, and the same again later, wherever the versions went meanwhile.
#[test]
fn a_snapshot_is_one_moment_for_its_whole_life() {
    under_schedules(1200, || {
        let (store, keys) = fresh();
        for key in ["a", "b", "c"] {
            keys.put(key, value(1)).unwrap();
        }
        keys.delete("c").unwrap();
        store.sync().unwrap();
        run(&store, &[Step::Seal]);
        let look = || {
            let snapshot = store.snapshot().unwrap();
            let at = |key: &str| number(keys.get_at(key, &snapshot).unwrap());
            let (first, second) = (at("a"), at("b"));
            assert!(first == second || first == second + 1, "{first} {second}");
            assert_eq!((at("b"), at("a"), at("c")), (second, first, 0));
        };
        thread::scope(|scope| {
            scope.spawn(look);
            scope.spawn(|| {
                for number in 2..4 {
                    keys.put("a", value(number)).unwrap();
                    keys.put("b", value(number)).unwrap();
                }
            });
            scope.spawn(|| {
                run(&store, &[Step::Collect, Step::Checkpoint, Step::Seal]);
                run(&store, &[Step::Collect, Step::Collect, Step::Sweep]);
            });
        });
        assert_eq!(store.core().snapshots.bytes(), 0);
    });
}

/// Snapshots that come and go while another lives take nothing from it.
#[test]
fn snapshots_do_not_end_one_another() {
    under_schedules(1000, || {
        let (store, keys) = fresh();
        keys.put("a", value(1)).unwrap();
        let kept = store.snapshot().unwrap();
        let come_and_go = || drop((store.snapshot().unwrap(), store.snapshot().unwrap()));
        thread::scope(|scope| {
            scope.spawn(come_and_go);
            scope.spawn(|| {
                keys.put("a", value(2)).unwrap();
                keys.delete("a").unwrap();
            });
            scope.spawn(|| {
                come_and_go();
                run(&store, &[Step::Seal, Step::Collect]);
                run(&store, &[Step::Checkpoint, Step::Collect]);
            });
        });
        assert_eq!(number(keys.get_at("a", &kept).unwrap()), 1);
        assert_eq!(get(&keys, "a"), 0);
    });
}
