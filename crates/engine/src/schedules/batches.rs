//! Batches against readers, snapshots, checkpoints, and a crash.

use super::*;

fn write(store: &Store, keys: &Keyspace, number: u8) {
    let mut batch = Batch::new();
    batch.put(keys, "a", value(number));
    batch.put(keys, "b", value(number));
    store.write(&batch).unwrap();
}

/// What all keys of an iteration hold.
fn listed(keys: &Keyspace) -> Vec<u8> {
    let items = keys.iter().start().unwrap();
    items.map(|item| number(Some(item.unwrap().1))).collect()
}

/// Whoever looks sees a batch whole, or nothing of it.
#[test]
fn nobody_sees_half_a_batch() {
    under_schedules(1200, || {
        let (store, keys) = fresh();
        write(&store, &keys, 1);
        thread::scope(|scope| {
            scope.spawn(|| {
                write(&store, &keys, 2);
                write(&store, &keys, 3);
            });
            scope.spawn(|| {
                let (first, second) = (get(&keys, "a"), get(&keys, "b"));
                assert!(first <= second, "{first}, later {second}");
                let both = listed(&keys);
                assert!(both.len() == 2 && both[0] == both[1], "{both:?}");
            });
            scope.spawn(|| {
                let snapshot = store.snapshot().unwrap();
                run(&store, &[Step::Seal, Step::Collect]);
                let at = |key: &str| number(keys.get_at(key, &snapshot).unwrap());
                assert_eq!(at("b"), at("a"));
            });
        });
        assert_eq!(listed(&keys), [3, 3]);
    });
}

/// A writer of one key and a batch that takes both: one of them comes first, for both keys.
#[test]
fn a_write_beside_a_batch_comes_before_or_after() {
    under_schedules(1000, || {
        let (store, keys) = fresh();
        thread::scope(|scope| {
            scope.spawn(|| write(&store, &keys, 2));
            scope.spawn(|| {
                keys.put("b", value(7)).unwrap();
                keys.put("a", value(7)).unwrap();
            });
        });
        let both = (get(&keys, "a"), get(&keys, "b"));
        assert!([(7, 7), (7, 2), (2, 2)].contains(&both), "{both:?}");
    });
}

/// The power goes when a checkpoint was written beside batches: each is there whole or not at all,
/// and everything that a sync covered.
#[test]
fn a_checkpoint_beside_batches_holds_whole_ones() {
    under_schedules(250, || {
        let media: Arc<MemoryMedia> = memory(66);
        let (store, keys) = open(&options(media.clone()));
        write(&store, &keys, 1);
        store.sync().unwrap();
        thread::scope(|scope| {
            scope.spawn(|| {
                write(&store, &keys, 2);
                write(&store, &keys, 3);
            });
            scope.spawn(|| run(&store, &[Step::Checkpoint]));
        });
        let crashed = Arc::new(MemoryMedia::clone(&media));
        let (_again, keys) = open(&options(crashed));
        let both = listed(&keys);
        assert!(both.len() == 2 && both[0] == both[1], "{both:?}");
    });
}

/// A batch that deletes a key which is not there decides on it all the same: what others put there
/// comes before the batch, or after all of it.
#[test]
fn a_delete_of_nothing_is_part_of_its_batch() {
    under_schedules(1500, || {
        let (store, keys) = fresh();
        let mut batch = Batch::new();
        batch.delete(&keys, "a");
        batch.put(&keys, "b", value(2));
        thread::scope(|scope| {
            scope.spawn(|| store.write(&batch).unwrap());
            scope.spawn(|| {
                keys.put("a", value(7)).unwrap();
                keys.delete("b").unwrap();
            });
        });
        let both = (get(&keys, "a"), get(&keys, "b"));
        assert!([(7, 0), (0, 2), (0, 0)].contains(&both), "{both:?}");
    });
}
