//! Sweeps: tombstones that nobody needs any more, entries that a range delete covers, and, once
//! after an unclean end, chunks of large values that have no head.
//!
//! The first two take index entries away without a record that says so. That is sound because a checkpoint
//! that covers the removal is awaited before the segments concerned are reused, and because replay
//! from an older checkpoint finds the tombstone, or the interval, again.

use std::sync::Arc;

use heliox_format::checkpoint::RangeEntry;
use heliox_format::ids::SeqNo;
use heliox_format::record::RecordKind;
use heliox_index::{Direction, Next, ScanBatch, ScanEntry, ScanFrom};
use heliox_sync::atomic::Ordering;

use crate::core::{Core, Head};
use crate::error::{Error, ErrorKind, Result};
use crate::gc::{move_one, RecordAt};
use crate::keyspaces::OWNERS;
use crate::large;
use crate::ranges::holds;
use crate::read::{fetch, fetch_many, is_alive, with_scratch, OwnedRecord};
use crate::reap::{reap, reapable, remove_entry, Fate, TOMBSTONES_PER_BATCH};
use crate::scan::{Bounds, Scan};
use crate::snapshot::SnapshotGuard;
use crate::strangers::{oldest_segment, settle_below_many, Below};
use crate::tombstones::Tombstone;

/// Tombstones looked at in one step.
const TOMBSTONES_PER_STEP: usize = 4096;
/// No interval is begun in a step that has looked at so many entries; each counts as one more.
const RANGE_ENTRIES_PER_STEP: usize = 4096;
/// Entries asked for at a time, at first and at most: most intervals hold few.
const ENTRIES_FIRST: usize = 8;
const ENTRIES_PER_STEP: usize = 256;

/// Does one bounded piece of sweeping. True if something was done.
pub(crate) fn step(core: &Arc<Core>) -> Result<bool> {
    if core.orphans_due.swap(false, Ordering::AcqRel) {
        let swept = sweep_orphans(core);
        if let Err(error) = swept {
            // From the start, and if not in this run, in the next.
            core.orphans_due.store(true, Ordering::Release);
            // Without room, or when its snapshot gave way to a writer: later.
            if !is_for_later(core, &error) {
                return Err(error);
            }
        }
    }
    let reaped = reap_tombstones(core)?;
    let swept = sweep_ranges(core)?;
    Ok(reaped || swept)
}

fn is_for_later(core: &Core, error: &Error) -> bool {
    let is_later = matches!(error.kind(), ErrorKind::Full | ErrorKind::SnapshotTooOld);
    is_later && core.log.failure().is_none()
}

// ---- large values ----

/// Looks at every large value that an earlier run wrote.
fn sweep_orphans(core: &Arc<Core>) -> Result<()> {
    let snapshot = Arc::new(SnapshotGuard::take(core));
    let before = core.first_value_id.to_be_bytes().to_vec();
    let bounds = Bounds {
        keyspace: OWNERS,
        from: Vec::new(),
        to: Some(before),
    };
    let mut notes = Scan::new(
        Arc::clone(core),
        snapshot,
        bounds,
        Direction::Forward,
        false,
        None,
    );
    loop {
        let note = match notes.next() {
            Err(error) if core.is_unreadable(&error) => continue,
            note => note?,
        };
        let Some((id, note)) = note else {
            return Ok(());
        };
        match large::forget_if_orphan(core, &id, &note) {
            Err(error) if core.is_unreadable(&error) => {}
            done => _ = done?,
        }
    }
}

// ---- tombstones ----

/// Takes the entries of tombstones away that nobody needs any more. True if one was.
pub(crate) fn reap_tombstones(core: &Core) -> Result<bool> {
    let tombstones = &core.tombstones;
    tombstones.release_kept(|| oldest_segment(core));
    // Not those that this step itself puts off.
    let mut put_off = tombstones.count_put_off().min(TOMBSTONES_PER_STEP);
    let mut done = false;
    let mut left = TOMBSTONES_PER_STEP;
    while left > 0 {
        let due = tombstones.take(reapable(core), left.min(TOMBSTONES_PER_BATCH));
        if due.is_empty() {
            break;
        }
        left -= due.len();
        done |= reap_batch(core, &due)?;
    }
    while put_off > 0 {
        let again = tombstones.take_put_off(put_off.min(TOMBSTONES_PER_BATCH));
        if again.is_empty() {
            break;
        }
        put_off -= again.len();
        done |= reap_batch(core, &again)?;
    }
    Ok(done)
}

