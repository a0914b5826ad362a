//! The tail of the log, read and taken apart ahead of replay.
//!
//! Replay takes records one after the other. Reading, verifying and hashing them needs no order, so
//! threads do it, segment by segment in the order in which replay will come to them, and only as
//! far ahead as their share of memory goes.
//!
//! Invariant: whatever nobody has begun when replay asks for it, replay's own thread reads; and a
//! thread that reads what replay waits for is not held up by memory. So nobody waits in a circle,
//! and without any such threads the same records come in the same order.

use std::collections::VecDeque;

use heliox_format::frame::advance;
use heliox_format::ids::{Birth, KeyspaceId, Location, SegmentId, SeqNo};
use heliox_format::record::{Record, RecordKind};
use heliox_index::PreparedKey;
use heliox_log::geometry::LogGeometry;
use heliox_log::scan::{Scanned, SegmentScanner};
use heliox_log::LogError;
use heliox_media::{AlignedBuf, Media};
use heliox_sync::{Condvar, Mutex, MutexGuard};

use crate::canary::{is, Canary};
use crate::error::{Error, Result};
use crate::load::CopyOrders;
use crate::read::OwnedRecord;

/// Records that are handed over together: enough that the lock costs nothing.
const PIECE_RECORDS: usize = 4096;
/// Bytes that are handed over together, but for the last record of them.
const PIECE_BYTES: usize = 512 << 10;
/// A key of so many bytes is kept in the record itself: replay sorts records, and a key that lies
/// elsewhere costs a miss of the cache.
const KEY_INSIDE_MAX: usize = 20;

/// What replay does with a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum What {
    Put,
    Tombstone,
    /// A put or tombstone whose effect the image of the index has already.
    Covered,
    /// Nothing: it is only counted.
    Idle,
    /// What takes the whole record to tell.
    Whole,
}

/// A record, as much of it as most of replay needs: one cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(crate) struct TailRecord {
    pub(crate) seq: SeqNo,
    pub(crate) hash: u64,
    pub(crate) location: Location,
    displaced: Location,
    pub(crate) keyspace: KeyspaceId,
    /// Where it ends, from the start of its segment.
    pub(crate) end: u32,
    key_bytes: u16,
    pub(crate) what: What,
    pub(crate) chunked: bool,
    /// The key, or where among longer keys it starts.
    key: [u8; KEY_INSIDE_MAX],
}

const _: () = assert!(size_of::<TailRecord>() == 64);

impl TailRecord {
    /// The record's part that is kept; a long key is added to `keys`.
    pub(crate) fn new(
        geometry: &LogGeometry,
        seed: u64,
        location: Location,
        record: &Record<'_>,
        keys: &mut Vec<u8>,
    ) -> TailRecord {
        let header = &record.header;
        let bytes = header.header_bytes() + header.body_bytes();
        let address = geometry.address(location);
        let start = address - address % geometry.segment_bytes;
        let what = match header.kind {
            _ if header.batch_offset.is_some() && !is(Canary::CommitIgnored) => What::Whole,
            RecordKind::Put | RecordKind::Tombstone if header.settles.is_some() => What::Whole,
            RecordKind::Put => What::Put,
            RecordKind::Tombstone => What::Tombstone,
            RecordKind::RangeDelete | RecordKind::Keyspace => What::Whole,
            RecordKind::Retained | RecordKind::Commit => What::Idle,
        };
        let mut kept = TailRecord {
            seq: record.seq,
            hash: PreparedKey::hash_of(seed, header.keyspace, record.key),
            location,
            displaced: header.displaced.unwrap_or(Location::NONE),
            keyspace: header.keyspace,
            end: (advance(geometry.shape, address, bytes as u64) - start) as u32,
            key_bytes: 0,
            what,
            chunked: header.chunked,
            key: [0; KEY_INSIDE_MAX],
        };
        kept.put_key(record.key, keys);
        kept
    }

    /// What it takes of its segment, with its alignment and the frames that it crosses.
    pub(crate) fn packed_bytes(&self, geometry: &LogGeometry) -> u64 {
        let address = geometry.address(self.location);
        let start = address - address % geometry.segment_bytes;
        geometry.packed_bytes(self.location, start + u64::from(self.end))
    }

