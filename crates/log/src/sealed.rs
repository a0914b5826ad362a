//! Media of an encrypted store: what lies above sees plain frames, what lies below only encrypted
//! ones. `FORMAT.md`, section "Encryption".
//!
//! Invariants:
//! - Nothing passes to the device but segment headers, frames encrypted here, and chunks that are
//!   encrypted already. Anything else is refused, so nothing plain ever reaches it.
//! - A frame is shown plain only if its checksum fits and its tag does. One whose checksum fits and
//!   whose tag does not, or that is not encrypted at all, is marked and refused by every reader.
//!
//! Frames are decrypted by whoever reads, encrypted by whoever writes. Threads: any.

use std::sync::Arc;

use heliox_format::checkpoint::{chunk_seal, peek_chunk, CHUNK_HEADER_BYTES};
use heliox_format::frame::{check_frame, frame_key, peek_frame, FrameShape};
use heliox_format::limits::SECTOR_BYTES_MIN;
use heliox_format::segment::SegmentHeader;
use heliox_media::{AlignedBuf, Geometry, IoKind, Media, MediaError, Read};
use heliox_sync::Mutex;

use crate::chunk::CHUNK_MEMORY_BYTES;
use crate::cipher::Cipher;
use crate::geometry::LogGeometry;

/// Media that encrypt what they are given.
pub struct SealedMedia {
    inner: Arc<dyn Media>,
    cipher: Arc<Cipher>,
    geometry: LogGeometry,
    /// What the last write used. The tail must stay plain while it is read.
    spare: Mutex<Option<AlignedBuf>>,
}

/// What a write carries.
enum Payload {
    /// Nothing that is secret, or only what is encrypted already.
    Ready,
    /// Frames from this byte on.
    Frames(usize),
}

impl SealedMedia {
    /// Memory that writes hold at most, one at a time.
    pub const MEMORY_BYTES: u64 = CHUNK_MEMORY_BYTES as u64;

    /// Encrypts what goes to `inner`, the space of the log.
    #[must_use]
    pub fn new(inner: Arc<dyn Media>, cipher: Arc<Cipher>, geometry: LogGeometry) -> SealedMedia {
        SealedMedia {
            inner,
            cipher,
            geometry,
            spare: Mutex::new(None),
        }
    }

    fn refused(&self, address: u64) -> MediaError {
        MediaError::Unusable {
            device: self.inner.describe().into(),
            reason: format!("what was to be written at {address:#x} is not of an encrypted store"),
        }
    }

    fn payload(&self, offset: u64, data: &[u8]) -> Option<Payload> {
        if offset.is_multiple_of(self.geometry.segment_bytes) {
            SegmentHeader::decode(self.geometry.salt, offset, data).ok()?;
            let sector = self.geometry.sector_bytes;
            let only = data.len() == sector;
            return Some(if only {
                Payload::Ready
            } else {
                Payload::Frames(sector)
            });
        }
        let Ok(chunk) = peek_chunk(offset, data) else {
            return Some(Payload::Frames(0));
        };
        let whole = CHUNK_HEADER_BYTES + chunk.payload_bytes as usize;
        let padded = whole.next_multiple_of(self.geometry.sector_bytes);
        let is_ready = chunk_seal(data).is_some() && padded == data.len();
        is_ready.then_some(Payload::Ready)
    }

    /// Encrypts all frames from byte `at` on; false if there is anything else.
    fn seal(&self, offset: u64, bytes: &mut [u8], mut at: usize) -> bool {
        while at < bytes.len() {
            let address = offset + at as u64;
            let rest = bytes.get_mut(at..).unwrap_or_default();
            let Ok(header) = peek_frame(FrameShape::Sealed, address, rest) else {
                return false;
            };
            let Some(frame) = rest.get_mut(..header.frame_bytes.into()) else {
                return false;
            };
            if !self.cipher.seal_frame(address, &header, frame) {
                return false;
            }
            at += frame.len();
        }
        true
    }

    /// Decrypts all frames among the bytes.
    fn open(&self, offset: u64, bytes: &mut [u8]) {
        let (shape, salt) = (FrameShape::Sealed, self.geometry.salt);
        let mut at = 0;
        while let Some(rest) = bytes.get_mut(at..).filter(|rest| !rest.is_empty()) {
            let address = offset + at as u64;
            at += match check_frame(shape, salt, address, rest) {
                Err(_) => SECTOR_BYTES_MIN,
                Ok(header) => {
                    let (key, len) = (frame_key(rest), usize::from(header.frame_bytes));
                    let frame = rest.get_mut(..len).unwrap_or_default();
                    self.cipher.open_frame(address, &header, key, frame);
                    len
                }
            };
        }
    }
}

