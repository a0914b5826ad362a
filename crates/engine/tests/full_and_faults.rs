//! A store without room, and a device that fails: refused with a clear error, never wrong, never a
//! panic, and nothing that was acknowledged is lost.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // a test may

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{dump, fill, key, name, value, Change, Model, Rng};
use heliox::{Batch, Durability, ErrorKind, Keyspace, Store, WriteOptions};
use heliox_media::{FaultMedia, MemoryMedia, Operation};

const CAPACITY_BYTES: u64 = 66 << 20;
const EIO: i32 = 5;
/// Longest that a store may take to find room again after deletes.
const RECOVER_MAX: Duration = Duration::from_secs(20);

/// Tries a put until the store takes it.
fn put_again(store: &Store, ks: &Keyspace, background: bool) {
    let begun = Instant::now();
    while let Err(error) = ks.put("again", value(1, 4000)) {
        assert_eq!(error.kind(), ErrorKind::Full, "{error}");
        assert!(
            begun.elapsed() < RECOVER_MAX,
            "no room: {:?}",
            store.stats().entries()
        );
        match background {
            true => std::thread::sleep(Duration::from_millis(20)),
            false => {
                store.step().unwrap();
            }
        }
    }
    ks.delete("again").unwrap();
}

fn full_store(background: bool, free: impl Fn(&Keyspace, u64), is_left: impl Fn(u64, u64) -> bool) {
    let media = common::memory(CAPACITY_BYTES);
    let options = common::small(media).background(background);
    let mut store = Store::open("", &options).unwrap();
    store.create_keyspace("a").unwrap();
    let mut expected: BTreeMap<u64, ()> = BTreeMap::new();
    let mut next = 0;
    for round in 0..3 {
        let ks = store.keyspace("a").unwrap();
        let end = fill(&ks, next);
        assert!(
            end > next + 1000,
            "round {round}: only {} keys fit",
            end - next
        );
        expected.extend((next..end).map(|n| (n, ())));
        for n in expected.keys().step_by(7) {
            assert_eq!(
                ks.get(name(*n)).unwrap(),
                Some(value(*n, 4000)),
                "round {round}: {n}"
            );
        }
        assert!(
            ks.get(name(end)).unwrap().is_none(),
            "a refused key is there"
        );
        if round == 1 {
            store.close().unwrap();
            store = Store::open("", &options).unwrap();
        }
        let ks = store.keyspace("a").unwrap();
        free(&ks, end);
        expected.retain(|n, ()| is_left(*n, end));
        put_again(&store, &ks, background);
        let found: Vec<Vec<u8>> = ks
            .iter()
            .keys_only()
            .start()
            .unwrap()
            .map(|i| i.unwrap().0)
            .collect();
        let wanted: Vec<Vec<u8>> = expected.keys().map(|n| name(*n)).collect();
        assert!(
            found == wanted,
            "round {round}: {} {}",
            found.len(),
            wanted.len()
        );
        next = end;
    }
}

#[test]
fn a_full_store_refuses_writes_and_recovers_by_deletes() {
    for background in [false, true] {
        let free = |ks: &Keyspace, end: u64| {
            for n in (0..end).filter(|n| n % 8 != 0) {
                ks.delete(name(n)).unwrap();
            }
        };
        full_store(background, free, |n, _| n % 8 == 0);
    }
}

#[test]
fn a_full_store_recovers_by_a_range_delete() {
    for background in [false, true] {
        let free = |ks: &Keyspace, end: u64| ks.delete_range(name(10), name(end)).unwrap();
        full_store(background, free, |n, _| n < 10);
    }
}

