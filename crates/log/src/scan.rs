//! All records of a segment in the order in which they were appended.
//!
//! The only place that knows what a torn tail looks like. A scanner loads the whole segment and
//! then steps through its frames; what does not verify is passed over and, if frames of the same
//! life follow it, reported as a gap. Whether a gap is damage or a tail that was never durable is
//! for the caller to tell, by order.

use heliox_format::error::DecodeError;
use heliox_format::frame::{open_frame, peek_frame, FrameHeader};
use heliox_format::ids::{Birth, Location, SegmentId, SeqNo};
use heliox_format::limits::{BLOCK_BYTES, SECTOR_BYTES_MIN};
use heliox_format::record::{decode_header, Decoded, Record, RecordHeader};
use heliox_format::segment::{SegmentHeader, SegmentKind};
use heliox_media::{AlignedBuf, Media, Read};

use crate::error::LogError;
use crate::geometry::LogGeometry;

const READ_PIECE_BYTES: usize = 1 << 20;

/// What a scanner found.
#[derive(Debug)]
pub enum Scanned<'a> {
    /// A whole record.
    Record {
        /// Where it starts.
        location: Location,
        /// The record.
        record: Record<'a>,
    },
    /// Bytes that should be frames of this segment and do not verify.
    Gap {
        /// The first address that does not verify.
        from: u64,
        /// The address after it.
        to: u64,
        /// The first error.
        error: DecodeError,
    },
}

/// A record whose bytes go on in the next frame.
struct Partial {
    location: Location,
    from: usize,
    base: PartialBase,
    bytes: Vec<u8>,
}

#[derive(Clone, Copy)]
enum PartialBase {
    First(SeqNo),
    After(SeqNo),
}

/// A segment's header as it stands, or as its frames tell it.
#[derive(Clone, Debug)]
pub struct FoundHeader {
    /// The header. Without a whole one, kind and first order are guesses, and birth and incarnation
    /// are the first frame's.
    pub header: SegmentHeader,
    /// Whether it is the one on media.
    pub state: HeaderState,
}

/// What the header on media is worth.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum HeaderState {
    /// It verifies.
    Whole,
    /// There is none: in a crash the sector may not arrive while frames of the same write do. That
    /// costs nothing and is no damage, since the frames tell all that is needed.
    Absent,
    /// It was there once.
    Damaged(DecodeError),
}

/// Steps through the records of one segment.
pub struct SegmentScanner {
    geometry: LogGeometry,
    header: SegmentHeader,
    header_state: HeaderState,
    memory: AlignedBuf,
    base: u64,
    /// Frames are looked for up to here.
    limit: usize,
    /// The frame that is being read: the next record's offset and the end of its used bytes.
    cursor: usize,
    used_end: usize,
    next_frame: usize,
    last_seq: Option<SeqNo>,
    frame_first_seq: SeqNo,
    partial: Option<Partial>,
    finished: Vec<u8>,
    durable_seq: SeqNo,
    trailing_gap: bool,
}

/// Reads the header of a segment. `None`: no header of this store is there.
///
/// # Errors
/// A device error; damage reads as `None`.
pub fn read_segment_header(
    media: &dyn Media,
    geometry: &LogGeometry,
    id: SegmentId,
) -> Result<Option<SegmentHeader>, LogError> {
    let start = geometry.start(id);
    let mut sector = AlignedBuf::for_read(geometry.sector_bytes)?;
    media.read_at(start, &mut sector)?;
    Ok(SegmentHeader::decode(geometry.salt, start, &sector).ok())
}

