//! Appending one record: location and order are given, the bytes laid into the tail, and the
//! account of the segments kept, all under one lock and without I/O.

use heliox_sync::atomic::Ordering;

use heliox_format::bytes::StackBytes;
use heliox_format::ids::{Birth, KeyspaceId, Location, SeqNo};
use heliox_format::limits::{BLOCK_BYTES, CHUNK_BYTES, KEY_BYTES_MAX};
use heliox_format::record::{RecordHeader, RecordKind, Settles, RECORD_HEADER_BYTES_MAX};
use heliox_format::segment::SegmentHeader;
use heliox_media::AlignedBuf;

use crate::chunk::{ActiveChunk, FrameContext, CHUNK_MEMORY_BYTES};
use crate::error::LogError;
use crate::heads::DeadHead;
use crate::log::{Frozen, Log, OpenSegment, State, Stream};
use crate::segments::SegmentState;
use crate::sums::{weight, Settlement};

/// Which member of a batch a record is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BatchMember {
    /// The first: its order names the batch.
    First,
    /// A later one, or the commit, of the batch whose first record has this order.
    Of(SeqNo),
}

/// A record to append.
#[derive(Clone, Copy, Debug)]
pub struct NewRecord<'a> {
    /// What it does.
    pub kind: RecordKind,
    /// The keyspace.
    pub keyspace: KeyspaceId,
    /// The key.
    pub key: &'a [u8],
    /// The value.
    pub value: &'a [u8],
    /// The keyed hash of the key; it goes into the account of the segment of `displaced`.
    pub key_hash: u64,
    /// The record whose entry this one replaces.
    pub displaced: Option<Location>,
    /// A record that lost its entry to another key, which this one makes good: entered together.
    pub settles: Option<Settlement>,
    /// The next older version, where it is not `displaced`.
    pub link: Option<Location>,
    /// When the value expires, in milliseconds since 1970.
    pub expiry_ms: Option<u64>,
    /// The order of the version that this is a copy of.
    pub version: Option<SeqNo>,
    /// Its place in a batch.
    pub batch: Option<BatchMember>,
    /// The value is a list of chunks.
    pub chunked: bool,
    /// What earlier records of the same write hold, which is lost with this one.
    pub carries: Option<Carried>,
    /// A retained copy of a tombstone.
    pub retained_tombstone: bool,
}

impl<'a> NewRecord<'a> {
    /// A record with nothing but the mandatory parts.
    #[must_use]
    pub fn new(
        kind: RecordKind,
        keyspace: KeyspaceId,
        key: &'a [u8],
        value: &'a [u8],
    ) -> NewRecord<'a> {
        NewRecord {
            kind,
            keyspace,
            key,
            value,
            key_hash: 0,
            displaced: None,
            settles: None,
            link: None,
            expiry_ms: None,
            version: None,
            batch: None,
            chunked: false,
            carries: None,
            retained_tombstone: false,
        }
    }

    /// The header that the record gets at order `seq`, but for the gap. Refuses what no reader would
    /// take for a record.
    ///
    /// # Errors
    /// [`LogError::Internal`] for a key or value beyond the limits, or a later order named.
    pub fn header(&self, seq: SeqNo) -> Result<RecordHeader, LogError> {
        if self.key.len() > KEY_BYTES_MAX || self.value.len() > CHUNK_BYTES {
            return Err(LogError::Internal("a record beyond the limits"));
        }
        let since = |older: SeqNo| {
            let delta = seq.0.checked_sub(older.0);
            delta.ok_or(LogError::Internal("a record that names a later order"))
        };
        let mut header = RecordHeader::new(self.kind, self.keyspace, self.key, self.value);
        header.displaced = self.displaced;
        header.link = self.link;
        header.expiry_ms = self.expiry_ms;
        header.version_delta = self.version.map(since).transpose()?;
        header.batch_offset = match self.batch {
            None => None,
            Some(BatchMember::First) => Some(0),
            Some(BatchMember::Of(first)) => Some(since(first)?),
        };
        header.chunked = self.chunked;
        header.retained_tombstone = self.retained_tombstone;
        header.settles = self.settles.map(|settlement| Settles {
            location: settlement.location,
            difference: settlement.difference,
        });
        Ok(header)
    }

    /// True if the index will point to the record.
    fn is_indexed(&self) -> bool {
        matches!(self.kind, RecordKind::Put | RecordKind::Tombstone)
    }
}