    /// The record with its key among those of another holder.
    pub(crate) fn moved(mut self, key: &[u8], keys: &mut Vec<u8>) -> TailRecord {
        if key.len() > KEY_INSIDE_MAX {
            self.put_key(key, keys);
        }
        self
    }

    fn put_key(&mut self, key: &[u8], keys: &mut Vec<u8>) {
        self.key_bytes = key.len() as u16;
        match self.key.get_mut(..key.len()) {
            Some(inside) => inside.copy_from_slice(key),
            None => {
                self.key[..4].copy_from_slice(&(keys.len() as u32).to_le_bytes());
                keys.extend_from_slice(key);
            }
        }
    }

    /// The key; `keys` are those of the holder.
    pub(crate) fn key<'k>(&'k self, keys: &'k [u8]) -> &'k [u8] {
        let len = usize::from(self.key_bytes);
        match self.key.get(..len) {
            Some(inside) => inside,
            None => {
                let from = u32::from_le_bytes([self.key[0], self.key[1], self.key[2], self.key[3]]);
                keys.get(from as usize..)
                    .and_then(|keys| keys.get(..len))
                    .unwrap_or_default()
            }
        }
    }

    /// The location whose record it displaced, if it says so.
    pub(crate) fn displaced(&self) -> Option<Location> {
        Some(self.displaced).filter(|l| l.is_some())
    }
}

/// Records in a row, of one segment.
#[derive(Default)]
pub(crate) struct Piece {
    records: Vec<TailRecord>,
    keys: Vec<u8>,
    /// Of the records that are [`What::Whole`], in their order.
    whole: VecDeque<OwnedRecord>,
    bytes: usize,
}

impl Piece {
    fn is_full(&self) -> bool {
        self.records.len() >= PIECE_RECORDS || self.bytes >= PIECE_BYTES
    }
}

/// A segment that may hold records of the tail.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source {
    pub(crate) id: SegmentId,
    /// Its life, by its header or its first frame.
    pub(crate) birth: Birth,
    /// The order of its first record, as far as that is known: only tells which is read first.
    pub(crate) first_seq: SeqNo,
    /// The last order of its incarnation that counts.
    pub(crate) last: SeqNo,
}

/// A segment that is being taken apart.
struct Parser {
    scanner: SegmentScanner,
    last: SeqNo,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// Nobody has begun it.
    Waiting,
    /// A thread reads it.
    Begun,
    /// Replay itself reads it.
    Taken,
    /// All of it was handed over.
    Done,
}

struct Slot {
    state: State,
    pieces: VecDeque<Piece>,
    /// Known once it is done.
    durable: SeqNo,
    failed: Option<Error>,
}

struct Shared {
    slots: Vec<Slot>,
    /// Bytes of all pieces that wait.
    held_bytes: usize,
    bytes_read: u64,
    /// Frames that are whole and cannot be decrypted, in words.
    locked: Vec<String>,
    /// The segment whose next piece replay waits for.
    wanted: Option<usize>,
    stopped: bool,
}

/// The segments of the tail, whoever reads them.
pub(crate) struct TailReader<'a> {
    pub(crate) media: &'a dyn Media,
    pub(crate) geometry: LogGeometry,
    pub(crate) seed: u64,
    /// Records up to this order are no part of the tail.
    pub(crate) after: SeqNo,
    pub(crate) orders: &'a CopyOrders,
    sources: Vec<Source>,
    /// Numbers of segments in the order in which replay should come to them.
    begin_order: Vec<usize>,
    held_max: usize,
    shared: Mutex<Shared>,
    changed: Condvar,
}