/// As [`read_segment_header`] for many at once, in one submission; and where a header is damaged,
/// what the frames of its segment's first two blocks say of it. The header holds nothing that the
/// frames do not tell, so damage of it costs no record.
///
/// # Errors
/// A device error.
pub fn find_segment_headers(
    media: &dyn Media,
    geometry: &LogGeometry,
    ids: &[SegmentId],
) -> Result<Vec<Option<FoundHeader>>, LogError> {
    let found = read_headers(media, geometry, ids)?;
    // A read that went astray looks like a segment that was never written.
    let absent = ids.iter().zip(&found).filter(|(_, found)| found.is_none());
    let absent: Vec<SegmentId> = absent.map(|(id, _)| *id).collect();
    let mut again = read_headers(media, geometry, &absent)?.into_iter();
    let found = found.into_iter();
    Ok(found
        .map(|found| found.or_else(|| again.next().flatten()))
        .collect())
}

fn read_headers(
    media: &dyn Media,
    geometry: &LogGeometry,
    ids: &[SegmentId],
) -> Result<Vec<Option<FoundHeader>>, LogError> {
    let mut memory = AlignedBuf::for_read(ids.len().max(1) * 2 * BLOCK_BYTES)?;
    let pieces = memory.chunks_mut(2 * BLOCK_BYTES);
    let mut reads: Vec<Read<'_>> = ids
        .iter()
        .zip(pieces)
        .map(|(id, buf)| Read {
            offset: geometry.start(*id),
            buf,
        })
        .collect();
    media.read_many(&mut reads)?;
    drop(reads);
    let found = |(id, blocks): (&SegmentId, &[u8])| {
        decode_or_find(geometry, geometry.start(*id), blocks).ok()
    };
    Ok(ids
        .iter()
        .zip(memory.chunks(2 * BLOCK_BYTES))
        .map(found)
        .collect())
}

fn decode_or_find(
    geometry: &LogGeometry,
    start: u64,
    bytes: &[u8],
) -> Result<FoundHeader, DecodeError> {
    let damage = match SegmentHeader::decode(geometry.salt, start, bytes) {
        Ok(header) => {
            return Ok(FoundHeader {
                header,
                state: HeaderState::Whole,
            })
        }
        Err(error) => error,
    };
    let state = match SegmentHeader::is_absent(bytes) {
        true => HeaderState::Absent,
        false => HeaderState::Damaged(damage.clone()),
    };
    let sectors = (geometry.sector_bytes..bytes.len()).step_by(SECTOR_BYTES_MIN);
    let mut frames = sectors.filter_map(|at| {
        let frame = open_frame(
            geometry.shape,
            geometry.salt,
            start + at as u64,
            &bytes[at..],
        )
        .ok()?;
        Some(FoundHeader {
            header: SegmentHeader {
                kind: SegmentKind::User,
                class: Default::default(),
                birth: frame.birth,
                incarnation: frame.incarnation,
                first_seq: frame.first_seq,
                previous: None,
                checkpoint: 0,
            },
            state: state.clone(),
        })
    });
    match frames.next() {
        Some(found) if !damage.is_version() => Ok(found),
        _ => Err(damage),
    }
}

/// Fills the memory from `address`: in pieces that are all under way at once.
///
/// # Errors
/// A device error.
pub fn read_whole(
    media: &dyn Media,
    address: u64,
    memory: &mut AlignedBuf,
) -> Result<(), LogError> {
    let pieces = memory.chunks_mut(READ_PIECE_BYTES).enumerate();
    let mut reads: Vec<Read<'_>> = pieces
        .map(|(i, buf)| Read {
            offset: address + (i * READ_PIECE_BYTES) as u64,
            buf,
        })
        .collect();
    Ok(media.read_many(&mut reads)?)
}

impl SegmentScanner {
    /// Loads a segment. `used_bytes`: how much of it was written, where that is known; then bytes
    /// at its end that do not verify are a gap too.
    ///
    /// # Errors
    /// A device error, or neither a header nor a frame that verifies.
    pub fn load(
        media: &dyn Media,
        geometry: &LogGeometry,
        id: SegmentId,
        used_bytes: Option<u64>,
    ) -> Result<SegmentScanner, LogError> {
        SegmentScanner::load_into(media, geometry, id, used_bytes, None)
    }

