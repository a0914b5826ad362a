//! A store that is never closed in order opens again and again, and misses nothing.
#![allow(clippy::unwrap_used)] // a failure is the test's

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;

use heliox::{Durability, Media, Options, Store, WriteOptions};
use heliox_format::superblock::SUPERBLOCK_OFFSETS;
use heliox_media::{
    CrashChoice, FaultMedia, Geometry, MediaError, MemoryMedia, Operation, RecordingMedia,
};

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

/// A run that is too short for the sweep that the one before made due leaves it to the next.
#[test]
fn a_close_before_the_sweep_of_orphans_does_not_forget_it() {
    let media: Arc<dyn Media> = Arc::new(MemoryMedia::new(BYTES, 512).unwrap());
    let store = open(&media).unwrap();
    let ks = store.create_keyspace("default").unwrap();
    ks.put("large", vec![7; (2 << 20) + 5]).unwrap();
    store.sync().unwrap();
    std::mem::forget((store, ks));

    for _ in 0..2 {
        let store = open(&media).unwrap();
        let ks = store.keyspace("default").unwrap();
        ks.put("large", "small").unwrap();
        drop(ks);
        store.close().unwrap();
    }
    let store = open(&media).unwrap();
    let before = store.stats().live_bytes;
    store.step().unwrap();
    let swept = before.saturating_sub(store.stats().live_bytes);
    assert!(swept > 1 << 20, "{swept} bytes were swept");
}

/// One read, counted from 0, gives the bytes of another place.
struct Astray {
    inner: Arc<MemoryMedia>,
    reads_before: AtomicU32,
}

/// The sector of the other place is not one that begins a frame of the same length there.
const ASTRAY_BYTES: u64 = 9 * 512;

impl Media for Astray {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), MediaError> {
        let is_astray = self.reads_before.fetch_sub(1, Ordering::Relaxed) == 0;
        let away = if is_astray { ASTRAY_BYTES } else { 0 };
        self.inner.read_at(offset + away, buf)
    }
    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), MediaError> {
        self.inner.write_at(offset, data)
    }
    fn sync(&self) -> Result<(), MediaError> {
        self.inner.sync()
    }
    fn discard(&self, offset: u64, len_bytes: u64) -> Result<(), MediaError> {
        self.inner.discard(offset, len_bytes)
    }
    fn describe(&self) -> String {
        "astray".to_owned()
    }
}

/// Whichever read of an open goes astray, a header's or one of the log's end included: all is there,
/// or the store is not opened.
#[test]
fn a_read_that_goes_astray_is_not_taken_for_the_end_of_the_log() {
    let mut opened = 0;
    for nth in 0..50 {
        let inner = Arc::new(MemoryMedia::new(BYTES, 512).unwrap());
        let media: Arc<dyn Media> = inner.clone();
        let store = open(&media).unwrap();
        let ks = store.create_keyspace("default").unwrap();
        let sync = WriteOptions::new().durability(Durability::Sync);
        // Over more than one piece that is read at a time.
        let value = vec![1; 60_000];
        for number in 0..30u32 {
            ks.put_with(number.to_be_bytes(), &value, &sync).unwrap();
        }
        std::mem::forget((store, ks));
        let astray: Arc<dyn Media> = Arc::new(Astray {
            inner,
            reads_before: AtomicU32::new(nth),
        });
        let store = open(&astray);
        opened += u32::from(store.is_ok());
        let store = store.unwrap_or_else(|_| open(&media).unwrap());
        let ks = store.keyspace("default").unwrap();
        assert_eq!(ks.iter().start().unwrap().count(), 30, "read {nth}");
    }
    assert!(opened > 40, "{opened} opens");
}

/// Both copies of the superblock are as they were before the last run: what it wrote cannot be found
/// any more, and that is told.
#[test]
fn a_superblock_that_was_lost_is_told() {
    let memory = Arc::new(MemoryMedia::new(BYTES, 512).unwrap());
    let media: Arc<dyn Media> = memory.clone();
    assert!(run(&media, 0));
    let mut copies = [[0; 4096]; 2];
    for (offset, copy) in SUPERBLOCK_OFFSETS.into_iter().zip(&mut copies) {
        memory.peek(offset, copy).unwrap();
    }
    assert!(run(&media, 1));
    for (offset, copy) in SUPERBLOCK_OFFSETS.into_iter().zip(&copies) {
        memory.poke(offset, copy).unwrap();
    }
    let damage = open(&media).unwrap().damage();
    assert!(
        damage.iter().any(|d| d.contains("a superblock was lost")),
        "{damage:?}"
    );
}
