//! What an append, a flush and a tail read cost: run with
//! `cargo test --release -p heliox-log --test speed -- --ignored --nocapture`.
#![allow(clippy::unwrap_used, clippy::panic)] // these are tests

mod common;

use std::sync::Arc;
use std::time::Instant;

use common::*;
use heliox_format::ids::{KeyspaceId, SegmentId, SeqNo};
use heliox_format::record::RecordKind;
use heliox_log::append::NewRecord;
use heliox_log::read::ReadBuf;
use heliox_log::segments::SegmentState;
use heliox_log::Log;
use heliox_media::MemoryMedia;

/// Nanoseconds that this thread was on a processor: other load on the machine does not count.
fn cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split(' ').next().unwrap().parse().unwrap()
}

fn store(unit_shift: u8) -> Log {
    let shape = Shape {
        segments: 64,
        sector_bytes: 4096,
        unit_shift,
    };
    let media = MemoryMedia::new(SEGMENT_BYTES * 64, 4096).unwrap();
    log_over(Arc::new(media), shape)
}

/// Gives back all that is complete, so that the run may go on for ever.
fn recycle(log: &Log) {
    for id in (0..64).map(SegmentId) {
        if log.segment(id).state == SegmentState::Sealed {
            log.retire(id);
            log.release(id);
        }
    }
}

/// Appends `count` records; gives nanoseconds for each, without (with) the flushes.
fn append_many(log: &Log, count: u64, value_bytes: usize, displaced: bool) -> (f64, f64) {
    let value = vec![7u8; value_bytes];
    let all = cpu_ns();
    let mut flushing = 0;
    let mut last = None;
    let piece = (4 << 20) / (value_bytes as u64 + 20);
    for start in (0..count).step_by(piece as usize) {
        for n in start..start + piece {
            let mut key = [0u8; 16];
            key[..8].copy_from_slice(&n.to_le_bytes());
            let mut record = NewRecord::new(RecordKind::Put, KeyspaceId(1), &key, &value);
            record.key_hash = n;
            record.displaced = if displaced { last } else { None };
            last = Some(log.append(USER, &record).unwrap().location);
        }
        let flush = cpu_ns();
        log.write_full_chunks().unwrap();
        if log.free_segments() < 8 {
            log.sync().unwrap();
            recycle(log);
        }
        flushing += cpu_ns() - flush;
    }
    let all = cpu_ns() - all;
    let each = |ns: u64| ns as f64 / count as f64;
    (each(all - flushing), each(all))
}

#[test]
#[ignore = "a measurement"]
fn nanoseconds_of_an_append() {
    for (value_bytes, displaced, unit_shift) in [
        (100, false, 0),
        (100, true, 0),
        (100, false, 6),
        (400, false, 0),
        (4096, false, 0),
        (1 << 20, false, 0),
    ] {
        let log = store(unit_shift);
        let count = (1 << 29) / (value_bytes as u64 + 16);
        append_many(&log, count / 8, value_bytes, displaced);
        let (append, all) = append_many(&log, count, value_bytes, displaced);
        let rate = (value_bytes + 16) as f64 * 1000.0 / all;
        println!(
            "16 + {value_bytes} B, displaced {displaced}, unit {}: {append:.0} ns/append, \
             {all:.0} ns with flush, {rate:.0} MB/s",
            1 << unit_shift
        );
    }
}

#[test]
#[ignore = "a measurement"]
fn nanoseconds_of_an_append_from_two_threads() {
    let log = store(0);
    let value = [7u8; 100];
    let each = 900_000u64;
    let start = Instant::now();
    std::thread::scope(|scope| {
        for t in 0..2u64 {
            let (log, value) = (&log, &value);
            scope.spawn(move || {
                for n in 0..each {
                    let key = (t << 40 | n).to_le_bytes();
                    let record = NewRecord::new(RecordKind::Put, KeyspaceId(1), &key, value);
                    log.append(USER, &record).unwrap();
                }
            });
        }
    });
    let ns = start.elapsed().as_nanos() as f64 / (2 * each) as f64;
    println!("2 threads: {ns:.0} ns/append together");
}

#[test]
#[ignore = "a measurement"]
fn nanoseconds_of_a_read() {
    let log = store(0);
    let mut known = Vec::new();
    for n in 0..4000 {
        known.push(append_n(&log, USER, n, 16, 100, None).unwrap());
    }
    for what in ["tail", "media"] {
        let mut buf = ReadBuf::default();
        let mut dice = Dice(5);
        let count = 400_000u64;
        let start = cpu_ns();
        for _ in 0..count {
            let at = known[dice.roll(known.len() as u64) as usize].at;
            assert!(log.read(at, &mut buf).unwrap().is_some());
        }
        let ns = (cpu_ns() - start) as f64 / count as f64;
        println!("read from {what}: {ns:.0} ns");
        log.sync().unwrap();
    }
}

#[test]
#[ignore = "a measurement"]
fn microseconds_of_a_small_sync() {
    let log = store(0);
    let start = Instant::now();
    for n in 0..10_000 {
        let known = append_n(&log, USER, n, 16, 100, None).unwrap();
        log.sync_to(known.seq).unwrap();
    }
    assert_eq!(log.durable_seq(), SeqNo(10_000));
    let us = start.elapsed().as_micros() as f64 / 10_000.0;
    println!("append and sync through memory: {us:.2} us");
}
