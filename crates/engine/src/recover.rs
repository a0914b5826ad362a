//! Opening a store: the newest checkpoint, then the tail of the log in global order.
//!
//! Replay executes what each record says it displaced; it never guesses. It stops at the first
//! order that is missing, unless a later frame tells that the order was durable: then the missing
//! record is damage, reported and passed over. Recovery erases nothing; before the first new write
//! the superblock durably gets a new incarnation and the cut of the one before.

use std::collections::BTreeMap;
use std::sync::Arc;

use heliox_format::bytes::Reader;
use heliox_format::checkpoint::{CheckpointMeta, RangeEntry, SegmentEntry};
use heliox_format::frame::advance;
use heliox_format::ids::{Birth, Incarnation, Location, SegmentId, SeqNo};
use heliox_format::record::RecordKind;
use heliox_format::segment::{SegmentHeader, SegmentKind};
use heliox_format::superblock::{Cut, Superblock};
use heliox_index::{Index, IndexOptions, PreparedKey};
use heliox_log::geometry::LogGeometry;
use heliox_log::scan::{find_segment_headers, Scanned, SegmentScanner};
use heliox_log::segments::{SegmentState, SegmentTable};
use heliox_log::{Log, LogOptions};
use heliox_media::Media;

use crate::error::{Error, Result};
use crate::installs::{Installs, TailRecord};
use crate::load::{load_checkpoint, Loaded};
use crate::read::OwnedRecord;

/// Headers of segments that are read in one submission.
const HEADERS_PER_READ: usize = 64;

/// What recovery found and made.
pub(crate) struct Recovered {
    pub(crate) index: Index,
    pub(crate) table: SegmentTable,
    pub(crate) meta: CheckpointMeta,
    pub(crate) next_seq: SeqNo,
    pub(crate) next_birth: Birth,
    pub(crate) next_value_id: u64,
    pub(crate) tail_records: u64,
    pub(crate) bytes_read: u64,
    /// What was damaged and could not be replayed.
    pub(crate) damage: Vec<String>,
}

/// Reads the newest checkpoint and replays the tail.
pub(crate) fn run(
    media: &Arc<dyn Media>,
    geometry: &LogGeometry,
    superblock: &Superblock,
    options: IndexOptions,
) -> Result<Recovered> {
    let mut loaded = load_checkpoint(&**media, geometry, superblock, options)?;
    let tail = find_tail(&**media, geometry, superblock, &loaded.meta)?;
    let table = table_for_replay(geometry, &loaded, &tail);
    // Reads during replay go through a log of their own: it knows every segment, and writes none.
    let log = Log::new(
        Arc::clone(media),
        LogOptions {
            geometry: *geometry,
            incarnation: superblock.incarnation,
            next_seq: SeqNo(loaded.meta.cut.0 + 1),
            next_birth: tail.next_birth,
        },
        table,
    );
    let mut replay = Replay::new(&log, superblock, &mut loaded, options.seed);
    replay.run(&**media, &tail)?;
    let done = replay.finish();
    let table = final_table(geometry, &loaded, &tail, &done);
    let bytes_read = loaded.bytes_read + done.bytes_read;
    Ok(Recovered {
        table,
        next_seq: SeqNo(done.last.0 + 1),
        next_birth: tail.next_birth.max(loaded.next_birth()),
        next_value_id: (u64::from(superblock.incarnation.0) + 1) << 32,
        tail_records: done.records,
        bytes_read,
        damage: done.damage,
        index: loaded.index,
        meta: loaded.meta,
    })
}

// ---- the tail ----

/// A segment that may hold records after the cut.
#[derive(Clone, Copy, Debug)]
struct TailSegment {
    id: SegmentId,
    header: SegmentHeader,
    /// It was open at the cut; what the checkpoint says of it counts on.
    known: Option<SegmentEntry>,
}

struct Tail {
    /// By stream, in the order in which they were opened. The first two are the log's; a segment
    /// whose header is damaged is one more, since only its header says to which it belongs.
    streams: Vec<Vec<TailSegment>>,
    /// Headers that are damaged, in words.
    damage: Vec<String>,
    next_birth: Birth,
    /// Segments of the log at the cut that hold a part of an unfinished checkpoint now.
    overwritten: Vec<SegmentId>,
}

