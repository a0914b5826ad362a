//! Many threads at once, with little room: counters never go back, a batch is seen whole, no
//! increment is lost, and an iterator sees one moment.
//!
//! `HELIOX_LONG=1` runs each longer.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // a test may

mod common;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{own_key, value, Rng};
use heliox::{Batch, Durability, ErrorKind, Keyspace, Options, Store, WriteOptions};

const CAPACITY_BYTES: u64 = 66 << 20;

fn options() -> Options {
    common::small(common::memory(CAPACITY_BYTES)).background(true)
}

/// Segments that collection gives back while a test runs, at least.
const COLLECTED_MIN: u64 = 10;

/// False once a test has run long enough, and collection with it: under a sanitizer, or on a busy
/// machine, that takes longer, but not for ever.
fn goes_on(store: &Store, begun: Instant) -> bool {
    let seconds = if std::env::var_os("HELIOX_LONG").is_some() {
        60
    } else {
        6
    };
    let most = match store.stats().gc_segments > COLLECTED_MIN {
        true => seconds,
        false => 20 * seconds,
    };
    begun.elapsed() < Duration::from_secs(most)
}

/// A number and bytes that only it has.
fn numbered(n: u64, len: usize) -> Vec<u8> {
    let mut bytes = n.to_le_bytes().to_vec();
    bytes.extend(value(n, len));
    bytes
}

fn number(bytes: &[u8]) -> u64 {
    let n = u64::from_le_bytes(bytes[..8].try_into().unwrap());
    assert!(
        bytes[8..] == value(n, bytes.len() - 8),
        "bytes of another record"
    );
    n
}

/// Ends the threads when it is dropped, be it by a panic.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

fn durability(rng: &mut Rng) -> WriteOptions {
    let durability = match rng.below(50) {
        0 => Durability::Sync,
        1..=20 => Durability::None,
        _ => Durability::Bounded {
            ms: 100,
            bytes: 8 << 20,
        },
    };
    WriteOptions::new().durability(durability)
}

#[test]
fn counters_never_go_back() {
    const KEYS: u64 = 4000;
    let store = Store::open("", &options()).unwrap();
    let ks = store.create_keyspace("a").unwrap();
    let written: Vec<AtomicU64> = (0..KEYS).map(|_| AtomicU64::new(0)).collect();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let (ks, written, stop) = (&ks, &written, &stop);
            scope.spawn(move || {
                let _stop = Stop(stop);
                let mut rng = Rng::new(thread);
                while !stop.load(Ordering::SeqCst) {
                    let i = rng.below(KEYS / 2) * 2 + thread;
                    let n = written[i as usize].load(Ordering::SeqCst) + 1;
                    ks.put_with(own_key(i), numbered(n, 2500), &durability(&mut rng))
                        .unwrap();
                    written[i as usize].store(n, Ordering::SeqCst);
                }
            });
        }
        for thread in 0..2 {
            let (store, ks, written, stop) = (&store, &ks, &written, &stop);
            scope.spawn(move || {
                let _stop = Stop(stop);
                let mut rng = Rng::new(100 + thread);
                while !stop.load(Ordering::SeqCst) {
                    read_counters(store, ks, written, &mut rng, KEYS);
                }
            });
        }
        let _stop = Stop(&stop);
        let begun = Instant::now();
        while goes_on(&store, begun) && !stop.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    assert!(
        store.stats().gc_segments > COLLECTED_MIN,
        "collection hardly ran"
    );
    for (i, n) in written.iter().enumerate() {
        let found = ks.get(own_key(i as u64)).unwrap().map_or(0, |v| number(&v));
        assert_eq!(found, n.load(Ordering::SeqCst), "key {i}");
    }
}

