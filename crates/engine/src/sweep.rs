//! Sweeps: tombstones that nobody needs any more, entries that a range delete covers, and, once
//! after an unclean end, chunks of large values that have no head.
//!
//! The first two take index entries away without a record that says so. That is sound because a checkpoint
//! that covers the removal is awaited before the segments concerned are reused, and because replay
//! from an older checkpoint finds the tombstone, or the interval, again.

use std::sync::atomic::Ordering;
use std::sync::Arc;

use heliox_format::checkpoint::RangeEntry;
use heliox_format::ids::Location;
use heliox_format::record::RecordKind;
use heliox_index::{Direction, Next, ScanBatch, ScanFrom};
use heliox_log::Stream;

use crate::core::{Core, Head};
use crate::error::Result;
use crate::gc::remove_entry;
use crate::keyspaces::OWNERS;
use crate::large;
use crate::ranges::holds;
use crate::read::{
    fetch, is_gone, older_version, read_version, trace, with_scratch, OwnedRecord, Traced, View,
};
use crate::scan::{Bounds, Scan};
use crate::snapshot::SnapshotGuard;
use crate::write::{append_and_install, healed_record, Expect};

/// Tombstones looked at in one step.
const TOMBSTONES_PER_STEP: usize = 4096;
/// Entries asked for at a time.
const ENTRIES_PER_STEP: usize = 256;

/// Does one bounded piece of sweeping. True if something was done.
pub(crate) fn step(core: &Arc<Core>) -> Result<bool> {
    if core.orphans_due.swap(false, Ordering::AcqRel) {
        sweep_orphans(core)?;
    }
    let reaped = reap_tombstones(core)?;
    let swept = match core.ranges.unswept() {
        Some(range) => sweep_range(core, &range)?,
        None => false,
    };
    Ok(reaped || swept)
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
    );
    while let Some((id, note)) = notes.next()? {
        large::forget_if_orphan(core, &id, &note)?;
    }
    Ok(())
}

// ---- tombstones ----

enum Fate {
    Gone,
    Later,
}

fn reap_tombstones(core: &Core) -> Result<bool> {
    let waiting = core.tombstones.lock().len();
    let mut done = false;
    for _ in 0..waiting.min(TOMBSTONES_PER_STEP) {
        let Some(head) = core.tombstones.lock().pop_front() else {
            break;
        };
        match reap(core, head)? {
            Fate::Gone => done = true,
            Fate::Later => core.tombstones.lock().push_back(head),
        }
    }
    Ok(done)
}

/// Takes a tombstone's entry away if a checkpoint covers the tombstone, no snapshot needs it, and
/// what it displaced was verified to be of its key.
fn reap(core: &Core, head: Head) -> Result<Fate> {
    let location = head.location;
    let tombstone = with_scratch(|scratch| {
        Ok::<_, crate::error::Error>(fetch(core, head, scratch)?.map(|r| OwnedRecord::of(&r)))
    })?;
    let Some(tombstone) = tombstone.filter(|t| t.header.kind == RecordKind::Tombstone) else {
        return Ok(Fate::Gone);
    };
    let record = tombstone.record();
    let key = core.prepare(record.header.keyspace, record.key);
    let matches = core.index.lookup(&key);
    if !matches.iter().any(|e| e.location == location) {
        return Ok(Fate::Gone);
    }
    let is_seen = core.snapshots.oldest().is_some_and(|s| s < record.seq);
    if record.seq > core.checkpointed() || is_seen || matches.len() > 1 {
        return Ok(Fate::Later);
    }
    if !verify_victims(core, &tombstone)? {
        return Ok(Fate::Later);
    }
    if !remove_entry(core, &key, location)? {
        return Ok(Fate::Later);
    }
    core.counters.tombstones_dropped.add(1);
    Ok(Fate::Gone)
}