fn find_tail(
    media: &dyn Media,
    geometry: &LogGeometry,
    superblock: &Superblock,
    meta: &CheckpointMeta,
) -> Result<Tail> {
    let known: BTreeMap<SegmentId, &SegmentEntry> =
        meta.segments.iter().map(|s| (s.id, s)).collect();
    let mut tail = Tail {
        streams: vec![Vec::new(), Vec::new()],
        damage: Vec::new(),
        next_birth: meta.next_birth,
        overwritten: Vec::new(),
    };
    if superblock.clean {
        return Ok(tail);
    }
    let ids: Vec<SegmentId> = (0..geometry.segments).map(SegmentId).collect();
    let mut headers = Vec::with_capacity(ids.len());
    for some in ids.chunks(HEADERS_PER_READ) {
        headers.extend(find_segment_headers(media, geometry, some)?);
    }
    let found = ids
        .into_iter()
        .zip(headers)
        .filter_map(|(id, f)| Some((id, f?)));
    for (id, found) in found {
        let header = found.header;
        if header.incarnation > superblock.incarnation {
            continue;
        }
        tail.next_birth = tail.next_birth.max(Birth(header.birth.0 + 1));
        let entry = known.get(&id).copied().filter(|e| e.birth == header.birth);
        let is_open = entry.is_some_and(|e| !e.sealed);
        let is_new = header.birth >= meta.next_birth;
        let stream = match header.kind {
            SegmentKind::User => 0,
            SegmentKind::Survivor => 1,
            SegmentKind::Checkpoint => {
                if is_new {
                    tail.overwritten.push(id);
                }
                continue;
            }
        };
        if is_open || is_new {
            let segment = TailSegment {
                id,
                header,
                known: entry.copied(),
            };
            match found.damage {
                None => tail.streams[stream].push(segment),
                Some(error) => {
                    tail.damage.push(format!(
                        "segment {}: {error}; its frames are read without it",
                        id.0
                    ));
                    tail.streams.push(vec![segment]);
                }
            }
        }
    }
    for stream in &mut tail.streams {
        stream.sort_by_key(|s| s.header.birth);
    }
    Ok(tail)
}

/// Every segment that replay may read, so that reads by location work.
fn table_for_replay(geometry: &LogGeometry, loaded: &Loaded, tail: &Tail) -> SegmentTable {
    let mut table = SegmentTable::new(geometry.segments);
    let overwritten = |e: &&SegmentEntry| tail.overwritten.contains(&e.id);
    for entry in loaded.meta.segments.iter().filter(|e| !overwritten(e)) {
        table.restore(entry);
    }
    for segment in tail.streams.iter().flatten() {
        table.restore(&entry_of(segment, geometry));
    }
    table
}

fn entry_of(segment: &TailSegment, geometry: &LogGeometry) -> SegmentEntry {
    segment.known.unwrap_or_else(|| {
        let header = &segment.header;
        let last_seq = SeqNo(header.first_seq.0.saturating_sub(1));
        let (kind, birth, first_seq) = (header.kind, header.birth, header.first_seq);
        bare_entry(geometry, segment.id, kind, birth, first_seq, last_seq)
    })
}

/// A whole segment of which nothing is counted yet.
fn bare_entry(
    geometry: &LogGeometry,
    id: SegmentId,
    kind: SegmentKind,
    birth: Birth,
    first_seq: SeqNo,
    last_seq: SeqNo,
) -> SegmentEntry {
    SegmentEntry {
        id,
        kind,
        birth,
        first_seq,
        last_seq,
        used_bytes: geometry.segment_bytes,
        records: 0,
        displaced: 0,
        displaced_sum: 0,
        appended_sum: 0,
        voided: false,
        sealed: true,
    }
}

/// One stream's records after the cut, one at a time.
struct StreamReader<'a> {
    segments: std::slice::Iter<'a, TailSegment>,
    scanner: Option<(TailSegment, SegmentScanner)>,
    current: Option<(SegmentId, Location, OwnedRecord)>,
    bytes_read: u64,
    durable: SeqNo,
}

