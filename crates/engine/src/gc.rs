//! Garbage collection: survivors of a victim segment are written anew in key order, then the
//! segment is given back.
//!
//! A step retires what is empty, else collects one victim. Survivors go through the one write
//! primitive with the condition "the entry still holds the old location", into segments of their
//! own. A segment is retired only when every needed record has a durable copy elsewhere, the newest
//! displacement of its records is durable, a checkpoint covers what replay would need of it, its
//! sums agree (or every dead record was verified), and no snapshot needs it in place.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use heliox_format::ids::{Location, SegmentId, SeqNo};
use heliox_format::limits::{CHUNK_BYTES, KEY_BYTES_MAX};
use heliox_format::record::{Record, RecordKind, RECORD_HEADER_BYTES_MAX};
use heliox_index::PreparedKey;
use heliox_log::append::NewRecord;
use heliox_log::expiries::Expiries;
use heliox_log::scan::SegmentRecords;
use heliox_log::segments::Segment;
use heliox_log::{LogError, Stream};
use heliox_sync::atomic::Ordering;
use smallvec::SmallVec;

use crate::admit::keep_tail_small;
use crate::canary::{is, Canary};
use crate::checkpoint;
use crate::core::{Asked, Core, Head};
use crate::error::{Error, Result};
use crate::large;
use crate::read::{hash_of, older_version, read_places, OwnedRecord};
use crate::reap::{reap_known, reapable, remove_entry, Fate, TOMBSTONES_PER_BATCH};
use crate::snapshots::DeadVersion;
use crate::strangers::{heal_segment, is_even, mark_kept};
use crate::tombstones::Tombstone;
use crate::write::{append_and_install, Expect, Installed};

/// Records looked up at a time: what the processor waits for is then fetched for many at once.
const LOOKUPS: usize = 64;
/// Records for whose moves memory is asked for at a time.
const MOVES: usize = 16;
/// A victim must free at least 1/32 of itself, or collecting it is no gain.
const GAIN_MIN_DIVISOR: u64 = 32;
/// A victim that is collected for the sake of sharing a checkpoint gains this part of a segment.
const GATHER_GAIN_DIVISOR: u64 = 8;
/// Up to this part of an emptied segment's records are read one by one.
const VERSIONS_PART: usize = 16;
/// So much at the end of a segment may be free only because the next record did not fit.
const UNFIT_BYTES: u64 = RECORD_HEADER_BYTES_MAX as u64 + KEY_BYTES_MAX as u64 + CHUNK_BYTES as u64;

/// Does one bounded piece of collection, one at a time. True if space was gained or will be.
pub(crate) fn step(core: &Core) -> Result<bool> {
    if let Some(first) = core.log.failure() {
        return Err(crate::error::Error::failed(&first.into()));
    }
    let (free, held) = (core.log.free_segments(), core.pins.held());
    if held > 0 && (free + held >= core.space.gc_goal() || free <= core.space.data_floor()) {
        // What a backup is about to give back is enough; or survivors would take what little is
        // free, and give nothing back before it does.
        return Ok(false);
    }
    let has_more = large::reap(core)?;
    let waiting = retire_empty(core)?;
    if core.space.ask_checkpoint(waiting.for_checkpoint) {
        core.signals.upkeep.ring();
    }
    if waiting.retired > 0 {
        return Ok(true);
    }
    // What waits for a checkpoint comes before what costs more room first; but one checkpoint serves many.
    let is_tight = core.log.free_segments() <= core.space.data_floor();
    let victim = if waiting.for_checkpoint > 0 && is_tight {
        gather_victim(core, &waiting)
    } else {
        choose_victim(core)
    };
    if let Some(victim) = victim {
        collect_reading_ahead(core, victim)?;
        retire_empty(core)?;
        return Ok(true);
    }
    if waiting.for_checkpoint > 0 && core.log.free_segments() <= core.space.gc_goal() {
        checkpoint::run(core, checkpoint::Pace::Fast, false)?;
        if retire_empty(core)?.retired > 0 {
            return Ok(true);
        }
        // What even the checkpoint did not free does not keep others from being collected.
        if let Some(victim) = choose_victim(core).filter(|_| is_tight) {
            collect(core, victim)?;
            retire_empty(core)?;
            return Ok(true);
        }
    }
    Ok(has_more || learn_expiries(core))
}

