//! Moves the live records out of a damaged segment, one by one: from memory where the medium has
//! lost them.
//!
//! Unlike collection it does not read the segment, of which parts cannot be read, but asks the index
//! what lies in it, and reads each record by itself: from the cache, else the tail, else the medium.
//! What cannot be read stays where it is, and so does its entry: reads of the key go on to say that
//! it is damaged, until it is written anew or deleted. Everything that is not live (versions that
//! snapshots read, heads of values in chunks that died) is left to collection, which retires the
//! segment by its own rules once nothing in it is live.
//!
//! A record's place must not begin another life between its read and its install, so a group of
//! records is moved under the lock of collection, the only flow that retires segments of the log.

use heliox_sync::atomic::{fence, Ordering};

use heliox_format::ids::{Birth, Location, SegmentId};
use heliox_log::LogError;
use heliox_sync::MutexGuard;

use crate::admit::keep_tail_small;
use crate::core::Core;
use crate::error::Result;
use crate::gc::{move_one, RecordAt};
use crate::read::{cached, with_read_buf, OwnedRecord};

/// Records moved under one hold of the lock.
const GROUP: usize = 32;
/// Locations in memory at a time.
const PLACES_MAX: usize = 64 << 10;

/// What became of a segment's live records.
#[derive(Default)]
pub(crate) struct Evacuated {
    pub(crate) moved: u64,
    /// What nobody can read any more.
    pub(crate) lost: Vec<Location>,
    /// Nothing else is left in the segment that an entry points to.
    pub(crate) is_done: bool,
}

/// Moves out of the segment what can be read.
pub(crate) fn run(core: &Core, id: SegmentId, birth: Birth) -> Result<Evacuated> {
    let mut evacuated = Evacuated::default();
    // Only durable records are moved, as by collection.
    if core.log.segment(id).last_seq > core.log.durable_seq() {
        core.sync()?;
    }
    let mut from = core.log.geometry().start(id);
    let mut is_complete = true;
    loop {
        let places = live_in(core, id, from);
        let Some(last) = places.last() else {
            evacuated.is_done = is_complete;
            return Ok(evacuated);
        };
        from = core.log.geometry().address(*last) + 1;
        for group in places.chunks(GROUP) {
            // Survivors need room; collection, which makes it, comes first.
            if core.log.free_segments() <= core.space.data_floor() {
                return Ok(evacuated);
            }
            let Some(one) = enter(core) else {
                return Ok(evacuated);
            };
            fence(Ordering::Acquire);
            if core.log.views().birth(id) != birth {
                evacuated.is_done = true;
                return Ok(evacuated);
            }
            for location in group {
                is_complete &= move_out(core, *location, &mut evacuated)?;
            }
            drop(one);
            keep_tail_small(core)?;
            core.settings.environment.breathe();
        }
    }
}

/// One flow that moves or retires at a time. In a simulation nobody can wait.
fn enter(core: &Core) -> Option<MutexGuard<'_, ()>> {
    if core.settings.environment.is_simulated() {
        return core.gc_lock.try_lock();
    }
    Some(core.gc_lock.lock())
}

/// Locations in the segment that entries point to, from an address on, in order: the first ones of
/// too many.
fn live_in(core: &Core, id: SegmentId, from: u64) -> Vec<Location> {
    let geometry = core.log.geometry();
    let end = geometry.end(id);
    let mut places: Vec<Location> = Vec::new();
    core.index.for_each_entry(&mut |entry| {
        if (from..end).contains(&geometry.address(entry.location)) {
            places.push(entry.location);
            if places.len() >= 2 * PLACES_MAX {
                places.select_nth_unstable_by_key(PLACES_MAX, |l| l.bits());
                places.truncate(PLACES_MAX);
            }
        }
    });
    places.sort_unstable_by_key(|l| l.bits());
    places.dedup();
    places.truncate(PLACES_MAX);
    places
}

/// Moves one record. False if it stays for now because a batch in flight decides on it.
fn move_out(core: &Core, location: Location, evacuated: &mut Evacuated) -> Result<bool> {
    if core.batches.is_pending_at(location) {
        return Ok(false);
    }
    let record = match read_by_itself(core, location) {
        Ok(Some(record)) => record,
        // Displaced since the index was asked.
        Ok(None) => return Ok(true),
        Err(LogError::Damaged(_) | LogError::Media(_)) => {
            evacuated.lost.push(location);
            return Ok(true);
        }
        Err(error) => return Err(error.into()),
    };
    let at = RecordAt::new(core, location, record.record());
    evacuated.moved += u64::from(move_one(core, &at)?);
    Ok(!core.batches.is_pending_at(location))
}

/// The record, from wherever it can still be had.
fn read_by_itself(
    core: &Core,
    location: Location,
) -> std::result::Result<Option<OwnedRecord>, LogError> {
    if let Some(record) = cached(core, location) {
        return Ok(Some(record));
    }
    let read = || {
        with_read_buf(|buf| {
            let found = core.log.read(location, buf)?;
            Ok(found.map(|found| OwnedRecord::of(&found.record)))
        })
    };
    // What goes wrong once is not lost.
    read().or_else(|_: LogError| read())
}
