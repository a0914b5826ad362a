//! Finding the record at a location: in the unflushed tail, or on media with one read.
//!
//! Readers take no lock for what is on media. A location may be stale (its segment was reused
//! since the index was asked): that is found by the segment's birth, checked again after the read,
//! and by walking the frame, so that only a true record start is ever taken for a record.

use heliox_sync::atomic::{fence, Ordering};

use heliox_format::error::DecodeError;
use heliox_format::frame::{
    advance, open_frame, payload_room, peek_frame, FrameHeader, FrameShape,
};
use heliox_format::ids::{Birth, Location, SegmentId, SeqNo};
use heliox_format::limits::{BLOCK_BYTES, SECTOR_BYTES_MIN};
use heliox_format::record::{
    decode_header, Decoded, Record, RecordHeader, RECORD_HEADER_BYTES_MAX,
};
use heliox_media::{AlignedBuf, Read};

use crate::error::LogError;
use crate::geometry::LogGeometry;
use crate::log::{Log, State, Tail};

const BLOCK: u64 = BLOCK_BYTES as u64;
/// Most bytes of a first read; longer records take a second one.
const FIRST_READ_BYTES_MAX: u64 = 64 << 10;
/// Most bytes that neighbouring records share in one read.
const SHARED_READ_BYTES_MAX: u64 = 128 << 10;

/// Memory that a reader brings, reused from read to read.
#[derive(Default)]
pub struct ReadBuf {
    block: Option<AlignedBuf>,
    gather: Vec<u8>,
}

/// A record that was found, verified, and the generation of its segment.
#[derive(Clone, Copy, Debug)]
pub struct Found<'a> {
    /// The record.
    pub record: Record<'a>,
    /// The generation of the segment that holds it.
    pub birth: Birth,
    /// It was read from media, not from the tail.
    pub from_media: bool,
}

/// Takes what [`Log::read_many`] found: the index of the location and what is there.
pub type Visit<'v> = dyn FnMut(usize, Result<Option<Found<'_>>, LogError>) + 'v;

/// Where a record's bytes are.
#[derive(Clone, Copy, Debug)]
struct Parsed {
    header: RecordHeader,
    header_bytes: usize,
    seq: SeqNo,
}

/// What a record's order follows from, known before its header is whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum SeqBase {
    /// The first record of its frame: this is its order.
    First(SeqNo),
    /// The record before it in the frame has this order.
    After(SeqNo),
}

impl SeqBase {
    fn seq(self, header: &RecordHeader) -> SeqNo {
        match self {
            SeqBase::First(seq) => seq,
            SeqBase::After(previous) => {
                SeqNo(previous.0.saturating_add(1).saturating_add(header.seq_gap))
            }
        }
    }
}

impl Parsed {
    fn total(&self) -> usize {
        self.header_bytes + self.header.body_bytes()
    }

    fn record<'a>(&self, bytes: &'a [u8]) -> Record<'a> {
        let body = &bytes[self.header_bytes..self.total()];
        let (key, value) = body.split_at(self.header.key_bytes as usize);
        Record {
            header: self.header,
            seq: self.seq,
            key,
            value,
        }
    }
}

/// Contiguous bytes of media.
#[derive(Clone, Copy)]
struct Window<'a> {
    base: u64,
    bytes: &'a [u8],
}

impl<'a> Window<'a> {
    fn from(&self, address: u64) -> Option<&'a [u8]> {
        self.bytes
            .get(usize::try_from(address.checked_sub(self.base)?).ok()?..)
    }

    fn end(&self) -> u64 {
        self.base + self.bytes.len() as u64
    }
}

/// What the tail knows of a location.
enum InTail {
    /// The record was copied.
    Copied(Parsed),
    /// It lies in a part of the segment that is on media.
    OnMedia,
    /// No record is there in the life of the segment that was asked for.
    Nothing,
}

/// A verified frame that holds a target's address.
struct Frame {
    start: u64,
    header: FrameHeader,
}

/// A place to read from, before the read.
#[derive(Clone, Copy)]
struct Target {
    address: u64,
    segment: SegmentId,
    birth: Birth,
}

