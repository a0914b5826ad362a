//! At the wall: a store that holds nearly what it can takes what it has room for, gives the room of
//! what died back in time, and takes deletes of every kind.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // a test may

mod common;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

use common::{dump, name, value, Clock, Rng};
use heliox::{
    BackupOptions, Batch, Durability, ErrorKind, Keyspace, Media, Options, Store, WriteOptions,
};
use heliox_media::MemoryMedia;

const STORE_BYTES: u64 = 66 << 20;
const VALUE_BYTES: usize = 4000;
const LARGE_BYTES: usize = 3 << 20;

fn open(options: &Options) -> (Store, Keyspace) {
    let store = Store::open("", options).unwrap();
    let ks = store.create_keyspace("a").unwrap();
    (store, ks)
}

/// Options of a store whose time passes only when somebody waits.
fn timeless() -> Options {
    common::small(common::memory(STORE_BYTES)).simulation(Clock::new())
}

/// Puts new keys until the store is full; gives how many it took.
fn fill(ks: &Keyspace) -> u64 {
    for n in 0.. {
        if let Err(error) = ks.put(name(n), value(n, VALUE_BYTES)) {
            assert_eq!(error.kind(), ErrorKind::Full, "{error}");
            return n;
        }
    }
    0
}

fn is_in_order(options: &Options) {
    let report = Store::check("", options, &mut |_| {}).unwrap();
    assert_eq!(report.problems, Vec::<String>::new());
}

// ---- large values ----

#[test]
fn one_large_value_is_written_over_and_over() {
    let options = timeless();
    let (store, ks) = open(&options);
    for n in 0..60 {
        let put = ks.put("large", value(n, LARGE_BYTES));
        put.unwrap_or_else(|error| panic!("put {n}: {error}"));
    }
    assert!(ks.get("large").unwrap() == Some(value(59, LARGE_BYTES)));
    // What an earlier run wrote is known for dead as well.
    store.close().unwrap();
    let store = Store::open("", &options).unwrap();
    let ks = store.keyspace("a").unwrap();
    for n in 0..30 {
        let put = ks.put("large", value(n, LARGE_BYTES));
        put.unwrap_or_else(|error| panic!("put {n} after opening: {error}"));
    }
    assert!(ks.get("large").unwrap() == Some(value(29, LARGE_BYTES)));
    store.close().unwrap();
    is_in_order(&options);
}

#[test]
fn large_values_written_over_and_over_leave_room_beside_others() {
    let cold_keys = 80;
    let (_store, ks) = open(&timeless());
    for n in 0..50 {
        // Beside each come keys that stay: a quarter of the store in the end.
        for cold in 0..cold_keys {
            ks.put(name(n * cold_keys + cold), value(n, VALUE_BYTES))
                .unwrap();
        }
        let put = ks.put("large", value(n, LARGE_BYTES));
        put.unwrap_or_else(|error| panic!("put {n}: {error}"));
    }
    assert!(ks.get("large").unwrap() == Some(value(49, LARGE_BYTES)));
    for n in 0..50 * cold_keys {
        let expected = value(n / cold_keys, VALUE_BYTES);
        assert!(ks.get(name(n)).unwrap() == Some(expected), "key {n}");
    }
}

/// Large values until the store is full; gives how many it took.
fn fill_large(ks: &Keyspace) -> u64 {
    for n in 0.. {
        if let Err(error) = ks.put(name(n), value(n, LARGE_BYTES)) {
            assert_eq!(error.kind(), ErrorKind::Full, "{error}");
            return n;
        }
    }
    0
}

#[test]
fn deleted_large_values_give_their_room_back_and_refused_ones_take_none() {
    for reopens in [false, true] {
        let options = timeless();
        let (mut store, mut ks) = open(&options);
        let fit = fill_large(&ks);
        assert!(fit > 5, "{fit}");
        for round in 0..4 {
            for n in 0..50 {
                ks.put(name(n % 3 + 1000), value(n, LARGE_BYTES))
                    .unwrap_err();
            }
            if reopens {
                store.close().unwrap();
                store = Store::open("", &options).unwrap();
                ks = store.keyspace("a").unwrap();
            }
            for n in 0..fit {
                ks.delete(name(n)).unwrap();
            }
            for _ in 0..10 {
                store.step().unwrap();
            }
            let again = fill_large(&ks);
            assert!(again + 2 >= fit, "round {round}: {again} of {fit} fit");
            assert!(ks.get(name(1)).unwrap() == Some(value(1, LARGE_BYTES)));
            for n in again..fit {
                assert!(ks.get(name(n)).unwrap().is_none());
            }
        }
        store.close().unwrap();
        is_in_order(&options);
    }
}