fn read_counters(store: &Store, ks: &Keyspace, written: &[AtomicU64], rng: &mut Rng, keys: u64) {
    let picked: Vec<u64> = (0..16).map(|_| rng.below(keys)).collect();
    let floor: Vec<u64> = picked
        .iter()
        .map(|i| written[*i as usize].load(Ordering::SeqCst))
        .collect();
    let snapshot = store.snapshot().unwrap();
    let names: Vec<Vec<u8>> = picked.iter().map(|i| own_key(*i)).collect();
    let many = ks.multi_get(&names).unwrap();
    for (((i, floor), name), many) in picked.iter().zip(floor).zip(&names).zip(many) {
        let seen = ks
            .get_at(name, &snapshot)
            .unwrap()
            .map_or(0, |v| number(&v));
        let now = ks.get(name).unwrap().map_or(0, |v| number(&v));
        let many = many.map_or(0, |v| number(&v));
        assert!(
            seen >= floor,
            "key {i}: {seen} in the snapshot after {floor}"
        );
        assert!(
            many >= floor && now >= many,
            "key {i}: {now}, {many} after {floor}"
        );
        assert!(now >= seen, "key {i}: {now} after {seen} in the snapshot");
    }
}

#[test]
fn batches_are_seen_whole() {
    const PAIRS: u64 = 300;
    let store = Store::open("", &options()).unwrap();
    let (a, b) = (
        store.create_keyspace("a").unwrap(),
        store.create_keyspace("b").unwrap(),
    );
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..2u64 {
            let (store, a, b, stop) = (&store, &a, &b, &stop);
            scope.spawn(move || {
                let _stop = Stop(stop);
                let mut rng = Rng::new(thread);
                for n in 1.. {
                    if stop.load(Ordering::SeqCst) {
                        break;
                    }
                    // Both threads write every pair; a pair is equal in both keyspaces, or in none.
                    let mut batch = Batch::new();
                    for _ in 0..1 + rng.below(4) {
                        let name = own_key(rng.below(PAIRS) * 3);
                        match rng.one_in(5) {
                            true => [a, b].iter().for_each(|ks| batch.delete(ks, &name)),
                            false => {
                                let value = numbered(n * 2 + thread, 3000);
                                [a, b].iter().for_each(|ks| batch.put(ks, &name, &value));
                            }
                        }
                    }
                    store.write_with(&batch, &durability(&mut rng)).unwrap();
                }
            });
        }
        scope.spawn(|| {
            let _stop = Stop(&stop);
            let mut rng = Rng::new(9);
            let begun = Instant::now();
            while goes_on(&store, begun) && !stop.load(Ordering::SeqCst) {
                let snapshot = store.snapshot().unwrap();
                for _ in 0..20 {
                    let name = own_key(rng.below(PAIRS) * 3);
                    let x = a.get_at(&name, &snapshot).unwrap().map(|v| number(&v));
                    let y = b.get_at(&name, &snapshot).unwrap().map(|v| number(&v));
                    assert_eq!(x, y, "one half of a batch");
                }
                let x = a.iter().at(&snapshot).start().unwrap().map(Result::unwrap);
                let mut y = b.iter().at(&snapshot).reverse().start().unwrap();
                let y: Result<Vec<_>, _> = y.by_ref().collect();
                let mut y = y.unwrap();
                y.reverse();
                assert!(x.eq(y), "iterators of one snapshot differ");
            }
        });
    });
    assert!(
        store.stats().gc_segments > COLLECTED_MIN,
        "collection hardly ran"
    );
}

#[test]
fn no_increment_is_lost() {
    const KEYS: u64 = 12;
    const EACH: u64 = 6000;
    let store = Store::open("", &options()).unwrap();
    let ks = store.create_keyspace("a").unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let ks = &ks;
            scope.spawn(move || {
                let mut rng = Rng::new(thread);
                for _ in 0..EACH {
                    let name = own_key(rng.below(KEYS));
                    ks.update(name, |old| Some(numbered(old.map_or(0, number) + 1, 3000)))
                        .unwrap();
                }
            });
        }
    });
    let sum: u64 = (0..KEYS)
        .map(|i| number(&ks.get(own_key(i)).unwrap().unwrap()))
        .sum();
    assert_eq!(sum, 4 * EACH);
    store.sync().unwrap();
    assert!(
        store.stats().gc_segments > COLLECTED_MIN,
        "collection hardly ran"
    );
}

