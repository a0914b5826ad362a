//! Opening a store: the newest checkpoint, then the tail of the log in global order.
//!
//! Replay executes what each record says it displaced; it never guesses. It stops at the first
//! order that is missing, unless a later frame tells that the order was durable: then the missing
//! record is damage, reported and passed over. Recovery erases nothing; before the first new write
//! the superblock durably gets a new incarnation and the cut of the one before.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use heliox_format::bytes::Reader;
use heliox_format::checkpoint::{CheckpointMeta, RangeEntry, SegmentEntry};
use heliox_format::ids::{Birth, Incarnation, Location, SegmentId, SeqNo};
use heliox_format::limits::BIRTH_MAX;
use heliox_format::record::{RecordKind, Settles};
use heliox_format::segment::{SegmentHeader, SegmentKind};
use heliox_format::superblock::{Cut, Superblock};
use heliox_index::{Index, IndexOptions};
use heliox_log::geometry::LogGeometry;
use heliox_log::scan::{find_segment_headers, HeaderState};
use heliox_log::segments::{SegmentState, SegmentTable};
use heliox_log::sums::{weight, Settlement};
use heliox_log::{Log, LogOptions};
use heliox_media::Media;
use heliox_sync::thread;

use crate::canary::{is, Canary};
use crate::error::{Error, Result};
use crate::installs::Installs;
use crate::load::{load_checkpoint, CopyOrders, Loaded};
use crate::options::Settings;
use crate::read::OwnedRecord;
use crate::root::Root;
use crate::tail::{Source, StreamReader, TailReader, TailRecord, What};

/// Headers of segments that are read in one submission.
const HEADERS_PER_READ: usize = 64;

/// Most memory for what is read ahead and waits for its place in the index.
const MEMORY_BYTES_MAX: u64 = 256 << 20;
/// As much of it there always is: the store's own tail, which is empty so far, has the same.
const MEMORY_BYTES_MIN: u64 = 2 << 20;

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

/// Reads the newest checkpoint and replays the tail. The index has no limit yet; what is read ahead
/// takes a quarter of what it leaves of the budget, within bounds.
pub(crate) fn run(root: &Root, superblock: &Superblock, settings: &Settings) -> Result<Recovered> {
    let (media, cipher) = (&root.media(), root.cipher());
    let geometry = &root.log_geometry(superblock);
    let (threads, memory_bytes) = (settings.environment.threads(), settings.memory_budget_bytes);
    let options = IndexOptions {
        seed: superblock.hash_seed,
        fingerprint_bits: settings.fingerprint_bits,
        limit_bytes: u64::MAX,
    };
    // Two segments of a checkpoint are a small part of the budget, or there is one at a time.
    let ahead = threads > 1 && geometry.segment_bytes <= memory_bytes / 16;
    let mut loaded = load_checkpoint(&**media, cipher, geometry, superblock, options, ahead)?;
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
    let orders = std::mem::take(&mut loaded.orders);
    let shares = Shares::of(memory_bytes, loaded.index.memory_bytes(), geometry, threads);
    let (streams, sources) = sources_of(&tail, &superblock.cuts);
    let (after, seed) = (loaded.meta.cut, options.seed);
    let ahead = shares.ahead_bytes;
    let reader = TailReader::new(&**media, geometry, seed, after, &orders, sources, ahead);
    let mut replay = Replay::new(&log, &reader, &mut loaded, &shares);
    let ended = superblock.cuts.iter().map(|cut| cut.last).max();
    replay.certain = replay.certain.max(ended.unwrap_or_default());
    thread::scope(|scope| {
        for _ in 0..shares.readers {
            scope.spawn(|| reader.read_ahead());
        }
        let _stop = reader.stop_at_end();
        replay.run(streams)
    })?;
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
        damage: [done.damage, tail.damage].concat(),
        index: loaded.index,
        meta: loaded.meta,
    })
}

/// How replay divides what it may use.
struct Shares {
    /// Threads that install.
    threads: usize,
    /// Threads that read ahead; with none, replay reads by itself.
    readers: usize,
    /// For records that were read and wait for their turn.
    ahead_bytes: usize,
    /// For records that are sorted and installed together.
    batch_bytes: usize,
}