#[test]
fn a_snapshot_reads_a_large_value_that_was_overwritten() {
    let (store, ks) = open(&timeless().memory_budget_bytes(256 << 20));
    ks.put("large", value(1, LARGE_BYTES)).unwrap();
    let snapshot = store.snapshot().unwrap();
    ks.put("large", value(2, LARGE_BYTES)).unwrap();
    for _ in 0..20 {
        store.step().unwrap();
    }
    assert!(ks.get_at("large", &snapshot).unwrap() == Some(value(1, LARGE_BYTES)));
    drop(snapshot);
    let live = store.stats().live_bytes;
    for _ in 0..20 {
        store.step().unwrap();
    }
    assert!(live - store.stats().live_bytes > LARGE_BYTES as u64 / 2);
}

// ---- deletes ----

#[test]
fn a_full_store_is_backed_up_again_and_again_and_can_still_be_emptied() {
    let dir = tempfile::tempdir().unwrap();
    let (store, ks) = open(&common::small(common::memory(STORE_BYTES)));
    let keys = fill(&ks);
    let set = dir.path().join("set");
    // Each backup ends the segments that are appended to, and a delete begins new ones.
    for n in 0..40 {
        let deleted = ks.delete(name(n));
        deleted.unwrap_or_else(|error| panic!("delete {n}: {error}"));
        let report = store.backup(&set, &BackupOptions::new().keep(2), &mut |_| {});
        report.unwrap();
        if n % 3 == 0 {
            store.step().unwrap();
        }
    }
    let report = Store::verify_backup(&set, None, &timeless(), &mut |_| {}).unwrap();
    assert_eq!(report.problems, Vec::<String>::new());
    assert_eq!(dump(&store)["a"].len() as u64, keys - 40);
    for n in 40..keys / 2 {
        let deleted = ks.delete(name(n));
        deleted.unwrap_or_else(|error| panic!("delete {n}: {error}"));
    }
    let mut steps = 0;
    for n in 0..keys / 4 {
        while ks.put(name(n), value(n, VALUE_BYTES)).is_err() {
            store.step().unwrap();
            steps += 1;
            assert!(steps < 500, "no room comes back");
        }
    }
    assert_eq!(dump(&store)["a"].len() as u64, keys - keys / 2 + keys / 4);
}

#[test]
fn a_full_store_takes_deletes_while_a_backup_stands_still() {
    let dir = tempfile::tempdir().unwrap();
    let (store, ks) = open(&timeless());
    let keys = fill(&ks);
    let (inner, deleted) = (ks.clone(), AtomicU64::new(0));
    let options = BackupOptions::new().watch(move |_, _| {
        if deleted.load(Ordering::Relaxed) == 0 {
            for n in 0..keys {
                deleted.fetch_add(1, Ordering::Relaxed);
                let done = inner.delete(name(n));
                done.unwrap_or_else(|error| panic!("delete {n}: {error}"));
            }
        }
        Ok(())
    });
    let set = dir.path().join("set");
    store.backup(&set, &options, &mut |_| {}).unwrap();
    assert!(dump(&store)["a"].is_empty());
    for n in 0..keys / 2 {
        ks.put(name(n), value(n, VALUE_BYTES)).unwrap();
    }
}

#[test]
fn a_full_store_takes_range_deletes_while_a_snapshot_is_held() {
    let options = timeless();
    let (store, ks) = open(&options);
    let keys = fill(&ks);
    let snapshot = store.snapshot().unwrap();
    // More than may wait for their sweep.
    for n in 0..3 * 4096 {
        let at = n % keys;
        let deleted = ks.delete_range(name(at), name(at + 1));
        deleted.unwrap_or_else(|error| panic!("range delete {n}: {error}"));
    }
    let gone = ks.get_at(name(1), &snapshot).unwrap_err();
    assert_eq!(gone.kind(), ErrorKind::SnapshotTooOld);
    drop(snapshot);
    for n in 0..keys.min(3 * 4096) {
        assert!(ks.get(name(n)).unwrap().is_none(), "key {n}");
    }
    assert!(dump(&store)["a"].len() as u64 <= keys.saturating_sub(3 * 4096));
    store.close().unwrap();
    is_in_order(&options);
}