    /// As [`SegmentScanner::load`], into memory that an earlier scanner gave back, if it is of the
    /// length needed.
    ///
    /// # Errors
    /// As [`SegmentScanner::load`].
    pub fn load_into(
        media: &dyn Media,
        geometry: &LogGeometry,
        id: SegmentId,
        used_bytes: Option<u64>,
        spare: Option<AlignedBuf>,
    ) -> Result<SegmentScanner, LogError> {
        let base = geometry.start(id);
        let used_bytes_max = used_bytes.unwrap_or(geometry.segment_bytes);
        let limit = used_bytes_max.min(geometry.segment_bytes) as usize;
        let padded = limit
            .max(geometry.sector_bytes)
            .next_multiple_of(BLOCK_BYTES);
        let len = padded.min(geometry.segment_bytes as usize);
        let mut memory = match spare.filter(|spare| spare.len() == len) {
            Some(spare) => spare,
            None => AlignedBuf::for_read(len)?,
        };
        read_whole(media, base, &mut memory)?;
        let found = decode_or_find(geometry, base, &memory)?;
        let mut scanner = SegmentScanner {
            geometry: *geometry,
            header: found.header,
            header_state: found.state,
            base,
            limit: limit.min(memory.len()),
            memory,
            cursor: 0,
            used_end: 0,
            next_frame: geometry.sector_bytes,
            last_seq: None,
            frame_first_seq: SeqNo::ZERO,
            partial: None,
            finished: Vec::new(),
            durable_seq: SeqNo::ZERO,
            trailing_gap: used_bytes.is_some(),
        };
        if used_bytes.is_none() {
            scanner.read_end_again(media)?;
        }
        Ok(scanner)
    }

    /// Reads the piece in which the frames end once more, and goes on with what it holds now: a read
    /// that went astray looks like an end, and nothing else would tell of the newest records.
    fn read_end_again(&mut self, media: &dyn Media) -> Result<(), LogError> {
        let mut at = self.end_of_chain(self.geometry.sector_bytes);
        while at + BLOCK_BYTES <= self.limit {
            let start = at / READ_PIECE_BYTES * READ_PIECE_BYTES;
            let end = (start + READ_PIECE_BYTES).min(self.memory.len());
            let mut piece = AlignedBuf::for_read(end - start)?;
            media.read_at(self.base + start as u64, &mut piece)?;
            // This read may be the one that went astray.
            let goes_on = |bytes| self.frame_at(at, bytes).is_some();
            if !piece.get(at - start..).is_some_and(goes_on) {
                break;
            }
            self.memory[start..end].copy_from_slice(&piece);
            at = self.end_of_chain(at);
        }
        Ok(())
    }

    /// Where the unbroken frames of this life from `at` on end.
    fn end_of_chain(&self, mut at: usize) -> usize {
        let frame = |at| self.frame_at(at, self.memory.get(at..self.limit)?);
        while let Some(header) = frame(at) {
            at += header.frame_bytes as usize;
        }
        at
    }

    /// The frame of this life that begins the bytes at `at`, if it verifies.
    fn frame_at(&self, at: usize, bytes: &[u8]) -> Option<FrameHeader> {
        let (shape, address) = (self.geometry.shape, self.base + at as u64);
        // The checksum is only worth computing for what claims to be a frame of this life.
        let header = peek_frame(shape, address, bytes).ok()?;
        let is_whole =
            self.is_ours(&header) && open_frame(shape, self.geometry.salt, address, bytes).is_ok();
        is_whole.then_some(header)
    }

    /// The segment's header.
    #[must_use]
    pub fn header(&self) -> &SegmentHeader {
        &self.header
    }

    /// Whether that is the header on media, or what the frames tell of it.
    #[must_use]
    pub fn header_state(&self) -> &HeaderState {
        &self.header_state
    }

    /// The largest durable order that a frame so far has named.
    #[must_use]
    pub fn durable_seq(&self) -> SeqNo {
        self.durable_seq
    }