impl Log {
    /// Reads the record at `location`. `None`: no record is there (any more); ask the index again.
    ///
    /// Costs nothing on media for the unflushed tail, else one read of one or two blocks; a record
    /// that is much longer than its predecessors takes a second read.
    ///
    /// # Errors
    /// A device error, or damage at the record's frame.
    pub fn read<'b>(
        &self,
        location: Location,
        buf: &'b mut ReadBuf,
    ) -> Result<Option<Found<'b>>, LogError> {
        let Some(target) = self.target(location) else {
            return Ok(None);
        };
        let ReadBuf { block, gather } = buf;
        match self.read_tail(target, gather) {
            InTail::OnMedia => {}
            InTail::Nothing => return Ok(None),
            InTail::Copied(parsed) => return Ok(Some(found_in_tail(target, &parsed, gather))),
        }
        let (from, to) = self.first_read(target.address);
        let memory = reuse(block, (to - from) as usize)?;
        self.media.read_at(from, memory)?;
        self.count_read(to - from);
        let window = Window {
            base: from,
            bytes: memory,
        };
        self.parse(target, window, gather)
    }

    /// Reads many records, neighbours in one read, all reads in one submission. Calls `visit` with
    /// the index of each location, in any order; `None` as in [`Log::read`].
    ///
    /// # Errors
    /// A device error. Damage is given to `visit`.
    pub fn read_many(
        &self,
        locations: &[Location],
        buf: &mut ReadBuf,
        visit: &mut Visit<'_>,
    ) -> Result<(), LogError> {
        let mut wanted: Vec<(usize, Target)> = Vec::with_capacity(locations.len());
        for (i, location) in locations.iter().enumerate() {
            match self.target(*location) {
                None => visit(i, Ok(None)),
                Some(target) => match self.read_tail(target, &mut buf.gather) {
                    InTail::OnMedia => wanted.push((i, target)),
                    InTail::Nothing => visit(i, Ok(None)),
                    InTail::Copied(parsed) => {
                        visit(i, Ok(Some(found_in_tail(target, &parsed, &buf.gather))));
                    }
                },
            }
        }
        wanted.sort_unstable_by_key(|(_, t)| t.address);
        let spans = self.plan(&wanted);
        let mut memories = spans
            .iter()
            .map(|s| AlignedBuf::for_read((s.to - s.from) as usize))
            .collect::<Result<Vec<_>, _>>()?;
        let mut reads: Vec<Read<'_>> = spans
            .iter()
            .zip(&mut memories)
            .map(|(s, memory)| Read {
                offset: s.from,
                buf: memory,
            })
            .collect();
        self.media.read_many(&mut reads)?;
        drop(reads);
        for (span, memory) in spans.iter().zip(&memories) {
            self.count_read(span.to - span.from);
            let window = Window {
                base: span.from,
                bytes: memory,
            };
            for (i, target) in &wanted[span.first..span.last] {
                visit(*i, self.parse(*target, window, &mut buf.gather));
            }
        }
        Ok(())
    }

    fn target(&self, location: Location) -> Option<Target> {
        let segment = self.geometry.segment_at(location)?;
        let birth = self.views.birth(segment);
        let address = self.geometry.address(location);
        (birth.0 != 0).then_some(Target {
            address,
            segment,
            birth,
        })
    }

    fn count_read(&self, bytes: u64) {
        self.counters
            .record_bytes_read
            .fetch_add(bytes, Ordering::Relaxed);
        self.counters.record_reads.fetch_add(1, Ordering::Relaxed);
    }

    /// Which bytes to read for a record of which only the address is known.
    fn first_read(&self, address: u64) -> (u64, u64) {
        let from = LogGeometry::block_of(address);
        let mean = self.size_hint.load(Ordering::Relaxed);
        // A little more than the mean, so that a record at a block's end takes one read.
        let hint = (mean + mean / 8 + 16).min(FIRST_READ_BYTES_MAX);
        let end = advance(self.geometry.shape, address, hint).next_multiple_of(BLOCK);
        let segment_end = self.geometry.end(self.geometry.segment_of(address));
        (from, end.max(from + BLOCK).min(segment_end))
    }

    fn learn_size(&self, bytes: usize) {
        let hint = self.size_hint.load(Ordering::Relaxed);
        let bytes = bytes as u64;
        if hint != bytes {
            let next = hint - hint / 16 + bytes / 16 + u64::from(bytes > hint);
            self.size_hint.store(next, Ordering::Relaxed);
        }
    }

    fn plan(&self, wanted: &[(usize, Target)]) -> Vec<Span> {
        let mut spans: Vec<Span> = Vec::new();
        for (n, (_, target)) in wanted.iter().enumerate() {
            let (from, to) = self.first_read(target.address);
            match spans.last_mut() {
                Some(span)
                    if from <= span.to
                        && to - span.from <= SHARED_READ_BYTES_MAX
                        && self.geometry.segment_of(span.from) == target.segment =>
                {
                    span.to = span.to.max(to);
                    span.last = n + 1;
                }
                _ => spans.push(Span {
                    from,
                    to,
                    first: n,
                    last: n + 1,
                }),
            }
        }
        spans
    }

    // ---- the unflushed tail ----

    /// Copies the record out of the tail, if it is still there.
    fn read_tail(&self, target: Target, gather: &mut Vec<u8>) -> InTail {
        let offset = target.address - self.geometry.start(target.segment);
        if offset < self.views.written_bytes(target.segment) {
            return InTail::OnMedia;
        }
        let state = self.state.lock();
        // Lives begin and end under the lock: from here on this one stays what it is.
        if self.views.birth(target.segment) != target.birth {
            return InTail::Nothing;
        }
        if let Some(tail) = self.tail_of(&state, target.address) {
            let copied = self.copy_from_tail(tail, target.address, gather);
            return copied.map_or(InTail::Nothing, InTail::Copied);
        }
        if offset < self.views.written_bytes(target.segment) {
            return InTail::OnMedia;
        }
        InTail::Nothing
    }

    fn copy_from_tail(&self, tail: &Tail, address: u64, gather: &mut Vec<u8>) -> Option<Parsed> {
        let base = self.tail_seq(tail, address)?;
        gather.clear();
        gather_tail(
            self.geometry.shape,
            tail,
            address,
            RECORD_HEADER_BYTES_MAX,
            gather,
        );
        let Ok(Decoded::Record(header, header_bytes)) = decode_header(address, gather) else {
            return None;
        };
        let seq = base.seq(&header);
        let parsed = Parsed {
            header,
            header_bytes,
            seq,
        };
        gather.clear();
        gather_tail(self.geometry.shape, tail, address, parsed.total(), gather);
        (gather.len() == parsed.total()).then_some(parsed)
    }

    fn tail_of<'s>(&self, state: &'s State, address: u64) -> Option<&'s Tail> {
        state
            .tails
            .iter()
            .find(|tail| tail_bytes(tail, address).is_some())
    }

    /// The order of the record at `address`, found by walking its frame.
    fn tail_seq(&self, tail: &Tail, address: u64) -> Option<SeqBase> {
        let open = tail.active.as_ref().and_then(|a| a.open_frame_at(address));
        if let Some((start, first_record, first_seq)) = open {
            let frame = tail_bytes(tail, start)?;
            return walk(frame, first_record, first_seq, (address - start) as usize);
        }
        // Chunks start where frames do, so the walk may begin at the chunk or at the block.
        let block = LogGeometry::block_of(address);
        let chunk_base = tail.frozen.iter().map(|f| f.chunk.base);
        let active_base = tail.active.as_ref().map(|a| a.base());
        let base = chunk_base
            .chain(active_base)
            .filter(|b| *b <= address)
            .max()?;
        let mut at = self.geometry.first_frame(block).max(base);
        if at % self.geometry.segment_bytes == 0 {
            at = self.geometry.first_frame(at);
        }
        loop {
            let frame = tail_bytes(tail, at)?;
            let header = peek_frame(self.geometry.shape, at, frame).ok()?;
            if address < at + u64::from(header.used_bytes) {
                let first = header.first_record as usize;
                let target = address.checked_sub(at)? as usize;
                let used = frame.get(..header.used_bytes as usize)?;
                return walk(used, first, header.first_seq, target);
            }
            at += u64::from(header.frame_bytes);
        }
    }

    // ---- media ----

    /// Finds the record at the target in bytes that were read; reads more if it goes on beyond.
    fn parse<'b>(
        &self,
        target: Target,
        window: Window<'b>,
        gather: &'b mut Vec<u8>,
    ) -> Result<Option<Found<'b>>, LogError> {
        let result = self.parse_verified(target, window, gather);
        // What was read may belong to a later life of the segment: only now can it be trusted.
        fence(Ordering::Acquire);
        if self.views.birth(target.segment) != target.birth {
            return Ok(None);
        }
        result
    }

    fn parse_verified<'b>(
        &self,
        target: Target,
        window: Window<'b>,
        gather: &'b mut Vec<u8>,
    ) -> Result<Option<Found<'b>>, LogError> {
        let found = |parsed: Parsed, bytes: &'b [u8]| {
            self.learn_size(parsed.total());
            let record = parsed.record(bytes);
            Ok(Some(Found {
                record,
                birth: target.birth,
                from_media: true,
            }))
        };
        let Some(Frame { start, header }) = self.find_frame(target, window)? else {
            return Ok(None);
        };
        let used = header.used_bytes as usize;
        let Some(frame) = window.from(start).and_then(|b| b.get(..used)) else {
            return Err(LogError::Internal("a verified frame left its window"));
        };
        let offset = (target.address - start) as usize;
        let first_record = header.first_record as usize;
        let Some(base) = walk(frame, first_record, header.first_seq, offset) else {
            return Ok(None);
        };
        let here = &frame[offset..];
        if let Decoded::Record(header, header_bytes) = decode_header(target.address, here)? {
            let parsed = Parsed {
                header,
                header_bytes,
                seq: base.seq(&header),
            };
            if parsed.total() <= here.len() {
                return found(parsed, here);
            }
        }
        gather.clear();
        gather.extend_from_slice(here);
        let parsed = self.gather_media(target, window, start + used as u64, base, gather)?;
        found(parsed, gather)
    }

    /// The verified frame that holds the target's address; none in a segment's header.
    fn find_frame(&self, target: Target, window: Window<'_>) -> Result<Option<Frame>, LogError> {
        let first = self
            .geometry
            .first_frame(LogGeometry::block_of(target.address));
        if target.address < first {
            return Ok(None);
        }
        let mut at = first;
        let shape = self.geometry.shape;
        while let Ok(header) = peek_frame(shape, at, window.from(at).unwrap_or_default()) {
            let end = at + u64::from(header.frame_bytes);
            if target.address < end {
                break;
            }
            at = end;
        }
        let damage = match self.verify_frame(target, window, at) {
            Ok(frame) => return Ok(Some(frame)),
            Err(error) => error,
        };
        // A damaged neighbour must not hide this frame, nor lead past it: try every sector.
        let sectors = (first..=target.address).step_by(SECTOR_BYTES_MIN);
        let mut frames = sectors.map(|at| self.verify_frame(target, window, at));
        let frame = frames.find_map(Result::ok);
        frame.map(Some).ok_or(LogError::Damaged(damage))
    }

    /// The frame at `at`, if it is whole, of the right life, and holds the target.
    fn verify_frame(
        &self,
        target: Target,
        window: Window<'_>,
        at: u64,
    ) -> Result<Frame, DecodeError> {
        let bytes = window.from(at).unwrap_or_default();
        let header = open_frame(self.geometry.shape, self.geometry.salt, at, bytes)?;
        if header.birth != target.birth {
            let (want, have) = (u64::from(target.birth.0), u64::from(header.birth.0));
            return Err(DecodeError::new("frame", at, "birth", want, have));
        }
        let end = at + u64::from(header.frame_bytes);
        if target.address >= end {
            let want = target.address;
            return Err(DecodeError::new("frame", at, "frame size", want, end));
        }
        Ok(Frame { start: at, header })
    }

    /// Collects the rest of a record from the frames of the following blocks.
    fn gather_media(
        &self,
        target: Target,
        window: Window<'_>,
        mut block: u64,
        base: SeqBase,
        gather: &mut Vec<u8>,
    ) -> Result<Parsed, LogError> {
        let mut more: Option<(u64, AlignedBuf)> = None;
        loop {
            if let Decoded::Record(header, header_bytes) = decode_header(target.address, gather)? {
                let parsed = Parsed {
                    header,
                    header_bytes,
                    seq: base.seq(&header),
                };
                if gather.len() >= parsed.total() {
                    gather.truncate(parsed.total());
                    return Ok(parsed);
                }
                let last = advance(self.geometry.shape, target.address, parsed.total() as u64)
                    .next_multiple_of(BLOCK);
                if last > window.end() && more.is_none() && block >= window.end() {
                    more = Some((block, self.read_range(block, last)?));
                }
            } else if block >= window.end() && more.is_none() {
                // The header itself goes on beyond what was read.
                let one = self.read_range(block, block + BLOCK)?;
                self.take_frame(
                    target,
                    Window {
                        base: block,
                        bytes: &one,
                    },
                    block,
                    gather,
                )?;
                block += BLOCK;
                continue;
            }
            let source = match &more {
                Some((from, memory)) if block >= *from => Window {
                    base: *from,
                    bytes: memory,
                },
                _ => window,
            };
            self.take_frame(target, source, block, gather)?;
            block += BLOCK;
        }
    }

    /// Appends the payload of the frame at the start of `block`, up to its first own record.
    fn take_frame(
        &self,
        target: Target,
        source: Window<'_>,
        block: u64,
        gather: &mut Vec<u8>,
    ) -> Result<(), LogError> {
        let cut = || DecodeError::new("record", target.address, "continuation", block, 0);
        if !block.is_multiple_of(BLOCK) || block >= self.geometry.end(target.segment) {
            return Err(LogError::Damaged(cut()));
        }
        let bytes = source.from(block).ok_or_else(|| LogError::Damaged(cut()))?;
        let header = open_frame(self.geometry.shape, self.geometry.salt, block, bytes)?;
        if header.birth != target.birth {
            return Err(LogError::Damaged(cut()));
        }
        let to = match header.first_record {
            0 => header.used_bytes,
            first => first,
        };
        gather.extend_from_slice(&bytes[self.geometry.shape.header_bytes()..to as usize]);
        Ok(())
    }

    fn read_range(&self, from: u64, to: u64) -> Result<AlignedBuf, LogError> {
        let segment_end = self.geometry.end(self.geometry.segment_of(from));
        let to = to.min(segment_end);
        if to <= from {
            let error = DecodeError::new("record", from, "continuation", segment_end, to);
            return Err(LogError::Damaged(error));
        }
        let mut memory = AlignedBuf::for_read((to - from) as usize)?;
        self.media.read_at(from, &mut memory)?;
        self.count_read(to - from);
        Ok(memory)
    }
}

