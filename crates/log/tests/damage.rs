//! Damage and torn tails: never a wrong record, and no more is lost than what was hit.
#![allow(clippy::unwrap_used, clippy::panic)] // these are tests

mod common;

use std::sync::atomic::Ordering;

use common::*;
use heliox_format::ids::SegmentId;
use heliox_format::limits::BLOCK_BYTES;
use heliox_log::read::ReadBuf;
use heliox_log::scan::{HeaderState, Scanned, SegmentRecords, SegmentScanner};
use heliox_log::{Log, LogError};
use heliox_media::{AlignedBuf, Media, MemoryMedia};

const FIRST: SegmentId = SegmentId(0);

/// The address after a record: payload bytes that step over frame headers at block borders.
fn end_of(log: &Log, known: &Known) -> u64 {
    let mut at = log.geometry().address(known.at);
    let displaced = if known.displaced.is_some() { 5 } else { 0 };
    // At least this much: a header is four bytes or more.
    let mut left = (4 + displaced + known.key_bytes + known.value_bytes) as u64;
    loop {
        let room = BLOCK_BYTES as u64 - at % BLOCK_BYTES as u64;
        if left <= room {
            return at + left;
        }
        left -= room;
        at += room + 32;
    }
}

/// True if the record has bytes in the block of `address`, or its (unknown, short) header might.
fn touches_block(log: &Log, known: &Known, address: u64) -> bool {
    let block = address - address % BLOCK_BYTES as u64;
    let from = log.geometry().address(known.at);
    from < block + BLOCK_BYTES as u64 && end_of(log, known) + 16 > block
}

/// A store whose first segment holds records of all sorts, all on media.
fn filled(shape: Shape, small_only: bool) -> (std::sync::Arc<Probe>, Log, Vec<Known>) {
    let (probe, log) = small_log(shape);
    let mut dice = Dice(99 + u64::from(shape.unit_shift));
    let mut known = Vec::new();
    for n in 0..900 {
        let value_bytes = match dice.roll(20) {
            0 if !small_only => dice.roll(20_000) as usize,
            1 | 2 => 3000 + dice.roll(2000) as usize,
            _ => dice.roll(150) as usize,
        };
        known.push(append_n(&log, USER, n, 16, value_bytes, None).unwrap());
        if dice.roll(12) == 0 {
            log.sync().unwrap();
        }
    }
    log.sync().unwrap();
    known.retain(|k| k.birth.0 == 1);
    (probe, log, known)
}

/// Reads and scans; checks that nothing wrong comes and that only records for which `may_miss`
/// holds are missing. Gives how many are.
fn check_damaged(
    log: &Log,
    media: &dyn Media,
    known: &[Known],
    may_miss: impl Fn(&Known) -> bool,
) -> usize {
    let mut buf = ReadBuf::default();
    let mut missing = 0;
    for known in known {
        match log.read(known.at, &mut buf) {
            Ok(found) => assert_found(known, found),
            Err(LogError::Damaged(_)) => {
                missing += 1;
                assert!(may_miss(known), "record {} was not hit", known.seq);
            }
            Err(other) => panic!("{other}"),
        }
    }
    let found = scan(media, log.geometry(), FIRST, None);
    check_subset(known, &found, &may_miss);
    missing
}

/// The scan holds known records only, in order, and all but those that may be missing.
fn check_subset(known: &[Known], found: &Scan, may_miss: &impl Fn(&Known) -> bool) {
    let mut scanned = found.records.iter().peekable();
    for known in known {
        if scanned.peek().is_some_and(|s| is_scanned(known, s)) {
            scanned.next();
        } else {
            assert!(may_miss(known), "scan lost record {}", known.seq);
        }
    }
    assert!(scanned.peek().is_none(), "the scan holds a wrong record");
}