    /// The largest durable order that any frame of the segment names.
    #[must_use]
    pub fn durable_seq_of_all(&self) -> SeqNo {
        let mut at = self.geometry.sector_bytes;
        let mut durable = SeqNo::ZERO;
        while let Some((start, header)) = self.frame_from(at) {
            durable = durable.max(header.durable_seq);
            at = start + header.frame_bytes as usize;
        }
        durable
    }

    /// Bytes of the segment that were read into memory.
    #[must_use]
    pub fn loaded_bytes(&self) -> u64 {
        self.memory.len() as u64
    }

    /// Gives its memory back, for the next scanner.
    #[must_use]
    pub fn into_memory(self) -> AlignedBuf {
        self.memory
    }

    /// How many bytes of the segment hold frames that verify, from its start.
    #[must_use]
    pub fn written_bytes(&self) -> u64 {
        self.next_frame as u64
    }

    /// The next record or gap; none at the end.
    #[allow(clippy::should_implement_trait)] // an item borrows the scanner
    pub fn next(&mut self) -> Option<Scanned<'_>> {
        Some(match self.advance()? {
            Step::Record(whole) => {
                let bytes = match whole.is_joined {
                    true => &self.finished[..],
                    false => &self.memory[whole.from..],
                };
                Scanned::Record {
                    location: whole.location,
                    record: record_of(whole.header, whole.header_bytes, whole.seq, bytes),
                }
            }
            Step::Bad(from, to, error) => Scanned::Gap { from, to, error },
        })
    }

    /// Finds all records at once; their bytes stay where they are, but that those which lie across frames are
    /// put together in place, over the headers between.
    #[must_use]
    pub fn into_records(mut self) -> SegmentRecords {
        let (mut found, mut damage) = (Vec::new(), None);
        while let Some(step) = self.advance() {
            match step {
                Step::Record(whole) => {
                    self.join_in_place(&whole);
                    found.push(Found {
                        location: whole.location,
                        seq: whole.seq,
                        from: whole.from as u32,
                    });
                }
                Step::Bad(_, _, error) => damage = Some(error),
            }
        }
        found.shrink_to_fit();
        SegmentRecords {
            scanner: self,
            found,
            damage,
        }
    }

    /// The bytes of the record from its start on, where frames divide them. All up to its end was stepped over.
    fn join_in_place(&mut self, whole: &Whole) {
        let total = whole.header_bytes + whole.header.body_bytes();
        let place = self.memory.get_mut(whole.from..whole.from + total);
        if let (true, Some(place)) = (whole.is_joined, place) {
            place.copy_from_slice(&self.finished[..total]);
        }
    }

    fn advance(&mut self) -> Option<Step> {
        loop {
            if self.cursor < self.used_end {
                match self.step_in_frame() {
                    Some(step) => return Some(step),
                    None => continue,
                }
            }
            match self.enter_frame() {
                Entered::End => return None,
                Entered::Gap(from, to, error) => return Some(Step::Bad(from, to, error)),
                Entered::Frame => {}
                Entered::Finished(whole) => return Some(Step::Record(whole)),
            }
        }
    }

    /// None: the frame holds no whole record here.
    fn step_in_frame(&mut self) -> Option<Step> {
        let from = self.cursor;
        let address = self.base + from as u64;
        let bytes = &self.memory[from..self.used_end];
        match decode_header(address, bytes) {
            Ok(Decoded::Padding) => {
                self.cursor += 1;
                None
            }
            Ok(Decoded::Record(header, header_bytes)) => {
                let total = header_bytes + header.body_bytes();
                if total > bytes.len() {
                    self.begin_partial();
                    return None;
                }
                let seq = self.partial_base().seq(&header);
                self.last_seq = Some(seq);
                self.cursor += total;
                let location = self.geometry.location(address);
                Some(Step::Record(Whole {
                    location,
                    from,
                    is_joined: false,
                    header,
                    header_bytes,
                    seq,
                }))
            }
            Ok(Decoded::Short) => {
                self.begin_partial();
                None
            }
            Err(error) => {
                let to = self.base + self.used_end as u64;
                self.cursor = self.used_end;
                Some(Step::Bad(address, to, error))
            }
        }
    }

    fn partial_base(&self) -> PartialBase {
        match self.last_seq {
            None => PartialBase::First(self.frame_first_seq),
            Some(seq) => PartialBase::After(seq),
        }
    }

    fn begin_partial(&mut self) {
        self.partial = Some(Partial {
            location: self.geometry.location(self.base + self.cursor as u64),
            from: self.cursor,
            base: self.partial_base(),
            bytes: self.memory[self.cursor..self.used_end].to_vec(),
        });
        self.cursor = self.used_end;
    }

    /// Goes to the next frame that verifies.
    fn enter_frame(&mut self) -> Entered {
        let expected = self.next_frame;
        let Some((start, header)) = self.frame_from(expected) else {
            return self.end_of_frames(expected);
        };
        let end = start + header.frame_bytes as usize;
        if start != expected {
            self.partial = None;
            // The next call enters the frame itself.
            self.next_frame = start;
            let error = self.error_at(expected);
            return Entered::Gap(self.base + expected as u64, self.base + start as u64, error);
        }
        self.next_frame = end;
        self.durable_seq = self.durable_seq.max(header.durable_seq);
        self.frame_first_seq = header.first_seq;
        self.last_seq = None;
        self.used_end = start + header.used_bytes as usize;
        self.cursor = match header.first_record {
            0 => self.used_end,
            first => start + first as usize,
        };
        self.continue_partial(start)
    }

    /// Adds this frame's part of a record that began before it.
    fn continue_partial(&mut self, start: usize) -> Entered {
        let Some(mut partial) = self.partial.take() else {
            return Entered::Frame;
        };
        let header_bytes = self.geometry.shape.header_bytes();
        partial
            .bytes
            .extend_from_slice(&self.memory[start + header_bytes..self.cursor]);
        let address = self.geometry.address(partial.location);
        match decode_header(address, &partial.bytes) {
            Ok(Decoded::Record(header, header_bytes))
                if partial.bytes.len() >= header_bytes + header.body_bytes() =>
            {
                let seq = partial.base.seq(&header);
                self.finished = partial.bytes;
                Entered::Finished(Whole {
                    location: partial.location,
                    from: partial.from,
                    is_joined: true,
                    header,
                    header_bytes,
                    seq,
                })
            }
            Ok(_) if self.cursor == self.used_end => {
                self.partial = Some(partial);
                Entered::Frame
            }
            Ok(_) => {
                let to = self.base + self.cursor as u64;
                let error = DecodeError::new("record", address, "continuation", 1, 0);
                Entered::Gap(address, to, error)
            }
            Err(error) => Entered::Gap(address, self.base + self.cursor as u64, error),
        }
    }

    fn end_of_frames(&mut self, at: usize) -> Entered {
        let missing = self.trailing_gap && at < self.limit;
        if let Some((len, error)) = self.locked_at(at) {
            self.next_frame = at + len;
            let from = self.base + at as u64;
            return Entered::Gap(from, from + len as u64, error);
        }
        self.next_frame = at;
        if !missing {
            return Entered::End;
        }
        self.trailing_gap = false;
        let error = self.error_at(at);
        Entered::Gap(self.base + at as u64, self.base + self.limit as u64, error)
    }

    /// The length of the frame of this life at `at` that is whole and cannot be decrypted.
    fn locked_at(&self, at: usize) -> Option<(usize, DecodeError)> {
        let address = self.base + at as u64;
        let bytes = self.memory.get(at..self.limit)?;
        let header = peek_frame(self.geometry.shape, address, bytes).ok()?;
        let error = open_frame(self.geometry.shape, self.geometry.salt, address, bytes).err()?;
        let is_locked = self.is_ours(&header) && error.is_locked();
        is_locked.then(|| (header.frame_bytes.into(), error))
    }

    fn is_ours(&self, header: &FrameHeader) -> bool {
        header.birth == self.header.birth && header.incarnation == self.header.incarnation
    }

    fn error_at(&self, at: usize) -> DecodeError {
        let address = self.base + at as u64;
        let bytes = self.memory.get(at..).unwrap_or_default();
        match open_frame(self.geometry.shape, self.geometry.salt, address, bytes) {
            Err(error) => error,
            Ok(header) => {
                let (want, have) = (self.header.birth, header.birth);
                DecodeError::new("frame", address, "birth", want.0.into(), have.0.into())
            }
        }
    }

    /// The first frame of this life at or after `at`.
    fn frame_from(&self, mut at: usize) -> Option<(usize, FrameHeader)> {
        while at + self.geometry.shape.header_bytes() <= self.limit {
            let frame = self.frame_at(at, &self.memory[at..]);
            if let Some(header) = frame {
                return Some((at, header));
            }
            at += SECTOR_BYTES_MIN;
        }
        None
    }

    /// The generation that is being scanned.
    #[must_use]
    pub fn birth(&self) -> Birth {
        self.header.birth
    }
}

