//! Reads against overwrites, moves, and the reuse of segments.

use super::*;

/// What gives a key's segment back and lets others take its place, in steps.
const REUSE: [Step; 4] = [
    Step::Collect,
    Step::Checkpoint,
    Step::Collect,
    Step::Collect,
];

/// What takes tombstones away, in steps.
const TOMBSTONES_GO: [Step; 4] = [Step::Collect, Step::Sweep, Step::Checkpoint, Step::Sweep];

/// A store whose key lies on the device, in a segment that is otherwise garbage.
fn with_garbage() -> (Store, Keyspace) {
    let (store, keys) = fresh();
    for filler in ["a", "b"] {
        keys.put(filler, value(9)).unwrap();
    }
    keys.put("k", value(1)).unwrap();
    for filler in ["a", "b"] {
        keys.delete(filler).unwrap();
    }
    run(&store, &[Step::Seal]);
    store.sync().unwrap();
    (store, keys)
}

/// A reader finds the value wherever it moves, and never what is written in its old place.
#[test]
fn a_read_finds_its_record_wherever_it_goes() {
    under_schedules(1500, || {
        let (store, keys) = with_garbage();
        thread::scope(|scope| {
            scope.spawn(|| (0..2).for_each(|_| assert_eq!(get(&keys, "k"), 1)));
            scope.spawn(|| {
                run(&store, &REUSE);
                // As long as the garbage was, so that they come to lie where the key was.
                for other in ["c", "d", "e"] {
                    keys.put(other, value(8)).unwrap();
                }
                run(&store, &[Step::Seal]);
                store.flush().unwrap();
            });
        });
        assert!(store.stats().gc_segments > 0);
    });
}

/// A reader never sees an older value than it saw before, while the record moves.
#[test]
fn a_key_never_goes_back() {
    under_schedules(1000, || {
        let (store, keys) = with_garbage();
        thread::scope(|scope| {
            scope.spawn(|| {
                let first = get(&keys, "k");
                assert!(first <= get(&keys, "k"));
            });
            scope.spawn(|| keys.put("k", value(2)).unwrap());
            scope.spawn(|| run(&store, &REUSE));
        });
        assert_eq!(get(&keys, "k"), 2);
    });
}

/// A key that was deleted stays so while its tombstone goes, until it is written again.
#[test]
fn a_deleted_key_stays_away() {
    under_schedules(1000, || {
        let (store, keys) = with_garbage();
        keys.delete("k").unwrap();
        run(&store, &[Step::Seal, Step::Checkpoint]);
        thread::scope(|scope| {
            scope.spawn(|| keys.put("k", value(3)).unwrap());
            scope.spawn(|| {
                let first = get(&keys, "k");
                let second = get(&keys, "k");
                assert!([(0, 0), (0, 3), (3, 3)].contains(&(first, second)));
            });
            scope.spawn(|| run(&store, &TOMBSTONES_GO));
            scope.spawn(|| run(&store, &[Step::Collect]));
        });
        assert_eq!(get(&keys, "k"), 3);
    });
}
