//! What every user does first, over memory and over files.

#![allow(clippy::unwrap_used)] // a failure is the test's

use std::sync::Arc;

use heliox::{Batch, Durability, Media, Options, Store, WriteOptions};
use heliox_media::MemoryMedia;

fn memory(bytes: u64) -> Arc<dyn Media> {
    Arc::new(MemoryMedia::new(bytes, 512).unwrap())
}

fn options(media: &Arc<dyn Media>) -> Options {
    Options::new()
        .volumes(vec![Arc::clone(media)])
        .segment_bytes(4 << 20)
        .memory_budget_bytes(64 << 20)
}

fn reopen(media: &Arc<dyn Media>) -> Store {
    Store::open("", &options(media)).unwrap()
}

#[test]
fn puts_gets_and_deletes_survive_close_and_open() {
    let media = memory(256 << 20);
    let store = reopen(&media);
    let ks = store.create_keyspace("default").unwrap();
    for i in 0..20_000u32 {
        ks.put(format!("key{i:08}"), format!("value{i}")).unwrap();
    }
    for i in (0..20_000u32).step_by(3) {
        ks.delete(format!("key{i:08}")).unwrap();
    }
    for i in (0..20_000u32).step_by(5) {
        ks.put(format!("key{i:08}"), format!("again{i}")).unwrap();
    }
    let verify = |store: &Store| {
        let ks = store.keyspace("default").unwrap();
        let expect = |i: u32| match i {
            _ if i.is_multiple_of(5) => Some(format!("again{i}").into_bytes()),
            _ if i.is_multiple_of(3) => None,
            _ => Some(format!("value{i}").into_bytes()),
        };
        for i in 0..20_000u32 {
            assert_eq!(ks.get(format!("key{i:08}")).unwrap(), expect(i), "key {i}");
        }
        let all: Vec<_> = ks.iter().start().unwrap().map(Result::unwrap).collect();
        let wanted: Vec<_> = (0..20_000u32)
            .filter_map(|i| Some((format!("key{i:08}").into_bytes(), expect(i)?)))
            .collect();
        assert!(all == wanted, "{} {}", all.len(), wanted.len());
        let mut back: Vec<_> = ks
            .iter()
            .reverse()
            .start()
            .unwrap()
            .map(Result::unwrap)
            .collect();
        back.reverse();
        assert!(back == wanted, "{} {}", back.len(), wanted.len());
    };
    verify(&store);
    store.close().unwrap();
    let store = reopen(&media);
    verify(&store);
    store.checkpoint().unwrap();
    verify(&store);
}

#[test]
fn a_batch_and_conditional_writes() {
    let media = memory(128 << 20);
    let store = reopen(&media);
    let a = store.create_keyspace("a").unwrap();
    let b = store.create_keyspace("b").unwrap();
    let mut batch = Batch::new();
    batch.put(&a, "k", "1");
    batch.put(&b, "k", "2");
    batch.delete(&a, "none");
    store.write(&batch).unwrap();
    assert_eq!(a.get("k").unwrap().unwrap(), b"1");
    assert_eq!(b.get("k").unwrap().unwrap(), b"2");
    assert!(!a.insert_if_absent("k", "x").unwrap());
    assert!(a.insert_if_absent("new", "x").unwrap());
    assert!(a.replace_if_present("new", "y").unwrap());
    assert!(!a.replace_if_present("newer", "y").unwrap());
    assert_eq!(a.take("new").unwrap().unwrap(), b"y");
    assert_eq!(a.take("new").unwrap(), None);
    a.update("n", |old| Some(vec![old.map_or(0, |o| o[0]) + 1]))
        .unwrap();
    a.update("n", |old| Some(vec![old.map_or(0, |o| o[0]) + 1]))
        .unwrap();
    assert_eq!(a.get("n").unwrap().unwrap(), [2]);
    let puts = store.stats().puts;
    assert!(!a.update_if("n", |_| None).unwrap());
    assert_eq!(a.get("n").unwrap().unwrap(), [2]);
    assert_eq!(store.stats().puts, puts, "nothing was to be written");
    assert!(a.update_if("n", |old| Some(old.map(|_| vec![3]))).unwrap());
    assert_eq!(a.get("n").unwrap().unwrap(), [3]);
    assert!(a.update_if("n", |_| Some(None)).unwrap());
    assert_eq!(a.get("n").unwrap(), None);
    store.drop_keyspace("b").unwrap();
    assert!(b.get("k").is_err());
    assert_eq!(store.keyspaces(), ["a"]);
}