impl<'a> TailReader<'a> {
    /// Reads nothing yet. About `held_max` bytes of records may wait for replay.
    pub(crate) fn new(
        media: &'a dyn Media,
        geometry: &LogGeometry,
        seed: u64,
        after: SeqNo,
        orders: &'a CopyOrders,
        sources: Vec<Source>,
        held_max: usize,
    ) -> TailReader<'a> {
        let mut begin_order: Vec<usize> = (0..sources.len()).collect();
        begin_order.sort_by_key(|n| sources[*n].first_seq);
        let slots = sources.iter().map(|_| Slot {
            state: State::Waiting,
            pieces: VecDeque::new(),
            durable: SeqNo::ZERO,
            failed: None,
        });
        let shared = Shared {
            slots: slots.collect(),
            held_bytes: 0,
            bytes_read: 0,
            locked: Vec::new(),
            wanted: None,
            stopped: false,
        };
        TailReader {
            media,
            geometry: *geometry,
            seed,
            after,
            orders,
            sources,
            begin_order,
            held_max,
            shared: Mutex::new(shared),
            changed: Condvar::new(),
        }
    }

    /// Reads segments ahead until all are begun or replay has ended. For a thread of its own.
    pub(crate) fn read_ahead(&self) {
        let mut spare = None;
        while let Some(n) = self.begin_next() {
            let claim = Claim { reader: self, n };
            let read = self.hand_over(n, &mut spare);
            claim.finish(read);
        }
    }

    fn begin_next(&self) -> Option<usize> {
        let mut shared = self.shared.lock();
        loop {
            let is_waiting = |n: &&usize| shared.slots[**n].state == State::Waiting;
            let next = self.begin_order.iter().find(is_waiting).copied()?;
            if shared.stopped {
                return None;
            }
            if shared.held_bytes < self.held_max {
                shared.slots[next].state = State::Begun;
                return Some(next);
            }
            self.changed.wait(&mut shared);
        }
    }

    /// Hands all pieces of a segment over; gives the largest durable order that it names.
    fn hand_over(&self, n: usize, spare: &mut Option<AlignedBuf>) -> Result<SeqNo> {
        let mut parser = self.parser(n, spare)?;
        while let Some(piece) = parser.next_piece(self) {
            let mut shared = self.shared.lock();
            while shared.held_bytes >= self.held_max && shared.wanted != Some(n) && !shared.stopped
            {
                self.changed.wait(&mut shared);
            }
            if shared.stopped {
                break;
            }
            shared.held_bytes += piece.bytes;
            shared.slots[n].pieces.push_back(piece);
            self.changed.notify_all();
        }
        let durable = parser.scanner.durable_seq();
        *spare = Some(parser.scanner.into_memory());
        Ok(durable)
    }

    fn parser(&self, n: usize, spare: &mut Option<AlignedBuf>) -> Result<Parser> {
        let Source {
            id, birth, last, ..
        } = self.sources[n];
        let load = |spare| SegmentScanner::load_into(self.media, &self.geometry, id, None, spare);
        let scanner = match load(spare.take()) {
            Ok(scanner) if scanner.birth() == birth => scanner,
            // A read that went astray shows nothing, or frames of an earlier life.
            Ok(_) | Err(LogError::Damaged(_)) => load(None)?,
            Err(error) => return Err(error.into()),
        };
        self.shared.lock().bytes_read += scanner.loaded_bytes();
        Ok(Parser { scanner, last })
    }

    fn finish(&self, mut shared: MutexGuard<'_, Shared>, n: usize, read: Result<SeqNo>) {
        let slot = &mut shared.slots[n];
        slot.state = State::Done;
        match read {
            Ok(durable) => slot.durable = durable,
            Err(error) => slot.failed = Some(error),
        }
        self.changed.notify_all();
    }

    /// The next piece of a segment that others read, or word that the caller must read it.
    fn take_piece(&self, n: usize) -> Result<Taken> {
        let mut shared = self.shared.lock();
        loop {
            let slot = &mut shared.slots[n];
            if let Some(piece) = slot.pieces.pop_front() {
                shared.held_bytes -= piece.bytes;
                shared.wanted = None;
                self.changed.notify_all();
                return Ok(Taken::Piece(piece));
            }
            match (slot.state, slot.failed.take()) {
                (_, Some(error)) => return Err(error),
                (State::Waiting, _) => {
                    slot.state = State::Taken;
                    return Ok(Taken::Unread);
                }
                (State::Done | State::Taken, _) => return Ok(Taken::End),
                (State::Begun, _) => {
                    shared.wanted = Some(n);
                    self.changed.notify_all();
                    self.changed.wait(&mut shared);
                }
            }
        }
    }

    /// The largest durable order that any frame of the tail names. Reads what was not read to its
    /// end so far.
    pub(crate) fn durable_of_all(&self) -> Result<SeqNo> {
        let mut durable = self.durable_so_far();
        for n in 0..self.sources.len() {
            if self.shared.lock().slots[n].state != State::Done {
                let parser = self.parser(n, &mut None)?;
                durable = durable.max(parser.scanner.durable_seq_of_all());
            }
        }
        Ok(durable)
    }

    /// The largest durable order that the segments name which were read to their end.
    pub(crate) fn durable_so_far(&self) -> SeqNo {
        let shared = self.shared.lock();
        let named = shared.slots.iter().map(|slot| slot.durable);
        named.max().unwrap_or_default()
    }

    /// Frames that are whole and cannot be decrypted, in words: each once.
    pub(crate) fn take_locked(&self) -> Vec<String> {
        std::mem::take(&mut self.shared.lock().locked)
    }

    /// Bytes read from the device.
    pub(crate) fn bytes_read(&self) -> u64 {
        self.shared.lock().bytes_read
    }

    /// What replay holds while it runs: when it goes, the threads end.
    pub(crate) fn stop_at_end(&self) -> Stop<'_, 'a> {
        Stop(self)
    }

    /// A member of a batch that was committed, or a record that settles another, as if it had been one like
    /// any other.
    pub(crate) fn member(
        &self,
        location: Location,
        record: &Record<'_>,
        keys: &mut Vec<u8>,
    ) -> TailRecord {
        let mut kept = TailRecord::new(&self.geometry, self.seed, location, record, keys);
        kept.what = match record.header.kind {
            RecordKind::Tombstone => What::Tombstone,
            _ => What::Put,
        };
        self.note_covered(&mut kept, record);
        kept
    }

    fn note_covered(&self, kept: &mut TailRecord, record: &Record<'_>) {
        let installs = matches!(kept.what, What::Put | What::Tombstone);
        if installs && self.orders.covers(kept.keyspace, record.key, record.seq) {
            kept.what = What::Covered;
        }
    }
}

