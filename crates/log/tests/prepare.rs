//! The segment that comes next is prepared where syncs are small, and is in nobody's hands meanwhile.
#![allow(clippy::unwrap_used, clippy::panic)] // these are tests

mod common;

use std::sync::{Arc, Mutex};

use common::*;
use heliox_log::Log;

const MANY: Shape = Shape {
    segments: 24,
    ..PLAIN
};

fn sync_one(log: &Log, n: u64, value_bytes: usize) -> u32 {
    let at = append_n(log, USER, n, 16, value_bytes, None).unwrap().at;
    log.sync().unwrap();
    log.geometry().segment_at(at).unwrap().0
}

#[test]
fn small_syncs_have_the_next_segment_prepared_once() {
    let (probe, log) = small_log(MANY);
    let prepared = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&prepared);
    let note = move |offset, len| seen.lock().unwrap().push((offset, len as u64));
    *probe.in_prepare.lock() = Some(Box::new(note));

    sync_one(&log, 0, 100_000);
    assert!(!log.ask_prepared(), "for a large write");
    let first = sync_one(&log, 1, 100);
    assert!(log.ask_prepared());
    let free = log.free_segments();
    assert_eq!(log.prepare_next(), SEGMENT_BYTES);
    assert_eq!(log.free_segments(), free);
    sync_one(&log, 2, 100);
    assert!(!log.ask_prepared(), "it was done");
    assert_eq!(log.prepare_next(), 0);

    // It is the one that comes next; then the one after that is due.
    log.seal_segments();
    let next = sync_one(&log, 3, 100);
    assert_ne!(next, first);
    let place = log.geometry().start(heliox_format::ids::SegmentId(next));
    assert_eq!(*prepared.lock().unwrap(), [(place, SEGMENT_BYTES)]);
    assert!(log.ask_prepared());
}

#[test]
fn nobody_opens_a_segment_while_it_is_prepared() {
    let (probe, log) = small_log(MANY);
    let log = Arc::new(log);
    sync_one(&log, 0, 100);
    let (inner, opened) = (Arc::clone(&log), Arc::new(Mutex::new(None)));
    let seen = Arc::clone(&opened);
    let free = log.free_segments();
    let open_another = move |offset, _| {
        assert_eq!(inner.free_segments(), free - 1);
        inner.seal_segments();
        let at = append_n(&inner, USER, 1, 16, 100, None).unwrap().at;
        let other = inner.geometry().segment_at(at).unwrap();
        assert_ne!(inner.geometry().start(other), offset);
        *seen.lock().unwrap() = Some(other);
    };
    *probe.in_prepare.lock() = Some(Box::new(open_another));
    assert!(log.ask_prepared() && !log.ask_prepared(), "asked once");
    assert_eq!(log.prepare_next(), SEGMENT_BYTES);
    assert!(opened.lock().unwrap().is_some());
    assert_eq!(log.free_segments(), free - 1);
}

#[test]
fn none_is_taken_where_few_are_free() {
    let (_, log) = small_log(MANY);
    for n in 0..7 {
        sync_one(&log, n, 100);
        log.seal_segments();
    }
    assert_eq!(log.free_segments(), 17);
    assert!(log.ask_prepared());
    assert_eq!(log.prepare_next(), SEGMENT_BYTES);
    for n in 7..10 {
        sync_one(&log, n, 100);
        log.seal_segments();
    }
    assert!(!log.ask_prepared());
    assert_eq!(log.prepare_next(), 0);
}