#[test]
fn snapshots_and_iterators_see_one_moment() {
    let media = memory(128 << 20);
    let store = reopen(&media);
    let ks = store.create_keyspace("default").unwrap();
    for i in 0..1000u32 {
        ks.put(i.to_be_bytes(), b"old").unwrap();
    }
    let snapshot = store.snapshot().unwrap();
    let mut iter = ks.iter().start().unwrap();
    assert_eq!(iter.next().unwrap().unwrap().0, 0u32.to_be_bytes());
    for i in 0..1000u32 {
        match i % 3 {
            0 => ks.delete(i.to_be_bytes()).unwrap(),
            1 => ks.put(i.to_be_bytes(), b"new").unwrap(),
            _ => {}
        }
    }
    ks.delete_range(500u32.to_be_bytes(), 600u32.to_be_bytes())
        .unwrap();
    ks.put(5000u32.to_be_bytes(), b"new").unwrap();
    for i in 0..1000u32 {
        let old = ks.get_at(i.to_be_bytes(), &snapshot).unwrap();
        assert_eq!(old.as_deref(), Some(&b"old"[..]), "{i}");
    }
    let keys: Vec<_> = (0..=1000u32).map(u32::to_be_bytes).collect();
    let mut old = ks.multi_get_at(&keys, &snapshot).unwrap();
    assert_eq!(old.pop().unwrap(), None);
    assert!(old.iter().all(|v| v.as_deref() == Some(&b"old"[..])));
    assert_eq!(ks.get_at(5000u32.to_be_bytes(), &snapshot).unwrap(), None);
    let rest: Vec<_> = iter.map(Result::unwrap).collect();
    assert_eq!(rest.len(), 999);
    assert!(rest.iter().all(|(_, v)| v == b"old"));
    assert_eq!(ks.get(550u32.to_be_bytes()).unwrap(), None);
    let now = ks.iter().start().unwrap().map(Result::unwrap).count();
    let wanted = (0..1000u32)
        .filter(|i| i % 3 != 0 && !(500..600).contains(i))
        .count()
        + 1;
    assert_eq!(now, wanted);
}

#[test]
fn overwrites_many_times_the_capacity_are_collected() {
    let media = memory(128 << 20);
    let store = reopen(&media);
    let ks = store.create_keyspace("default").unwrap();
    let options = WriteOptions::new().durability(Durability::None);
    let value = vec![7u8; 1000];
    for round in 0..20u32 {
        for i in 0..20_000u32 {
            let mut value = value.clone();
            value[..4].copy_from_slice(&round.to_le_bytes());
            ks.put_with(
                i.wrapping_mul(2_654_435_761).to_be_bytes(),
                &value,
                &options,
            )
            .unwrap();
        }
    }
    for i in 0..20_000u32 {
        let value = ks
            .get(i.wrapping_mul(2_654_435_761).to_be_bytes())
            .unwrap()
            .unwrap();
        assert_eq!(value[..4], 19u32.to_le_bytes());
    }
    let stats = store.stats();
    assert!(stats.gc_segments > 0);
    store.close().unwrap();
    let store = reopen(&media);
    let ks = store.keyspace("default").unwrap();
    for i in 0..20_000u32 {
        let value = ks
            .get(i.wrapping_mul(2_654_435_761).to_be_bytes())
            .unwrap()
            .unwrap();
        assert_eq!(value[..4], 19u32.to_le_bytes());
    }
}

#[test]
fn large_values_come_back_whole_and_in_part() {
    let media = memory(256 << 20);
    let store = reopen(&media);
    let ks = store.create_keyspace("default").unwrap();
    let value: Vec<u8> = (0..5_000_000u32).map(|i| (i % 251) as u8).collect();
    ks.put("large", &value).unwrap();
    ks.put("medium", &value[..900_000]).unwrap();
    assert!(ks.get("large").unwrap().unwrap() == value);
    assert!(ks.get("medium").unwrap().unwrap() == value[..900_000]);
    let part = ks
        .get_range("large", 2_000_000, 1_500_000)
        .unwrap()
        .unwrap();
    assert!(part == value[2_000_000..3_500_000]);
    store.close().unwrap();
    let store = reopen(&media);
    let ks = store.keyspace("default").unwrap();
    assert!(ks.get("large").unwrap().unwrap() == value);
    assert_eq!(ks.iter().keys_only().start().unwrap().count(), 2);
}

#[test]
fn a_copy_of_the_media_taken_while_open_recovers_what_was_synced() {
    let memory = Arc::new(MemoryMedia::new(128 << 20, 512).unwrap());
    let media: Arc<dyn Media> = memory.clone();
    let store = reopen(&media);
    let ks = store.create_keyspace("default").unwrap();
    for i in 0..30_000u32 {
        ks.put(i.to_be_bytes(), format!("value {i}")).unwrap();
        if i == 10_000 {
            store.checkpoint().unwrap();
        }
    }
    store.sync().unwrap();
    let copy = MemoryMedia::new(128 << 20, 512).unwrap();
    let mut page = vec![0u8; 1 << 20];
    for at in (0..128u64 << 20).step_by(1 << 20) {
        memory.peek(at, &mut page).unwrap();
        copy.poke(at, &page).unwrap();
    }
    let copy: Arc<dyn Media> = Arc::new(copy);
    let crashed = reopen(&copy);
    let ks = crashed.keyspace("default").unwrap();
    for i in 0..30_000u32 {
        let value = ks.get(i.to_be_bytes()).unwrap();
        assert_eq!(value, Some(format!("value {i}").into_bytes()), "key {i}");
    }
    assert!(crashed.stats().recovery.tail_records > 0);
    assert!(crashed.damage().is_empty(), "{:?}", crashed.damage());
}

