//! What scans lay together, and what they leave alone.

use heliox_format::ids::SeqNo;

use super::*;
use crate::keyspace::Keyspace;
use crate::read::{fetch, with_scratch};
use crate::store::Store;
use crate::tests;

const KEYS: u32 = 3000;

fn key(number: u32) -> [u8; 4] {
    number.to_be_bytes()
}

fn value(number: u32) -> Vec<u8> {
    vec![number as u8; 300]
}

/// A store without a cache whose keys were written in this order.
fn filled(order: impl Iterator<Item = u32>, value_bytes: usize) -> (Store, Keyspace) {
    let options = tests::options(tests::memory(130)).memory_budget_bytes(16 << 20);
    let (store, ks) = tests::open(&options);
    store.core().cache.set_budget_bytes(0);
    for number in order {
        let mut value = value(number);
        value.resize(value_bytes, 7);
        ks.put(key(number), value).unwrap();
    }
    store.sync().unwrap();
    (store, ks)
}

/// In an order that tears neighbours apart.
fn scattered(value_bytes: usize) -> (Store, Keyspace) {
    filled((0..KEYS).map(|number| number * 1009 % KEYS), value_bytes)
}

fn scan(ks: &Keyspace, from: u32, count: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
    let entries = ks.iter().from(key(from)).limit(count).start().unwrap();
    entries.map(Result::unwrap).collect()
}

/// The blocks that a scan reads.
fn reads(store: &Store, work: impl FnOnce()) -> u64 {
    // What lies in the tail is not read from media.
    store.sync().unwrap();
    let before = store.stats().bytes_read.data;
    work();
    (store.stats().bytes_read.data - before) / 4096
}

#[test]
fn a_second_scan_reads_a_few_blocks() {
    let (store, ks) = scattered(300);
    let first = reads(&store, || drop(scan(&ks, 500, 60)));
    assert!(first >= 30, "{first}");
    assert!(store.stats().gathered_records >= 50);
    let second = reads(&store, || {
        let found = scan(&ks, 500, 60);
        assert_eq!(found.len(), 60);
        for (number, (k, v)) in (500..).zip(found) {
            assert_eq!((&k[..], v), (&key(number)[..], value(number)));
        }
    });
    assert!(second <= 8, "{second} after {first}");
    // Nor is anything moved again, wherever in it the next scans begin.
    let moved = store.stats().gathered_records;
    for from in [500, 505, 520, 551] {
        scan(&ks, from, 9);
    }
    assert_eq!(store.stats().gathered_records, moved);
    // The end of a run is no short run.
    scan(&ks, 555, 20);
    let more = store.stats().gathered_records - moved;
    assert!((8..=15).contains(&more), "{more}");
}

/// Those that a scan laid together lie between others that stay: they are not copied again.
#[test]
fn what_was_laid_together_among_others_stays_too() {
    let (store, ks) = filled(0..KEYS, 300);
    for number in (0..KEYS).step_by(10) {
        ks.put(key(number * 1009 % KEYS / 10 * 10), value(1))
            .unwrap();
    }
    store.sync().unwrap();
    scan(&ks, 0, 250);
    let moved = store.stats().gathered_records;
    assert!((20..=25).contains(&moved), "{moved}");
    store.sync().unwrap();
    scan(&ks, 0, 250);
    assert_eq!(store.stats().gathered_records, moved);
}

#[test]
fn what_was_deleted_in_a_range_is_not_copied() {
    let (store, ks) = scattered(300);
    ks.delete_range(key(500), key(1500)).unwrap();
    store.sync().unwrap();
    let entries = ks.iter().from(key(500)).to(key(600)).start().unwrap();
    assert_eq!(entries.count(), 0);
    assert_eq!(store.stats().gathered_records, 0);
}

