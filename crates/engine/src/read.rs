//! Reading one key: index, then location, then cache, tail or one media read, then verify.
//!
//! The index answers with the entries that may be the key's. Each entry is the head of a chain of
//! versions: a record of another key (a stranger's displacer), one that is younger than the
//! snapshot, or one of a pending batch is passed over to the next older one.

use std::cell::RefCell;

use heliox_format::bytes::{Reader, StackBytes, WriteBytes};
use heliox_format::ids::{Birth, KeyspaceId, Location, SegmentId, SeqNo};
use heliox_format::record::{
    decode_header, Decoded, Record, RecordHeader, RecordKind, RECORD_HEADER_BYTES_MAX,
};
use heliox_index::{Entry, PreparedKey};
use heliox_log::read::{Found, ReadBuf};
use heliox_log::sums::{difference, Settlement};
use heliox_sync::thread;
use smallvec::SmallVec;

use crate::core::{Asked, Core, Head};
use crate::error::Result;
use crate::snapshots::DeadVersion;

/// How often a read that meets stale locations asks the index again before it gives up.
const RETRIES_MAX: usize = 100_000;
/// Records longer than this are not cached.
const CACHED_BYTES_MAX: usize = 16 << 10;
/// What precedes the key of a cached record: its order and its header.
const CACHED_HEAD_BYTES_MAX: usize = 10 + RECORD_HEADER_BYTES_MAX;

/// Which versions a reader sees.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum View {
    /// The newest.
    Latest,
    /// The newest up to this order.
    At(SeqNo),
}

impl View {
    pub(crate) fn limit(self) -> SeqNo {
        match self {
            View::Latest => SeqNo::MAX,
            View::At(seq) => seq,
        }
    }
}

/// Memory that a read works in, one per thread.
#[derive(Default)]
pub(crate) struct Scratch {
    read: ReadBuf,
    cached: Vec<u8>,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// Runs `work` with the thread's scratch memory, or with fresh memory if it is in use.
pub(crate) fn with_scratch<R>(work: impl FnOnce(&mut Scratch) -> R) -> R {
    SCRATCH.with(|scratch| match scratch.try_borrow_mut() {
        Ok(mut scratch) => work(&mut scratch),
        Err(_) => work(&mut Scratch::default()),
    })
}

/// What a chain of versions says of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Chain {
    /// The entry is outdated: ask the index again.
    Stale,
    /// The chain holds no version of the key that the view sees.
    Absent,
    /// The version that the view sees, of this order, says that the key is not there.
    Deleted(SeqNo),
    /// The version that the view sees, of this order, has a value.
    Value(SeqNo),
}

