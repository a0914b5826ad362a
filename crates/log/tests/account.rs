//! The account of the segments equals a recount.
#![allow(clippy::unwrap_used, clippy::panic)] // these are tests

mod common;

use std::collections::HashMap;

use common::*;
use heliox_format::ids::{KeyspaceId, SegmentId, SeqNo};
use heliox_format::record::RecordKind;
use heliox_log::append::NewRecord;
use heliox_log::segments::SegmentState;
use heliox_log::sums::{difference, weight, Settlement};

#[derive(Default, PartialEq, Eq, Debug)]
struct Count {
    records: u32,
    dead: u32,
    displaced: u32,
    displaced_sum: u64,
    first_seq: SeqNo,
    last_seq: SeqNo,
    last_displaced: SeqNo,
}

#[test]
fn counts_sums_and_orders_equal_a_recount() {
    let (_, log) = small_log(PLAIN);
    let mut counts: HashMap<u32, Count> = HashMap::new();
    let mut live = Vec::new();
    let mut dice = Dice(17);
    for n in 0..9000u64 {
        let stream = if dice.roll(3) == 0 { SURVIVOR } else { USER };
        let kind = [
            RecordKind::Put,
            RecordKind::Tombstone,
            RecordKind::Retained,
            RecordKind::Commit,
            RecordKind::Put,
        ][dice.roll(5) as usize];
        let is_indexed = matches!(kind, RecordKind::Put | RecordKind::Tombstone);
        let (key, value) = (bytes(n, 16), bytes(n, dice.roll(4000) as usize));
        let mut record = NewRecord::new(kind, KeyspaceId(1), &key, &value);
        record.key_hash = bytes(n, 8)
            .iter()
            .fold(n, |h, b| h.rotate_left(9) ^ u64::from(*b));
        if is_indexed && !live.is_empty() && dice.roll(2) == 0 {
            let at = dice.roll(live.len() as u64) as usize;
            record.displaced = Some(live.swap_remove(at));
        }
        let appended = log.append(stream, &record).unwrap();
        if is_indexed {
            live.push(appended.location);
        }
        let id = log.geometry().segment_at(appended.location).unwrap();
        let count = counts.entry(id.0).or_insert_with(|| Count {
            first_seq: appended.seq,
            ..Count::default()
        });
        count.records += 1;
        count.dead += u32::from(!is_indexed);
        count.last_seq = appended.seq;
        if let Some(displaced) = record.displaced {
            let id = log.geometry().segment_at(displaced).unwrap();
            let count = counts.get_mut(&id.0).unwrap();
            count.dead += 1;
            count.displaced += 1;
            let sum = record.key_hash.wrapping_mul(weight(displaced));
            count.displaced_sum = count.displaced_sum.wrapping_add(sum);
            count.last_displaced = appended.seq;
        }
        if dice.roll(400) == 0 {
            log.write_all().unwrap();
        }
    }
    let mut live_by_account = 0;
    log.with_table(|table| {
        for (id, segment) in table.iter().filter(|(_, s)| s.state != SegmentState::Free) {
            let seen = Count {
                records: segment.records,
                dead: segment.dead,
                displaced: segment.displaced,
                displaced_sum: segment.displaced_sum,
                first_seq: segment.first_seq,
                last_seq: segment.last_seq,
                last_displaced: segment.last_displaced,
            };
            assert_eq!(Some(&seen), counts.get(&id.0), "segment {}", id.0);
            live_by_account += segment.live() as usize;
            assert!(segment.live_bytes() <= segment.used_bytes);
        }
    });
    assert_eq!(live_by_account, live.len());
}

#[test]
fn a_removal_without_a_record_is_summed_and_says_when() {
    let (_, log) = small_log(PLAIN);
    let first = append_n(&log, USER, 1, 16, 100, None).unwrap();
    append_n(&log, USER, 2, 16, 100, None).unwrap();
    log.note_unlogged_removal(first.at, 12_345);
    let segment = log.segment(SegmentId(0));
    assert_eq!((segment.dead, segment.voided), (1, false));
    let sum = weight(first.at).wrapping_mul(12_345);
    assert_eq!(segment.displaced_sum, sum);
    // The first cut is still to be taken: it is the one that knows of the removal.
    assert_eq!(segment.removal_cut, 1);
    assert_eq!(segment.displaced, 0);
}

/// A record that another key displaced: the sums differ until that is settled, which counts once,
/// and only in the life of the segment that is meant.
#[test]
fn a_settlement_counts_once_and_makes_the_sums_agree() {
    let (_, log) = small_log(PLAIN);
    let record = |hash, displaced, settles| {
        let mut record = NewRecord::new(RecordKind::Put, KeyspaceId(1), b"key", b"");
        (record.key_hash, record.displaced, record.settles) = (hash, displaced, settles);
        log.append(USER, &record).unwrap()
    };
    let lost = record(77, None, None);
    record(78, Some(lost.location), None);
    let settlement = Settlement {
        location: lost.location,
        seq: lost.seq,
        difference: difference(lost.location, 77, 78),
    };
    let open = |log: &heliox_log::Log| {
        let segment = log.segment(SegmentId(0));
        segment.appended_sum.wrapping_sub(segment.displaced_sum)
    };
    let before = open(&log);
    log.settle(&Settlement {
        seq: SeqNo(lost.seq.0 + 1000),
        ..settlement
    });
    assert!(!log.is_settled(lost.location), "of another life");
    assert_eq!(open(&log), before);
    let healed = record(77, None, Some(settlement));
    assert!(log.is_settled(lost.location));
    let own = |a: heliox_log::append::Appended, hash: u64| weight(a.location).wrapping_mul(hash);
    let settled = before
        .wrapping_sub(settlement.difference)
        .wrapping_add(own(healed, 77));
    assert_eq!(open(&log), settled);
    log.settle(&settlement);
    assert_eq!(open(&log), settled, "it counts once");
}

#[test]
fn a_cut_is_consistent_while_others_append() {
    let (_, log) = small_log(Shape {
        segments: 32,
        ..PLAIN
    });
    std::thread::scope(|scope| {
        for stream in [USER, SURVIVOR] {
            let log = &log;
            scope.spawn(move || {
                for n in 0..20_000 {
                    append_n(log, stream, n, 16, 200, None).unwrap();
                }
            });
        }
        for _ in 0..200 {
            let (last, records, newest) = log.at_cut(|last, _, table| {
                let records: u64 = table.iter().map(|(_, s)| u64::from(s.records)).sum();
                let newest = table.iter().map(|(_, s)| s.last_seq).max();
                (last, records, newest)
            });
            assert_eq!(records, last.0);
            assert_eq!(newest.unwrap_or_default(), last);
        }
    });
}
