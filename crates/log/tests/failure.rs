//! A full log, a failing device, and segments that are given back at the wrong time.
#![allow(clippy::unwrap_used, clippy::panic)] // these are tests

mod common;

use std::sync::atomic::Ordering;

use common::*;
use heliox_format::ids::{KeyspaceId, Location, SegmentId, SeqNo};
use heliox_format::record::RecordKind;
use heliox_log::append::{BatchMember, NewRecord};
use heliox_log::read::ReadBuf;
use heliox_log::segments::SegmentState;
use heliox_log::{Log, LogError};

#[test]
fn a_full_log_refuses_appends_whole_and_goes_on_when_space_is_given_back() {
    let (probe, log) = small_log(Shape {
        segments: 3,
        ..PLAIN
    });
    append_n(&log, SURVIVOR, 1 << 40, 16, 100, None).unwrap();
    let mut known = Vec::new();
    let full = loop {
        let n = known.len() as u64;
        match append_n(&log, USER, n, 16, 300_000, None) {
            Ok(new) => known.push(new),
            Err(error) => break error,
        }
    };
    assert!(matches!(full, LogError::Full));
    assert!(log.failure().is_none(), "a full log is no failure");
    let (last, unwritten) = (log.last_seq(), log.unwritten_bytes());
    for _ in 0..3 {
        append_n(&log, USER, 0, 16, 300_000, None).unwrap_err();
    }
    assert_eq!((log.last_seq(), log.unwritten_bytes()), (last, unwritten));
    // What still fits is taken, and the other stream is not held up.
    known.push(append_n(&log, USER, 1 << 20, 16, 100, None).unwrap());
    append_n(&log, SURVIVOR, 1 << 41, 16, 100, None).unwrap();
    let mut buf = ReadBuf::default();
    known
        .iter()
        .for_each(|k| assert_readable(&log, &mut buf, k));
    log.sync().unwrap();
    let first = log.geometry().segment_at(known[0].at).unwrap();
    log.retire(first);
    log.release(first);
    probe.forget(first);
    assert_eq!(log.free_segments(), 1);
    append_n(&log, USER, 1 << 21, 16, 300_000, None).unwrap();
    let births = known[0].birth;
    for known in known.iter().filter(|k| k.birth != births) {
        assert_readable(&log, &mut buf, known);
    }
    log.sync().unwrap();
    assert_eq!(probe.rewritten.load(Ordering::Relaxed), 0);
    let scanned: usize = (0..3)
        .map(|id| {
            scan(&*probe, log.geometry(), SegmentId(id), None)
                .records
                .len()
        })
        .sum();
    let dead = known.iter().filter(|k| k.birth == births).count();
    assert_eq!(scanned, known.len() - dead + 3, "no half record on media");
}

fn check_dead(log: &Log, known: &[Known], durable: SeqNo) {
    let mut buf = ReadBuf::default();
    for _ in 0..2 {
        assert!(append_n(log, USER, 9, 16, 100, None).is_err());
        assert!(append_n(log, SURVIVOR, 9, 16, 100, None).is_err());
        assert!(log.sync().is_err());
        assert!(log.sync_to(log.last_seq()).is_err());
        assert!(log.write_all().is_err());
        assert!(log.write_full_chunks().is_err());
        assert!(log.open_checkpoint_segment().is_err());
        assert_eq!(log.durable_seq(), durable);
        known.iter().for_each(|k| assert_readable(log, &mut buf, k));
    }
    assert!(matches!(log.failure(), Some(LogError::Media(_))));
}

#[test]
fn after_a_failed_write_or_sync_nothing_succeeds_and_reads_go_on() {
    for fail_sync in [false, true] {
        let (probe, log) = small_log(PLAIN);
        let mut known = Vec::new();
        for n in 0..1500 {
            let stream = if n % 5 == 0 { SURVIVOR } else { USER };
            known.push(append_n(&log, stream, n, 16, 1000, None).unwrap());
            if n == 700 {
                log.sync().unwrap();
            }
        }
        let durable = log.durable_seq();
        let left = if fail_sync {
            &probe.syncs_left
        } else {
            probe.writes_left.store(1, Ordering::SeqCst);
            &probe.writes_left
        };
        if fail_sync {
            left.store(0, Ordering::SeqCst);
        }
        assert!(matches!(log.sync(), Err(LogError::Media(_))));
        check_dead(&log, &known, durable);
        // The device comes back to life; the log must not believe it.
        left.store(-1, Ordering::SeqCst);
        check_dead(&log, &known, durable);
    }
}