impl PartialBase {
    fn seq(self, header: &RecordHeader) -> SeqNo {
        match self {
            PartialBase::First(seq) => seq,
            PartialBase::After(previous) => {
                SeqNo(previous.0.saturating_add(1).saturating_add(header.seq_gap))
            }
        }
    }
}

/// The records of a segment that was scanned to its end.
pub struct SegmentRecords {
    /// At its end; it holds the bytes.
    scanner: SegmentScanner,
    found: Vec<Found>,
    damage: Option<DecodeError>,
}

/// A record that was found. Small, as there may be hundreds of thousands: the header is decoded again.
#[derive(Clone, Copy)]
struct Found {
    location: Location,
    seq: SeqNo,
    /// Its first byte.
    from: u32,
}

impl SegmentRecords {
    /// The records, in the order in which they were appended.
    pub fn iter(&self) -> impl Iterator<Item = (Location, Record<'_>)> {
        self.found.iter().filter_map(|found| self.record(*found))
    }

    fn record(&self, found: Found) -> Option<(Location, Record<'_>)> {
        let address = self.scanner.geometry.address(found.location);
        let bytes = self.scanner.memory.get(found.from as usize..)?;
        // It did when it was found.
        let Ok(Decoded::Record(header, header_bytes)) = decode_header(address, bytes) else {
            return None;
        };
        let record = record_of(header, header_bytes, found.seq, bytes);
        Some((found.location, record))
    }