// ---- expiry ----

/// What a workload came to.
#[derive(Debug)]
struct Cost {
    checkpoints: u64,
    write_amplification: f64,
}

/// Puts small values that expire, some over earlier ones, at such a pace that most of the room holds
/// what is alive.
fn put_expiring(store: &Store, ks: &Keyspace, clock: &Clock, puts: u64, alive: u64) -> Cost {
    let (before, mut rng) = (store.stats(), Rng::new(3));
    for n in 0..puts {
        // As many milliseconds a life as keys are alive.
        *clock.0.lock().unwrap() += Duration::from_millis(1);
        let ttl = WriteOptions::new().ttl_ms(alive / 2 + rng.below(alive));
        let key = name(if n % 4 == 0 { n } else { rng.below(1 << 40) });
        let put = ks.put_with(key, value(n, 100), &ttl);
        put.unwrap_or_else(|error| panic!("put {n}: {error}"));
    }
    let after = store.stats();
    let user = after.user_bytes_written - before.user_bytes_written;
    let total = after.bytes_written.total() - before.bytes_written.total();
    Cost {
        checkpoints: after.checkpoints - before.checkpoints,
        write_amplification: total as f64 / user as f64,
    }
}

#[test]
fn values_that_expire_leave_room_at_a_bearable_cost() {
    let clock = Clock::new();
    let options = common::small(common::memory(STORE_BYTES)).simulation(clock.clone());
    let (mut store, mut ks) = open(&options);
    for round in 0..2 {
        let cost = put_expiring(&store, &ks, &clock, 400_000, 130_000);
        assert!(
            cost.checkpoints < 20 && cost.write_amplification < 3.0,
            "{round}: {cost:?}"
        );
        // When the values of an earlier run expire is found out.
        store.close().unwrap();
        store = Store::open("", &options).unwrap();
        ks = store.keyspace("a").unwrap();
    }
    drop((store, ks));
    is_in_order(&options);
}

/// Values that stay and are overwritten, beside as many that expire.
#[test]
fn one_checkpoint_serves_many_segments_at_the_wall() {
    let (cold, alive) = (110_000, 80_000);
    let clock = Clock::new();
    let options = common::small(common::memory(STORE_BYTES)).simulation(clock.clone());
    let (store, ks) = open(&options);
    for n in 0..cold {
        ks.put(name(n), value(n, 100)).unwrap();
    }
    let mut rng = Rng::new(3);
    for n in 0..4 * alive {
        *clock.0.lock().unwrap() += Duration::from_millis(1);
        let ttl = WriteOptions::new().ttl_ms(alive / 2 + rng.below(alive));
        ks.put_with(name(cold + n), value(n, 100), &ttl).unwrap();
        ks.put(name(rng.below(cold)), value(n, 100)).unwrap();
    }
    let stats = store.stats();
    assert!(stats.checkpoints < 35, "{:?}", stats.entries());
}

// ---- room that others still have to make ----

#[test]
fn what_a_range_delete_took_is_room_for_the_next_put() {
    for background in [false, true] {
        let options = common::small(common::memory(STORE_BYTES)).background(background);
        let (store, ks) = open(&options);
        for round in 0..4 {
            let fit = fill(&ks);
            assert!(fit > 5000, "round {round}: {fit}");
            ks.delete_prefix("").unwrap();
            let put = ks.put("next", "value");
            put.unwrap_or_else(|error| panic!("round {round}, {background}: {error}"));
        }
        drop(store);
    }
}

#[test]
fn what_a_delete_took_is_room_for_the_next_put() {
    let (_store, ks) = open(&common::small(common::memory(STORE_BYTES)).background(true));
    let fit = fill(&ks);
    for n in 0..fit {
        ks.delete(name(n)).unwrap();
        if n > 4000 {
            let put = ks.put("next", value(n, VALUE_BYTES));
            put.unwrap_or_else(|error| panic!("after {n} of {fit}: {error}"));
        }
    }
}