/// True if every older record that the tombstone's chain still reaches is of its own key. A record
/// of another key lost its entry to the tombstone: it gets one again.
fn verify_victims(core: &Core, tombstone: &OwnedRecord) -> Result<bool> {
    let mut older = older_version(&tombstone.record());
    let mut is_pure = true;
    let mut seen = vec![(tombstone.header.keyspace, tombstone.key.clone())];
    while let Some(dead) = older {
        let Some(victim) = with_scratch(|scratch| read_version(core, dead, scratch))? else {
            break;
        };
        // Of each key only the newest record counts: those below it died rightly.
        let key = (victim.header.keyspace, victim.key.clone());
        if !seen.contains(&key) {
            seen.push(key);
            if !is_gone(core, &victim.record(), View::Latest) {
                is_pure = false;
                heal_victim(core, &victim)?;
            }
        }
        older = older_version(&victim.record());
    }
    Ok(is_pure)
}

fn heal_victim(core: &Core, victim: &OwnedRecord) -> Result<()> {
    let key = core.prepare(victim.header.keyspace, &victim.key);
    let asked = core.log.last_seq();
    let matches = core.index.lookup(&key);
    for entry in matches.iter() {
        let head = Head {
            location: entry.location,
            asked,
        };
        match with_scratch(|scratch| trace(core, &key, head, scratch))? {
            Traced::Own | Traced::Stale => return Ok(()),
            Traced::Hidden(seq) if seq > victim.seq => return Ok(()),
            Traced::Hidden(_) | Traced::Origin | Traced::Broken => {}
        }
    }
    core.counters.strangers_found.add(1);
    let seen: Vec<Location> = matches.iter().map(|e| e.location).collect();
    let expect = Expect::Verified {
        seen: &seen,
        own: None,
    };
    append_and_install(
        core,
        &key,
        &healed_record(victim),
        Stream::Survivor,
        &expect,
        None,
    )?;
    core.counters.strangers_healed.add(1);
    Ok(())
}

// ---- range deletes ----

/// Takes away all entries that the interval covers. True when it is through; it is not begun while
/// a snapshot sees what was there before.
fn sweep_range(core: &Core, range: &RangeEntry) -> Result<bool> {
    if core.snapshots.oldest().is_some_and(|s| s < range.seq) {
        return Ok(false);
    }
    let prefix = range.keyspace.0.to_be_bytes();
    let mut cursor = [&prefix[..], &range.from].concat();
    let mut is_complete = true;
    let mut batch = ScanBatch::default();
    let mut entries = ENTRIES_PER_STEP;
    loop {
        let from = ScanFrom::At(&cursor);
        let asked = core.log.last_seq();
        core.index
            .scan(from, Direction::Forward, entries, &mut batch);
        let mut furthest: Option<Vec<u8>> = None;
        for entry in &batch.entries {
            let head = Head {
                location: entry.entry.location,
                asked,
            };
            let Some(key) = sweep_entry(core, range, head, &mut is_complete)? else {
                continue;
            };
            furthest = furthest.max(Some(key));
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
            ENTRIES_PER_STEP
        };
        cursor = next;
    }
    if is_complete {
        core.ranges.note_swept(range.seq, core.log.last_seq());
    }
    Ok(is_complete)
}

/// Looks at one entry; gives its internal key. An entry that moved meanwhile leaves the sweep
/// incomplete: it is run again.
fn sweep_entry(
    core: &Core,
    range: &RangeEntry,
    head: Head,
    is_complete: &mut bool,
) -> Result<Option<Vec<u8>>> {
    let location = head.location;
    let record = with_scratch(|scratch| {
        Ok::<_, crate::error::Error>(fetch(core, head, scratch)?.map(|r| OwnedRecord::of(&r)))
    })?;
    let Some(record) = record else {
        *is_complete = false;
        return Ok(None);
    };
    let keyspace = record.header.keyspace;
    let internal = [&keyspace.0.to_be_bytes()[..], &record.key].concat();
    let version = record.record().version();
    let covered = holds(range, keyspace, &record.key) && version < range.seq;
    let is_pending = core.batches.is_pending(&record.record());
    let key = core.prepare(keyspace, &record.key);
    if covered && (is_pending || !remove_entry(core, &key, location)?) {
        *is_complete = false;
    }
    Ok(Some(internal))
}