#[test]
fn what_lies_together_stays() {
    let (store, ks) = filled(0..KEYS, 300);
    assert!(reads(&store, || drop(scan(&ks, 0, 200))) > 10);
    assert_eq!(store.stats().gathered_records, 0);
}

#[test]
fn a_long_scan_moves_no_more_than_its_beginning() {
    let (store, ks) = scattered(300);
    assert_eq!(scan(&ks, 0, KEYS as usize).len(), KEYS as usize);
    let moved = store.stats().gathered_records;
    assert!((900..=1000).contains(&moved), "{moved}");
}

#[test]
fn large_records_and_volatile_ones_stay() {
    let (store, ks) = scattered(RECORD_BYTES_MAX + 1);
    scan(&ks, 500, 60);
    assert_eq!(store.stats().gathered_records, 0);
    let (store, ks) = scattered(300);
    for number in (500..560).rev() {
        ks.put(key(number), value(number)).unwrap();
        ks.put(key(number + 1000), value(number)).unwrap();
    }
    assert_eq!(scan(&ks, 500, 60).len(), 60);
    assert_eq!(store.stats().gathered_records, 0);
    store.sync().unwrap();
    scan(&ks, 500, 60);
    assert!(store.stats().gathered_records > 50);
}

/// Whoever asked the index before a segment began has read what lay there in another life.
#[test]
fn what_was_read_in_another_life_of_its_place_stays() {
    let (store, ks) = scattered(300);
    let core = store.core();
    let found: Vec<(Location, OwnedRecord)> = (500..560)
        .map(|number| {
            let location = core.index.lookup(&core.prepare(ks.id(), &key(number)))[0].location;
            let asked = core.asked();
            let record = with_scratch(|scratch| {
                let record = fetch(core, Head { location, asked }, scratch).unwrap();
                OwnedRecord::of(&record.unwrap())
            });
            (location, record)
        })
        .collect();
    let gather = |asked| {
        let places = found.iter().map(|(location, record)| Place {
            location: *location,
            record,
        });
        run(core, places, asked, WORTH_MIN);
        store.stats().gathered_records
    };
    assert_eq!(gather(Asked::of(SeqNo::ZERO)), 0);
    assert!(gather(core.asked()) > 50);
}

#[test]
fn a_snapshot_and_a_reopened_store_see_what_was_written() {
    let media = tests::memory(130);
    let options = tests::options(media);
    let (store, ks) = tests::open(&options);
    for number in 0..KEYS {
        ks.put(key(number * 1009 % KEYS), value(number * 1009 % KEYS))
            .unwrap();
    }
    store.sync().unwrap();
    let snapshot = store.snapshot().unwrap();
    store.core().cache.set_budget_bytes(0);
    scan(&ks, 100, 200);
    assert!(store.stats().gathered_records > 100);
    for number in 100..200 {
        ks.put(key(number), b"newer").unwrap();
    }
    for number in 100..300 {
        let seen = ks.get_at(key(number), &snapshot).unwrap();
        assert_eq!(seen, Some(value(number)), "{number}");
    }
    store.sync().unwrap();
    drop((snapshot, ks));
    store.close().unwrap();
    let (store, ks) = tests::open(&options);
    for number in 100..300 {
        let seen = ks.get(key(number)).unwrap();
        let newer = (100..200).contains(&number);
        let expected = if newer {
            b"newer".to_vec()
        } else {
            value(number)
        };
        assert_eq!(seen, Some(expected));
    }
    drop(ks);
    store.close().unwrap();
    let report = Store::check("", &options, &mut |_| {}).unwrap();
    assert_eq!(report.problems, Vec::<String>::new());
}

#[test]
fn nothing_is_moved_where_room_is_short() {
    let (store, ks) = scattered(300);
    let core = store.core();
    core.space
        .expect_checkpoint(core.log.free_segments() * core.log.geometry().segment_bytes);
    scan(&ks, 500, 60);
    assert_eq!(store.stats().gathered_records, 0);
}