impl<'a> StreamReader<'a> {
    fn new(segments: &'a [TailSegment]) -> StreamReader<'a> {
        StreamReader {
            segments: segments.iter(),
            scanner: None,
            current: None,
            bytes_read: 0,
            durable: SeqNo::ZERO,
        }
    }

    /// Goes to the next record with an order above `after` that its incarnation's cut admits.
    fn advance(
        &mut self,
        media: &dyn Media,
        geometry: &LogGeometry,
        after: SeqNo,
        cuts: &[Cut],
    ) -> Result<()> {
        self.current = None;
        loop {
            if self.scanner.is_none() {
                let Some(segment) = self.segments.next() else {
                    return Ok(());
                };
                let scanner = SegmentScanner::load(media, geometry, segment.id, None)?;
                self.bytes_read += scanner.loaded_bytes();
                self.scanner = Some((*segment, scanner));
            }
            let Some((segment, scanner)) = self.scanner.as_mut() else {
                return Ok(());
            };
            let last = cut_of(cuts, segment.header.incarnation);
            match scanner.next() {
                Some(Scanned::Record { location, record }) => {
                    if record.seq > after && record.seq <= last {
                        let owned = OwnedRecord::without_value(&record);
                        self.current = Some((segment.id, location, owned));
                        return Ok(());
                    }
                }
                // Whether a gap is damage shows in the orders that are missing.
                Some(Scanned::Gap { .. }) => {}
                None => {
                    self.durable = self.durable.max(scanner.durable_seq());
                    self.scanner = None;
                }
            }
        }
    }

    /// The largest durable order that any frame of the rest of the stream names.
    fn durable_of_rest(&self, media: &dyn Media, geometry: &LogGeometry) -> Result<SeqNo> {
        let mut durable = self.durable;
        if let Some((_, scanner)) = &self.scanner {
            durable = durable.max(scanner.durable_seq_of_all());
        }
        for segment in self.segments.clone() {
            let scanner = SegmentScanner::load(media, geometry, segment.id, None)?;
            durable = durable.max(scanner.durable_seq_of_all());
        }
        Ok(durable)
    }
}

fn cut_of(cuts: &[Cut], incarnation: Incarnation) -> SeqNo {
    let cut = cuts.iter().find(|c| c.incarnation == incarnation);
    cut.map_or(SeqNo::MAX, |c| c.last)
}

/// What replay adds to the account of a segment.
#[derive(Clone, Copy, Default, Debug)]
struct Account {
    records: u32,
    last_seq: SeqNo,
    displaced: u32,
    displaced_sum: u64,
    appended_sum: u64,
    last_displaced: SeqNo,
}

/// A batch whose commit was not met yet.
#[derive(Default)]
struct OpenBatch {
    members: Vec<(Location, OwnedRecord)>,
}

struct Replay<'a> {
    log: &'a Log,
    geometry: LogGeometry,
    cuts: Vec<Cut>,
    loaded: &'a mut Loaded,
    seed: u64,
    last: SeqNo,
    records: u64,
    accounts: BTreeMap<SegmentId, Account>,
    written: BTreeMap<SegmentId, u64>,
    batches: BTreeMap<u64, OpenBatch>,
    installs: Installs,
    damage: Vec<String>,
    bytes_read: u64,
}

struct Replayed {
    last: SeqNo,
    records: u64,
    accounts: BTreeMap<SegmentId, Account>,
    written: BTreeMap<SegmentId, u64>,
    damage: Vec<String>,
    bytes_read: u64,
}