    /// What did not verify among them, last.
    #[must_use]
    pub fn damage(&self) -> Option<&DecodeError> {
        self.damage.as_ref()
    }

    /// The generation that was scanned.
    #[must_use]
    pub fn birth(&self) -> Birth {
        self.scanner.birth()
    }

    /// Bytes of the segment that were read into memory.
    #[must_use]
    pub fn loaded_bytes(&self) -> u64 {
        self.scanner.loaded_bytes()
    }

    /// Gives its memory back, for the next scanner.
    #[must_use]
    pub fn into_memory(self) -> AlignedBuf {
        self.scanner.into_memory()
    }
}

enum Step {
    Record(Whole),
    Bad(u64, u64, DecodeError),
}

struct Whole {
    location: Location,
    /// Its first byte in the segment.
    from: usize,
    /// Frames divide it: its bytes are those that were finished last.
    is_joined: bool,
    header: RecordHeader,
    header_bytes: usize,
    seq: SeqNo,
}

enum Entered {
    Frame,
    Finished(Whole),
    Gap(u64, u64, DecodeError),
    End,
}

fn record_of(header: RecordHeader, header_bytes: usize, seq: SeqNo, bytes: &[u8]) -> Record<'_> {
    let body = &bytes[header_bytes..header_bytes + header.body_bytes()];
    let (key, value) = body.split_at(header.key_bytes as usize);
    Record {
        header,
        seq,
        key,
        value,
    }
}