/// Bytes that count only with a later record: chunks without their head, members without their
/// commit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Carried {
    /// [`Log::user_appended_bytes`] before the first of them.
    pub since: u64,
    /// How many they are.
    pub bytes: u64,
}

/// Where a record went.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Appended {
    /// Its place.
    pub location: Location,
    /// Its order.
    pub seq: SeqNo,
    /// The generation of its segment.
    pub birth: Birth,
}

impl Log {
    /// Appends a record. Takes the lock; no I/O. The index calls this under a leaf's lock.
    ///
    /// # Errors
    /// [`LogError::Full`] if a segment is needed and none is free, [`LogError::Ended`] after
    /// [`Log::end`], [`LogError::Failed`] after an earlier failure, [`LogError::Internal`] for a
    /// record beyond the limits of the format; nothing was appended then.
    pub fn append(&self, stream: Stream, record: &NewRecord<'_>) -> Result<Appended, LogError> {
        self.check_failed()?;
        let mut state = self.state.lock();
        if state.ended {
            return Err(LogError::Ended);
        }
        let seq = state.next_seq;
        let header = record.header(seq)?;
        self.ensure_room(&mut state, stream, header.record_bytes_max())?;
        let before = tail_address(&state, stream);
        // A record that is half laid cannot be taken back: the log ends here.
        let laid = self.lay_record(&mut state, stream, header, record);
        let location = laid.map_err(|e| self.fail(e))?;
        let appended = self.account(&mut state, stream, record, location, seq);
        let laid_bytes = tail_address(&state, stream).saturating_sub(before);
        state.next_seq = seq.next();
        self.state.last_seq.store(seq.0, Ordering::Release);
        self.grow_unwritten(&mut state, laid_bytes);
        if stream == Stream::User {
            // Written under the lock only, so no read-modify-write is needed.
            let appended_bytes = &self.state.user_appended_bytes;
            let sum = appended_bytes.load(Ordering::Relaxed) + laid_bytes;
            let sum = sum + volatile_again(record, state.reached_user_bytes);
            appended_bytes.store(sum, Ordering::Relaxed);
        }
        Ok(appended)
    }

    /// Makes sure that the stream's segment has room for a record of at most so many bytes.
    fn ensure_room(
        &self,
        state: &mut State,
        stream: Stream,
        record_bytes: usize,
    ) -> Result<(), LogError> {
        if self.fits_open(state, stream, record_bytes) {
            return Ok(());
        }
        self.roll_segment(state, stream)
    }

    /// True if the record fits the segment that is appended to.
    ///
    /// The estimate is an upper bound, so no record ever crosses its segment's end. Frame headers:
    /// one more than the full blocks, and one if the open frame has no room. Alignment: up to a
    /// unit at the end of one frame, and again behind the header of the next. Padding: a sector.
    fn fits_open(&self, state: &State, stream: Stream, record_bytes: usize) -> bool {
        let header_bytes = self.geometry.shape.header_bytes();
        let blocks = record_bytes / (BLOCK_BYTES - header_bytes) + 2;
        let need = (record_bytes + blocks * header_bytes) as u64
            + self.geometry.sector_bytes as u64
            + (2 << self.geometry.unit_shift);
        let tail = &state.tails[stream as usize];
        match (tail.segment, &tail.active) {
            (Some(open), Some(active)) => active.address() + need <= self.geometry.end(open.id),
            _ => false,
        }
    }

    /// True if a record with so many bytes of key and value takes no free segment, as things are.
    #[must_use]
    pub fn fits_open_segment(&self, stream: Stream, bytes: usize) -> bool {
        self.fits_open(&self.state.lock(), stream, RECORD_HEADER_BYTES_MAX + bytes)
    }