#[test]
fn taken_values_are_taken_once() {
    const KEYS: u64 = 200;
    let store = Store::open("", &options()).unwrap();
    let ks = store.create_keyspace("a").unwrap();
    let (put, taken) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let (ks, put, taken) = (&ks, &put, &taken);
            scope.spawn(move || {
                let mut rng = Rng::new(thread);
                for n in 0..8000 {
                    let name = own_key(rng.below(KEYS));
                    if thread % 2 == 0 {
                        let value = numbered(n * 4 + thread, 2000);
                        if ks.insert_if_absent(name, value).unwrap() {
                            put.fetch_add(n * 4 + thread + 1, Ordering::SeqCst);
                        }
                    } else if let Some(value) = ks.take(name).unwrap() {
                        taken.fetch_add(number(&value) + 1, Ordering::SeqCst);
                    }
                }
            });
        }
    });
    let left: u64 = ks
        .iter()
        .start()
        .unwrap()
        .map(|i| number(&i.unwrap().1) + 1)
        .sum();
    assert_eq!(put.into_inner(), taken.into_inner() + left);
}

#[test]
fn an_iterator_sees_one_moment() {
    const KEYS: u64 = 400;
    let store = Store::open("", &options()).unwrap();
    let ks = store.create_keyspace("a").unwrap();
    let stop = AtomicBool::new(false);
    let round = |n: u64| {
        // Half of the keys come and go in turn; those that are there hold the round.
        let mut batch = Batch::new();
        for i in 0..KEYS {
            match (i + n) % 2 {
                0 => batch.put(&ks, own_key(i * 8 + i % 8), numbered(n, 1000)),
                _ => batch.delete(&ks, own_key(i * 8 + i % 8)),
            }
        }
        batch
    };
    store.write(&round(0)).unwrap();
    let held = Arc::new(AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _stop = Stop(&stop);
            for n in 1.. {
                if stop.load(Ordering::SeqCst) {
                    break;
                }
                store.write(&round(n)).unwrap();
                if n % 50 == 0 {
                    store.checkpoint().unwrap();
                }
            }
        });
        for thread in 0..2 {
            let (store, ks, stop, held) = (&store, &ks, &stop, Arc::clone(&held));
            scope.spawn(move || {
                let _stop = Stop(stop);
                let mut rng = Rng::new(thread);
                let begun = Instant::now();
                while goes_on(store, begun) && !stop.load(Ordering::SeqCst) {
                    let iter = match rng.one_in(2) {
                        true => ks.iter().reverse().start().unwrap(),
                        false => ks.iter().start().unwrap(),
                    };
                    if check_moment(iter, &mut rng, KEYS / 2) {
                        held.fetch_add(1, Ordering::SeqCst);
                    }
                }
            });
        }
    });
    assert!(
        held.load(Ordering::SeqCst) > 10,
        "hardly an iteration came to its end"
    );
    assert!(
        store.stats().gc_segments > COLLECTED_MIN,
        "collection hardly ran"
    );
}

/// True if the iteration came to its end.
fn check_moment(iter: heliox::Iter, rng: &mut Rng, keys: u64) -> bool {
    let (mut first, mut count) = (None, 0);
    for item in iter {
        let value = match item {
            Ok((_, value)) => value,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::SnapshotTooOld, "{error}");
                return false;
            }
        };
        let n = number(&value);
        assert_eq!(*first.get_or_insert(n), n, "two moments in one iteration");
        count += 1;
        if rng.one_in(400) {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    assert_eq!(count, keys, "keys are missing in the moment {first:?}");
    true
}

#[test]
fn a_range_delete_between_reading_and_writing_is_not_undone() {
    let store = Store::open("", &options()).unwrap();
    let ks = store.create_keyspace("k").unwrap();
    ks.put("key", "old").unwrap();
    let mut calls = 0;
    let append = |old: Option<&[u8]>| {
        calls += 1;
        if calls == 1 {
            ks.delete_range("a", "z").unwrap();
        }
        Some([old.unwrap_or(b"none"), b"+"].concat())
    };
    ks.update("key", append).unwrap();
    assert_eq!(calls, 2, "what was read was gone before the write");
    assert_eq!(ks.get("key").unwrap(), Some(b"none+".to_vec()));
}