#[test]
fn a_limit_ends_an_iteration_in_both_directions() {
    let store = reopen(&memory(96 << 20));
    let ks = store.create_keyspace("a").unwrap();
    for n in 0..1000u32 {
        ks.put(n.to_be_bytes(), "v").unwrap();
    }
    for n in (0..1000u32).filter(|n| n % 3 == 0) {
        ks.delete(n.to_be_bytes()).unwrap();
    }
    let left: Vec<u32> = (0..1000).filter(|n| n % 3 != 0).collect();
    let key = |item: heliox::Result<(Vec<u8>, Vec<u8>)>| {
        u32::from_be_bytes(item.unwrap().0.try_into().unwrap())
    };
    for limit in [0, 1, 2, 7, 300, 5000] {
        let forward = ks.iter().from(500u32.to_be_bytes()).limit(limit);
        let forward: Vec<u32> = forward.start().unwrap().map(key).collect();
        let expected = left.iter().copied().filter(|n| *n >= 500).take(limit);
        assert_eq!(forward, expected.collect::<Vec<_>>(), "{limit}");
        let backward = ks.iter().to(500u32.to_be_bytes()).reverse().limit(limit);
        let backward: Vec<u32> = backward.start().unwrap().map(key).collect();
        let expected = left.iter().rev().copied().filter(|n| *n < 500).take(limit);
        assert_eq!(backward, expected.collect::<Vec<_>>(), "{limit}");
    }
}

/// A value fills a block or two, so that what is read tells how many were.
#[test]
fn a_seek_reads_little_and_a_limit_no_more_than_that() {
    let media = memory(96 << 20);
    let store = reopen(&media);
    let ks = store.create_keyspace("a").unwrap();
    for n in 0..500u32 {
        ks.put(n.to_be_bytes(), vec![7; 4000]).unwrap();
    }
    store.close().unwrap();
    let store = reopen(&media);
    let ks = store.keyspace("a").unwrap();
    let read_bytes = |iter: heliox::IterOptions, items: usize| {
        let before = store.stats().bytes_read.data;
        assert_eq!(iter.start().unwrap().take(items).count(), items);
        store.stats().bytes_read.data - before
    };
    let value_bytes = 2 * 4096;
    let seek = read_bytes(ks.iter().from(100u32.to_be_bytes()), 1);
    assert!(seek > 0 && seek <= value_bytes, "{seek}");
    // The one before is not there, so that the next is looked for.
    let seek = read_bytes(ks.iter().from([0, 0, 1, 0, 7]), 1);
    assert!(seek > 0 && seek <= 2 * value_bytes, "{seek}");
    let ten = read_bytes(ks.iter().from(200u32.to_be_bytes()).limit(10), 10);
    assert!(ten >= 10 * 4000 && ten <= 11 * value_bytes, "{ten}");
}

/// Keys that the index cannot tell apart: small keyspaces share a leaf.
#[test]
fn what_a_small_keyspace_holds_is_counted() {
    let store = reopen(&memory(256 << 20));
    let spaces = ["a", "b", "c"].map(|name| store.create_keyspace(name).unwrap());
    let key = |n: u32| format!("a prefix that all of them have {n:06}");
    let counts = [3, 200, 1000];
    for (ks, count) in spaces.iter().zip(counts) {
        for n in 0..count {
            ks.put(key(n), "value").unwrap();
        }
    }
    for (ks, count) in spaces.iter().zip(counts) {
        for (from, to) in [
            (0, count),
            (0, 1),
            (count / 3, count / 2),
            (1, 1),
            (count, 9999),
        ] {
            let about = ks.approximate(key(from), key(to)).unwrap();
            let inside = u64::from(to.min(count) - from);
            if inside <= 256 {
                let bytes = inside * (key(0).len() as u64 + 5);
                assert_eq!(
                    (about.count, about.bytes),
                    (inside, bytes),
                    "{from} to {to}"
                );
            } else {
                assert!((inside / 2..inside * 2).contains(&about.count), "{about:?}");
                assert!(about.bytes > about.count);
            }
        }
        let all = ks.approximate("", [0xff; 40]).unwrap().count;
        assert!(
            (u64::from(count) / 2..u64::from(count) * 2).contains(&all),
            "{all}"
        );
    }
    // What was deleted does not count, and a large value does without being read.
    let [small, ..] = &spaces;
    small.delete(key(0)).unwrap();
    small.put(key(1), vec![1; 3 << 20]).unwrap();
    store.sync().unwrap();
    let before = store.stats().bytes_read.data;
    let about = small.approximate("", "b").unwrap();
    let keys = 2 * key(0).len() as u64;
    assert_eq!((about.count, about.bytes), (2, keys + (3 << 20) + 5));
    let read = store.stats().bytes_read.data - before;
    assert!(read < 1 << 20, "{read}");
    // Far more than are counted.
    for n in 0..20_000 {
        small.put(key(n), "value").unwrap();
    }
    let about = small.approximate(key(5_000), key(15_000)).unwrap();
    assert!((8_000..12_000).contains(&about.count), "{about:?}");
}