    /// Seals the stream's segment and opens the next.
    fn roll_segment(&self, state: &mut State, stream: Stream) -> Result<(), LogError> {
        if state.table.free_count() == 0 {
            return Err(LogError::Full);
        }
        let memory = take_memory(state)?;
        self.freeze_active(state, stream);
        self.seal_open(state, stream);
        let (birth, seq) = (state.next_birth, state.next_seq);
        let id = state
            .table
            .open(stream.kind(), birth, seq)
            .ok_or(LogError::Full)?;
        state.heads.forget(id);
        // Whatever lies there next time, it may have been given back meanwhile.
        state.prepared = None;
        state.next_birth = Birth(birth.0 + 1);
        self.views.open(id, birth, seq, 0);
        self.publish_free(state);
        let start = self.geometry.start(id);
        let header = SegmentHeader {
            kind: stream.kind(),
            class: Default::default(),
            birth,
            incarnation: self.incarnation,
            first_seq: seq,
            previous: None,
            checkpoint: 0,
        };
        let context = self.frame_context(birth);
        let mut active = ActiveChunk::new(memory, start, self.geometry.end(id), context);
        let sector = header.encode(self.geometry.salt, start, self.geometry.sector_bytes);
        active.put_raw(&sector);
        self.grow_unwritten(state, sector.len() as u64);
        state.table.get_mut(id).used_bytes = sector.len() as u64;
        let tail = &mut state.tails[stream as usize];
        tail.segment = Some(OpenSegment { id, birth });
        tail.active = Some(active);
        Ok(())
    }

    pub(crate) fn seal_open(&self, state: &mut State, stream: Stream) {
        if let Some(open) = state.tails[stream as usize].segment.take() {
            let segment = state.table.get_mut(open.id);
            segment.state = SegmentState::Sealed;
        }
    }

    fn frame_context(&self, birth: Birth) -> FrameContext {
        FrameContext {
            salt: self.geometry.salt,
            shape: self.geometry.shape,
            sector_bytes: self.geometry.sector_bytes,
            birth,
            incarnation: self.incarnation,
        }
    }

    /// Ends the stream's active chunk, if it holds anything, and puts it in line for writing.
    pub(crate) fn freeze_active(&self, state: &mut State, stream: Stream) {
        let tail = &mut state.tails[stream as usize];
        let Some(active) = tail.active.take() else {
            return;
        };
        if active.is_empty() {
            state.pool.push(active.freeze().memory);
            return;
        }
        let unpadded = active.address();
        let chunk = active.freeze();
        let end = chunk.base + chunk.len as u64;
        if let Some(open) = tail.segment {
            state.table.get_mut(open.id).used_bytes = end - self.geometry.start(open.id);
        }
        self.grow_unwritten(state, end - unpadded);
        let tail = &mut state.tails[stream as usize];
        tail.frozen.push_back(Frozen {
            chunk: chunk.into(),
            written: false,
        });
    }

    /// Gives the stream an active chunk right after its last one.
    pub(crate) fn next_chunk(&self, state: &mut State, stream: Stream) -> Result<(), LogError> {
        let Some(open) = state.tails[stream as usize].segment else {
            return Err(LogError::Internal("a chunk without a segment"));
        };
        let base = self.geometry.start(open.id) + state.table.get(open.id).used_bytes;
        let memory = take_memory(state)?;
        let context = self.frame_context(open.birth);
        let active = ActiveChunk::new(memory, base, self.geometry.end(open.id), context);
        state.tails[stream as usize].active = Some(active);
        Ok(())
    }

    /// Makes sure that the active chunk has an open frame with room.
    fn open_frame(&self, state: &mut State, stream: Stream, seq: SeqNo) -> Result<(), LogError> {
        let durable = self.durable_seq();
        for _ in 0..2 {
            if let Some(active) = state.tails[stream as usize].active.as_mut() {
                if active.open_frame(seq, durable) {
                    return Ok(());
                }
            }
            self.freeze_active(state, stream);
            self.next_chunk(state, stream)?;
        }
        Err(LogError::Internal("a fresh chunk has no room for a frame"))
    }

    fn lay_record(
        &self,
        state: &mut State,
        stream: Stream,
        mut header: RecordHeader,
        record: &NewRecord<'_>,
    ) -> Result<Location, LogError> {
        let seq = state.next_seq;
        self.open_frame(state, stream, seq)?;
        self.align(state, stream, seq)?;
        let Some(active) = state.tails[stream as usize].active.as_mut() else {
            return Err(LogError::Internal("no active chunk"));
        };
        let location = self.geometry.location(active.address());
        header.seq_gap = active.start_record(seq);
        let mut head = StackBytes::<RECORD_HEADER_BYTES_MAX>::default();
        header.encode(&mut head);
        for part in [&head, record.key, record.value] {
            self.lay_bytes(state, stream, part)?;
        }
        if let Some(active) = state.tails[stream as usize].active.as_mut() {
            active.end_record();
        }
        Ok(location)
    }