/// Calls `sink` with the version of the key that the view sees; false if there is none. `sink` may run
/// under a lock of the cache: it must not read.
pub(crate) fn get(
    core: &Core,
    key: &PreparedKey<'_>,
    view: View,
    sink: &mut dyn FnMut(&Record<'_>) -> Result<()>,
) -> Result<bool> {
    for attempt in 0..RETRIES_MAX {
        let asked = core.asked();
        let matches = core.index.lookup(key);
        let answer = match matches[..] {
            [] => return Ok(false),
            [entry] => with_scratch(|scratch| {
                let head = Head {
                    location: entry.location,
                    asked,
                };
                follow_chain(core, key, head, view, scratch, sink)
            })?,
            _ => {
                let head = |e: &Entry| Head {
                    location: e.location,
                    asked,
                };
                let heads: SmallVec<[Head; 4]> = matches.iter().map(head).collect();
                newest_of(core, key, &heads, view, sink)?
            }
        };
        match answer {
            Chain::Stale => back_off(attempt),
            Chain::Absent | Chain::Deleted(_) => return Ok(false),
            Chain::Value(_) => return Ok(true),
        }
    }
    Err(core.fail_internal("an index entry points to no record"))
}

pub(crate) fn back_off(attempt: usize) {
    if attempt < 16 {
        thread::spin_loop();
    } else {
        thread::yield_now();
    }
}

/// Where several entries may be the key's, the newest version of all chains decides.
fn newest_of(
    core: &Core,
    key: &PreparedKey<'_>,
    heads: &[Head],
    view: View,
    sink: &mut dyn FnMut(&Record<'_>) -> Result<()>,
) -> Result<Chain> {
    let mut best = (SeqNo::ZERO, Chain::Absent, None);
    for head in heads {
        let mut copy: Option<OwnedRecord> = None;
        let answer = with_scratch(|scratch| {
            follow_chain(core, key, *head, view, scratch, &mut |record| {
                copy = Some(OwnedRecord::of(record));
                Ok(())
            })
        })?;
        match answer {
            Chain::Stale => return Ok(Chain::Stale),
            Chain::Absent => {}
            Chain::Deleted(seq) | Chain::Value(seq) => {
                if seq >= best.0 {
                    best = (seq, answer, copy);
                }
            }
        }
    }
    if let (Chain::Value(_), Some(copy)) = (best.1, &best.2) {
        sink(&copy.record())?;
    }
    Ok(best.1)
}

/// Walks the versions from the entry at `head` on to the one of the key that the view sees, and
/// gives it to `sink` if it has a value.
pub(crate) fn follow_chain(
    core: &Core,
    key: &PreparedKey<'_>,
    head: Head,
    view: View,
    scratch: &mut Scratch,
    sink: &mut dyn FnMut(&Record<'_>) -> Result<()>,
) -> Result<Chain> {
    let mut older = match look_first(core, key, view, head, scratch, sink)? {
        None => return Ok(Chain::Stale),
        Some(Look::Answer(answer)) => return Ok(answer),
        Some(Look::Older(older)) => older,
    };
    while let Some(dead) = older {
        let Some(record) = read_version(core, dead, scratch)? else {
            break;
        };
        older = match look(core, key, view, head, &record.record(), sink)? {
            Look::Answer(answer) => return Ok(answer),
            Look::Older(older) => older,
        };
    }
    Ok(Chain::Absent)
}

/// Looks at the record that the entry at `head` points to, in the cache where it is there; none if the
/// entry is outdated.
fn look_first(
    core: &Core,
    key: &PreparedKey<'_>,
    view: View,
    head: Head,
    scratch: &mut Scratch,
    sink: &mut dyn FnMut(&Record<'_>) -> Result<()>,
) -> Result<Option<Look>> {
    let cached = look_in_cache(core, head.location, |record| match is_stale(core, head) {
        true => Ok(None),
        false => look(core, key, view, head, record, sink).map(Some),
    });
    if let Some(seen) = cached {
        return seen;
    }
    let record = read_entry(core, head, &mut scratch.read)?;
    record
        .map(|record| look(core, key, view, head, &record, sink))
        .transpose()
}

/// The newest record of a key that lies under records of another key.
pub(crate) struct Hidden {
    pub(crate) seq: SeqNo,
    pub(crate) version: SeqNo,
    /// What settles it, if it still lies where it was displaced.
    pub(crate) settlement: Option<Settlement>,
}

/// Where a key is in the chain of an entry, whatever a view would see.
pub(crate) enum Traced {
    /// The entry's own record is of the key.
    Own,
    /// A record of the key lies under records of another key.
    Hidden(Hidden),
    /// The chain is whole and holds no record of the key.
    Origin,
    /// The chain leads to a record that is gone.
    Broken,
    /// The entry is outdated.
    Stale,
}

/// Looks for the key in the chain of the entry at `head`.
pub(crate) fn trace(
    core: &Core,
    key: &PreparedKey<'_>,
    head: Head,
    scratch: &mut Scratch,
) -> Result<Traced> {
    let is_own = |r: &Record<'_>| r.key == key.key() && r.header.keyspace == key.keyspace();
    let Some(record) = fetch(core, head, scratch)? else {
        return Ok(Traced::Stale);
    };
    if is_own(&record) {
        return Ok(Traced::Own);
    }
    let mut older = older_version(&record);
    let mut by = hash_of(core, &record);
    while let Some(dead) = older {
        let Some(linked) = read_link(core, dead, scratch)? else {
            return Ok(Traced::Broken);
        };
        let record = linked.record.record();
        if is_own(&record) {
            return Ok(Traced::Hidden(Hidden {
                seq: record.seq,
                version: record.version(),
                settlement: settlement(core, &linked, by),
            }));
        }
        by = hash_of(core, &record);
        older = older_version(&record);
    }
    Ok(Traced::Origin)
}

pub(crate) fn hash_of(core: &Core, record: &Record<'_>) -> u64 {
    PreparedKey::hash_of(core.hash_seed, record.header.keyspace, record.key)
}

/// What settles a record that was displaced by one of another key, with the hash `by`.
pub(crate) fn settlement(core: &Core, linked: &Linked, by: u64) -> Option<Settlement> {
    let location = linked.place?;
    let own = hash_of(core, &linked.record.record());
    Some(Settlement {
        location,
        seq: linked.record.seq,
        difference: difference(location, own, by),
    })
}

enum Look {
    Answer(Chain),
    Older(Option<DeadVersion>),
}

fn look(
    core: &Core,
    key: &PreparedKey<'_>,
    view: View,
    head: Head,
    record: &Record<'_>,
    sink: &mut dyn FnMut(&Record<'_>) -> Result<()>,
) -> Result<Look> {
    let same = record.key == key.key() && record.header.keyspace == key.keyspace();
    if !same {
        return Ok(Look::Older(older_version(record)));
    }
    if !is_visible(core, record, view) {
        return Ok(Look::Older(older_version(record)));
    }
    let version = record.version();
    if is_gone(core, record, view) {
        return Ok(Look::Answer(Chain::Deleted(version)));
    }
    if is_outdated(core, head.asked) {
        return Ok(Look::Answer(Chain::Stale));
    }
    sink(record)?;
    Ok(Look::Answer(Chain::Value(version)))
}

/// True if the view sees the record (be it a value or a tombstone).
pub(crate) fn is_visible(core: &Core, record: &Record<'_>, view: View) -> bool {
    match view {
        View::Latest => !core.batches.is_pending(record),
        View::At(seq) => record.version() <= seq && !core.batches.is_pending(record),
    }
}

/// True if the record, which the view sees, says that the key is not there.
pub(crate) fn is_gone(core: &Core, record: &Record<'_>, view: View) -> bool {
    record.is_tombstone()
        || record
            .header
            .expiry_ms
            .is_some_and(|at| at <= core.now_ms())
        || core.ranges.covers(
            record.header.keyspace,
            record.key,
            record.version(),
            view.limit(),
        )
}

/// True if an interval of a range delete was dropped since the index was asked: it may have covered
/// what was found. To be asked last.
pub(crate) fn is_outdated(core: &Core, asked: Asked) -> bool {
    core.ranges.dropped() != asked.dropped
}

/// The next older record of the chain, with the order that displaced it.
pub(crate) fn older_version(record: &Record<'_>) -> Option<DeadVersion> {
    let location = record.header.older()?;
    Some(DeadVersion {
        location,
        death: record.version(),
    })
}

/// The record that an index entry points to; none if the entry is outdated.
pub(crate) fn fetch<'s>(
    core: &Core,
    head: Head,
    scratch: &'s mut Scratch,
) -> Result<Option<Record<'s>>> {
    let Scratch { read, cached } = scratch;
    let copy = |bytes: &[u8]| {
        cached.clear();
        cached.extend_from_slice(bytes);
    };
    let place = named(core, head.location);
    match place.and_then(|(location, birth)| core.cache.get(location, birth, copy)) {
        Some(()) => Ok(decode_cached(cached).filter(|_| !is_stale(core, head))),
        None => read_entry(core, head, read),
    }
}

/// As [`fetch`], where the cache does not have it.
fn read_entry<'s>(core: &Core, head: Head, read: &'s mut ReadBuf) -> Result<Option<Record<'s>>> {
    let location = head.location;
    if core.log.geometry().segment_at(location).is_none() {
        return Err(core.fail_internal("an index entry points beyond the store"));
    }
    let found = core.log.read(location, read);
    if is_stale(core, head) {
        return Ok(None);
    }
    let found = found.inspect_err(|error| core.note_damaged_read(location, error))?;
    if let Some(found) = &found {
        note_read(core, location, found);
    }
    Ok(found.map(|f| f.record))
}

/// As [`fetch`], of many entries with one submission of reads, and without the values of users. For
/// background work: what is read does not go into the cache.
pub(crate) fn fetch_many(core: &Core, heads: &[Head]) -> Vec<Result<Option<OwnedRecord>>> {
    let mut records: Vec<Option<OwnedRecord>> = heads
        .iter()
        .map(|head| look_in_cache(core, head.location, OwnedRecord::without_value))
        .collect();
    let missing: Vec<usize> = (0..heads.len()).filter(|n| records[*n].is_none()).collect();
    read_missing(core, &missing, &|n| heads[n].location, &mut records);
    let of = |(head, record): (&Head, Option<OwnedRecord>)| match record {
        _ if is_stale(core, *head) => Ok(None),
        Some(record) => Ok(Some(record)),
        // Gone, or not to be read with the others: by itself it shows which.
        None => with_scratch(|scratch| {
            Ok(fetch(core, *head, scratch)?.map(|r| OwnedRecord::without_value(&r)))
        }),
    };
    heads.iter().zip(records).map(of).collect()
}

/// As [`read_places`], of the records of those numbers, without the values of users.
fn read_missing(
    core: &Core,
    missing: &[usize],
    place: &dyn Fn(usize) -> Location,
    records: &mut [Option<OwnedRecord>],
) {
    let locations: Vec<Location> = missing.iter().map(|n| place(*n)).collect();
    let read = read_places(core, &locations, OwnedRecord::without_value);
    missing.iter().zip(read).for_each(|(n, r)| records[*n] = r);
}

/// Reads what lies at those places with one submission, copied by `copy`; none where that fails: whoever
/// asks reads what is left in another way, and meets the error there.
pub(crate) fn read_places(
    core: &Core,
    locations: &[Location],
    copy: impl Fn(&Record<'_>) -> OwnedRecord,
) -> Vec<Option<OwnedRecord>> {
    let mut records = vec![None; locations.len()];
    let _ = with_read_buf(|buf| {
        core.log.read_many(locations, buf, &mut |i, found| {
            if let (Some(slot), Ok(Some(found))) = (records.get_mut(i), found) {
                *slot = Some(copy(&found.record));
            }
        })
    });
    records
}

/// True if the place's segment began after the index was asked: what was read there since may be of
/// another record than the one meant, or of a checkpoint.
pub(crate) fn is_stale(core: &Core, head: Head) -> bool {
    let segment = core.log.geometry().segment_at(head.location);
    segment.is_some_and(|id| core.log.views().first_seq(id) > head.asked.seq)
}

/// True if the place is still in the life in which the index was asked.
pub(crate) fn is_alive(core: &Core, head: Head) -> bool {
    named(core, head.location).is_some_and(|(_, birth)| birth.0 != 0) && !is_stale(core, head)
}

/// Runs `work` with the thread's memory for reads.
pub(crate) fn with_read_buf<R>(work: impl FnOnce(&mut ReadBuf) -> R) -> R {
    with_scratch(|scratch| work(&mut scratch.read))
}

/// The record at a location as the cache names it now.
pub(crate) fn named(core: &Core, location: Location) -> Option<(Location, Birth)> {
    let segment = core.log.geometry().segment_at(location)?;
    Some((location, core.log.views().birth(segment)))
}

/// Shows a record to `look` if the cache holds it, under the cache's lock.
pub(crate) fn look_in_cache<R>(
    core: &Core,
    location: Location,
    look: impl FnOnce(&Record<'_>) -> R,
) -> Option<R> {
    let (location, birth) = named(core, location)?;
    core.cache
        .get(location, birth, |bytes| {
            decode_cached(bytes).map(|r| look(&r))
        })
        .flatten()
}

/// A record that the cache holds.
pub(crate) fn cached(core: &Core, location: Location) -> Option<OwnedRecord> {
    look_in_cache(core, location, OwnedRecord::of)
}

/// Counts a read of media and keeps the record.
pub(crate) fn note_read(core: &Core, location: Location, found: &Found<'_>) {
    if found.from_media {
        core.counters.foreground_reads.add(1);
        cache_record(core, location, found.birth, &found.record, Arrival::Read);
    }
}

/// What a link led to.
pub(crate) struct Linked {
    pub(crate) record: OwnedRecord,
    /// The location that the link names, if the record still lies there.
    pub(crate) place: Option<Location>,
}

/// As [`read_link`], the record alone.
pub(crate) fn read_version(
    core: &Core,
    dead: DeadVersion,
    scratch: &mut Scratch,
) -> Result<Option<OwnedRecord>> {
    Ok(read_link(core, dead, scratch)?.map(|linked| linked.record))
}

/// The record that a link points to, in its place or where garbage collection copied it; if it
/// was dropped because no snapshot sees it, the next older one that was not.
pub(crate) fn read_link(
    core: &Core,
    dead: DeadVersion,
    scratch: &mut Scratch,
) -> Result<Option<Linked>> {
    let mut next = Some(dead);
    while let Some(at) = next {
        if let Some(mut linked) = read_dead(core, at, scratch)? {
            // Of one further below nobody knows here what displaced it.
            linked.place = linked.place.filter(|_| at == dead);
            return Ok(Some(linked));
        }
        // No snapshot needed it, but one may need what lies below.
        next = core.snapshots.below(at);
    }
    Ok(None)
}

/// As [`read_link`], of many links with one submission of reads, without the values of users and where
/// they lie.
pub(crate) fn read_links(core: &Core, links: &[DeadVersion]) -> Vec<Result<Option<OwnedRecord>>> {
    let is_in_place = |link: &DeadVersion| {
        let segment = core.log.geometry().segment_at(link.location);
        segment.is_some_and(|id| is_link_alive(core, id, link.death))
    };
    let mut records = vec![None; links.len()];
    let alive = |n: &usize| is_in_place(&links[*n]);
    let missing: Vec<usize> = (0..links.len()).filter(alive).collect();
    read_missing(core, &missing, &|n| links[n].location, &mut records);
    let of = |(link, record): (&DeadVersion, Option<OwnedRecord>)| match record {
        Some(record) if is_in_place(link) => Ok(Some(record)),
        _ => {
            let linked = with_scratch(|scratch| read_link(core, *link, scratch))?;
            Ok(linked.map(|l| OwnedRecord::without_value(&l.record.record())))
        }
    };
    links.iter().zip(records).map(of).collect()
}

/// The record of one dead version, in its place or where it was copied.
fn read_dead(core: &Core, dead: DeadVersion, scratch: &mut Scratch) -> Result<Option<Linked>> {
    let segment = core.log.geometry().segment_at(dead.location);
    if let Some(id) = segment.filter(|id| is_link_alive(core, *id, dead.death)) {
        // Not through the cache: it holds what entries point to, and this is no such record.
        let found = core.log.read(dead.location, &mut scratch.read);
        // Emptied and given back by the run before, of which recovery does not know: whatever was
        // needed is elsewhere.
        let is_given_back = matches!(found, Err(heliox_log::LogError::Damaged(_)))
            && dead.death <= core.recovered
            && core.log.segment(id).live() == 0;
        if is_link_alive(core, id, dead.death) && !is_given_back {
            let found = found.inspect_err(|error| core.note_damaged_read(dead.location, error))?;
            return Ok(found.map(|f| Linked {
                record: OwnedRecord::of(&f.record),
                place: Some(dead.location),
            }));
        }
    }
    let mut last = None;
    loop {
        let asked = core.asked();
        let copy = core.snapshots.copy_of(dead);
        // A copy that cannot be read was moved on meanwhile; it is gone if it is still named so.
        let Some(location) = copy.filter(|_| copy != last) else {
            return Ok(None);
        };
        if let Some(record) = fetch(core, Head { location, asked }, scratch)? {
            return Ok(Some(Linked {
                record: OwnedRecord::of(&record),
                place: None,
            }));
        }
        last = copy;
    }
}

/// A link holds only if its target's segment is older than the record that links.
fn is_link_alive(core: &Core, segment: SegmentId, death: SeqNo) -> bool {
    let views = core.log.views();
    views.birth(segment).0 != 0 && views.first_seq(segment) <= death
}

// ---- the cache's form of a record: its order, its header, key and value ----

/// How a record comes into the cache.
#[derive(Clone, Copy)]
pub(crate) enum Arrival {
    /// It was read, perhaps by several at once.
    Read,
    /// It was written just now.
    New,
    /// It was written just now in the place of the record there.
    Successor(Location, Birth),
}

/// Keeps a record in the cache.
pub(crate) fn cache_record(
    core: &Core,
    location: Location,
    birth: Birth,
    record: &Record<'_>,
    arrival: Arrival,
) {
    if record.key.len() + record.value.len() > CACHED_BYTES_MAX {
        return;
    }
    let mut head = StackBytes::<CACHED_HEAD_BYTES_MAX>::default();
    let mut header = record.header;
    header.seq_gap = 0;
    head.put_varint(record.seq.0);
    header.encode(&mut head);
    let parts = [&head, record.key, record.value];
    match arrival {
        Arrival::Read => core.cache.insert(location, birth, &parts),
        Arrival::New => core.cache.insert_new(location, birth, &parts),
        Arrival::Successor(old, old_birth) => {
            core.cache
                .insert_successor((old, old_birth), location, birth, &parts);
        }
    }
}

fn decode_cached(bytes: &[u8]) -> Option<Record<'_>> {
    let mut reader = Reader::new(bytes);
    let seq = SeqNo(reader.varint()?);
    let rest = reader.rest();
    match decode_header(0, rest) {
        Ok(Decoded::Record(header, header_bytes)) => {
            let body = rest.get(header_bytes..header_bytes + header.body_bytes())?;
            let (key, value) = body.split_at(header.key_bytes as usize);
            Some(Record {
                header,
                seq,
                key,
                value,
            })
        }
        _ => None,
    }
}

/// A record that owns its bytes.
#[derive(Clone, Debug)]
pub(crate) struct OwnedRecord {
    pub(crate) header: RecordHeader,
    pub(crate) seq: SeqNo,
    pub(crate) key: Vec<u8>,
    pub(crate) value: Vec<u8>,
}

impl OwnedRecord {
    pub(crate) fn of(record: &Record<'_>) -> OwnedRecord {
        OwnedRecord {
            header: record.header,
            seq: record.seq,
            key: record.key.to_vec(),
            value: record.value.to_vec(),
        }
    }

    /// What records are sorted by, as the index has them.
    pub(crate) fn sort_key(&self) -> (KeyspaceId, &[u8]) {
        (self.header.keyspace, &self.key)
    }

    pub(crate) fn record(&self) -> Record<'_> {
        Record {
            header: self.header,
            seq: self.seq,
            key: &self.key,
            value: &self.value,
        }
    }

    /// As [`OwnedRecord::of`], but without the value of a user's record.
    pub(crate) fn without_value(record: &Record<'_>) -> OwnedRecord {
        let is_users = matches!(
            record.header.kind,
            RecordKind::Put | RecordKind::Tombstone | RecordKind::Retained
        );
        OwnedRecord {
            header: record.header,
            seq: record.seq,
            key: record.key.to_vec(),
            value: if is_users {
                Vec::new()
            } else {
                record.value.to_vec()
            },
        }
    }
}

/// What the index and the log say of a key right now, for a conditional write.
pub(crate) struct Present {
    /// All entries that may be the key's.
    pub(crate) seen: SmallVec<[Location; 2]>,
    /// The entry whose record is the key's own.
    pub(crate) own: Option<Location>,
    /// The key's record, if it has a value.
    pub(crate) value: Option<OwnedRecord>,
    /// The entry of another key under which the newest version of the key lies.
    pub(crate) under: Option<Location>,
    /// What settles a version that lies under another key's: it goes with whatever takes its place.
    pub(crate) hidden: Option<Settlement>,
}

/// Reads what a key is now, verified by its record, with the entries that a condition can name. None
/// if a batch that is being installed holds one of the entries.
pub(crate) fn look_up_present(core: &Core, key: &PreparedKey<'_>) -> Result<Option<Present>> {
    look_up(core, key, false)
}

/// As [`look_up_present`], for the batch in flight itself: its members are strangers to the key,
/// since a batch writes a key once. None never.
pub(crate) fn look_up_present_in_batch(
    core: &Core,
    key: &PreparedKey<'_>,
) -> Result<Option<Present>> {
    look_up(core, key, true)
}

fn look_up(core: &Core, key: &PreparedKey<'_>, in_batch: bool) -> Result<Option<Present>> {
    for attempt in 0..RETRIES_MAX {
        let asked = core.asked();
        let matches = core.index.lookup(key);
        let seen: SmallVec<[Location; 2]> = matches.iter().map(|e| e.location).collect();
        match with_scratch(|scratch| present_of(core, key, &seen, asked, scratch))? {
            Some(parts) if parts.is_pending && !in_batch => return Ok(None),
            Some(parts) => {
                let present = Present {
                    seen,
                    own: parts.own,
                    value: parts.value,
                    under: parts.under,
                    hidden: parts.hidden,
                };
                return Ok(Some(present));
            }
            None => back_off(attempt),
        }
    }
    Err(core.fail_internal("an index entry points to no record"))
}

/// As in [`Present`].
#[derive(Default)]
struct PresentParts {
    own: Option<Location>,
    value: Option<OwnedRecord>,
    under: Option<Location>,
    hidden: Option<Settlement>,
    /// An entry is a member of the batch in flight.
    is_pending: bool,
}

fn present_of(
    core: &Core,
    key: &PreparedKey<'_>,
    seen: &[Location],
    asked: Asked,
    scratch: &mut Scratch,
) -> Result<Option<PresentParts>> {
    let (mut parts, mut newest) = (PresentParts::default(), SeqNo::ZERO);
    for location in seen {
        let head = Head {
            location: *location,
            asked,
        };
        let Some(record) = fetch(core, head, scratch)? else {
            return Ok(None);
        };
        parts.is_pending |= core.batches.is_pending(&record);
        let is_own = record.key == key.key() && record.header.keyspace == key.keyspace();
        let mut copy = None;
        let answer = follow_chain(core, key, head, View::Latest, scratch, &mut |record| {
            copy = Some(OwnedRecord::of(record));
            Ok(())
        })?;
        let (version, found) = match answer {
            Chain::Stale => return Ok(None),
            Chain::Absent => continue,
            Chain::Deleted(version) => (version, None),
            Chain::Value(version) => (version, copy),
        };
        if is_own {
            parts.own = Some(*location);
        } else if let Traced::Hidden(found) = trace(core, key, head, scratch)? {
            parts.hidden = found.settlement;
        }
        if version >= newest {
            newest = version;
            parts.value = found;
            parts.under = (!is_own).then_some(*location);
        }
    }
    Ok(Some(parts))
}