#[test]
fn records_that_name_later_orders_are_refused_without_a_panic() {
    let (_, log) = small_log(PLAIN);
    let mut record = NewRecord::new(RecordKind::Put, KeyspaceId(1), b"k", b"v");
    record.version = Some(SeqNo(2));
    assert!(matches!(
        log.append(USER, &record),
        Err(LogError::Internal(_))
    ));
    record.version = None;
    record.batch = Some(BatchMember::Of(SeqNo(2)));
    assert!(matches!(
        log.append(USER, &record),
        Err(LogError::Internal(_))
    ));
    record.batch = Some(BatchMember::First);
    assert_eq!(log.append(USER, &record).unwrap().seq, SeqNo(1));
}

#[test]
fn only_what_is_complete_and_on_media_can_be_given_back() {
    let (_, log) = small_log(Shape {
        segments: 4,
        ..PLAIN
    });
    let first = append_n(&log, USER, 0, 16, 100, None).unwrap();
    let id = SegmentId(0);
    // An open one: a stream appends to it.
    log.retire(id);
    log.release(id);
    assert_eq!(log.segment(id).state, SegmentState::Open);
    // A free one: else it would be free twice.
    log.retire(SegmentId(3));
    log.release(SegmentId(3));
    assert_eq!(log.free_segments(), 3);
    for n in 1..6 {
        append_n(&log, USER, n, 16, 1 << 20, None).unwrap();
    }
    // A sealed one with bytes in the tail: they would be written into its next life.
    log.retire(id);
    log.release(id);
    assert_eq!(log.segment(id).state, SegmentState::Retired);
    let mut buf = ReadBuf::default();
    assert!(log.read(first.at, &mut buf).unwrap().is_none());
    log.sync().unwrap();
    log.release(id);
    assert_eq!(log.segment(id).state, SegmentState::Free);
    log.release(id);
    assert_eq!(log.free_segments(), 3);
    // A checkpoint's segment is retired while it is "open": nobody seals it.
    let (checkpoint, _) = log.open_checkpoint_segment().unwrap();
    assert_eq!(log.free_segments(), 2);
    log.retire(checkpoint);
    log.release(checkpoint);
    assert_eq!(log.free_segments(), 3);
}

#[test]
fn locations_that_never_were_are_nothing() {
    let (_, log) = small_log(PLAIN);
    let known = append_n(&log, USER, 0, 16, 100, None).unwrap();
    let mut buf = ReadBuf::default();
    for flushed in [false, true] {
        if flushed {
            log.sync().unwrap();
        }
        for address in (0..2000).chain([SEGMENT_BYTES - 1, SEGMENT_BYTES, 1 << 39]) {
            let location = Location::from_bits(address);
            let found = log.read(location, &mut buf).unwrap();
            assert_eq!(found.is_some(), location == known.at, "at {address}");
        }
        assert!(log.read(Location::NONE, &mut buf).unwrap().is_none());
    }
    assert_eq!(log.views().birth(SegmentId(99)).0, 0);
}

#[test]
fn an_ended_log_takes_nothing_more_and_keeps_what_it_has() {
    let (_probe, log) = small_log(PLAIN);
    let known = append_n(&log, USER, 1, 16, 100, None).unwrap();
    let last = log.last_seq();
    log.end();
    for stream in [USER, SURVIVOR] {
        let refused = append_n(&log, stream, 2, 16, 100, None);
        assert!(matches!(refused, Err(LogError::Ended)));
    }
    assert_eq!(log.last_seq(), last);
    log.sync().unwrap();
    assert_eq!(log.durable_seq(), last);
    assert!(log.failure().is_none(), "an end is no failure");
    assert_readable(&log, &mut ReadBuf::default(), &known);
}