fn reap_batch(core: &Core, batch: &[Tombstone]) -> Result<bool> {
    let (fates, ended) = reap(core, batch);
    let mut later = Vec::new();
    for (tombstone, fate) in batch.iter().zip(&fates) {
        match fate {
            // One that is unreadable keeps its entry.
            Fate::Gone | Fate::Unreadable => {}
            Fate::Later => later.push(*tombstone),
            Fate::Kept(version) => core.tombstones.keep(*version, *tombstone),
        }
    }
    core.tombstones.put_off(later);
    ended.map(|()| fates.contains(&Fate::Gone))
}

// ---- range deletes ----

/// How far a sweep of intervals is.
struct Sweep {
    /// Entries looked at.
    looked: usize,
    /// Entries taken away, and how many may be at most.
    gone: usize,
    most: usize,
    /// Of the interval it is in, whether everything was seen that it covers.
    is_complete: bool,
}

/// Sweeps intervals in their order, as many as one step may. None is begun while a snapshot sees
/// what was there before. True if one is through.
pub(crate) fn sweep_ranges(core: &Core) -> Result<bool> {
    sweep_some(core, usize::MAX)
}

/// As [`sweep_ranges`], for a writer who waits: ends amid an interval after so many entries. True also if one
/// was taken away.
pub(crate) fn sweep_for_writer(core: &Core) -> Result<bool> {
    sweep_some(core, RANGE_ENTRIES_PER_STEP)
}

fn sweep_some(core: &Core, most: usize) -> Result<bool> {
    let mut sweep = Sweep {
        looked: 0,
        gone: 0,
        most,
        is_complete: true,
    };
    let (mut done, mut after) = (false, SeqNo::ZERO);
    while sweep.looked < RANGE_ENTRIES_PER_STEP {
        let Some(range) = core.ranges.unswept(after) else {
            break;
        };
        if core.snapshots.oldest().is_some_and(|s| s < range.seq) {
            break;
        }
        sweep.looked += 1;
        done |= sweep_range(core, &range, &mut sweep)?;
        after = range.seq;
    }
    Ok(done || sweep.gone >= most)
}

/// Takes away all entries that the interval covers, or as many as may be. True when it is through.
fn sweep_range(core: &Core, range: &RangeEntry, sweep: &mut Sweep) -> Result<bool> {
    let prefix = range.keyspace.0.to_be_bytes();
    let mut cursor = [&prefix[..], &range.from].concat();
    sweep.is_complete = true;
    let mut batch = ScanBatch::default();
    let mut entries = ENTRIES_FIRST;
    loop {
        let from = ScanFrom::At(&cursor);
        let asked = core.asked();
        core.index
            .scan(from, Direction::Forward, entries, &mut batch);
        sweep.looked += batch.entries.len();
        let head = |entry: &ScanEntry| Head {
            location: entry.entry.location,
            asked,
        };
        let heads: Vec<Head> = batch.entries.iter().map(head).collect();
        let furthest = sweep_entries(core, range, &heads, sweep)?;
        if sweep.gone >= sweep.most {
            return Ok(false);
        }
        let next = match std::mem::take(&mut batch.next) {
            Next::End => break,
            Next::Leaf(fence) => fence,
            Next::More => furthest.unwrap_or_else(|| cursor.clone()),
        };
        let end = match &range.to {
            Some(to) => Some([&prefix[..], to].concat()),
            None => range
                .keyspace
                .0
                .checked_add(1)
                .map(|id| id.to_be_bytes().to_vec()),
        };
        if end.is_some_and(|end| next >= end) {
            break;
        }
        entries = if next == cursor {
            entries * 2
        } else {
            (entries * 2).min(ENTRIES_PER_STEP)
        };
        cursor = next;
    }
    if sweep.is_complete {
        let at = core.log.last_seq();
        let cut = core.log.next_cut();
        core.ranges.note_swept(range.keyspace, range.seq, at, cut);
    }
    Ok(sweep.is_complete)
}