    /// Goes to the next multiple of the location unit inside a frame with room.
    fn align(&self, state: &mut State, stream: Stream, seq: SeqNo) -> Result<(), LogError> {
        let unit = 1u64 << self.geometry.unit_shift;
        if unit == 1 {
            return Ok(());
        }
        // The open frame may end before the next multiple; a fresh one holds several. Behind a
        // fresh header the address need not be a multiple, so it takes its own alignment.
        for _ in 0..2 {
            if let Some(active) = state.tails[stream as usize].active.as_mut() {
                if active.align(unit) {
                    return Ok(());
                }
            }
            self.open_frame(state, stream, seq)?;
        }
        Err(LogError::Internal("a fresh frame has no aligned place"))
    }

    fn lay_bytes(
        &self,
        state: &mut State,
        stream: Stream,
        mut bytes: &[u8],
    ) -> Result<(), LogError> {
        let next = state.next_seq.next();
        while !bytes.is_empty() {
            if let Some(active) = state.tails[stream as usize].active.as_mut() {
                bytes = active.put(bytes);
                if bytes.is_empty() {
                    return Ok(());
                }
            }
            self.open_frame(state, stream, next)?;
        }
        Ok(())
    }

    fn account(
        &self,
        state: &mut State,
        stream: Stream,
        record: &NewRecord<'_>,
        location: Location,
        seq: SeqNo,
    ) -> Appended {
        let mut birth = Birth(0);
        if let Some(open) = state.tails[stream as usize].segment {
            birth = open.birth;
            let end = tail_address(state, stream);
            let segment = state.table.get_mut(open.id);
            segment.records += 1;
            segment.dead += u32::from(!record.is_indexed());
            segment.heads |= record.chunked;
            if record.is_indexed() {
                let sum = record.key_hash.wrapping_mul(weight(location));
                segment.appended_sum = segment.appended_sum.wrapping_add(sum);
            }
            segment.last_seq = seq;
            // Kept up to the record, so that a checkpoint's cut within a frame covers it.
            segment.used_bytes = end.saturating_sub(self.geometry.start(open.id));
            segment.packed_bytes += self.geometry.packed_bytes(location, end);
            if let Some(expiry_ms) = record.expiry_ms {
                state.table.add_expiry(open.id, expiry_ms);
            }
            if record.chunked && record.is_indexed() {
                state.heads.add(open.id, location);
            }
        }
        if let Some(settlement) = &record.settles {
            if let Some(id) = self.geometry.segment_at(settlement.location) {
                state.table.settle(id, settlement, seq);
            }
        }
        let segment_of = |l: Location| Some((l, self.geometry.segment_at(l)?));
        if let Some((old, id)) = record.displaced.and_then(segment_of) {
            let sum = record.key_hash.wrapping_mul(weight(old));
            let segment = state.table.get_mut(id);
            segment.dead += 1;
            segment.displaced += 1;
            segment.displaced_sum = segment.displaced_sum.wrapping_add(sum);
            segment.last_displaced = seq;
            let dead = DeadHead {
                location: old,
                key_hash: record.key_hash,
                death: seq,
            };
            state.heads.displace(id, dead, record.version.is_some());
        }
        Appended {
            location,
            seq,
            birth,
        }
    }
}

/// Bytes that a sync may have covered already although they are volatile until the record is durable.
fn volatile_again(record: &NewRecord<'_>, reached: u64) -> u64 {
    let carried = record.carries;
    carried.map_or(0, |c| reached.saturating_sub(c.since).min(c.bytes))
}

fn tail_address(state: &State, stream: Stream) -> u64 {
    let tail = &state.tails[stream as usize];
    tail.active.as_ref().map_or(0, ActiveChunk::address)
}

fn take_memory(state: &mut State) -> Result<AlignedBuf, LogError> {
    match state.pool.pop() {
        Some(memory) => Ok(memory),
        None => Ok(AlignedBuf::new(CHUNK_MEMORY_BYTES)?),
    }
}