impl Shares {
    fn of(budget: u64, index: u64, geometry: &LogGeometry, threads: usize) -> Shares {
        let least = (budget / 8).clamp(MEMORY_BYTES_MIN, MEMORY_BYTES_MAX);
        let all = (budget.saturating_sub(index) / 4).clamp(least, MEMORY_BYTES_MAX.max(least));
        // Each thread that reads holds a segment.
        let affordable = usize::try_from(all / 4 / geometry.segment_bytes).unwrap_or(usize::MAX);
        Shares {
            threads,
            readers: if threads > 1 {
                affordable.min(threads)
            } else {
                0
            },
            ahead_bytes: (all / 4) as usize,
            batch_bytes: (all / 2) as usize,
        }
    }
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
    /// without a whole header is one more, since only its header says to which it belongs.
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
            tail.damage.push(lost_superblock(id, &header, superblock));
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
            if found.state == HeaderState::Whole {
                tail.streams[stream].push(segment);
                continue;
            }
            if let HeaderState::Damaged(error) = found.state {
                let words = format!("segment {}: {error}; its frames are read without it", id.0);
                tail.damage.push(words);
            }
            tail.streams.push(vec![segment]);
        }
    }
    for stream in &mut tail.streams {
        stream.sort_by_key(|s| s.header.birth);
    }
    Ok(tail)
}

/// A run writes a superblock of its own, and makes it durable, before any segment.
fn lost_superblock(id: SegmentId, header: &SegmentHeader, superblock: &Superblock) -> String {
    format!(
        "segment {} was written in run {}, and the superblock knows of {} runs: a superblock was lost, and all that was written after it",
        id.0, header.incarnation.0, superblock.incarnation.0
    )
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
        packed_bytes: 0,
        records: 0,
        displaced: 0,
        displaced_sum: 0,
        appended_sum: 0,
        voided: false,
        sealed: true,
        heads: false,
    }
}

/// The segments of all streams in one row, and where in it each stream's are.
fn sources_of(tail: &Tail, cuts: &[Cut]) -> (Vec<Range<usize>>, Vec<Source>) {
    let mut sources = Vec::new();
    let streams = tail.streams.iter().map(|stream| {
        let from = sources.len();
        sources.extend(stream.iter().map(|segment| Source {
            id: segment.id,
            birth: segment.header.birth,
            first_seq: segment.header.first_seq,
            last: cut_of(cuts, segment.header.incarnation),
        }));
        from..sources.len()
    });
    (streams.collect(), sources)
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
    heads: bool,
    /// An entry of it went without a record, which no checkpoint covers.
    has_removals: bool,
    /// Up to the end of its last record; 0 without one.
    used_bytes: u32,
    /// What its records take.
    packed_bytes: u64,
}

/// A batch whose commit was not met yet.
#[derive(Default)]
struct OpenBatch {
    members: Vec<(Location, OwnedRecord)>,
}

struct Replay<'a> {
    log: &'a Log,
    geometry: LogGeometry,
    reader: &'a TailReader<'a>,
    orders: &'a CopyOrders,
    loaded: &'a mut Loaded,
    last: SeqNo,
    /// Up to here everything was durable, whatever the frames say: a leaf was copied then, or a run
    /// ended there, which the open after it found and made durable.
    certain: SeqNo,
    records: u64,
    /// By segment.
    accounts: Vec<Account>,
    /// What records settled, and their orders. Hardly ever any.
    settled: Vec<(Settles, SeqNo)>,
    batches: BTreeMap<u64, OpenBatch>,
    installs: Installs,
    threads: usize,
    damage: Vec<String>,
}

struct Replayed {
    last: SeqNo,
    records: u64,
    accounts: Vec<Account>,
    settled: Vec<(Settles, SeqNo)>,
    damage: Vec<String>,
    bytes_read: u64,
}