/// Ends the threads that read ahead.
pub(crate) struct Stop<'r, 'a>(&'r TailReader<'a>);

impl Drop for Stop<'_, '_> {
    fn drop(&mut self) {
        self.0.shared.lock().stopped = true;
        self.0.changed.notify_all();
    }
}

enum Taken {
    Piece(Piece),
    Unread,
    End,
}

/// A segment begun: if its thread ends early, replay is told and does not wait for ever.
struct Claim<'r, 'a> {
    reader: &'r TailReader<'a>,
    n: usize,
}

impl Claim<'_, '_> {
    fn finish(self, read: Result<SeqNo>) {
        self.reader.finish(self.reader.shared.lock(), self.n, read);
    }
}

impl Drop for Claim<'_, '_> {
    fn drop(&mut self) {
        let shared = self.reader.shared.lock();
        if shared.slots[self.n].state == State::Begun {
            let lost = Error::internal("a thread that read the log ended early");
            self.reader.finish(shared, self.n, Err(lost));
        }
    }
}

impl Parser {
    /// The next records of the tail; none at the segment's end.
    fn next_piece(&mut self, reader: &TailReader<'_>) -> Option<Piece> {
        let mut piece = Piece::default();
        while !piece.is_full() {
            match self.scanner.next() {
                Some(Scanned::Record { location, record }) => {
                    if record.seq > reader.after && record.seq <= self.last {
                        piece.add(reader, location, &record);
                    }
                }
                Some(Scanned::Gap { error, .. }) if error.is_locked() => {
                    reader.shared.lock().locked.push(error.to_string());
                }
                // Whether another gap is damage shows in the orders that are missing.
                Some(Scanned::Gap { .. }) => {}
                None => break,
            }
        }
        (!piece.records.is_empty()).then_some(piece)
    }
}

