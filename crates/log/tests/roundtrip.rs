//! What was appended is read and scanned again, whole and in order, in every shape of store.
#![allow(clippy::unwrap_used, clippy::panic)] // these are tests

mod common;

use std::sync::atomic::Ordering;

use common::*;
use heliox_format::ids::{Location, SegmentId};
use heliox_format::limits::{CHUNK_BYTES, KEY_BYTES_MAX};
use heliox_log::read::ReadBuf;
use heliox_log::segments::SegmentState;
use heliox_log::Log;
use proptest::prelude::*;

/// One step of a random run.
#[derive(Clone, Debug)]
enum Op {
    Append {
        survivor: bool,
        key_bytes: usize,
        value_bytes: usize,
        displaces: bool,
    },
    Sync,
    WriteAll,
    WriteFull,
    Read(u64),
    ReadMany(u64),
}

fn sizes() -> impl Strategy<Value = (usize, usize)> {
    prop_oneof![
        20 => (0usize..40, 0usize..200),
        6 => (1usize..20, 3900usize..4200),
        3 => (0usize..300, 0usize..70_000),
        1 => (60_000usize..=KEY_BYTES_MAX, 0usize..100),
        1 => (0usize..100, CHUNK_BYTES - 9000..=CHUNK_BYTES),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    let append = (any::<bool>(), sizes(), any::<bool>()).prop_map(
        |(survivor, (key_bytes, value_bytes), displaces)| Op::Append {
            survivor,
            key_bytes,
            value_bytes,
            displaces,
        },
    );
    prop_oneof![
        30 => append,
        2 => Just(Op::Sync),
        1 => Just(Op::WriteAll),
        2 => Just(Op::WriteFull),
        5 => any::<u64>().prop_map(Op::Read),
        2 => any::<u64>().prop_map(Op::ReadMany),
    ]
}

fn shape() -> impl Strategy<Value = Shape> {
    (prop_oneof![Just(512usize), Just(1024), Just(4096)], 0u8..=6).prop_map(
        |(sector_bytes, unit_shift)| Shape {
            segments: 24,
            sector_bytes,
            unit_shift,
        },
    )
}

fn read_many_all(log: &Log, known: &[&Known]) {
    let locations: Vec<Location> = known.iter().map(|k| k.at).collect();
    let mut seen = vec![0; known.len()];
    log.read_many(&locations, &mut ReadBuf::default(), &mut |i, found| {
        seen[i] += 1;
        assert_found(known[i], found.unwrap());
    })
    .unwrap();
    assert!(seen.iter().all(|n| *n == 1), "each location visited once");
}

/// Every segment, scanned, holds exactly what was appended to it, in order.
fn check_scans(log: &Log, probe: &Probe, known: &[Known]) {
    let mut scanned = 0;
    let mut used_bytes = 0;
    for id in (0..log.geometry().segments).map(SegmentId) {
        let segment = log.segment(id);
        if segment.state == SegmentState::Free {
            continue;
        }
        used_bytes += segment.used_bytes;
        let expected = of_segment(log, known, id);
        for used in [None, Some(segment.used_bytes)] {
            let found = scan(probe, log.geometry(), id, used);
            assert_eq!(found.gaps, [], "a whole segment has no gap");
            assert_eq!(found.records.len(), expected.len());
            for (known, scanned) in expected.iter().zip(&found.records) {
                assert!(is_scanned(known, scanned), "record {}", known.seq);
            }
        }
        assert_eq!(segment.records as usize, expected.len());
        scanned += expected.len();
    }
    assert_eq!(scanned, known.len());
    let counters = log.counters();
    let written = counters.user_bytes_written.load(Ordering::Relaxed)
        + counters.survivor_bytes_written.load(Ordering::Relaxed);
    assert_eq!(written, used_bytes, "what was written is what is in use");
}

fn run(shape: Shape, ops: &[Op]) {
    let (probe, log) = small_log(shape);
    let mut known: Vec<Known> = Vec::new();
    let mut buf = ReadBuf::default();
    for (n, op) in ops.iter().enumerate() {
        match *op {
            Op::Append {
                survivor,
                key_bytes,
                value_bytes,
                displaces,
            } => {
                let stream = if survivor { SURVIVOR } else { USER };
                let displaced = known.last().filter(|_| displaces).map(|k| k.at);
                let new = append_n(&log, stream, n as u64, key_bytes, value_bytes, displaced);
                known.push(new.unwrap());
            }
            Op::Sync => {
                log.sync().unwrap();
                assert_eq!(log.durable_seq(), log.last_seq());
                assert_eq!((log.unsynced_bytes(), log.unwritten_bytes()), (0, 0));
            }
            Op::WriteAll => {
                log.write_all().unwrap();
                assert_eq!(log.unwritten_bytes(), 0);
            }
            Op::WriteFull => log.write_full_chunks().unwrap(),
            Op::Read(at) if !known.is_empty() => {
                let known = &known[at as usize % known.len()];
                assert_readable(&log, &mut buf, known);
            }
            Op::ReadMany(at) if !known.is_empty() => {
                let mut dice = Dice(at | 1);
                let any = |_| &known[dice.roll(known.len() as u64) as usize];
                let some: Vec<&Known> = (0..20).map(any).collect();
                read_many_all(&log, &some);
            }
            Op::Read(_) | Op::ReadMany(_) => {}
        }
    }
    log.write_all().unwrap();
    assert_eq!(log.unwritten_bytes(), 0);
    check_scans(&log, &probe, &known);
    for known in &known {
        assert_readable(&log, &mut buf, known);
    }
    read_many_all(&log, &known.iter().collect::<Vec<_>>());
    assert_eq!(probe.rewritten.load(Ordering::Relaxed), 0);
}

fn cases() -> u32 {
    let asked = std::env::var("PROPTEST_CASES").ok();
    asked.and_then(|n| n.parse().ok()).unwrap_or(48)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: cases(),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn any_sequence_is_read_and_scanned_as_it_was_appended(
        shape in shape(),
        ops in prop::collection::vec(op(), 1..250),
    ) {
        run(shape, &ops);
    }
}

#[test]
fn every_unit_and_sector_takes_records_of_every_length_at_every_offset() {
    for unit_shift in 0..=6 {
        for sector_bytes in [512, 4096] {
            let shape = Shape {
                segments: 24,
                sector_bytes,
                unit_shift,
            };
            // Lengths that walk the start of the next record over every place of a block.
            let append = |i: u64| Op::Append {
                survivor: i.is_multiple_of(3),
                key_bytes: 3 + (i % 50) as usize,
                value_bytes: (i * 37 % 611) as usize,
                displaces: i.is_multiple_of(4),
            };
            let ops: Vec<Op> = (0..4000).map(append).collect();
            run(shape, &ops);
        }
    }
}

#[test]
fn records_up_to_the_limits_fill_segments_to_the_end_and_never_cross_it() {
    for sector_bytes in [512, 4096] {
        for unit_shift in [0, 6] {
            let shape = Shape {
                segments: 24,
                sector_bytes,
                unit_shift,
            };
            let (probe, log) = small_log(shape);
            let mut known = Vec::new();
            let mut dice = Dice(7 + sector_bytes as u64);
            for n in 0..60 {
                let value_bytes = match n % 3 {
                    0 => CHUNK_BYTES - dice.roll(9000) as usize,
                    1 => dice.roll(600_000) as usize,
                    _ => dice.roll(5000) as usize,
                };
                let key_bytes = KEY_BYTES_MAX - dice.roll(100) as usize;
                let new = append_n(&log, USER, n, key_bytes, value_bytes, None);
                known.push(new.unwrap());
                if n % 7 == 0 {
                    log.sync().unwrap();
                }
            }
            log.write_all().unwrap();
            check_scans(&log, &probe, &known);
            let mut buf = ReadBuf::default();
            for known in &known {
                assert_readable(&log, &mut buf, known);
            }
        }
    }
}

#[test]
fn a_segment_that_is_exactly_full_goes_on_in_the_next() {
    // The last record would end at the segment's end or at any distance before it.
    let distances = (0..230).step_by(9).chain([480, 511, 512, 513, 700]);
    for (i, distance) in distances.enumerate() {
        let unit_shift = [0, 3, 6][i % 3];
        let (probe, log) = small_log(Shape {
            unit_shift,
            ..PLAIN
        });
        let mut known = Vec::new();
        let mut push = |value_bytes: usize| {
            let n = known.len() as u64;
            known.push(append_n(&log, USER, n, 8, value_bytes, None).unwrap());
        };
        let left = || (SEGMENT_BYTES - log.segment(SegmentId(0)).used_bytes) as usize;
        for _ in 0..4 {
            push(CHUNK_BYTES - 20_000);
        }
        while left() > 6000 {
            push(1000);
        }
        if i % 2 == 0 {
            log.sync().unwrap();
        }
        push(left().saturating_sub(distance));
        for value_bytes in [1000, 300, 100, 30, 0, 0] {
            push(value_bytes);
        }
        log.sync().unwrap();
        push(3000);
        log.sync().unwrap();
        assert_eq!(log.segment(SegmentId(0)).state, SegmentState::Sealed);
        check_scans(&log, &probe, &known);
        let end = log.geometry().end(SegmentId(0));
        for k in &known {
            let within = log.geometry().address(k.at) < end;
            assert_eq!(within, k.birth.0 == 1);
        }
    }
}

#[test]
fn unflushed_records_of_two_segments_are_found_whichever_has_the_lower_address() {
    let (_, log) = small_log(PLAIN);
    let mut buf = ReadBuf::default();
    let mut known = Vec::new();
    for round in 0..3 {
        // Segments are released so that the next one opened has the lower address.
        for n in 0..5 {
            known.push(append_n(&log, USER, round * 10 + n, 16, CHUNK_BYTES - 1, None).unwrap());
            for known in &known {
                assert_readable(&log, &mut buf, known);
            }
        }
        log.sync().unwrap();
        let sealed = |id: &SegmentId| log.segment(*id).state == SegmentState::Sealed;
        let ids: Vec<SegmentId> = (0..8).map(SegmentId).filter(sealed).collect();
        for id in ids {
            let birth = log.segment(id).birth;
            known.retain(|k| k.birth != birth);
            log.retire(id);
            log.release(id);
        }
    }
}

#[test]
fn a_record_beyond_the_limits_is_refused_and_nothing_is_appended() {
    let (_, log) = small_log(PLAIN);
    let too_long = [(KEY_BYTES_MAX + 1, 0), (8, CHUNK_BYTES + 1)];
    for (key_bytes, value_bytes) in too_long {
        append_n(&log, USER, 1, key_bytes, value_bytes, None).unwrap_err();
    }
    assert_eq!(log.last_seq().0, 0);
    assert_eq!(log.unwritten_bytes(), 0);
    append_n(&log, USER, 1, KEY_BYTES_MAX, CHUNK_BYTES, None).unwrap();
}

#[test]
fn chunk_memory_is_used_again() {
    const CHUNK: u64 = 512 << 10;
    let (_, log) = small_log(PLAIN);
    for n in 0..10 {
        append_n(&log, USER, n, 16, 100, None).unwrap();
        log.sync().unwrap();
        // The chunk that goes on, and the memory of the one that was written.
        assert_eq!(log.tail_memory_bytes(), 2 * CHUNK);
    }
    for n in 0..1200 {
        append_n(&log, USER, n, 16, 20_000, None).unwrap();
    }
    log.sync().unwrap();
    assert!(log.tail_memory_bytes() <= 17 * CHUNK, "the pool is bounded");
}