impl<'a> Replay<'a> {
    fn new(
        log: &'a Log,
        reader: &'a TailReader<'a>,
        loaded: &'a mut Loaded,
        shares: &Shares,
    ) -> Replay<'a> {
        let geometry = *log.geometry();
        Replay {
            log,
            geometry,
            reader,
            orders: reader.orders,
            last: loaded.meta.cut,
            certain: reader.orders.youngest,
            loaded,
            records: 0,
            accounts: vec![Account::default(); geometry.segments as usize],
            settled: Vec::new(),
            batches: BTreeMap::new(),
            installs: Installs::new(shares.batch_bytes),
            threads: shares.threads,
            damage: Vec::new(),
        }
    }

    /// Replays the streams, merged by order.
    fn run(&mut self, streams: Vec<Range<usize>>) -> Result<()> {
        let reader = self.reader;
        let streams = streams.into_iter();
        let mut streams: Vec<_> = streams.map(|s| StreamReader::new(reader, s)).collect();
        streams.iter_mut().try_for_each(StreamReader::fill)?;
        let mut named = None;
        while let Some(n) = earliest(&streams) {
            let stream = &mut streams[n];
            let Some((id, record, whole)) = stream.take() else {
                break;
            };
            let is_missing = record.seq.0 > self.last.0 + 1 && !is(Canary::NoCut);
            if is_missing && !self.is_damage(&mut named)? {
                break;
            }
            if is_missing {
                self.report_missing(record.seq);
            }
            if record.seq > self.last {
                self.last = record.seq;
                self.apply(id, &record, stream.keys(), whole)?;
            }
            stream.fill()?;
        }
        // Durable orders for which not even a later record is left.
        let durable = reader.durable_so_far().max(self.certain);
        if durable > self.last {
            self.report_missing(durable.next());
            self.last = durable;
        }
        self.apply_installs()?;
        self.damage.extend(self.installs.take_damage());
        // No torn write leaves a whole frame that cannot be decrypted.
        self.damage.extend(reader.take_locked());
        Ok(())
    }

    /// A missing order is damage if a later frame says that it was durable. `named`: the largest
    /// that any frame says was, once that is known.
    fn is_damage(&self, named: &mut Option<SeqNo>) -> Result<bool> {
        let durable = match *named {
            Some(durable) => durable,
            None => *named.insert(self.reader.durable_of_all()?),
        };
        Ok(durable.max(self.certain) > self.last)
    }

    fn report_missing(&mut self, next: SeqNo) {
        if is(Canary::DamageUntold) {
            return;
        }
        self.damage.push(format!(
            "records of orders {} to {} were durable and cannot be read any more",
            self.last.0 + 1,
            next.0 - 1
        ));
    }

    fn apply(
        &mut self,
        id: SegmentId,
        record: &TailRecord,
        keys: &[u8],
        whole: Option<OwnedRecord>,
    ) -> Result<()> {
        self.records += 1;
        let account = &mut self.accounts[id.0 as usize];
        account.records += 1;
        account.last_seq = record.seq;
        account.heads |= record.chunked;
        // What lies beyond the last record that counts is none of the segment's content.
        account.used_bytes = record.end;
        account.packed_bytes += record.packed_bytes(&self.geometry);
        match (record.what, whole) {
            (What::Whole, Some(whole)) => self.apply_whole(record.location, whole),
            (What::Whole | What::Idle, _) => Ok(()),
            (What::Put | What::Tombstone | What::Covered, _) => {
                self.account_sums(record);
                self.install(record, keys)
            }
        }
    }

    fn apply_whole(&mut self, location: Location, record: OwnedRecord) -> Result<()> {
        let header = record.header;
        match (header.batch_offset, header.kind) {
            (Some(offset), RecordKind::Commit) => self.commit(record.seq.0 - offset, &record),
            (Some(offset), _) => {
                let batch = self.batches.entry(record.seq.0 - offset).or_default();
                batch.members.push((location, record));
                Ok(())
            }
            (None, RecordKind::RangeDelete) => self.range_delete(&record),
            (None, RecordKind::Keyspace) => self.keyspace(&record),
            (None, RecordKind::Put | RecordKind::Tombstone) => {
                self.install_whole(location, &record, &mut Vec::new())
            }
            (None, _) => Ok(()),
        }
    }

    /// Only for records that count: what a batch without its commit says was never so.
    fn account_sums(&mut self, record: &TailRecord) {
        let hash = record.hash;
        if let Some(id) = self.geometry.segment_at(record.location) {
            let account = &mut self.accounts[id.0 as usize];
            let sum = hash.wrapping_mul(weight(record.location));
            account.appended_sum = account.appended_sum.wrapping_add(sum);
        }
        let Some(displaced) = record.displaced() else {
            return;
        };
        // What was displaced in an earlier life of a segment is no longer accounted for.
        let lived = |id: &SegmentId| self.log.views().first_seq(*id) <= record.seq;
        if let Some(old) = self.geometry.segment_at(displaced).filter(lived) {
            let account = &mut self.accounts[old.0 as usize];
            account.displaced += 1;
            let sum = hash.wrapping_mul(weight(displaced));
            account.displaced_sum = account.displaced_sum.wrapping_add(sum);
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
        let mut keys = Vec::new();
        members
            .iter()
            .try_for_each(|(location, member)| self.install_whole(*location, member, &mut keys))
    }

    fn install_whole(
        &mut self,
        location: Location,
        record: &OwnedRecord,
        keys: &mut Vec<u8>,
    ) -> Result<()> {
        keys.clear();
        if let Some(settles) = record.header.settles {
            self.settled.push((settles, record.seq));
        }
        let record = self.reader.member(location, &record.record(), keys);
        self.account_sums(&record);
        self.install(&record, keys)
    }

    /// Puts the record in line for the index, unless the image has its effect already.
    fn install(&mut self, record: &TailRecord, keys: &[u8]) -> Result<()> {
        if record.what == What::Covered {
            return Ok(());
        }
        self.installs.push(record, record.key(keys));
        if self.installs.is_full() {
            self.apply_installs()?;
        }
        Ok(())
    }

    fn apply_installs(&mut self) -> Result<()> {
        let missed = self
            .installs
            .apply(self.log, &self.loaded.index, self.threads)?;
        for (location, hash) in self.installs.take_swept() {
            if let Some(id) = self.geometry.segment_at(location) {
                let account = &mut self.accounts[id.0 as usize];
                let sum = hash.wrapping_mul(weight(location));
                account.displaced_sum = account.displaced_sum.wrapping_add(sum);
                account.has_removals = true;
            }
        }
        // After damage that was reported it is no news that links lead nowhere.
        let is_first = self.damage.is_empty() && !self.installs.has_damage();
        let is_new = is_first && !is(Canary::DamageUntold);
        if let (Some(first), true) = (missed.iter().min(), is_new) {
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
        if id.0 > BIRTH_MAX {
            return Err(Error::damaged(format!("a keyspace of number {}", id.0)));
        }
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
            last: self.last.max(self.orders.youngest),
            records: self.records,
            accounts: self.accounts,
            settled: self.settled,
            damage: self.damage,
            bytes_read: self.reader.bytes_read(),
        }
    }
}