impl Piece {
    fn add(&mut self, reader: &TailReader<'_>, location: Location, record: &Record<'_>) {
        if self.records.is_empty() {
            self.records.reserve_exact(PIECE_RECORDS);
        }
        let (geometry, seed, before) = (&reader.geometry, reader.seed, self.keys.len());
        let mut kept = TailRecord::new(geometry, seed, location, record, &mut self.keys);
        if kept.what == What::Whole {
            let whole = OwnedRecord::without_value(record);
            self.bytes += size_of::<OwnedRecord>() + whole.key.len() + whole.value.len();
            self.whole.push_back(whole);
        }
        reader.note_covered(&mut kept, record);
        self.bytes += size_of::<TailRecord>() + self.keys.len() - before;
        self.records.push(kept);
    }
}

/// One stream's records, one at a time.
pub(crate) struct StreamReader<'r, 'a> {
    reader: &'r TailReader<'a>,
    /// Numbers of its segments, in the order in which they were opened.
    segments: std::ops::Range<usize>,
    current: Option<usize>,
    /// The segment that this thread reads itself.
    own: Option<Parser>,
    spare: Option<AlignedBuf>,
    piece: Piece,
    at: usize,
}

impl<'r, 'a> StreamReader<'r, 'a> {
    /// Before the first of the records in these segments; [`StreamReader::fill`] goes to it.
    pub(crate) fn new(
        reader: &'r TailReader<'a>,
        segments: std::ops::Range<usize>,
    ) -> StreamReader<'r, 'a> {
        StreamReader {
            reader,
            segments,
            current: None,
            own: None,
            spare: None,
            piece: Piece::default(),
            at: 0,
        }
    }

    /// The next record's order; none at the end of the stream.
    pub(crate) fn next_seq(&self) -> Option<SeqNo> {
        self.piece.records.get(self.at).map(|r| r.seq)
    }

    /// Takes the next record, its segment, and all of it where that matters.
    pub(crate) fn take(&mut self) -> Option<(SegmentId, TailRecord, Option<OwnedRecord>)> {
        let record = *self.piece.records.get(self.at)?;
        let id = self.reader.sources[self.current?].id;
        self.at += 1;
        let is_whole = record.what == What::Whole;
        let whole = is_whole.then(|| self.piece.whole.pop_front()).flatten();
        Some((id, record, whole))
    }

    /// Longer keys of the record taken last.
    pub(crate) fn keys(&self) -> &[u8] {
        &self.piece.keys
    }

    /// Makes sure that the next record is at hand, if there is one.
    pub(crate) fn fill(&mut self) -> Result<()> {
        while self.at >= self.piece.records.len() {
            let Some(n) = self.current.or_else(|| self.segments.next()) else {
                return Ok(());
            };
            self.current = Some(n);
            match self.next_piece(n)? {
                Some(piece) => (self.piece, self.at) = (piece, 0),
                None => self.current = None,
            }
        }
        Ok(())
    }

