//! A store that is opened for reading alone: everything is found, and not a byte of its files changes.
#![allow(clippy::unwrap_used, clippy::panic)] // a failure is the test's

use std::path::{Path, PathBuf};

use heliox::{BackupOptions, Batch, Durability, ErrorKind, KeySource, Options, Store};

const CAPACITY_BYTES: u64 = 80 << 20;

fn options() -> Options {
    Options::new()
        .capacity_bytes(CAPACITY_BYTES)
        .memory_budget_bytes(32 << 20)
        .durability(Durability::Sync)
}

fn reading() -> Options {
    options().read_only(true)
}

/// What the directory holds, byte for byte, and when it was changed.
fn content(dir: &Path) -> Vec<(PathBuf, Vec<u8>, std::time::SystemTime)> {
    let mut files: Vec<_> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| {
            let changed = std::fs::metadata(&path).unwrap().modified().unwrap();
            (path.clone(), std::fs::read(&path).unwrap(), changed)
        })
        .collect();
    files.sort();
    files
}

/// A store with a thousand keys; if it is not clean, the run that wrote them never ended.
fn make(dir: &Path, is_clean: bool) {
    let writes = tempfile::tempdir().unwrap();
    let place = writes.path().join("store");
    let store = Store::open(&place, &options()).unwrap();
    let ks = store.keyspace_or_create("some").unwrap();
    for n in 0..1000_u32 {
        ks.put(n.to_be_bytes(), [7; 300]).unwrap();
        if n == 500 {
            store.checkpoint().unwrap();
        }
    }
    ks.delete(3_u32.to_be_bytes()).unwrap();
    ks.delete_range(10_u32.to_be_bytes(), 20_u32.to_be_bytes())
        .unwrap();
    store.sync().unwrap();
    let copy = || {
        std::fs::create_dir_all(dir).unwrap();
        for name in ["data", "HELIOX"] {
            std::fs::copy(place.join(name), dir.join(name)).unwrap();
        }
    };
    if is_clean {
        drop(ks);
        store.close().unwrap();
        copy();
    } else {
        copy();
        drop(ks);
        store.close().unwrap();
    }
}

fn kind<T>(result: heliox::Result<T>) -> ErrorKind {
    match result {
        Ok(_) => panic!("it was done"),
        Err(error) => error.kind(),
    }
}

fn read_and_try_to_write(store: &Store, scratch: &Path) {
    let ks = store.keyspace("some").unwrap();
    assert_eq!(ks.iter().start().unwrap().count(), 1000 - 11);
    assert_eq!(ks.get(999_u32.to_be_bytes()).unwrap(), Some(vec![7; 300]));
    assert_eq!(ks.get(3_u32.to_be_bytes()).unwrap(), None);
    let mut batch = Batch::new();
    batch.put(&ks, "a", "b");
    for refused in [
        kind(ks.put("a", "b")),
        kind(ks.put("a", vec![1; 5 << 20])),
        kind(ks.delete("a")),
        kind(ks.delete_range("a", "b")),
        kind(store.write(&batch)),
        kind(store.create_keyspace("more")),
        kind(store.drop_keyspace("some")),
        kind(store.checkpoint()),
        kind(store.scrub(&mut |_| {})),
        kind(store.rotate_key(&KeySource::file("no key"))),
    ] {
        assert_eq!(refused, ErrorKind::ReadOnly);
    }
    store.flush().unwrap();
    store.sync().unwrap();
    // A backup changes nothing but its set.
    let set = scratch.join("set");
    store
        .backup(&set, &BackupOptions::new(), &mut |_| {})
        .unwrap();
}

#[test]
fn a_store_that_is_only_read_keeps_every_byte() {
    for is_clean in [true, false] {
        let scratch = tempfile::tempdir().unwrap();
        let dir = scratch.path().join("store");
        make(&dir, is_clean);
        let before = content(&dir);
        let store = Store::open(&dir, &reading()).unwrap();
        // Another reader may come, no writer.
        let second = Store::open(&dir, &reading()).unwrap();
        assert_eq!(kind(Store::open(&dir, &options())), ErrorKind::StoreInUse);
        read_and_try_to_write(&store, scratch.path());
        second.close().unwrap();
        store.close().unwrap();
        assert!(content(&dir) == before, "clean: {is_clean}");
        let writing = Store::open(&dir, &options()).unwrap();
        assert_eq!(kind(Store::open(&dir, &reading())), ErrorKind::StoreInUse);
        writing.keyspace("some").unwrap().put("a", "b").unwrap();
        writing.close().unwrap();
        assert!(content(&dir) != before);
    }
}

#[test]
fn nothing_is_made_for_reading_alone() {
    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path().join("store");
    assert_eq!(kind(Store::open(&dir, &reading())), ErrorKind::NotAStore);
    assert_eq!(kind(Store::create(&dir, &reading())), ErrorKind::Invalid);
    assert!(!dir.exists());
}
