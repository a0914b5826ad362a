//! Writers that wait for room, the store's own threads, and closing beside writers.

use std::sync::Mutex;

use super::*;
use crate::options::Durability;
use crate::{ErrorKind, WriteOptions};

/// Writers at the wall are let on once the collector has made room, whoever of them helps.
#[test]
fn writers_at_the_wall_go_on() {
    under_schedules(300, || {
        let (store, keys) = fresh();
        let core = store.core();
        // Two segments of garbage, and no more room than data may not have.
        for _ in 0..2 {
            keys.put("a", value(1)).unwrap();
            run(&store, &[Step::Seal]);
        }
        keys.put("a", value(2)).unwrap();
        while core.log.free_segments() > core.space.data_floor() {
            core.log.open_checkpoint_segment().unwrap();
        }
        thread::scope(|scope| {
            scope.spawn(|| keys.put("b", value(3)).unwrap());
            scope.spawn(|| run(&store, &[Step::Collect]));
            scope.spawn(|| keys.put("c", value(4)).unwrap());
        });
        assert_eq!((get(&keys, "b"), get(&keys, "c")), (3, 4));
    });
}

/// A store closes beside its writers: what it acknowledged is there when it opens again, and its
/// own threads end. They wait for ever if nobody rings, so no ring may be lost.
#[test]
fn a_store_with_its_threads_closes_beside_writers() {
    let plan = Plan {
        schedules: 250,
        patient: true,
    };
    explore(plan, |number| {
        let media: Arc<MemoryMedia> = memory(66);
        let opened = options(media.clone()).background(true);
        let (store, keys) = open(&opened);
        let written = Mutex::new(Vec::new());
        let write = |key: &str| {
            let durability = [Durability::Sync, Durability::None][number as usize % 2];
            let how = WriteOptions::new().durability(durability);
            match keys.put_with(key, value(1), &how) {
                Ok(()) => written.lock().unwrap().push(key.to_owned()),
                Err(error) => assert_eq!(error.kind(), ErrorKind::Closed, "{error}"),
            }
        };
        thread::scope(|scope| {
            scope.spawn(|| ["a", "b"].map(write));
            scope.spawn(|| ["c", "d"].map(write));
            scope.spawn(|| store.clone().close().unwrap());
        });
        drop((store, keys.clone()));
        let (_again, again) = open(&options(media));
        for key in written.lock().unwrap().iter() {
            assert_eq!(get(&again, key), 1, "{key}");
        }
    });
}

/// Writers that wait until the tail has room for them, and a store that closes meanwhile: they wait for
/// ever if nobody wakes them.
#[test]
fn writers_wait_for_the_tail_no_longer_than_they_must() {
    let plan = Plan {
        schedules: 60,
        patient: true,
    };
    explore(plan, |number| {
        let (store, keys) = open(&options(memory(66)).background(true));
        let limit = store.core().settings.tail_limit_bytes;
        let value = vec![1; 1 << 20];
        let write = |key: &str| {
            for _ in 0..limit / value.len() as u64 {
                match keys.put(key, &value) {
                    Ok(()) => {}
                    Err(error) => assert_eq!(error.kind(), ErrorKind::Closed, "{error}"),
                }
            }
        };
        thread::scope(|scope| {
            let write = &write;
            for key in ["a", "b", "c"] {
                scope.spawn(move || write(key));
            }
            if number % 2 == 0 {
                scope.spawn(|| store.clone().close().unwrap());
            }
        });
    });
}