/// Reads when the records of a segment expire that an earlier run filled. True if there was one.
fn learn_expiries(core: &Core) -> bool {
    let durable = core.log.durable_seq();
    let untold = core.log.with_table(|table| {
        let is_one = |s: &Segment| s.is_sealed_log() && s.untold_expiries && s.last_seq <= durable;
        let found = table.iter().find(|(_, s)| is_one(s));
        found.map(|(id, s)| (id, *s))
    });
    let Some((id, segment)) = untold else {
        return false;
    };
    let mut expiries = Expiries::default();
    // What cannot be read tells nothing; the scrub finds it.
    if let Ok(records) = core.ahead.take(&core.log, id, &segment) {
        core.counters.gc_bytes_read.add(records.loaded_bytes());
        for expiry_ms in records.iter().filter_map(|(_, r)| r.header.expiry_ms) {
            expiries.add(expiry_ms);
        }
        core.ahead.give_back(records);
    }
    core.log.tell_expiries(id, segment.birth, expiries);
    true
}

/// True if collection should run.
pub(crate) fn is_due(core: &Core) -> bool {
    core.log.free_segments() < core.space.gc_goal()
}

#[derive(Default)]
struct Waiting {
    retired: usize,
    /// Empty segments that wait for a checkpoint.
    for_checkpoint: u64,
}

/// A victim to be collected before the checkpoint that empty segments wait for: where what that writes is
/// much beside what it frees, there is room for what is moved meanwhile, and that is less than what
/// it gains.
fn gather_victim(core: &Core, waiting: &Waiting) -> Option<SegmentId> {
    let is_cheap = core.space.is_worth_checkpoint(waiting.for_checkpoint);
    if is_cheap || core.log.free_segments() <= core.space.checkpoint_floor() {
        return None;
    }
    let least = core.log.geometry().segment_bytes / GATHER_GAIN_DIVISOR;
    let (id, segment, _) = best_victim(core, None, None, least)?;
    is_durable(core, &segment).then_some(id)
}

/// Retires every empty segment that may go.
fn retire_empty(core: &Core) -> Result<Waiting> {
    let mut waiting = Waiting::default();
    let empty: Vec<(SegmentId, Segment)> = core.log.with_table(|table| {
        let empty = table
            .iter()
            .filter(|(_, s)| s.is_sealed_log() && s.live() == 0);
        empty.map(|(id, s)| (id, *s)).collect()
    });
    // Read in this order: a batch that displaced a record of these segments is either pending
    // still, or its commit is not younger than the newest.
    let pending = core.batches.pending_first();
    let needed = core.batches.last_commit();
    let unsynced =
        |s: &Segment| core.log.durable_seq() < s.last_displaced.max(s.last_seq).max(needed);
    let cut = core.checkpointed_cut.load(Ordering::Acquire);
    let covered = |s: &Segment| s.last_seq <= core.checkpointed() && s.removal_cut <= cut;
    if !is(Canary::RetiredBeforeDurable) && empty.iter().any(|(_, s)| covered(s) && unsynced(s)) {
        core.sync()?;
    }
    if empty.iter().any(|(id, _)| is_read(core, *id)) {
        core.snapshots.forget_unseen();
    }
    let copies = copies(core);
    for (id, segment) in empty {
        // What snapshots read of it fills it: moving that would gain nothing, again and again.
        if gain(core, &segment, 0, copies.get(&id)) == 0 {
            continue;
        }
        if !covered(&segment) {
            waiting.for_checkpoint += 1;
            continue;
        }
        if core.findings.is_kept_out(segment.birth) {
            continue;
        }
        let is_early = unsynced(&segment) && !is(Canary::RetiredBeforeDurable);
        if is_early || pending.is_some_and(|first| segment.last_displaced >= first) {
            continue;
        }
        let agree = segment.displaced_sum == segment.appended_sum && !segment.voided;
        // Chunks of a large value go with its head, which therefore must be read before it goes.
        if !agree || segment.heads || is_read(core, id) {
            // Verifying may give a stranger its entry back: then the next step retires it.
            let is_known = agree && !segment.heads;
            match is_known.then(|| harvest_versions(core, id, &segment)) {
                Some(Some(harvest)) => move_out(core, id, harvest)?,
                _ => collect(core, id)?,
            }
            if is_read(core, id) || !agree && heal_segment(core, id)? {
                continue;
            }
            core.sync()?;
        }
        core.discard_and_release(id);
        core.counters.gc_segments.add(1);
        waiting.retired += 1;
    }
    Ok(waiting)
}