#[test]
fn a_full_store_takes_batches_of_deletes() {
    let (store, ks) = open(&timeless());
    let fit = fill(&ks);
    for first in (0..fit).step_by(100) {
        let mut batch = Batch::new();
        (first..fit.min(first + 100)).for_each(|n| batch.delete(&ks, name(n)));
        let taken = store.write(&batch);
        taken.unwrap_or_else(|error| panic!("from {first} of {fit}: {error}"));
    }
    assert_eq!(ks.iter().start().unwrap().count(), 0);
    let mut batch = Batch::new();
    (0..100).for_each(|n| batch.put(&ks, name(n), value(n, VALUE_BYTES)));
    store.write(&batch).unwrap();
}

#[test]
fn tombstones_alone_fill_no_store() {
    for background in [false, true] {
        let options = common::small(common::memory(STORE_BYTES)).background(background);
        let (_store, ks) = open(&options);
        for n in 0..300_000 {
            let key = format!("{n:050}");
            let put = ks.put(&key, "");
            put.unwrap_or_else(|error| panic!("put {n}, {background}: {error}"));
            ks.delete(&key).unwrap();
        }
    }
}

#[test]
fn the_checkpoint_of_an_index_that_grew_has_its_room() {
    let options = common::small(common::memory(STORE_BYTES)).memory_budget_bytes(256 << 20);
    let (store, ks) = open(&options);
    let mut n = 0u64;
    let error = loop {
        match ks.put(n.to_be_bytes(), "") {
            Ok(()) => n += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::Full, "{error}");
    assert!(n > 500_000, "{n}");
    store.checkpoint().unwrap();
    assert_eq!(ks.iter().keys_only().start().unwrap().count() as u64, n);
}

#[test]
fn a_snapshot_that_ends_leaves_room_for_the_next_put() {
    let (store, ks) = open(&timeless());
    let fit = fill(&ks);
    let snapshot = store.snapshot().unwrap();
    for n in 0..fit / 2 {
        ks.delete(name(n)).unwrap();
    }
    for _ in 0..3 {
        store.step().unwrap();
    }
    drop(snapshot);
    ks.put("next", value(1, VALUE_BYTES)).unwrap();
}

#[test]
fn values_that_expire_leave_room_for_the_next_put() {
    let clock = Clock::new();
    let options =
        common::small(common::memory(STORE_BYTES)).simulation(Arc::clone(&clock) as Arc<_>);
    let (_store, ks) = open(&options);
    let expiring = WriteOptions::new().ttl_ms(60_000);
    let mut n = 0;
    while ks
        .put_with(name(n), value(n, VALUE_BYTES), &expiring)
        .is_ok()
    {
        n += 1;
    }
    assert!(n > 5000, "{n}");
    ks.put("next", "value").unwrap_err();
    *clock.0.lock().unwrap() += Duration::from_secs(61);
    ks.put("next", "value").unwrap();
}

// ---- padding ----

/// Each takes a block of its own, of which it needs a few bytes: the rest is garbage, also in the eyes of
/// a run that did not write it, whether the one before was closed or not.
#[test]
fn small_puts_that_are_synced_one_by_one_fill_no_store() {
    let media: Arc<dyn Media> = Arc::new(MemoryMedia::new(STORE_BYTES, 4096).unwrap());
    let options = common::small(media).simulation(Clock::new());
    let blocks = STORE_BYTES / 4096;
    let sync = WriteOptions::new().durability(Durability::Sync);
    let (mut store, mut ks) = open(&options);
    let mut puts = 0;
    for is_closed in [true, false, true] {
        for n in puts..puts + blocks {
            let put = ks.put_with(name(n), "v", &sync);
            put.unwrap_or_else(|error| panic!("put {n}: {error}"));
        }
        puts += blocks;
        let live_bytes = store.stats().live_bytes;
        assert!(live_bytes / puts < 100, "{live_bytes} of {puts} puts");
        match is_closed {
            true => drop((ks, store.close().unwrap())),
            false => std::mem::forget((ks, store)),
        }
        store = Store::open("", &options).unwrap();
        ks = store.keyspace("a").unwrap();
        assert_eq!(store.stats().live_bytes, live_bytes);
    }
    assert_eq!(ks.iter().start().unwrap().count() as u64, puts);
}
