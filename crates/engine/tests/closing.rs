//! A store that is closed under running writers keeps every write that it acknowledged.
#![allow(clippy::unwrap_used, clippy::panic)] // a failure is the test's

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use heliox::{Batch, ErrorKind, Media, Options, Store};
use heliox_media::MemoryMedia;

const THREADS: usize = 4;

fn options(media: &Arc<dyn Media>) -> Options {
    Options::new()
        .volumes(vec![Arc::clone(media)])
        .segment_bytes(4 << 20)
        .memory_budget_bytes(32 << 20)
}

/// Writes until the store is closed; gives the last number that was acknowledged.
fn write_until_closed(store: &Store, thread: usize, acknowledged: &AtomicU64) {
    let ks = store.keyspace("default").unwrap();
    for i in 1u64.. {
        let written = if thread.is_multiple_of(2) {
            ks.put(format!("{thread}/{i}"), i.to_le_bytes())
        } else {
            let mut batch = Batch::new();
            batch.put(&ks, format!("{thread}/{i}"), i.to_le_bytes());
            batch.put(&ks, format!("{thread}/{i}/twin"), i.to_le_bytes());
            store.write(&batch)
        };
        match written {
            Ok(()) => acknowledged.store(i, Ordering::SeqCst),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
                return;
            }
        }
    }
}

#[test]
fn what_was_acknowledged_before_the_close_is_there_after_it() {
    let media: Arc<dyn Media> = Arc::new(MemoryMedia::new(256 << 20, 512).unwrap());
    for round in 0..12 {
        let store = Store::open("", &options(&media)).unwrap();
        let ks = store.keyspace_or_create("default").unwrap();
        ks.delete_prefix("").unwrap();
        let acknowledged: Vec<AtomicU64> = (0..THREADS).map(|_| AtomicU64::new(0)).collect();
        thread::scope(|scope| {
            for (n, last) in acknowledged.iter().enumerate() {
                let store = &store;
                scope.spawn(move || write_until_closed(store, n, last));
            }
            thread::sleep(Duration::from_millis(20 + round * 3));
            store.clone().close().unwrap();
        });
        drop((store, ks));
        let store = Store::open("", &options(&media)).unwrap();
        let ks = store.keyspace("default").unwrap();
        assert_eq!(store.stats().recovery.tail_records, 0, "closed in order");
        for (n, last) in acknowledged.iter().enumerate() {
            let last = last.load(Ordering::SeqCst);
            for i in 1..=last {
                assert!(
                    ks.contains(format!("{n}/{i}")).unwrap(),
                    "{n}/{i} of {last}"
                );
            }
            for i in 1..=last + 1 {
                let twins = ks.contains(format!("{n}/{i}/twin")).unwrap();
                let is_batch = n % 2 == 1;
                assert_eq!(twins, is_batch && ks.contains(format!("{n}/{i}")).unwrap());
            }
        }
        store.close().unwrap();
    }
}