impl Media for SealedMedia {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), MediaError> {
        self.inner.read_at(offset, buf)?;
        self.open(offset, buf);
        Ok(())
    }

    fn read_many(&self, reads: &mut [Read<'_>]) -> Result<(), MediaError> {
        self.inner.read_many(reads)?;
        for read in reads {
            self.open(read.offset, read.buf);
        }
        Ok(())
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), MediaError> {
        let payload = self.payload(offset, data);
        let from = match payload.ok_or_else(|| self.refused(offset))? {
            Payload::Ready => return self.inner.write_at(offset, data),
            Payload::Frames(from) => from,
        };
        let spare = self.spare.lock().take();
        let mut memory = match spare.filter(|memory| memory.len() >= data.len()) {
            Some(memory) => memory,
            None => AlignedBuf::for_read(data.len().max(CHUNK_MEMORY_BYTES))?,
        };
        let Some(bytes) = memory.get_mut(..data.len()) else {
            return Err(self.refused(offset));
        };
        bytes.copy_from_slice(data);
        if !self.seal(offset, bytes, from) {
            return Err(self.refused(offset));
        }
        let written = self.inner.write_at(offset, bytes);
        *self.spare.lock() = Some(memory);
        written
    }

    fn sync(&self) -> Result<(), MediaError> {
        self.inner.sync()
    }

    fn discard(&self, offset: u64, len_bytes: u64) -> Result<(), MediaError> {
        self.inner.discard(offset, len_bytes)
    }

    fn prepare(&self, offset: u64, len_bytes: u64) -> Result<u64, MediaError> {
        self.inner.prepare(offset, len_bytes)
    }

    fn describe(&self) -> String {
        format!("{}, encrypted", self.inner.describe())
    }

    fn allocated_bytes(&self) -> Result<u64, MediaError> {
        self.inner.allocated_bytes()
    }

    fn failure(&self) -> Option<MediaError> {
        self.inner.failure()
    }

    fn io_kind(&self) -> IoKind {
        self.inner.io_kind()
    }
}

#[cfg(test)]
mod tests {
    use heliox_format::checkpoint::{encode_chunk, ChunkHeader, ChunkKind};
    use heliox_format::checksum::ChecksumSalt;
    use heliox_format::frame::{open_frame, seal_frame};
    use heliox_format::ids::{Birth, Incarnation, SegmentId, SeqNo};
    use heliox_format::segment::SegmentKind;
    use heliox_media::MemoryMedia;
    use zeroize::Zeroizing;

    use super::*;
    use crate::cipher::DataKey;

    const SALT: ChecksumSalt = ChecksumSalt(3);
    const AT: u64 = 3 * 4096;

    fn sealed(inner: &Arc<MemoryMedia>, session: u8, first_birth: u32) -> SealedMedia {
        let key = DataKey::new(1, Birth(first_birth), Zeroizing::new([5; 32]));
        let cipher = Cipher::new(SALT, 4 << 20, [session; 16], vec![key]);
        let geometry = LogGeometry {
            segment_bytes: 4 << 20,
            segments: 2,
            unit_shift: 0,
            sector_bytes: 512,
            salt: SALT,
            shape: FrameShape::Sealed,
        };
        SealedMedia::new(inner.clone(), Arc::new(cipher), geometry)
    }

    fn device() -> Arc<MemoryMedia> {
        Arc::new(MemoryMedia::new(8 << 20, 512).unwrap())
    }

    fn aligned(bytes: &[u8]) -> AlignedBuf {
        let mut memory = AlignedBuf::new(bytes.len()).unwrap();
        memory.copy_from_slice(bytes);
        memory
    }

    fn frame(birth: u32) -> Vec<u8> {
        let mut frame = vec![0; 1024];
        frame[64..70].copy_from_slice(b"secret");
        let header = heliox_format::frame::FrameHeader {
            frame_bytes: 1024,
            used_bytes: 70,
            first_record: 64,
            birth: Birth(birth),
            incarnation: Incarnation(1),
            first_seq: SeqNo(1),
            durable_seq: SeqNo(0),
        };
        seal_frame(SALT, AT, &header, &mut frame);
        frame
    }

    fn read(media: &SealedMedia) -> Vec<u8> {
        let mut memory = AlignedBuf::new(4096).unwrap();
        media.read_at(AT, &mut memory).unwrap();
        memory.to_vec()
    }

    #[test]
    fn a_frame_comes_back_as_it_was_in_this_session_and_the_next() {
        let inner = device();
        let media = sealed(&inner, 1, 0);
        let plain = frame(7);
        media.write_at(AT, &aligned(&plain)).unwrap();
        let mut raw = vec![0; 1024];
        inner.peek(AT, &mut raw).unwrap();
        assert_ne!(raw[64..70], *b"secret");
        assert!(open_frame(FrameShape::Sealed, SALT, AT, &raw).is_err());
        assert_eq!(read(&media)[..1024], plain);
        assert_eq!(read(&sealed(&inner, 2, 0))[..1024], plain);
    }

    #[test]
    fn nothing_plain_passes() {
        let inner = device();
        let media = sealed(&inner, 1, 5);
        let refused = |at: u64, bytes: &[u8]| {
            let error = media.write_at(at, &aligned(bytes)).unwrap_err();
            assert!(
                error.to_string().contains("not of an encrypted store"),
                "{error}"
            );
        };
        refused(AT, &[7; 512]);
        // No segment header where one must be.
        refused(0, &frame(7));
        // A frame, and then something else.
        refused(AT, &[frame(7), vec![1; 512]].concat());
        // No key is for this birth.
        refused(AT, &frame(4));
        let header = ChunkHeader {
            kind: ChunkKind::Leaves,
            checkpoint: 1,
            number: 0,
            payload_bytes: 40,
        };
        refused(AT, &encode_chunk(SALT, AT, &header, &[3; 40], 512));
        let mut all = vec![0; 8 << 20];
        inner.peek(0, &mut all).unwrap();
        assert!(all.iter().all(|byte| *byte == 0));
        // What may pass.
        let segment = SegmentHeader {
            kind: SegmentKind::User,
            class: Default::default(),
            birth: Birth(7),
            incarnation: Incarnation(1),
            first_seq: SeqNo(1),
            previous: Some(SegmentId(1)),
            checkpoint: 0,
        };
        media
            .write_at(0, &aligned(&segment.encode(SALT, 0, 512)))
            .unwrap();
        media.write_at(AT, &aligned(&frame(5))).unwrap();
    }
}