/// Copies of dead versions that snapshots read, by segment.
fn copies(core: &Core) -> HashMap<SegmentId, u32> {
    let geometry = core.log.geometry();
    core.snapshots.copies_in(|at| geometry.segment_at(at))
}

/// What collecting a segment would free of whose records so many have expired; 0 if that is so little
/// that it is no gain.
fn gain(core: &Core, segment: &Segment, expired: u32, copies: Option<&u32>) -> u64 {
    let segment_bytes = core.log.geometry().segment_bytes;
    let copied_bytes = segment.mean_bytes(copies.copied().unwrap_or(0));
    // Of the live ones as many as of all.
    let lasting = u64::from(segment.records.saturating_sub(expired));
    let live_bytes = segment.live_bytes() * lasting / u64::from(segment.records.max(1));
    let needed = live_bytes + copied_bytes;
    let garbage = segment.used_bytes.saturating_sub(needed);
    let unused = segment_bytes.saturating_sub(segment.used_bytes.max(needed));
    let gain = garbage + unused.saturating_sub(UNFIT_BYTES);
    if gain < segment_bytes / GAIN_MIN_DIVISOR {
        0
    } else {
        gain
    }
}

/// True if a snapshot may need something in the segment that the index does not know.
fn is_read(core: &Core, id: SegmentId) -> bool {
    core.snapshots.has_noted(id) || core.snapshots.has_copies(places(core, id))
}

fn places(core: &Core, id: SegmentId) -> Range<Location> {
    let geometry = core.log.geometry();
    geometry.location(geometry.start(id))..geometry.location(geometry.end(id))
}

/// The segment whose collection gains most for its cost: much garbage, and old, so that what is
/// still alive will stay so. One that was read ahead is it, if it still may be.
fn choose_victim(core: &Core) -> Option<SegmentId> {
    let mut best = best_victim(core, core.ahead.peek(), None, 1);
    // Reading what has expired elsewhere costs less than moving half a segment.
    let is_good = |(_, s, gain): &(SegmentId, Segment, u64)| *gain >= s.used_bytes / 2;
    if !best.as_ref().is_some_and(is_good) && learn_expiries(core) {
        best = best_victim(core, None, None, 1);
    }
    let best = best.map(|(id, segment, _)| (id, segment));
    let (id, segment) = best.or_else(|| untold_heads(core))?;
    is_durable(core, &segment).then_some(id)
}

/// Only durable records are moved.
fn is_durable(core: &Core, segment: &Segment) -> bool {
    segment.last_seq <= core.log.durable_seq() || core.sync().is_ok()
}

/// A segment that may hold dead heads of large values of an earlier run: their chunks, elsewhere, count
/// as live until it is read. The one with most dead records.
fn untold_heads(core: &Core) -> Option<(SegmentId, Segment)> {
    let pending = core.batches.pending_first().unwrap_or(SeqNo::MAX);
    core.log.with_table(|table| {
        let is_one =
            |s: &Segment| s.is_sealed_log() && s.untold_heads && s.live() > 0 && s.dead > 0;
        let candidates = table
            .iter()
            .filter(|(_, s)| is_one(s) && s.last_seq < pending)
            .filter(|(_, s)| !core.findings.is_quarantined(s.birth));
        candidates
            .max_by_key(|(_, s)| s.dead)
            .map(|(id, s)| (id, *s))
    })
}