fn found_in_tail<'a>(target: Target, parsed: &Parsed, gather: &'a [u8]) -> Found<'a> {
    Found {
        record: parsed.record(gather),
        birth: target.birth,
        from_media: false,
    }
}

/// Bytes to read for the wanted records `first..last`.
struct Span {
    from: u64,
    to: u64,
    first: usize,
    last: usize,
}

fn reuse(slot: &mut Option<AlignedBuf>, len: usize) -> Result<&mut [u8], LogError> {
    if slot.as_ref().is_none_or(|b| b.len() < len) {
        *slot = Some(AlignedBuf::for_read(len)?);
    }
    match slot {
        Some(memory) => Ok(&mut memory[..len]),
        None => Err(LogError::Internal("no read buffer")),
    }
}

/// What the order of the record at offset `target` of a frame's used bytes follows from; none if
/// no record starts there.
fn walk(frame: &[u8], first_record: usize, first_seq: SeqNo, target: usize) -> Option<SeqBase> {
    if first_record == 0 {
        return None;
    }
    let (mut at, mut base) = (first_record, SeqBase::First(first_seq));
    while at < target {
        match decode_header(0, frame.get(at..)?).ok()? {
            Decoded::Padding => at += 1,
            Decoded::Record(header, header_bytes) => {
                base = SeqBase::After(base.seq(&header));
                at += header_bytes + header.body_bytes();
            }
            Decoded::Short => return None,
        }
    }
    let is_record = frame.get(at).is_some_and(|flags| *flags != 0);
    (at == target && is_record).then_some(base)
}