#[test]
fn an_iterator_held_open_does_not_stop_collection() {
    for background in [false, true] {
        let media = common::memory(CAPACITY_BYTES);
        // With enough memory the iterator comes to its end; with little it may give way.
        let has_memory = !background;
        let budget_bytes = if has_memory { 256 << 20 } else { 32 << 20 };
        let options = common::small(media)
            .background(background)
            .memory_budget_bytes(budget_bytes);
        let store = Store::open("", &options).unwrap();
        let ks = store.create_keyspace("a").unwrap();
        for n in 0..3000 {
            ks.put(name(n), value(n, 2000)).unwrap();
        }
        let mut forward = ks.iter().start().unwrap();
        let mut backward = ks.iter().reverse().start().unwrap();
        assert_eq!(forward.next().unwrap().unwrap().0, name(0));
        assert_eq!(backward.next().unwrap().unwrap().0, name(2999));
        let before = store.stats().gc_segments;
        let mut rng = Rng::new(3);
        for n in 0..90_000u64 {
            let key = name(rng.below(3000));
            match n % 16 {
                0 => ks.delete(key).unwrap(),
                _ => ks.put(key, value(n + 10_000, 2000)).unwrap(),
            }
        }
        assert!(
            store.stats().gc_segments > before + 20,
            "collection stopped"
        );
        let mut n = 1;
        for item in forward {
            match item {
                Ok((key, found)) => {
                    assert_eq!(key, name(n), "background {background}");
                    assert!(found == value(n, 2000), "background {background}: key {n}");
                    n += 1;
                }
                Err(error) => {
                    assert!(!has_memory, "{error}");
                    assert_eq!(error.kind(), ErrorKind::SnapshotTooOld, "{error}");
                    n = 3000;
                }
            }
        }
        assert_eq!(n, 3000, "background {background}: the iterator ended early");
        let mut n = 2999;
        for item in backward {
            match item {
                Ok((key, found)) => {
                    n -= 1;
                    assert!(
                        key == name(n) && found == value(n, 2000),
                        "backward: key {n}"
                    );
                }
                Err(error) => {
                    assert!(!has_memory, "{error}");
                    assert_eq!(error.kind(), ErrorKind::SnapshotTooOld, "{error}");
                    n = 0;
                }
            }
        }
        assert_eq!(n, 0);
    }
}

/// A workload that stops at the first error; gives that error.
fn work(store: &Store, model: &mut Model, seed: u64, steps: u64) -> Option<heliox::Error> {
    let mut rng = Rng::new(seed);
    for n in 0..steps {
        let key = key(rng.below(500));
        let is_synced = rng.one_in(6);
        let durability = if is_synced {
            Durability::Sync
        } else {
            Durability::None
        };
        let options = WriteOptions::new().durability(durability);
        let ks = match store.keyspace("a") {
            Ok(ks) => ks,
            Err(error) => return Some(error),
        };
        let value = (!rng.one_in(4)).then(|| value(seed << 20 | n, rng.below(9000) as usize));
        let written = match &value {
            Some(value) => ks.put_with(&key, value, &options),
            None => ks.delete_with(&key, &options),
        };
        // A write that failed may be there or not.
        model.set("a", &key, value.as_deref());
        if let Err(error) = written {
            return Some(error);
        }
        if is_synced {
            model.sync();
        }
        let upkeep = match rng.below(40) {
            0 => store.checkpoint(),
            1..=10 => store.step().map(|_| ()),
            _ => Ok(()),
        };
        if let Err(error) = upkeep {
            return Some(error);
        }
    }
    None
}

fn inject(
    operation: Operation,
    nth: u64,
    sectors: u64,
    base: &MemoryMedia,
    durable: &common::State,
) {
    let what = format!("{operation:?} {nth} failed, {sectors} sectors written");
    let media = Arc::new(FaultMedia::new(base.clone()));
    let store = Store::open("", &common::small(media.clone())).unwrap();
    let mut model = Model {
        volatile: durable.clone(),
        durable: durable.clone(),
        since: Vec::new(),
    };
    media.set_failed_write_sectors(sectors);
    media.fail_nth(operation, nth, EIO);
    let failed = work(&store, &mut model, nth, 4000);
    if let Some(error) = failed {
        let kind = error.kind();
        assert!(
            matches!(kind, ErrorKind::Io | ErrorKind::Failed),
            "{what}: {kind:?} {error}"
        );
        let ks = store.keyspace("a").unwrap();
        let sync = WriteOptions::new().durability(Durability::Sync);
        for n in 0..10 {
            let late = ks.put_with(name(n), b"late", &sync);
            assert!(late.is_err(), "{what}: a later write was acknowledged");
            assert!(
                store.sync().is_err(),
                "{what}: a later sync was acknowledged"
            );
        }
        assert!(
            store.checkpoint().is_err() && store.create_keyspace("late").is_err(),
            "{what}"
        );
        // All but the write that failed is readable.
        let last = match model.since.last().and_then(|s| s.first()) {
            Some(Change::Set(_, key, _)) => key.clone(),
            _ => Vec::new(),
        };
        for i in 0..500 {
            let found = ks
                .get(key(i))
                .unwrap_or_else(|e| panic!("{what}: read: {e}"));
            if key(i) != last {
                assert_eq!(
                    found.as_ref(),
                    model.volatile["a"].get(&key(i)),
                    "{what}: key {i}"
                );
            }
        }
        assert!(
            !matches!(store.stats().health, heliox::Health::Healthy),
            "{what}"
        );
        assert!(store.close().is_err(), "{what}: closed without a word");
    } else {
        // The failure was not met, or not by anything that mattered.
        model.sync();
        let _ = store.close();
    }
    let healthy = Arc::new(media.inner().clone());
    let store = Store::open("", &common::small(healthy)).unwrap_or_else(|e| panic!("{what}: {e}"));
    let found = dump(&store);
    model
        .prefix_of(&found)
        .unwrap_or_else(|e| panic!("{what}: {e}"));
    assert!(store.damage().is_empty(), "{what}: {:?}", store.damage());
    store.close().unwrap();
}