impl<'a> Replay<'a> {
    fn new(log: &'a Log, superblock: &Superblock, loaded: &'a mut Loaded, seed: u64) -> Replay<'a> {
        Replay {
            log,
            geometry: *log.geometry(),
            cuts: superblock.cuts.clone(),
            last: loaded.meta.cut,
            loaded,
            seed,
            records: 0,
            accounts: BTreeMap::new(),
            written: BTreeMap::new(),
            batches: BTreeMap::new(),
            installs: Installs::default(),
            damage: Vec::new(),
            bytes_read: 0,
        }
    }

    /// Replays the streams, merged by order.
    fn run(&mut self, media: &dyn Media, tail: &Tail) -> Result<()> {
        let mut readers: Vec<_> = tail.streams.iter().map(|s| StreamReader::new(s)).collect();
        self.damage.extend_from_slice(&tail.damage);
        let geometry = self.geometry;
        let after = self.last;
        for reader in &mut readers {
            reader.advance(media, &geometry, after, &self.cuts)?;
        }
        while let Some(n) = earliest(&readers) {
            let Some((id, location, record)) = readers[n].current.take() else {
                break;
            };
            if record.seq.0 > self.last.0 + 1 && !self.is_damage(media, &readers)? {
                break;
            }
            if record.seq.0 > self.last.0 + 1 {
                self.report_missing(record.seq);
            }
            if record.seq > self.last {
                self.last = record.seq;
                self.apply(id, location, record)?;
            }
            readers[n].advance(media, &geometry, after, &self.cuts)?;
        }
        // Durable orders for which not even a later record is left.
        let named = readers.iter().map(|r| r.durable).max().unwrap_or_default();
        let durable = named.max(self.loaded.orders.youngest);
        if durable > self.last {
            self.report_missing(durable.next());
            self.last = durable;
        }
        self.bytes_read = readers.iter().map(|r| r.bytes_read).sum();
        self.apply_installs()
    }

    /// A missing order is damage if a later frame says that it was durable.
    fn is_damage(&self, media: &dyn Media, readers: &[StreamReader<'_>]) -> Result<bool> {
        let mut durable = self.loaded.orders.youngest;
        for reader in readers {
            durable = durable.max(reader.durable_of_rest(media, &self.geometry)?);
        }
        Ok(durable > self.last)
    }

    fn report_missing(&mut self, next: SeqNo) {
        self.damage.push(format!(
            "records of orders {} to {} were durable and cannot be read any more",
            self.last.0 + 1,
            next.0 - 1
        ));
    }

    fn apply(&mut self, id: SegmentId, location: Location, record: OwnedRecord) -> Result<()> {
        self.records += 1;
        self.account(id, location, &record);
        let header = record.header;
        if let Some(offset) = header.batch_offset {
            let first = record.seq.0 - offset;
            if header.kind != RecordKind::Commit {
                self.batches
                    .entry(first)
                    .or_default()
                    .members
                    .push((location, record));
                return Ok(());
            }
            return self.commit(first, &record);
        }
        match header.kind {
            RecordKind::Put | RecordKind::Tombstone => {
                self.account_sums(location, &record);
                self.install(location, &record)
            }
            RecordKind::RangeDelete => self.range_delete(&record),
            RecordKind::Keyspace => self.keyspace(&record),
            RecordKind::Retained | RecordKind::Commit => Ok(()),
        }
    }

    fn account(&mut self, id: SegmentId, location: Location, record: &OwnedRecord) {
        let account = self.accounts.entry(id).or_default();
        account.records += 1;
        account.last_seq = record.seq;
        // What lies beyond the last record that counts is none of the segment's content.
        let bytes = record.header.header_bytes() + record.header.body_bytes();
        let end = advance(self.geometry.address(location), bytes as u64);
        self.written.insert(id, end - self.geometry.start(id));
    }

    /// Only for records that count: what a batch without its commit says was never so.
    fn account_sums(&mut self, location: Location, record: &OwnedRecord) {
        let hash = PreparedKey::hash_of(self.seed, record.header.keyspace, &record.key);
        if let Some(id) = self.geometry.segment_at(location) {
            let account = self.accounts.entry(id).or_default();
            account.appended_sum = account.appended_sum.wrapping_add(hash);
        }
        let Some(displaced) = record.header.displaced else {
            return;
        };
        // What was displaced in an earlier life of a segment is no longer accounted for.
        let lived = |id: &SegmentId| self.log.views().first_seq(*id) <= record.seq;
        if let Some(old) = self.geometry.segment_at(displaced).filter(lived) {
            let account = self.accounts.entry(old).or_default();
            account.displaced += 1;
            account.displaced_sum = account.displaced_sum.wrapping_add(hash);
            account.last_displaced = record.seq;
        }
    }

    /// Installs a batch's members, all or none.
    fn commit(&mut self, first: u64, record: &OwnedRecord) -> Result<()> {
        let members = self.batches.remove(&first).unwrap_or_default().members;
        let count = Reader::new(&record.value).u64().unwrap_or(0);
        if members.len() as u64 != count {
            self.damage.push(format!(
                "a batch of {count} records lost {} of them to damage and is left out",
                count.saturating_sub(members.len() as u64)
            ));
            return Ok(());
        }
        members.iter().try_for_each(|(location, member)| {
            self.account_sums(*location, member);
            self.install(*location, member)
        })
    }

    /// Puts the record in line for the index, unless the image has its effect already.
    fn install(&mut self, location: Location, record: &OwnedRecord) -> Result<()> {
        let keyspace = record.header.keyspace;
        let orders = &self.loaded.orders;
        if orders.covers(keyspace, &record.key, record.seq) {
            return Ok(());
        }
        self.installs.push(&TailRecord {
            keyspace,
            key: &record.key,
            tombstone: record.header.kind == RecordKind::Tombstone,
            seq: record.seq,
            location,
            displaced: record.header.displaced,
        });
        if self.installs.is_full() {
            self.apply_installs()?;
        }
        Ok(())
    }

    fn apply_installs(&mut self) -> Result<()> {
        let missed = self
            .installs
            .apply(self.log, &self.loaded.index, self.seed)?;
        self.damage.extend(self.installs.take_damage());
        // After damage that was reported it is no news that links lead nowhere.
        if let (Some(first), true) = (missed.iter().min(), self.damage.is_empty()) {
            self.damage.push(format!(
                "{} records, the first of order {first}, displaced records that the index does \
                 not know",
                missed.len()
            ));
        }
        Ok(())
    }

    fn range_delete(&mut self, record: &OwnedRecord) -> Result<()> {
        let entry = decode_range(record)?;
        if !self.loaded.meta.ranges.iter().any(|r| r.seq == entry.seq) {
            self.loaded.meta.ranges.push(entry);
        }
        Ok(())
    }

    fn keyspace(&mut self, record: &OwnedRecord) -> Result<()> {
        let meta = &mut self.loaded.meta;
        let name = String::from_utf8(record.key.clone())
            .map_err(|_| Error::damaged("the name of a keyspace is not UTF-8"))?;
        let id = record.header.keyspace;
        meta.next_keyspace = meta.next_keyspace.max(id.0 + 1);
        meta.keyspaces.retain(|k| k.id != id);
        if record.value.first() == Some(&1) {
            let entry = heliox_format::checkpoint::KeyspaceEntry { id, name };
            meta.keyspaces.push(entry);
            return Ok(());
        }
        let everything = RangeEntry {
            seq: record.seq,
            keyspace: id,
            from: Vec::new(),
            to: None,
        };
        if !meta.ranges.iter().any(|r| r.seq == everything.seq) {
            meta.ranges.push(everything);
        }
        Ok(())
    }

    fn finish(self) -> Replayed {
        Replayed {
            // Members of the image may be younger than the last record that was found.
            last: self.last.max(self.loaded.orders.youngest),
            records: self.records,
            accounts: self.accounts,
            written: self.written,
            damage: self.damage,
            bytes_read: self.bytes_read,
        }
    }
}