/// The tail's bytes from `address` on, as far as one chunk has them.
fn tail_bytes(tail: &Tail, address: u64) -> Option<&[u8]> {
    let active = tail.active.as_ref().and_then(|a| a.bytes_from(address));
    active.or_else(|| tail.frozen.iter().find_map(|f| f.chunk.bytes_from(address)))
}

/// Appends `n` payload bytes from `address` on, stepping over frame headers; fewer at the end.
fn gather_tail(shape: FrameShape, tail: &Tail, mut address: u64, n: usize, out: &mut Vec<u8>) {
    let goal = out.len() + n;
    while out.len() < goal {
        let Some(bytes) = tail_bytes(tail, address) else {
            return;
        };
        let take = bytes.len().min(payload_room(address)).min(goal - out.len());
        out.extend_from_slice(&bytes[..take]);
        address += take as u64;
        if address.is_multiple_of(BLOCK) {
            address += shape.header_bytes() as u64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_finds_record_starts_only() {
        use heliox_format::ids::KeyspaceId;
        use heliox_format::record::RecordKind;
        let mut frame = vec![0u8; 32];
        let mut header = RecordHeader::new(RecordKind::Put, KeyspaceId(1), b"k", b"vv");
        header.encode(&mut frame);
        frame.extend_from_slice(b"kvv");
        let second = frame.len();
        header.seq_gap = 4;
        header.encode(&mut frame);
        frame.extend_from_slice(b"kvv");
        assert_eq!(
            walk(&frame, 32, SeqNo(9), 32),
            Some(SeqBase::First(SeqNo(9)))
        );
        let base = walk(&frame, 32, SeqNo(9), second).unwrap();
        assert_eq!(base.seq(&header), SeqNo(14));
        assert_eq!(walk(&frame, 32, SeqNo(9), second - 1), None);
        assert_eq!(walk(&frame, 32, SeqNo(9), frame.len()), None);
        assert_eq!(walk(&frame, 0, SeqNo(9), 32), None);
    }

    #[test]
    fn a_life_that_ended_before_the_lock_was_taken_is_not_mixed_up_with_the_next() {
        use crate::append::NewRecord;
        use crate::log::{LogOptions, Stream};
        use crate::segments::SegmentTable;
        use heliox_format::checksum::ChecksumSalt;
        use heliox_format::ids::{Incarnation, KeyspaceId};
        use heliox_format::record::RecordKind;
        let options = LogOptions {
            geometry: LogGeometry {
                segment_bytes: 4 << 20,
                segments: 2,
                unit_shift: 0,
                sector_bytes: 512,
                salt: ChecksumSalt(1),
                shape: FrameShape::Plain,
            },
            incarnation: Incarnation(1),
            next_seq: SeqNo(1),
            next_birth: Birth(1),
        };
        let media = heliox_media::MemoryMedia::new(8 << 20, 512).unwrap();
        let log = Log::new(std::sync::Arc::new(media), options, SegmentTable::new(2));
        let small = NewRecord::new(RecordKind::Put, KeyspaceId(1), b"k", b"v");
        let value = vec![1; 1 << 20];
        let large = NewRecord::new(RecordKind::Put, KeyspaceId(1), b"k", &value);
        let old = log.append(Stream::User, &small).unwrap();
        // What a reader knows when it is interrupted right before it takes the lock.
        let stale = log.target(old.location).unwrap();
        let reopened = loop {
            let new = log.append(Stream::User, &large).unwrap();
            if new.birth == Birth(2) {
                log.sync().unwrap();
                log.retire(stale.segment);
                log.release(stale.segment);
                break log.append(Stream::Survivor, &small).unwrap();
            }
        };
        assert_eq!(
            reopened.location, old.location,
            "the same place in a new life"
        );
        let mut gather = Vec::new();
        assert!(matches!(log.read_tail(stale, &mut gather), InTail::Nothing));
        let fresh = log.target(old.location).unwrap();
        assert!(matches!(
            log.read_tail(fresh, &mut gather),
            InTail::Copied(_)
        ));
        log.sync().unwrap();
        // And a reader that was interrupted before its read of media.
        let window = log.read_range(0, 4096).unwrap();
        let window = Window {
            base: 0,
            bytes: &window,
        };
        assert!(log.parse(stale, window, &mut gather).unwrap().is_none());
        assert!(log.parse(fresh, window, &mut gather).unwrap().is_some());
    }
}