#[test]
fn a_failed_write_or_sync_is_for_good_and_loses_nothing_acknowledged() {
    let base = common::memory(CAPACITY_BYTES);
    let store = Store::open("", &common::small(base.clone())).unwrap();
    store.create_keyspace("a").unwrap();
    let mut model = Model::default();
    model.step(vec![Change::Create("a".into())]);
    assert!(work(&store, &mut model, 77, 5000).is_none());
    store.close().unwrap();
    model.sync();
    let scale = if std::env::var_os("HELIOX_LONG").is_some() {
        10
    } else {
        1
    };
    for n in 0..20 * scale {
        inject(
            Operation::Write,
            n * n / scale,
            n % 5,
            &base,
            &model.durable,
        );
        inject(Operation::Sync, n * n / scale, 0, &base, &model.durable);
    }
}

#[test]
fn a_failure_while_opening_is_an_error_and_opens_later() {
    let base = common::memory(CAPACITY_BYTES);
    let store = Store::open("", &common::small(base.clone())).unwrap();
    store.create_keyspace("a").unwrap();
    let mut model = Model::default();
    model.step(vec![Change::Create("a".into())]);
    assert!(work(&store, &mut model, 5, 600).is_none());
    store.sync().unwrap();
    model.sync();
    let crashed = MemoryMedia::clone(&base);
    for operation in [Operation::Read, Operation::Write, Operation::Sync] {
        for nth in 0..12 {
            let media = Arc::new(FaultMedia::new(crashed.clone()));
            media.fail_nth(operation, nth, EIO);
            let opened = Store::open("", &common::small(media.clone()));
            drop(opened);
            let healthy = Arc::new(media.inner().clone());
            let store = Store::open("", &common::small(healthy)).unwrap();
            let found = dump(&store);
            assert!(model.prefix_of(&found).is_ok(), "{operation:?} {nth}");
        }
    }
}

/// The device fails while a batch is being installed: members that are in the index already can
/// neither be shown nor taken back.
#[test]
fn a_batch_that_failed_half_way_was_never_there() {
    const KEYS: u64 = 100;
    let media = Arc::new(FaultMedia::new(
        MemoryMedia::new(CAPACITY_BYTES, 512).unwrap(),
    ));
    let store = Store::open("", &common::small(media.clone())).unwrap();
    let ks = store.create_keyspace("a").unwrap();
    for n in 0..KEYS {
        ks.put(name(n), "old").unwrap();
    }
    store.sync().unwrap();
    // Larger than the tail's share of memory, so that it is written in part before its commit.
    let mut batch = Batch::new();
    for n in 0..2 * KEYS {
        batch.put(&ks, name(n), value(n, 60_000));
    }
    let before = media.counts().writes;
    media.fail_nth(Operation::Write, 3, EIO);
    let failed = store.write(&batch).unwrap_err();
    assert!(
        matches!(failed.kind(), ErrorKind::Io | ErrorKind::Failed),
        "{failed}"
    );
    assert_eq!(
        media.counts().writes - before,
        4,
        "the batch was not under way"
    );
    let snapshot = store.snapshot().unwrap();
    for n in 0..2 * KEYS {
        let old = (n < KEYS).then(|| b"old".to_vec());
        assert_eq!(ks.get(name(n)).unwrap(), old, "key {n}");
        assert_eq!(ks.get_at(name(n), &snapshot).unwrap(), old, "key {n}");
    }
    assert_eq!(ks.iter().start().unwrap().count() as u64, KEYS);
    assert_eq!(
        ks.iter().at(&snapshot).start().unwrap().count() as u64,
        KEYS
    );
    let refused = ks.put(name(0), "late").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Failed, "{refused}");
    drop((store, ks, snapshot));

    let healthy = Arc::new(media.inner().clone());
    let store = Store::open("", &common::small(healthy)).unwrap();
    let found = &dump(&store)["a"];
    assert_eq!(found.len() as u64, KEYS);
    assert!(found.values().all(|v| v == b"old"));
    assert!(store.damage().is_empty(), "{:?}", store.damage());
}