#[test]
fn a_flipped_bit_costs_at_most_the_records_of_its_block() {
    for sector_bytes in [512, 4096] {
        let shape = Shape {
            segments: 4,
            sector_bytes,
            unit_shift: if sector_bytes == 512 { 0 } else { 3 },
        };
        let (probe, log, known) = filled(shape, false);
        let used = log.segment(FIRST).used_bytes;
        let mut dice = Dice(4711);
        let mut hit = 0;
        // Every byte of the first frame headers of a few blocks, and random places.
        let headers = (0..40).map(|i| 5 * 4096 + i).chain([0, 17, 4096, 8190]);
        let random: Vec<u64> = (0..60).map(|_| dice.roll(used)).collect();
        for at in headers.chain(random) {
            let mut byte = [0];
            probe.inner.peek(at, &mut byte).unwrap();
            let bad = [byte[0] ^ (1 << dice.roll(8))];
            probe.inner.poke(at, &bad).unwrap();
            if at < 48 {
                // The segment's own header: a scan tells, and goes by the frames; reads do not need it.
                let scanner = SegmentScanner::load(&*probe, log.geometry(), FIRST, None).unwrap();
                let state = scanner.header_state();
                assert!(matches!(state, HeaderState::Damaged(_)), "{state:?}");
                assert_eq!(check_damaged(&log, &*probe, &known, |_| false), 0);
            } else {
                hit += check_damaged(&log, &*probe, &known, |k| touches_block(&log, k, at));
            }
            probe.inner.poke(at, &byte).unwrap();
        }
        assert!(hit > 100, "the flips did hit records");
    }
}

#[test]
fn damage_to_one_frame_of_a_block_spares_its_other_frames() {
    // Short flushes: a block holds several frames of one to three sectors, of one to six records.
    let (probe, log) = small_log(PLAIN);
    let mut known = Vec::new();
    let mut flush_of = Vec::new();
    for n in 0..150 {
        known.push(append_n(&log, USER, n, 16, 200, None).unwrap());
        flush_of.push(log.counters().syncs.load(Ordering::Relaxed));
        if [0, 2, 3, 8].contains(&(n % 9)) {
            log.sync().unwrap();
        }
    }
    log.sync().unwrap();
    let flush_of = |k: &Known| flush_of[k.n as usize];
    let starts = known.iter().filter(|k| {
        let first = known.iter().find(|o| flush_of(o) == flush_of(k));
        first.map(|f| f.seq) == Some(k.seq)
    });
    for victim in starts {
        // The first record of a flush stands right behind the header of its frame.
        let frame = log.geometry().address(victim.at) - 32;
        assert_eq!(frame % 512, 0);
        for size in [512u16, 1024, 1536, 2048, 3072, 4096, 0, 513] {
            // The damaged header leads over its neighbours.
            let mut old = [0; 2];
            probe.inner.peek(frame + 4, &mut old).unwrap();
            if old == size.to_le_bytes() {
                continue;
            }
            probe.inner.poke(frame + 4, &size.to_le_bytes()).unwrap();
            let lost = check_damaged(&log, &*probe, &known, |k| flush_of(k) == flush_of(victim));
            assert!(lost > 0);
            probe.inner.poke(frame + 4, &old).unwrap();
        }
    }
}

#[test]
fn damage_inside_a_long_record_is_a_gap_and_later_records_are_found() {
    let (probe, log) = small_log(PLAIN);
    let mut known = vec![append_n(&log, USER, 0, 16, 50, None).unwrap()];
    known.push(append_n(&log, USER, 1, 16, 700_000, None).unwrap());
    for n in 2..50 {
        known.push(append_n(&log, USER, n, 16, 50, None).unwrap());
    }
    log.sync().unwrap();
    let used = log.segment(FIRST).used_bytes;
    for at in [8192 + 100, 524_288, 524_288 + 31, 600_000] {
        let mut byte = [0];
        probe.inner.peek(at, &mut byte).unwrap();
        probe.inner.poke(at, &[byte[0] ^ 4]).unwrap();
        let found = scan(&*probe, log.geometry(), FIRST, Some(used));
        let block = at - at % 4096;
        assert_eq!(found.gaps, [(block, block + 4096)]);
        check_subset(&known, &found, &|k| k.n == 1);
        assert_eq!(found.records.len(), known.len() - 1);
        let mut buf = ReadBuf::default();
        let read = log.read(known[1].at, &mut buf);
        assert!(matches!(read, Err(LogError::Damaged(_))));
        probe.inner.poke(at, &byte).unwrap();
    }
}