fn earliest(streams: &[StreamReader<'_, '_>]) -> Option<usize> {
    let ahead = streams.iter().enumerate();
    let next = ahead.filter_map(|(n, stream)| Some((stream.next_seq()?, n)));
    next.min().map(|(_, n)| n)
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
    for (n, account) in done.accounts.iter().enumerate() {
        if account.records == 0 && account.displaced_sum == 0 && !account.has_removals {
            continue;
        }
        let segment = table.get_mut(SegmentId(n as u32));
        // Replay asks this segment again until a checkpoint has the entry no more.
        segment.removal_cut = u64::from(account.has_removals);
        segment.records += account.records;
        segment.last_seq = segment.last_seq.max(account.last_seq);
        segment.displaced += account.displaced;
        segment.displaced_sum = segment.displaced_sum.wrapping_add(account.displaced_sum);
        segment.appended_sum = segment.appended_sum.wrapping_add(account.appended_sum);
        segment.last_displaced = account.last_displaced;
        segment.heads |= account.heads;
        segment.untold_heads |= account.heads;
        if account.records > 0 {
            segment.packed_bytes += account.packed_bytes;
            segment.used_bytes = account.used_bytes.into();
        }
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
    restore_settled(geometry, loaded, &mut table);
    for (settles, at) in &done.settled {
        settle_again(geometry, &mut table, *settles, *at);
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

/// What a record of the tail settled, unless its segment was used again since or a checkpoint knows.
fn settle_again(geometry: &LogGeometry, table: &mut SegmentTable, settles: Settles, at: SeqNo) {
    let Some(id) = geometry.segment_at(settles.location) else {
        return;
    };
    let seq = table.get(id).first_seq;
    if seq <= at {
        let (location, difference) = (settles.location, settles.difference);
        let settlement = Settlement {
            location,
            seq,
            difference,
        };
        table.settle(id, &settlement, at);
    }
}

/// Those of the checkpoint, as far as their segments are in the life that it knew.
fn restore_settled(geometry: &LogGeometry, loaded: &Loaded, table: &mut SegmentTable) {
    for location in &loaded.meta.settled {
        let Some(id) = geometry.segment_at(*location) else {
            continue;
        };
        let birth = table.get(id).birth;
        let segments = &loaded.meta.segments;
        if segments.iter().any(|e| e.id == id && e.birth == birth) {
            table.restore_settled(id, *location);
        }
    }
}
