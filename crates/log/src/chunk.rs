//! A piece of the unflushed tail: bytes of one stream that are contiguous on media, laid out in
//! frames while records are added.
//!
//! An [`ActiveChunk`] belongs to the log's lock. Frozen, it is shared and never changes again: the
//! flusher writes it and readers copy from it.

use heliox_format::checksum::ChecksumSalt;
use heliox_format::frame::{payload_room, seal_frame, FrameHeader, FrameShape, FRAME_HEADER_BYTES};
use heliox_format::ids::{Birth, Incarnation, SeqNo};
use heliox_format::limits::BLOCK_BYTES;
use heliox_media::AlignedBuf;

/// Bytes of a chunk's memory: what one write to media carries at most.
pub(crate) const CHUNK_MEMORY_BYTES: usize = 512 << 10;

/// What every frame of a chunk says alike.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FrameContext {
    pub(crate) salt: ChecksumSalt,
    pub(crate) shape: FrameShape,
    pub(crate) sector_bytes: usize,
    pub(crate) birth: Birth,
    pub(crate) incarnation: Incarnation,
}

/// The frame that is being filled.
#[derive(Clone, Copy, Debug)]
struct OpenFrame {
    start: usize,
    first_record: usize,
    first_seq: SeqNo,
    last_seq: SeqNo,
    durable_seq: SeqNo,
}

/// A chunk that records are added to.
#[derive(Debug)]
pub(crate) struct ActiveChunk {
    memory: AlignedBuf,
    base: u64,
    capacity: usize,
    position: usize,
    frame: Option<OpenFrame>,
    /// Up to here all records are whole.
    whole: usize,
    context: FrameContext,
}

/// A chunk that does not change any more.
#[derive(Debug)]
pub(crate) struct FrozenChunk {
    pub(crate) memory: AlignedBuf,
    /// Address of its first byte.
    pub(crate) base: u64,
    /// Bytes to write.
    pub(crate) len: usize,
    /// The last record goes on in the next chunk of the stream.
    pub(crate) ends_within_record: bool,
    /// The generation of the segment that it belongs to.
    pub(crate) birth: Birth,
}

impl ActiveChunk {
    /// A chunk for the bytes from `base` on, at most to `limit` (the segment's end).
    pub(crate) fn new(
        memory: AlignedBuf,
        base: u64,
        limit: u64,
        context: FrameContext,
    ) -> ActiveChunk {
        let to_border = memory.len() - (base as usize % BLOCK_BYTES);
        ActiveChunk {
            capacity: to_border.min((limit - base) as usize),
            memory,
            base,
            position: 0,
            frame: None,
            whole: 0,
            context,
        }
    }

    /// The address of the next byte.
    pub(crate) fn address(&self) -> u64 {
        self.base + self.position as u64
    }

    pub(crate) fn base(&self) -> u64 {
        self.base
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.position == 0
    }

    /// Adds raw bytes outside of any frame: the segment's header.
    pub(crate) fn put_raw(&mut self, bytes: &[u8]) {
        self.memory[self.position..self.position + bytes.len()].copy_from_slice(bytes);
        self.position += bytes.len();
        self.whole = self.position;
    }

    /// Makes sure that a frame with room for one byte is open; false if the chunk is full.
    pub(crate) fn open_frame(&mut self, next_seq: SeqNo, durable_seq: SeqNo) -> bool {
        if self.frame.is_some() && self.room() == 0 {
            self.finish_frame();
        }
        if self.frame.is_some() {
            return true;
        }
        if self.position >= self.capacity {
            return false;
        }
        self.frame = Some(OpenFrame {
            start: self.position,
            first_record: 0,
            first_seq: next_seq,
            last_seq: SeqNo::ZERO,
            durable_seq,
        });
        self.position += self.context.shape.header_bytes();
        true
    }

    fn room(&self) -> usize {
        // At a block's border the frame is full, not empty.
        let used_of_block = self.address() as usize % BLOCK_BYTES;
        if used_of_block == 0 {
            0
        } else {
            payload_room(self.address())
        }
    }

    /// Starts a record in the open frame; gives how many orders lie between it and the record
    /// before it in the frame.
    pub(crate) fn start_record(&mut self, seq: SeqNo) -> u64 {
        let offset = self.position;
        let Some(frame) = self.frame.as_mut() else {
            return 0;
        };
        let gap = if frame.first_record == 0 {
            frame.first_record = offset - frame.start;
            frame.first_seq = seq;
            0
        } else {
            seq.0 - frame.last_seq.0 - 1
        };
        frame.last_seq = seq;
        gap
    }

