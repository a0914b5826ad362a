//! Lays together what a scan found apart.
//!
//! The log has records in the order in which they were written, so a scan of keys that were written at
//! random costs a read for each. Whoever reads a short range is likely to read it again: what was found
//! apart is therefore copied, in the order of the keys, as collection copies what survives it. The next
//! scan finds it in a few blocks; collection, which sorts what it moves, keeps it so.
//!
//! What it costs is bounded: what lies together is not copied again; only small records are, of
//! which a block holds several; only those that the first entries of an iteration led to, so that a scan
//! of everything does not write everything; and only while collection has nothing to do and the tail
//! has room. Copies are conditional on the entry, like all moves, and nothing waits for them.
//!
//! A record's place must not begin another life between its read and its install, so the lock of
//! collection is held; who does not get it at once leaves things as they are.

use heliox_format::ids::Location;
use heliox_format::record::RecordKind;

use crate::core::{Asked, Core, Head};
use crate::gc::{move_one, RecordAt};
use crate::read::{is_alive, is_gone, OwnedRecord, View};

/// Entries of an iteration that are looked at.
pub(crate) const ENTRIES_MAX: usize = 1000;
/// Fewer reads are not worth it, nor fewer records to be moved.
const WORTH_MIN: usize = 8;
/// A run of so many records that lie together already is left as it is.
const RUN_MIN: usize = 8;
/// Records that start so near each other are read together, or nearly so.
const NEAR_BYTES: u64 = 8 << 10;
/// Larger ones gain little.
const RECORD_BYTES_MAX: usize = 2 << 10;

/// A record that an entry led to.
pub(crate) struct Place<'r> {
    pub(crate) location: Location,
    pub(crate) record: &'r OwnedRecord,
}

/// Copies those of the records that lie apart to one place, if that is worth it. The index was asked for
/// them at `asked`, and so many had to be read from media. What cannot be done is left undone.
pub(crate) fn run<'r>(
    core: &Core,
    found: impl Iterator<Item = Place<'r>>,
    asked: Asked,
    reads: usize,
) {
    if reads < WORTH_MIN || !is_idle(core) {
        return;
    }
    let mut places: Vec<Place<'_>> = found.collect();
    places.sort_by(|a, b| a.record.sort_key().cmp(&b.record.sort_key()));
    let mut apart = lying_apart(core, &places.iter().collect::<Vec<_>>());
    apart.retain(|place| is_movable(core, place));
    // Between others that stay where they are, some lie together already.
    let apart = lying_apart(core, &apart);
    if apart.len() < WORTH_MIN {
        return;
    }
    let Some(_alone) = core.gc_lock.try_lock() else {
        return;
    };
    for place in apart {
        let location = place.location;
        if !is_alive(core, Head { location, asked }) {
            continue;
        }
        let at = RecordAt::new(core, location, place.record.record());
        match move_one(core, &at) {
            Ok(moved) => core.counters.gathered_records.add(u64::from(moved)),
            // Whoever writes or reads next is told what is wrong.
            Err(_) => return,
        }
    }
    core.signals.flush.ring();
}

/// True if the store may be written, and there is room to spare, on media and in the tail.
fn is_idle(core: &Core) -> bool {
    !core.settings.read_only
        && core.log.failure().is_none()
        && core.log.free_segments() > core.space.gc_goal()
        && core.log.unwritten_bytes() < core.settings.tail_limit_bytes / 2
}

/// Values of small records that are durable, as all that is moved must be, and not on their way out.
fn is_movable(core: &Core, place: &Place<'_>) -> bool {
    let header = &place.record.header;
    header.kind == RecordKind::Put
        && !header.chunked
        && header.body_bytes() <= RECORD_BYTES_MAX
        && place.record.seq <= core.log.durable_seq()
        && !core.batches.is_pending_at(place.location)
        && !is_gone(core, &place.record.record(), View::Latest)
}

/// Those that are in no long run. At either end of the range a run may go on beyond it: of these only
/// single records count as apart.
fn lying_apart<'p, 'r>(core: &Core, places: &[&'p Place<'r>]) -> Vec<&'p Place<'r>> {
    let geometry = core.log.geometry();
    let is_near = |a: &&Place<'_>, b: &&Place<'_>| {
        let gap = geometry
            .address(b.location)
            .checked_sub(geometry.address(a.location));
        gap.is_some_and(|gap| gap <= NEAR_BYTES)
    };
    let mut apart = Vec::new();
    let (mut start, end) = (0, places.len());
    for run in places.chunk_by(is_near) {
        let is_at_end = start == 0 || start + run.len() == end;
        start += run.len();
        if run.len() < RUN_MIN && !(is_at_end && run.len() > 1) {
            apart.extend_from_slice(run);
        }
    }
    apart
}

#[cfg(test)]
mod tests;