#[test]
fn a_tail_torn_at_any_sector_gives_a_prefix_of_whole_records() {
    for (sector_bytes, small_only) in [(512, true), (512, false), (4096, false)] {
        let shape = Shape {
            segments: 4,
            sector_bytes,
            unit_shift: 0,
        };
        let (probe, log, known) = filled(shape, small_only);
        let used = log.segment(FIRST).used_bytes;
        let sectors = used / sector_bytes as u64;
        let step = (sectors / 40).max(1) as usize;
        let last_ones = sectors.saturating_sub(40)..sectors;
        for cut in (1..sectors).step_by(step).chain(last_ones) {
            let from = cut * sector_bytes as u64;
            // Behind the cut: nothing, or noise.
            for noise in [false, true] {
                let torn = probe.inner.clone();
                let filler = if noise {
                    bytes(cut, 8192)
                } else {
                    vec![0; 8192]
                };
                let len = (used - from).min(8192) as usize;
                torn.poke(from, &filler[..len]).unwrap();
                let rest = used - from - len as u64;
                torn.poke(from + len as u64, &vec![0; rest as usize])
                    .unwrap();
                let found = scan(&torn, log.geometry(), FIRST, None);
                assert_eq!(found.gaps, [], "a torn tail is no gap");
                let n = found.records.len();
                check_subset(&known[..n], &found, &|_| false);
                // All that was whole before the cut is there: a frame is lost only if it is cut.
                let whole = |k: &&Known| end_of(&log, k) + 16 + 4096 <= from;
                assert!(n >= known.iter().filter(whole).count());
                let with_end = scan(&torn, log.geometry(), FIRST, Some(used));
                assert_eq!(with_end.records.len(), n);
                assert_eq!(with_end.gaps.len(), 1, "known to be longer: a gap");
                assert_eq!(with_end.gaps[0].1, used);
            }
        }
    }
}

#[test]
fn a_known_end_within_a_frame_finds_the_records_before_it() {
    // A checkpoint's cut gives the bytes in use at that order, in the middle of an open frame.
    let (probe, log) = small_log(PLAIN);
    let mut known = Vec::new();
    let mut ends = Vec::new();
    for n in 0..300 {
        known.push(append_n(&log, USER, n, 16, 100, None).unwrap());
        ends.push(log.segment(FIRST).used_bytes);
        let end = log.geometry().address(known[n as usize].at) + 120;
        assert!(ends[n as usize] >= end, "the account lags behind");
    }
    log.sync().unwrap();
    for (i, end) in ends.iter().enumerate() {
        let found = scan(&*probe, log.geometry(), FIRST, Some(*end));
        assert_eq!(found.gaps, []);
        assert!(found.records.len() > i);
    }
}

#[test]
fn frames_of_an_earlier_life_are_not_taken_for_records() {
    let two = Shape {
        segments: 2,
        ..PLAIN
    };
    let (probe, log) = small_log(two);
    let mut known = Vec::new();
    let mut n = 0;
    let mut fill = |known: &mut Vec<Known>, until_birth: u32, value_bytes: usize| loop {
        n += 1;
        let new = append_n(&log, USER, n, 16, value_bytes, None).unwrap();
        known.push(new);
        if n % 50 == 0 {
            log.sync().unwrap();
        }
        if known.last().is_some_and(|k| k.birth.0 == until_birth) {
            return;
        }
    };
    fill(&mut known, 2, 700);
    log.sync().unwrap();
    log.retire(FIRST);
    log.release(FIRST);
    fill(&mut known, 3, 200_000);
    for extra in 0..30 {
        let new = append_n(&log, USER, 1 << 20 | extra, 16, 500, None).unwrap();
        known.push(new);
    }
    log.sync().unwrap();
    known.retain(|k| k.birth.0 == 3);
    let found = scan(&*probe, log.geometry(), FIRST, None);
    assert_eq!(found.gaps, []);
    check_subset(&known, &found, &|_| false);
    // Nor for damage by readers: whatever is no record start of this life is just not there.
    let mut buf = ReadBuf::default();
    let starts: std::collections::HashSet<_> = known.iter().map(|k| k.at).collect();
    for address in (0..SEGMENT_BYTES).step_by(61) {
        let location = log.geometry().location(address);
        let found = log.read(location, &mut buf).unwrap();
        assert_eq!(found.is_some(), starts.contains(&location), "at {address}");
    }
}