/// Looks at entries; gives the last internal key of them. An entry that moved meanwhile leaves the
/// sweep incomplete: it is run again.
fn sweep_entries(
    core: &Core,
    range: &RangeEntry,
    heads: &[Head],
    sweep: &mut Sweep,
) -> Result<Option<Vec<u8>>> {
    let mut entries = Vec::with_capacity(heads.len());
    for (head, record) in heads.iter().zip(fetch_many(core, heads)) {
        match record {
            Ok(Some(record)) => entries.push((*head, record)),
            Ok(None) => sweep.is_complete = false,
            // It may be covered: the interval stays.
            Err(error) if core.is_unreadable(&error) => sweep.is_complete = false,
            Err(error) => return Err(error),
        }
    }
    // What the interval covers may lie under another key's entry, where gets, or the sums, find it once the
    // interval is dropped: it is settled before.
    let tops: Vec<&OwnedRecord> = entries.iter().map(|(_, record)| record).collect();
    let below = settle_below_many(core, &tops);
    for ((head, record), below) in entries.iter().zip(below) {
        core.settings.environment.breathe();
        let below = match below {
            Err(error) if core.is_unreadable(&error) => Below::default(),
            below => below?,
        };
        sweep.is_complete &=
            !below.again && sweep_entry(core, range, (*head, record), below, sweep)?;
    }
    let keys = tops.into_iter().max_by_key(|record| record.sort_key());
    Ok(keys.map(|last| [&last.header.keyspace.0.to_be_bytes()[..], &last.key].concat()))
}

/// Takes one entry away if the interval covers it. False if something is in the way.
fn sweep_entry(
    core: &Core,
    range: &RangeEntry,
    (head, record): (Head, &OwnedRecord),
    below: Below,
    sweep: &mut Sweep,
) -> Result<bool> {
    let keyspace = record.header.keyspace;
    let covered = holds(range, keyspace, &record.key) && record.record().version() < range.seq;
    if !covered {
        return Ok(!below.has_foreign || below.is_whole && end_chain(core, head, record)?);
    }
    let key = core.prepare(keyspace, &record.key);
    let is_gone = !core.batches.is_pending(&record.record()) && remove_entry(core, &key, head)?;
    sweep.gone += usize::from(is_gone);
    Ok(is_gone)
}

/// Copies a record without its link, so that nobody finds any more what lies below it: of its own key
/// that is outdated, of others it was settled. False if that must wait.
fn end_chain(core: &Core, head: Head, record: &OwnedRecord) -> Result<bool> {
    // As for all moves: its place must not begin another life.
    let Some(_alone) = core.gc_lock.try_lock() else {
        return Ok(false);
    };
    let version = record.record().version();
    let is_movable = record.header.kind == RecordKind::Put
        && record.seq <= core.log.durable_seq()
        && !core.batches.is_pending(&record.record())
        && core
            .snapshots
            .oldest()
            .is_none_or(|oldest| oldest >= version)
        && is_alive(core, head);
    if !is_movable {
        return Ok(false);
    }
    let whole = with_scratch(|scratch| {
        Ok::<_, Error>(fetch(core, head, scratch)?.map(|record| OwnedRecord::of(&record)))
    });
    let mut whole = match whole {
        Err(error) if core.is_unreadable(&error) => return Ok(false),
        whole => match whole? {
            Some(whole) => whole,
            None => return Ok(false),
        },
    };
    (whole.header.link, whole.header.displaced) = (None, None);
    move_one(core, &RecordAt::new(core, head.location, whole.record()))
}

#[cfg(test)]
mod tests {
    use heliox_format::limits::RANGE_DELETES_MAX;

    use super::*;
    use crate::background::upkeep_step;
    use crate::keyspace::Keyspace;
    use crate::store::Store;
    use crate::tests;

    fn open() -> (Store, Keyspace) {
        tests::open(&tests::options(tests::memory(130)))
    }