fn earliest(readers: &[StreamReader<'_>]) -> Option<usize> {
    let seq = |n: usize| readers[n].current.as_ref().map(|(_, _, r)| r.seq);
    (0..readers.len())
        .filter(|n| seq(*n).is_some())
        .min_by_key(|n| seq(*n))
}

/// The interval of a range-delete record: its value is a flag and the end.
pub(crate) fn decode_range(record: &OwnedRecord) -> Result<RangeEntry> {
    let (bounded, to) = record
        .value
        .split_first()
        .ok_or_else(|| Error::damaged("a range delete without an end"))?;
    Ok(RangeEntry {
        seq: record.seq,
        keyspace: record.header.keyspace,
        from: record.key.clone(),
        to: (*bounded != 0).then(|| to.to_vec()),
    })
}

/// The table that the store starts with: everything sealed, live counts taken from the index.
fn final_table(
    geometry: &LogGeometry,
    loaded: &Loaded,
    tail: &Tail,
    done: &Replayed,
) -> SegmentTable {
    let mut table = table_for_replay(geometry, loaded, tail);
    for (id, account) in &done.accounts {
        let segment = table.get_mut(*id);
        segment.records += account.records;
        segment.last_seq = segment.last_seq.max(account.last_seq);
        segment.displaced += account.displaced;
        segment.displaced_sum = segment.displaced_sum.wrapping_add(account.displaced_sum);
        segment.appended_sum = segment.appended_sum.wrapping_add(account.appended_sum);
        segment.last_displaced = account.last_displaced;
    }
    for (id, bytes) in &done.written {
        table.get_mut(*id).used_bytes = *bytes;
    }
    for segment in tail
        .streams
        .iter()
        .flatten()
        .filter(|_| !loaded.meta.ranges.is_empty())
    {
        // A sweep may have taken entries away between the cut and the copy of their leaf.
        table.get_mut(segment.id).voided = true;
    }
    let mut live: Vec<u32> = vec![0; geometry.segments as usize];
    loaded.index.for_each_entry(&mut |entry| {
        if let Some(id) = geometry.segment_at(entry.location) {
            live[id.0 as usize] += 1;
        }
    });
    for (n, live) in live.into_iter().enumerate() {
        let segment = table.get_mut(SegmentId(n as u32));
        segment.dead = segment.records.saturating_sub(live);
    }
    for (id, birth) in &loaded.checkpoint_segments {
        let (kind, cut) = (SegmentKind::Checkpoint, loaded.meta.cut);
        table.restore(&bare_entry(geometry, *id, kind, *birth, cut, cut));
    }
    debug_assert!(table.iter().all(|(_, s)| s.state != SegmentState::Open));
    table
}
