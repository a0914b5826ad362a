//! A store that is never closed in order opens again and again, and misses nothing.
#![allow(clippy::unwrap_used)] // a failure is the test's

use std::sync::Arc;

use heliox::{Durability, Media, Options, Store, WriteOptions};
use heliox_media::{CrashChoice, FaultMedia, MemoryMedia, Operation, RecordingMedia};

const BYTES: u64 = 96 << 20;

fn open(media: &Arc<dyn Media>) -> heliox::Result<Store> {
    open_volumes(vec![Arc::clone(media)])
}

fn open_volumes(volumes: Vec<Arc<dyn Media>>) -> heliox::Result<Store> {
    let options = Options::new()
        .volumes(volumes)
        .segment_bytes(4 << 20)
        .memory_budget_bytes(32 << 20)
        .background(false);
    Store::open("", &options)
}

/// One run that ends without a close; gives false if the store could not be opened.
fn run(media: &Arc<dyn Media>, number: u32) -> bool {
    let Ok(store) = open(media) else {
        return false;
    };
    let sync = WriteOptions::new().durability(Durability::Sync);
    let ks = store.keyspace_or_create("default").unwrap();
    ks.put_with(number.to_be_bytes(), "x", &sync).unwrap();
    std::mem::forget((store, ks));
    true
}

#[test]
fn many_runs_without_a_close_lose_nothing() {
    let media: Arc<dyn Media> = Arc::new(MemoryMedia::new(BYTES, 512).unwrap());
    for number in 0..130 {
        assert!(run(&media, number), "run {number} does not open");
    }
    let store = open(&media).unwrap();
    let ks = store.keyspace("default").unwrap();
    assert_eq!(ks.iter().start().unwrap().count(), 130);
    assert!(store.damage().is_empty(), "{:?}", store.damage());
}

/// The open that must write a checkpoint, since no more ends can be noted, may itself be cut short
/// at any write.
#[test]
fn an_open_that_fails_at_any_write_does_not_keep_the_store_shut() {
    let memory = Arc::new(MemoryMedia::new(BYTES, 512).unwrap());
    let media: Arc<dyn Media> = memory.clone();
    let mut runs = 0;
    for (round, nth) in [1, 2, 3, 5].into_iter().enumerate() {
        while runs < 66 * (round as u32 + 1) {
            assert!(run(&media, runs), "run {runs} does not open");
            runs += 1;
        }
        // Opens that fail early, several in a row, wherever the list of ends stands.
        for _ in 0..66 {
            let fault = FaultMedia::new(Arc::clone(&media));
            fault.fail_nth(Operation::Write, nth, 5);
            let fault: Arc<dyn Media> = Arc::new(fault);
            if let Ok(store) = open(&fault) {
                std::mem::forget(store);
            }
        }
    }
    let store = open(&media).unwrap();
    let ks = store.keyspace("default").unwrap();
    assert_eq!(ks.iter().start().unwrap().count(), runs as usize);
}

/// A process ends with writes not synced, the next one replays them, and then power fails: what was
/// replayed counted as durable, on every volume.
#[test]
fn what_was_replayed_survives_a_loss_of_power_on_every_volume() {
    let record = || {
        let memory = MemoryMedia::new(BYTES, 512).unwrap();
        Arc::new(RecordingMedia::new(memory))
    };
    let volumes = [record(), record()];
    let running = || volumes.iter().map(|v| Arc::clone(v) as Arc<dyn Media>);
    let store = open_volumes(running().collect()).unwrap();
    let ks = store.create_keyspace("default").unwrap();
    store.sync().unwrap();
    let unsynced = WriteOptions::new().durability(Durability::None);
    for n in 0..10u32 {
        let value = vec![1; 200_000];
        ks.put_with(n.to_be_bytes(), value, &unsynced).unwrap();
    }
    store.flush().unwrap();
    std::mem::forget((store, ks));

    let store = open_volumes(running().collect()).unwrap();
    let ks = store.keyspace("default").unwrap();
    assert_eq!(ks.iter().start().unwrap().count(), 10);
    store.sync().unwrap();
    let left = volumes.iter().map(|v| {
        let image = v.crash_image_of(v.event_count(), CrashChoice::NothingUnsynced);
        Arc::new(image.unwrap()) as Arc<dyn Media>
    });
    let left = left.collect();
    std::mem::forget((store, ks));

    let store = open_volumes(left).unwrap();
    let ks = store.keyspace("default").unwrap();
    assert_eq!(ks.iter().start().unwrap().count(), 10);
    assert!(store.damage().is_empty(), "{:?}", store.damage());
}

/// After an end in disorder, chunks of large values without a head are swept; those that only a
/// snapshot reads by then are not without a head.
#[test]
fn the_sweep_of_orphans_leaves_a_snapshot_its_large_values() {
    let media: Arc<dyn Media> = Arc::new(MemoryMedia::new(BYTES, 512).unwrap());
    let store = open(&media).unwrap();
    let ks = store.create_keyspace("default").unwrap();
    let large = vec![7; (2 << 20) + 5];
    ks.put("seen", &large).unwrap();
    ks.put("unseen", &large).unwrap();
    store.sync().unwrap();
    std::mem::forget((store, ks));

    let store = open(&media).unwrap();
    let ks = store.keyspace("default").unwrap();
    ks.put("unseen", "small").unwrap();
    let snapshot = store.snapshot().unwrap();
    ks.delete("seen").unwrap();
    let before = store.stats().live_bytes;
    store.step().unwrap();
    let swept = before.saturating_sub(store.stats().live_bytes);
    assert!(swept > 1 << 20, "{swept} bytes were swept");
    assert_eq!(ks.get_at("seen", &snapshot).unwrap(), Some(large));
    assert_eq!(ks.get("seen").unwrap(), None);
}