    /// Adds as many of the bytes as fit in the open frame; gives the rest.
    pub(crate) fn put<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let n = bytes.len().min(self.room());
        let (now, rest) = bytes.split_at(n);
        self.memory[self.position..self.position + n].copy_from_slice(now);
        self.position += n;
        rest
    }

    /// Adds zero bytes until the next address is a multiple of `unit`, a power of two; false if
    /// the open frame ends before there is room at such an address.
    pub(crate) fn align(&mut self, unit: u64) -> bool {
        let pad = (self.address().next_multiple_of(unit) - self.address()) as usize;
        let pad = pad.min(self.room());
        let end = self.position + pad;
        self.memory[self.position..end].fill(0);
        // Padding behind whole records cuts none of them.
        if self.whole == self.position {
            self.whole = end;
        }
        self.position = end;
        self.room() > 0 && self.address().is_multiple_of(unit)
    }

    /// Says that all records so far are whole.
    pub(crate) fn end_record(&mut self) {
        self.whole = self.position;
    }

    /// Pads and seals the open frame, if there is one.
    pub(crate) fn finish_frame(&mut self) {
        let Some(frame) = self.frame.take() else {
            return;
        };
        let used = self.position - frame.start;
        let padded = used.next_multiple_of(self.context.sector_bytes);
        let end = frame.start + padded;
        self.memory[self.position..end].fill(0);
        // Room for session and tag, if there is some: the memory was used before.
        let header_end = frame.start + self.context.shape.header_bytes();
        self.memory[frame.start + FRAME_HEADER_BYTES..header_end].fill(0);
        let header = FrameHeader {
            frame_bytes: padded as u16,
            used_bytes: used as u16,
            first_record: frame.first_record as u16,
            birth: self.context.birth,
            incarnation: self.context.incarnation,
            first_seq: frame.first_seq,
            durable_seq: frame.durable_seq,
        };
        let address = self.base + frame.start as u64;
        seal_frame(
            self.context.salt,
            address,
            &header,
            &mut self.memory[frame.start..end],
        );
        if self.whole == self.position {
            self.whole = end;
        }
        self.position = end;
    }

    /// Ends the chunk.
    pub(crate) fn freeze(mut self) -> FrozenChunk {
        self.finish_frame();
        FrozenChunk {
            base: self.base,
            len: self.position,
            ends_within_record: self.whole != self.position,
            memory: self.memory,
            birth: self.context.birth,
        }
    }

    /// The bytes so far, if `address` is among them.
    pub(crate) fn bytes_from(&self, address: u64) -> Option<&[u8]> {
        let from = usize::try_from(address.checked_sub(self.base)?).ok()?;
        self.memory
            .get(from..self.position)
            .filter(|b| !b.is_empty())
    }

    /// Where the frame that holds `address` starts, its first record and that record's order: only
    /// for the frame that is still open. Segments do not follow each other by address: what lies
    /// beyond the chunk may well be a chunk of an earlier segment.
    pub(crate) fn open_frame_at(&self, address: u64) -> Option<(u64, usize, SeqNo)> {
        let frame = self.frame.as_ref()?;
        let start = self.base + frame.start as u64;
        (start..self.address()).contains(&address).then_some((
            start,
            frame.first_record,
            frame.first_seq,
        ))
    }
}

impl FrozenChunk {
    /// The bytes from `address` on, if it is among them.
    pub(crate) fn bytes_from(&self, address: u64) -> Option<&[u8]> {
        let from = usize::try_from(address.checked_sub(self.base)?).ok()?;
        self.memory.get(from..self.len).filter(|b| !b.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use heliox_format::frame::open_frame;

    fn chunk(base: u64, limit: u64) -> ActiveChunk {
        let context = FrameContext {
            salt: ChecksumSalt(1),
            shape: FrameShape::Plain,
            sector_bytes: 512,
            birth: Birth(1),
            incarnation: Incarnation(1),
        };
        ActiveChunk::new(AlignedBuf::new(16384).unwrap(), base, limit, context)
    }

    #[test]
    fn a_flushed_frame_is_padded_and_the_next_starts_at_its_sector() {
        let mut chunk = chunk(4096 + 512, 1 << 20);
        assert!(chunk.open_frame(SeqNo(1), SeqNo(0)));
        assert_eq!(chunk.start_record(SeqNo(1)), 0);
        assert!(chunk.put(b"abc").is_empty());
        chunk.end_record();
        chunk.finish_frame();
        assert_eq!(chunk.address(), 4096 + 1024);
        assert!(chunk.open_frame(SeqNo(2), SeqNo(1)));
        chunk.start_record(SeqNo(3));
        chunk.put(b"d");
        assert_eq!(chunk.start_record(SeqNo(7)), 3);
        chunk.end_record();
        let frozen = chunk.freeze();
        assert_eq!((frozen.len, frozen.ends_within_record), (1024, false));
        let first = open_frame(
            FrameShape::Plain,
            ChecksumSalt(1),
            4096 + 512,
            &frozen.memory[..512],
        )
        .unwrap();
        assert_eq!((first.used_bytes, first.first_record), (35, 32));
        let second = open_frame(
            FrameShape::Plain,
            ChecksumSalt(1),
            4096 + 1024,
            &frozen.memory[512..1024],
        )
        .unwrap();
        assert_eq!((second.first_seq, second.durable_seq), (SeqNo(3), SeqNo(1)));
    }

    #[test]
    fn a_record_crosses_frames_and_the_chunk_knows_that_it_is_cut() {
        let mut chunk = chunk(3 * 4096 + 3584, 5 * 4096);
        assert!(chunk.open_frame(SeqNo(1), SeqNo(0)));
        chunk.start_record(SeqNo(1));
        let body = vec![7u8; 6000];
        let rest = chunk.put(&body);
        assert_eq!(rest.len(), 6000 - 480);
        assert!(chunk.open_frame(SeqNo(2), SeqNo(0)));
        let rest = chunk.put(rest);
        assert_eq!(rest.len(), 6000 - 480 - 4064);
        assert!(
            !chunk.open_frame(SeqNo(2), SeqNo(0)),
            "the limit is reached"
        );
        let frozen = chunk.freeze();
        assert_eq!((frozen.len, frozen.ends_within_record), (512 + 4096, true));
    }
}