    fn unswept(core: &Core) -> usize {
        let next = |range: &RangeEntry| core.ranges.unswept(range.seq);
        std::iter::successors(core.ranges.unswept(SeqNo::ZERO), next).count()
    }

    #[test]
    fn a_step_sweeps_many_small_intervals_and_not_many_large_ones() {
        let (store, ks) = open();
        for n in 0..9000u32 {
            ks.put(n.to_be_bytes(), "v").unwrap();
        }
        for n in 0..300u32 {
            let from = n * 10;
            ks.delete_range(from.to_be_bytes(), (from + 1).to_be_bytes())
                .unwrap();
        }
        step(store.core()).unwrap();
        assert_eq!(unswept(store.core()), 0);
        for n in 0..3u32 {
            let from = n * 3000;
            ks.delete_range(from.to_be_bytes(), (from + 3000).to_be_bytes())
                .unwrap();
        }
        step(store.core()).unwrap();
        assert_eq!(unswept(store.core()), 1);
    }

    /// Tombstones of one step, and what they displaced, lie side by side and are read together.
    #[test]
    fn a_step_takes_many_tombstones_with_few_reads_and_says_that_there_may_be_more() {
        let (store, ks) = open();
        let core = store.core();
        let count = TOMBSTONES_PER_STEP + 1000;
        (0..count).for_each(|n| ks.put(n.to_be_bytes(), "v").unwrap());
        core.log.seal_segments();
        (0..count).for_each(|n| ks.delete(n.to_be_bytes()).unwrap());
        core.log.seal_segments();
        assert!(!upkeep_step(core).unwrap(), "no checkpoint covers one");
        store.checkpoint().unwrap();
        let reads = || core.log.counters().record_reads.load(Ordering::Relaxed);
        let before = reads();
        assert!(upkeep_step(core).unwrap());
        assert_eq!(core.index.entries(), 1000);
        assert!(upkeep_step(core).unwrap());
        assert_eq!(core.index.entries(), 0);
        assert!(!upkeep_step(core).unwrap());
        assert!(reads() - before < count as u64 / 50, "{}", reads() - before);
    }

    #[test]
    fn who_waits_for_room_sweeps_a_part_and_the_next_one_goes_on() {
        let (store, ks) = open();
        for n in 0..10_000u32 {
            ks.put(n.to_be_bytes(), "v").unwrap();
        }
        ks.delete_prefix("").unwrap();
        let core = store.core();
        for rounds in 1..3 {
            assert!(sweep_for_writer(core).unwrap());
            let left = 10_000 - rounds * RANGE_ENTRIES_PER_STEP;
            let entries = core.index.entries() as usize;
            assert!(
                entries <= left && entries + ENTRIES_PER_STEP > left,
                "{entries}"
            );
            assert_eq!(unswept(core), 1);
        }
        assert!(sweep_for_writer(core).unwrap());
        assert_eq!((core.index.entries(), unswept(core)), (0, 0));
        assert!(!sweep_for_writer(core).unwrap());
    }

    #[test]
    fn range_deletes_go_on_however_little_is_written() {
        let (store, ks) = open();
        for n in 0..2 * RANGE_DELETES_MAX {
            ks.delete_range(n.to_be_bytes(), (n + 1).to_be_bytes())
                .unwrap();
            if n % 300 == 0 {
                upkeep_step(store.core()).unwrap();
            }
        }
        assert!(store.core().ranges.len() <= RANGE_DELETES_MAX);
    }

    #[test]
    fn range_deletes_end_no_snapshot_for_want_of_a_sweep_before_it() {
        let (store, ks) = open();
        let delete = |n: usize| ks.delete_range(n.to_be_bytes(), (n + 1).to_be_bytes());
        let before = RANGE_DELETES_MAX * 3 / 4;
        (0..before).for_each(|n| delete(n).unwrap());
        let snapshot = store.snapshot().unwrap();
        (before..RANGE_DELETES_MAX * 5 / 4).for_each(|n| delete(n).unwrap());
        assert_eq!(ks.get_at(b"key", &snapshot).unwrap(), None);
    }
}