/// A victim that gains so much at least, and what it gains. `first` is the best if it is a victim at all,
/// `but_not` is none.
fn best_victim(
    core: &Core,
    first: Option<SegmentId>,
    but_not: Option<SegmentId>,
    gain_min: u64,
) -> Option<(SegmentId, Segment, u64)> {
    let pending = core.batches.pending_first().unwrap_or(SeqNo::MAX);
    let segment_bytes = core.log.geometry().segment_bytes;
    let copies = copies(core);
    let (now, horizon) = (core.now_ms(), horizon(core));
    core.log.at_cut(|_, next_birth, table| {
        // What a snapshot keeps from going would only be moved.
        let expired = |id: SegmentId, s: &Segment| match s.last_seq <= horizon {
            true => table.expired(id, now),
            false => 0,
        };
        let score = |s: &Segment, gain: u64| {
            let age = u64::from(next_birth.0 - s.birth.0);
            let cost = 2 * segment_bytes - gain;
            (((u128::from(gain) * u128::from(age)) << 20) / u128::from(cost)) as u64
        };
        let candidates = table.iter().filter(|(id, s)| {
            but_not != Some(*id)
                && s.is_sealed_log()
                && s.live() > 0
                && s.last_seq < pending
                && !core.findings.is_quarantined(s.birth)
        });
        candidates
            .map(|(id, s)| (id, *s, gain(core, s, expired(id, s), copies.get(&id))))
            .filter(|(_, _, gain)| *gain >= gain_min)
            .max_by_key(|(id, s, gain)| (first == Some(*id), score(s, *gain)))
    })
}

/// What a victim holds that must not go with it.
#[derive(Default)]
struct Harvest<'r> {
    live: Vec<RecordAt<'r>>,
    retained: Vec<(DeadVersion, OwnedRecord)>,
    dead_heads: Vec<OwnedRecord>,
    /// All of the segment was read, and no batch in flight decides on what it holds.
    is_settled: bool,
    /// Its sums do not tell of a record that lost its entry to another key.
    is_even: bool,
}

pub(crate) struct RecordAt<'r> {
    location: Location,
    record: Record<'r>,
    /// The keyed hash of its key.
    hash: u64,
}

impl<'r> RecordAt<'r> {
    pub(crate) fn new(core: &Core, location: Location, record: Record<'r>) -> RecordAt<'r> {
        RecordAt {
            location,
            hash: hash_of(core, &record),
            record,
        }
    }

    fn head(&self) -> Head {
        Head {
            location: self.location,
            asked: Asked::of(self.record.seq),
        }
    }

    fn prepare(&self) -> PreparedKey<'r> {
        PreparedKey::of_hashed(self.hash, self.record.header.keyspace, self.record.key)
    }
}

/// Collects a victim while the next one is being read.
fn collect_reading_ahead(core: &Core, victim: SegmentId) -> Result<()> {
    let durable = core.log.durable_seq();
    // First: what was read ahead may be this one.
    let Some(records) = load(core, victim)? else {
        return Ok(());
    };
    let harvest = harvest(core, victim, &records);
    let next = best_victim(core, None, Some(victim), 1)
        .filter(|(_, s, _)| s.last_seq <= durable && core.settings.environment.threads() > 1);
    heliox_sync::thread::scope(|scope| {
        if let Some((id, segment, _)) = &next {
            let read = || core.ahead.read(&core.log, *id, segment);
            // Without a thread it is read when its turn comes.
            let _ = heliox_sync::thread::spawn_scoped(scope, read);
        }
        move_out(core, victim, harvest)
    })?;
    core.ahead.give_back(records);
    Ok(())
}

/// Leaves out, until the store is opened again, a segment of which all was read and nothing is live, and which
/// counts as live in part: whoever waits for room would see it collected for ever.
fn leave_if_hollow(core: &Core, id: SegmentId) {
    let segment = core.log.segment(id);
    if segment.live() > 0 {
        core.findings.quarantine(segment.birth);
    }
}

/// Moves everything that is needed out of a segment.
fn collect(core: &Core, id: SegmentId) -> Result<()> {
    if let Some(records) = load(core, id)? {
        move_out(core, id, harvest(core, id, &records))?;
        core.ahead.give_back(records);
    }
    Ok(())
}

/// Moves what is needed of a segment. Where that fails half way, snapshots find what was not copied
/// where it was.
fn move_out(core: &Core, id: SegmentId, mut harvest: Harvest<'_>) -> Result<()> {
    let retained = std::mem::take(&mut harvest.retained);
    let mut copied = 0;
    let moved = move_all(core, id, &harvest, &retained, &mut copied);
    if harvest.is_settled && harvest.live.is_empty() {
        leave_if_hollow(core, id);
    }
    if moved.is_err() {
        let left = retained.iter().skip(copied);
        // A copy of an earlier collection stays noted as what it is.
        let noted = left.filter(|(_, record)| record.header.kind != RecordKind::Retained);
        core.snapshots.put_back(id, noted.map(|(dead, _)| *dead));
    }
    moved
}

