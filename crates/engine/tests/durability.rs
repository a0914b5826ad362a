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

/// In a file whose blocks come with the first write, the segment that comes next gets its own ahead.
#[test]
fn durable_puts_have_the_next_segment_prepared() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let options = Options::new()
        .capacity_bytes(128 << 20)
        .segment_bytes(4 << 20)
        .durability(Durability::Sync);
    let store = Store::open(&path, &options).unwrap();
    let ks = store.create_keyspace("default").unwrap();
    let before = store.stats().bytes_written.metadata;
    let (mut count, deadline) = (0u32, Instant::now() + Duration::from_secs(20));
    // By another thread, so nobody knows how soon.
    while store.stats().bytes_written.metadata < before + (4 << 20) {
        ks.put(count.to_be_bytes(), "value").unwrap();
        count += 1;
        assert!(Instant::now() < deadline, "nothing was prepared");
    }
    let value = vec![7; 1 << 20];
    (0..8).for_each(|n| ks.put(format!("large{n}"), &value).unwrap());
    store.close().unwrap();
    drop(ks);
    let store = Store::open(&path, &options).unwrap();
    assert!(store.damage().is_empty());
    let ks = store.keyspace("default").unwrap();
    for n in 0..count {
        assert!(ks.contains(n.to_be_bytes()).unwrap());
    }
    for n in 0..8 {
        assert_eq!(ks.get(format!("large{n}")).unwrap().as_ref(), Some(&value));
    }
}

#[test]
fn a_range_delete_has_the_durability_that_it_is_given() {
    for (default, own) in [
        (Durability::None, Durability::Sync),
        (Durability::Sync, Durability::None),
    ] {
        let memory = MemoryMedia::new(BYTES, 512).unwrap();
        let recording = Arc::new(RecordingMedia::new(memory));
        let store = Store::open("", &options(recording.clone(), default)).unwrap();
        let ks = store.create_keyspace("default").unwrap();
        ks.put("a", "v").unwrap();
        ks.put("b", "v").unwrap();
        store.sync().unwrap();
        let left = || {
            let store = survivors(&recording);
            let ks = store.keyspace("default").unwrap();
            ["a", "b"].map(|key| ks.contains(key).unwrap())
        };
        let given = WriteOptions::new().durability(own);
        let is_kept = own == Durability::None;
        ks.delete_range_with("a", "aa", &given).unwrap();
        assert_eq!(left(), [is_kept, true], "{own:?}");
        ks.delete_prefix_with("b", &given).unwrap();
        assert_eq!(left(), [is_kept, is_kept], "{own:?}");
    }
}