    fn next_piece(&mut self, n: usize) -> Result<Option<Piece>> {
        if self.own.is_none() {
            match self.reader.take_piece(n)? {
                Taken::Piece(piece) => return Ok(Some(piece)),
                Taken::End => return Ok(None),
                Taken::Unread => match self.reader.parser(n, &mut self.spare) {
                    Err(_) if is(Canary::ReadErrorIgnored) => return Ok(None),
                    parser => self.own = Some(parser?),
                },
            }
        }
        let Some(mut parser) = self.own.take() else {
            return Ok(None);
        };
        if let Some(piece) = parser.next_piece(self.reader) {
            self.own = Some(parser);
            return Ok(Some(piece));
        }
        let durable = parser.scanner.durable_seq();
        self.spare = Some(parser.scanner.into_memory());
        let shared = self.reader.shared.lock();
        self.reader.finish(shared, n, Ok(durable));
        Ok(None)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use heliox_format::checksum::ChecksumSalt;
    use heliox_format::frame::FrameShape;
    use heliox_format::ids::Incarnation;
    use heliox_log::append::NewRecord;
    use heliox_log::segments::SegmentTable;
    use heliox_log::{Log, LogOptions, Stream};
    use heliox_media::MemoryMedia;

    use super::*;

    const SEGMENTS: u32 = 6;

    /// Two streams that fill several segments each, with keys of all lengths.
    fn written() -> (Arc<dyn Media>, LogGeometry) {
        let geometry = LogGeometry {
            segment_bytes: 4 << 20,
            segments: SEGMENTS,
            unit_shift: 0,
            sector_bytes: 512,
            salt: ChecksumSalt(7),
            shape: FrameShape::Plain,
        };
        let media = MemoryMedia::new(u64::from(SEGMENTS) * geometry.segment_bytes, 512).unwrap();
        let media: Arc<dyn Media> = Arc::new(media);
        let options = LogOptions {
            geometry,
            incarnation: Incarnation(1),
            next_seq: SeqNo(1),
            next_birth: Birth(1),
        };
        let log = Log::new(Arc::clone(&media), options, SegmentTable::new(SEGMENTS));
        let value = [1; 300];
        for n in 0..40_000u32 {
            let stream = match n % 3 {
                0 => Stream::Survivor,
                _ => Stream::User,
            };
            let key = [&n.to_be_bytes()[..], &vec![2; n as usize % 60]].concat();
            let record = NewRecord::new(RecordKind::Put, KeyspaceId(1), &key, &value);
            log.append(stream, &record).unwrap();
            if n % 5000 == 0 {
                log.sync().unwrap();
            }
        }
        log.sync().unwrap();
        (media, geometry)
    }

    /// Orders, keys and ends of all records of the streams, one stream after the other, or the one
    /// with the next order first.
    fn read(threads: usize, held_max: usize, merged: bool) -> Vec<(u64, Vec<u8>, u32)> {
        let (media, geometry) = written();
        let orders = CopyOrders::default();
        let mut streams = [Vec::new(), Vec::new()];
        for id in (0..SEGMENTS).map(SegmentId) {
            let found = SegmentScanner::load(&*media, &geometry, id, None);
            let Ok(scanner) = found else { continue };
            let header = scanner.header();
            let survivor = header.kind == heliox_format::segment::SegmentKind::Survivor;
            let (first_seq, last) = (header.first_seq, SeqNo::MAX);
            streams[usize::from(survivor)].push(Source {
                id,
                birth: header.birth,
                first_seq,
                last,
            });
        }
        streams
            .iter_mut()
            .for_each(|s| s.sort_by_key(|s| s.first_seq));
        let users = streams[0].len();
        assert!(users > 1 && streams[1].len() > 1);
        let sources = streams.concat();
        let after = SeqNo(10);
        let all = sources.len();
        let reader = TailReader::new(&*media, &geometry, 3, after, &orders, sources, held_max);
        thread::scope(|scope| {
            let _stop = reader.stop_at_end();
            for _ in 0..threads {
                scope.spawn(|| reader.read_ahead());
            }
            let mut streams = [0..users, users..all].map(|s| StreamReader::new(&reader, s));
            streams.iter_mut().for_each(|s| s.fill().unwrap());
            let mut seen = Vec::new();
            loop {
                let next = streams.iter_mut().filter(|s| s.next_seq().is_some());
                let next = match merged {
                    true => next.min_by_key(|s| s.next_seq()),
                    // The stream that was begun last comes first: nobody reads in that order.
                    false => next.last(),
                };
                let Some(stream) = next else { return seen };
                let (_, record, whole) = stream.take().unwrap();
                assert!(whole.is_none());
                let key = record.key(stream.keys()).to_vec();
                seen.push((record.seq.0, key, record.end));
                stream.fill().unwrap();
            }
        })
    }

    #[test]
    fn threads_and_memory_change_nothing() {
        let alone = read(0, 0, true);
        let wanted: Vec<u64> = (11..=40_000).collect();
        assert_eq!(alone.iter().map(|r| r.0).collect::<Vec<_>>(), wanted);
        for (seq, key, _) in &alone {
            assert_eq!(key[..4], ((*seq - 1) as u32).to_be_bytes());
            assert_eq!(key.len(), 4 + (*seq - 1) as usize % 60);
        }
        for held_max in [1, 64 << 10, 1 << 30] {
            assert_eq!(read(3, held_max, true), alone, "{held_max}");
            let mut other = read(3, held_max, false);
            other.sort();
            assert_eq!(other, alone, "{held_max}");
        }
    }
}