fn move_all(
    core: &Core,
    id: SegmentId,
    harvest: &Harvest<'_>,
    retained: &[(DeadVersion, OwnedRecord)],
    copied: &mut usize,
) -> Result<()> {
    let mut is_settled = harvest.is_settled;
    // While the sums tell of a stranger, it may be one of these.
    is_settled &= harvest.dead_heads.is_empty() || harvest.is_even;
    // First: chunks of theirs that lie here need not be moved then.
    for head in harvest.dead_heads.iter().filter(|_| harvest.is_even) {
        is_settled &= forget_chunks(core, head)?;
    }
    is_settled &= move_live(core, id, &harvest.live)?;
    for (original, record) in retained {
        retain(core, *original, record)?;
        *copied += 1;
        keep_tail_small(core)?;
    }
    if is_settled {
        core.log.note_heads_settled(id);
    }
    Ok(())
}

/// Moves what is live, in the order of the keys. False if a head of a large value was overwritten meanwhile: it is
/// dead by now, and nobody looked at it as such.
fn move_live(core: &Core, id: SegmentId, live: &[RecordAt<'_>]) -> Result<bool> {
    let mut sorted: Vec<&RecordAt<'_>> = live.iter().collect();
    sorted.sort_by_key(|at| (at.record.header.keyspace, at.record.key));
    let reaped = reap_live(core, &sorted)?;
    let (birth, mut is_settled) = (core.log.segment(id).birth, true);
    for group in sorted.chunks(MOVES) {
        let keys: SmallVec<[PreparedKey<'_>; MOVES]> =
            group.iter().map(|at| at.prepare()).collect();
        core.index.expect_updates(&keys);
        let old = group.iter().map(|at| (at.location, birth));
        core.cache.expect_inserts(old);
        for (survivor, key) in group.iter().zip(&keys) {
            if reaped.contains(&survivor.location) {
                continue;
            }
            let is_gone = drop_if_gone(core, survivor, horizon(core))?;
            let is_moved = !is_gone && move_prepared(core, survivor, key)?;
            core.counters.gc_moved_records.add(u64::from(is_moved));
            is_settled &= is_gone || is_moved || !survivor.record.header.chunked;
            keep_tail_small(core)?;
            core.settings.environment.breathe();
        }
    }
    Ok(is_settled)
}

/// Takes the entries of those tombstones away that nobody needs any more, as a sweep does: one that
/// was moved would be garbage soon. Gives their places.
fn reap_live(core: &Core, live: &[&RecordAt<'_>]) -> Result<HashSet<Location>> {
    let upto = reapable(core);
    let due = live.iter().filter(|at| {
        let record = &at.record;
        record.header.kind == RecordKind::Tombstone && record.seq <= upto
    });
    let due: Vec<(Head, OwnedRecord)> = due
        .map(|at| (at.head(), OwnedRecord::of(&at.record)))
        .collect();
    let mut reaped = HashSet::new();
    for batch in due.chunks(TOMBSTONES_PER_BATCH) {
        let batch: Vec<(Head, &OwnedRecord)> = batch.iter().map(|(head, r)| (*head, r)).collect();
        let (fates, ended) = reap_known(core, &batch);
        ended?;
        let gone = batch.iter().zip(fates).filter(|(_, f)| *f == Fate::Gone);
        reaped.extend(gone.map(|((head, _), _)| head.location));
    }
    Ok(reaped)
}

/// Deletes the chunks of a dead head. False if it cannot be read whether it is in use.
fn forget_chunks(core: &Core, head: &OwnedRecord) -> Result<bool> {
    let done = match large::forget_dead(core, head) {
        Err(error) if core.is_unreadable(&error) => return Ok(false),
        done => done,
    };
    keep_tail_small(core)?;
    done.map(|()| true)
}

/// All records of a segment; none if they cannot be read.
fn load(core: &Core, id: SegmentId) -> Result<Option<SegmentRecords>> {
    let segment = core.log.segment(id);
    let why = match core.ahead.take(&core.log, id, &segment) {
        Ok(records) if records.birth() == segment.birth => {
            core.counters.gc_bytes_read.add(records.loaded_bytes());
            return Ok(Some(records));
        }
        Ok(_) => "its header is of another life".to_owned(),
        Err(LogError::Ended) => return Err(Error::closed()),
        Err(error) => error.to_string(),
    };
    // What snapshots read of it stays where it is. An empty segment whose place was reused before a crash
    // has nothing else to find.
    if segment.live() > 0 {
        core.note_damage(id, segment.birth, &why);
    }
    Ok(None)
}

fn harvest<'r>(core: &Core, id: SegmentId, records: &'r SegmentRecords) -> Harvest<'r> {
    let segment = core.log.segment(id);
    let mut harvest = Harvest::default();
    let notes = core.snapshots.take_noted(id);
    let mut notes: HashMap<Location, DeadVersion> = notes
        .into_iter()
        .map(|note| (note.location, note))
        .collect();
    let mut group = Vec::with_capacity(LOOKUPS);
    let upto = |(_, record): &(Location, Record<'r>)| record.seq <= segment.last_seq;
    for (location, record) in records.iter().filter(upto) {
        group.push(RecordAt::new(core, location, record));
        if group.len() == LOOKUPS {
            sort_out(core, &mut harvest, &mut notes, &mut group);
        }
    }
    sort_out(core, &mut harvest, &mut notes, &mut group);
    let damage = records.damage();
    harvest.is_settled = damage.is_none() && core.batches.pending_first().is_none();
    harvest.is_even = is_even(
        core,
        id,
        harvest.live.iter().map(|at| (at.location, at.hash)),
    );
    if damage.is_some() {
        core.snapshots.put_back(id, notes.into_values());
    }
    // It stays in place: what can be read of it is moved, the rest stays reported.
    if let Some(damage) = damage.filter(|_| segment.live() > 0) {
        core.note_damage(id, segment.birth, &damage.to_string());
    }
    harvest
}

/// As [`harvest`], of an emptied segment: what snapshots may read of it, without the rest. None if that is
/// too much to be read one by one, or cannot be read.
fn harvest_versions(core: &Core, id: SegmentId, segment: &Segment) -> Option<Harvest<'static>> {
    let notes = core.snapshots.take_noted(id);
    let copies = core.snapshots.copies_at(places(core, id));
    let noted = notes.iter().map(|note| (note.location, *note));
    let versions: Vec<(Location, DeadVersion)> = noted.chain(copies).collect();
    let is_few = versions.len() <= segment.records as usize / VERSIONS_PART;
    let locations: Vec<Location> = versions.iter().map(|(at, _)| *at).collect();
    // What cannot be read is met again where all of the segment is.
    let read = || read_places(core, &locations, OwnedRecord::of);
    let records = is_few.then(|| read().into_iter().collect::<Option<Vec<_>>>());
    let Some(records) = records.flatten() else {
        core.snapshots.put_back(id, notes.into_iter());
        return None;
    };
    let mut harvest = Harvest::default();
    for ((_, dead), record) in versions.into_iter().zip(records) {
        sort_out_dead(core, &mut harvest, Some(dead), &record.record());
    }
    Some(harvest)
}

/// Tells the records of a group that are needed from those that are not; the group is empty then.
fn sort_out<'r>(
    core: &Core,
    harvest: &mut Harvest<'r>,
    notes: &mut HashMap<Location, DeadVersion>,
    group: &mut Vec<RecordAt<'r>>,
) {
    let keys: Vec<PreparedKey<'_>> = group.iter().map(RecordAt::prepare).collect();
    let mut found = Vec::with_capacity(keys.len());
    core.index.lookup_many(&keys, &mut found);
    for (at, matches) in group.drain(..).zip(found) {
        match at.record.header.kind {
            RecordKind::Put | RecordKind::Tombstone => {
                if matches.iter().any(|e| e.location == at.location) {
                    harvest.live.push(at);
                    continue;
                }
                let noted = notes.remove(&at.location);
                sort_out_dead(core, harvest, noted, &at.record);
            }
            RecordKind::Retained => {
                let original = core.snapshots.original_of(at.location);
                sort_out_dead(core, harvest, original, &at.record);
            }
            RecordKind::Commit | RecordKind::RangeDelete | RecordKind::Keyspace => {}
        }
    }
}