#[test]
fn hostile_bytes_neither_panic_nor_loop() {
    let (probe, log, _) = filled(PLAIN, false);
    let used = log.segment(FIRST).used_bytes;
    let mut dice = Dice(31);
    for round in 0..60 {
        let media = probe.inner.clone();
        for _ in 0..=dice.roll(200) {
            let at = 512 + dice.roll(used - 600);
            let len = [1, 2, 4, 32, 512, 4096][dice.roll(6) as usize];
            let len = len.min((used - at) as usize);
            media.poke(at, &bytes(dice.roll(u64::MAX), len)).unwrap();
        }
        let end = [None, Some(used), Some(u64::MAX), Some(dice.roll(used))][round % 4];
        let load = || SegmentScanner::load(&media, log.geometry(), FIRST, end).unwrap();
        let mut scanner = load();
        let _ = scanner.durable_seq_of_all();
        assert_all_at_once_as_one_by_one(&mut scanner, &load().into_records());
        assert!(scanner.next().is_none(), "the end stays the end");
    }
}

fn assert_all_at_once_as_one_by_one(scanner: &mut SegmentScanner, all: &SegmentRecords) {
    let (mut records, mut damage) = (all.iter(), None);
    while let Some(item) = scanner.next() {
        match item {
            Scanned::Record { location, record } => {
                let (other, same) = records.next().unwrap();
                assert_eq!((location, record.seq), (other, same.seq));
                assert_eq!(record.header, same.header);
                assert_eq!((record.key, record.value), (same.key, same.value));
            }
            Scanned::Gap { error, .. } => damage = Some(error.to_string()),
        }
    }
    assert!(records.next().is_none());
    assert_eq!(all.damage().map(ToString::to_string), damage);
}

/// Frames whose checksum is right and whose contents are random: what only a liar writes.
#[test]
fn well_sealed_nonsense_neither_panics_nor_loops() {
    use heliox_format::frame::{seal_frame, FrameHeader};
    use heliox_format::ids::{Birth, Incarnation, KeyspaceId, SeqNo};
    use heliox_format::record::{RecordHeader, RecordKind};
    let (probe, log, _) = filled(PLAIN, true);
    let geometry = *log.geometry();
    let reader = log;
    let mut dice = Dice(77);
    for _ in 0..200 {
        let media = MemoryMedia::new(SEGMENT_BYTES * 8, 512).unwrap();
        let mut head = AlignedBuf::new(512).unwrap();
        probe.inner.read_at(0, &mut head).unwrap();
        media.write_at(0, &head).unwrap();
        let mut at = 512u64;
        while at < 64 << 10 {
            let room = 4096 - at % 4096;
            let frame_bytes = 512 * (1 + dice.roll(room / 512));
            let used = 32 + dice.roll(frame_bytes - 31);
            let first = match dice.roll(3) {
                0 => 0,
                _ if used > 32 => 32 + dice.roll(used - 32),
                _ => 0,
            };
            let mut frame = bytes(dice.roll(u64::MAX), frame_bytes as usize);
            let mut first = first;
            match dice.roll(3) {
                // Mostly small numbers: more of it decodes.
                0 => frame.iter_mut().for_each(|b| *b &= 0x87),
                // Records, but with the largest numbers there are.
                1 if used > 200 => {
                    first = 32;
                    let mut records = Vec::new();
                    for _ in 0..3 {
                        let kind = RecordKind::Put;
                        let mut record = RecordHeader::new(kind, KeyspaceId(1), b"k", b"");
                        record.seq_gap = u64::MAX - dice.roll(2);
                        record.version_delta = Some(u64::MAX);
                        record.encode(&mut records);
                        records.push(b'k');
                    }
                    frame[32..32 + records.len()].copy_from_slice(&records);
                }
                _ => {}
            }
            let header = FrameHeader {
                frame_bytes: frame_bytes as u16,
                used_bytes: used as u16,
                first_record: first as u16,
                birth: Birth(1),
                incarnation: Incarnation(3),
                first_seq: SeqNo((1 << 48) - 1),
                durable_seq: SeqNo(5),
            };
            seal_frame(geometry.salt, at, &header, &mut frame);
            media.poke(at, &frame).unwrap();
            probe.inner.poke(at, &frame).unwrap();
            at += frame_bytes;
        }
        run_scanner(SegmentScanner::load(&media, &geometry, FIRST, None).unwrap());
        let mut buf = ReadBuf::default();
        for _ in 0..300 {
            let place = match dice.roll(2) {
                0 => dice.roll(64 << 10),
                _ => dice.roll(128) * 512 + 32 + 28 * dice.roll(3),
            };
            let _ = reader.read(geometry.location(place), &mut buf);
        }
    }
}
