//! A store that is never closed in order opens again and again, and misses nothing.
#![allow(clippy::unwrap_used)] // a failure is the test's

use std::sync::Arc;

use heliox::{Durability, Media, Options, Store, WriteOptions};
use heliox_media::{FaultMedia, MemoryMedia, Operation};

const BYTES: u64 = 96 << 20;

fn open(media: &Arc<dyn Media>) -> heliox::Result<Store> {
    let options = Options::new()
        .volumes(vec![Arc::clone(media)])
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