/// A dead version is copied if a snapshot sees it; else it goes, and what lies below it stays
/// within reach.
fn sort_out_dead(
    core: &Core,
    harvest: &mut Harvest<'_>,
    noted: Option<DeadVersion>,
    record: &Record<'_>,
) {
    if let Some(dead) = noted {
        if core.snapshots.needs(record.version(), dead.death) {
            harvest.retained.push((dead, OwnedRecord::of(record)));
            return;
        }
        core.snapshots
            .drop_version(dead, record.version(), older_version(record));
    }
    if record.header.chunked {
        harvest.dead_heads.push(OwnedRecord::of(record));
    }
}

/// Every snapshot, those to come included, sees all range deletes up to this order.
fn horizon(core: &Core) -> SeqNo {
    // Read first: a snapshot that is taken from here on is not older.
    let now = core.log.last_seq();
    core.snapshots.oldest().unwrap_or(now)
}

/// Takes the entry of a record away that has expired, or that a range delete up to the horizon
/// covers. The removal is not logged: the segment waits for a checkpoint that covers it.
fn drop_if_gone(core: &Core, at: &RecordAt<'_>, horizon: SeqNo) -> Result<bool> {
    let record = &at.record;
    if record.is_tombstone() {
        return Ok(false);
    }
    // A snapshot that is older than the record reads what the record displaced.
    let expired =
        record.header.expiry_ms.is_some_and(|e| e <= core.now_ms()) && record.version() <= horizon;
    let keyspace = record.header.keyspace;
    let covered = core
        .ranges
        .covers(keyspace, record.key, record.version(), horizon);
    if !expired && !covered {
        return Ok(false);
    }
    let dropped = remove_entry(core, &core.prepare(keyspace, record.key), at.head())?;
    if dropped {
        core.counters.expired_dropped.add(u64::from(expired));
        if record.header.chunked {
            forget_chunks(core, &OwnedRecord::of(record))?;
        }
    }
    Ok(dropped)
}

