//! The bound of `bounded` durability holds without any further call, in a store of any default.
#![allow(clippy::unwrap_used)] // a failure is the test's

use std::sync::Arc;
use std::time::{Duration, Instant};

use heliox::{Batch, Durability, Media, Options, Store, WriteOptions};
use heliox_media::{CrashChoice, MemoryMedia, RecordingMedia};

const BYTES: u64 = 96 << 20;

fn options(media: Arc<dyn Media>, durability: Durability) -> Options {
    Options::new()
        .volumes(vec![media])
        .segment_bytes(4 << 20)
        .memory_budget_bytes(32 << 20)
        .durability(durability)
}

/// What a crash right now leaves at the least: nothing that was not synced.
fn survivors(recording: &RecordingMedia) -> Store {
    let at = recording.event_count();
    let image = recording
        .crash_image_of(at, CrashChoice::NothingUnsynced)
        .unwrap();
    Store::open("", &options(Arc::new(image), Durability::None)).unwrap()
}

fn bounded_write_is_durable_by_itself(default: Durability) {
    let memory = MemoryMedia::new(BYTES, 512).unwrap();
    let recording = Arc::new(RecordingMedia::new(memory));
    let store = Store::open("", &options(recording.clone(), default)).unwrap();
    let ks = store.create_keyspace("default").unwrap();
    store.sync().unwrap();
    let bound = Durability::Bounded {
        ms: 100,
        bytes: 8 << 20,
    };
    ks.put_with("k", "v", &WriteOptions::new().durability(bound))
        .unwrap();
    // Far more than the bound: machines stall. What is tested is that nobody has to ask.
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let found = survivors(&recording)
            .keyspace("default")
            .unwrap()
            .get("k")
            .unwrap();
        if found.is_some() {
            return;
        }
        assert!(Instant::now() < deadline, "not durable under {default:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_bounded_write_becomes_durable_in_a_store_of_any_default() {
    for default in [Durability::None, Durability::Sync, Durability::default()] {
        bounded_write_is_durable_by_itself(default);
    }
}

#[test]
fn a_write_without_durability_waits_for_a_sync() {
    let memory = MemoryMedia::new(BYTES, 512).unwrap();
    let recording = Arc::new(RecordingMedia::new(memory));
    let store = Store::open("", &options(recording.clone(), Durability::None)).unwrap();
    let ks = store.create_keyspace("default").unwrap();
    store.sync().unwrap();
    ks.put("k", "v").unwrap();
    let left = survivors(&recording)
        .keyspace("default")
        .unwrap()
        .get("k")
        .unwrap();
    assert_eq!(left, None);
    store.sync().unwrap();
    let left = survivors(&recording)
        .keyspace("default")
        .unwrap()
        .get("k")
        .unwrap();
    assert_eq!(left.unwrap(), b"v");
}

/// Nothing is written for it, but what was before it is as durable then as was asked for.
#[test]
fn a_synced_delete_of_nothing_makes_durable_what_was_before() {
    for by_batch in [false, true] {
        let memory = MemoryMedia::new(BYTES, 512).unwrap();
        let recording = Arc::new(RecordingMedia::new(memory));
        let store = Store::open("", &options(recording.clone(), Durability::None)).unwrap();
        let ks = store.create_keyspace("default").unwrap();
        ks.put("before", "v").unwrap();
        let synced = WriteOptions::new().durability(Durability::Sync);
        if by_batch {
            let mut batch = Batch::new();
            batch.delete(&ks, "absent");
            store.write_with(&batch, &synced).unwrap();
        } else {
            ks.delete_with("absent", &synced).unwrap();
        }
        let survivors = survivors(&recording);
        let left = survivors
            .keyspace("default")
            .unwrap()
            .get("before")
            .unwrap();
        assert_eq!(left.as_deref(), Some(&b"v"[..]), "by batch: {by_batch}");
    }
}