/// Copies a record that is live still. False if it is not any more.
pub(crate) fn move_one(core: &Core, at: &RecordAt<'_>) -> Result<bool> {
    move_prepared(core, at, &at.prepare())
}

fn move_prepared(core: &Core, at: &RecordAt<'_>, key: &PreparedKey<'_>) -> Result<bool> {
    let record = &at.record;
    let header = record.header;
    let mut copy = NewRecord::new(header.kind, header.keyspace, record.key, record.value);
    copy.version = Some(record.version());
    copy.link = header.older();
    copy.expiry_ms = header.expiry_ms;
    if is(Canary::ExpiryForgotten) {
        copy.expiry_ms = None;
    }
    if is(Canary::MoveForgetsVersion) {
        copy.version = Some(core.log.last_seq());
    }
    copy.chunked = header.chunked;
    let expect = Expect::Holds(at.location);
    let installed = append_and_install(core, key, &copy, Stream::Survivor, &expect, None)?;
    if let Installed::Done { appended, .. } = installed {
        if header.kind == RecordKind::Tombstone {
            if core.log.is_settled(at.location) {
                mark_kept(core, appended.location, appended.seq);
            }
            core.tombstones.add([Tombstone::of(&appended)]);
        }
        return Ok(true);
    }
    Ok(false)
}

/// Copies a dead version that a snapshot reads, and says where it is now.
fn retain(core: &Core, original: DeadVersion, record: &OwnedRecord) -> Result<()> {
    let view = record.record();
    let header = view.header;
    let mut copy = NewRecord::new(RecordKind::Retained, header.keyspace, view.key, view.value);
    copy.version = Some(view.version());
    copy.link = header.older();
    copy.expiry_ms = header.expiry_ms;
    copy.chunked = header.chunked;
    copy.retained_tombstone = view.is_tombstone();
    let appended = core.log.append(Stream::Survivor, &copy)?;
    core.snapshots.note_copy(original, appended.location);
    Ok(())
}

#[cfg(test)]
mod tests;
