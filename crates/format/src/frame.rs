//! Frames: what one flush writes, in pieces of at most one block. `FORMAT.md`, section "Frame".
//!
//! A frame lies inside one 4 KiB block and its size is a multiple of the device's sector, so a
//! reader that knows a record's address finds the frame by walking its block from the start. A
//! record may go on in the next frame, which then starts at the next block.

use crate::bytes::Reader;
use crate::checksum::{checksum, ChecksumSalt};
use crate::error::{DecodeError, KEY_FIELD, TAG_FIELD};
use crate::ids::{Birth, Incarnation, SeqNo};
use crate::limits::{BLOCK_BYTES, SECTOR_BYTES_MIN};
use crate::sealed::{LOCKED_PLAIN, LOCKED_TAG, SEALED_HEADER_BYTES};

/// Bytes of a plain frame's header; records follow.
pub const FRAME_HEADER_BYTES: usize = 32;
/// The version byte of a frame.
pub const FRAME_VERSION: u8 = 1;
const SEQ_BYTES: usize = 6;
/// Where the header says which data key a frame is encrypted with.
const KEY_AT: usize = 11;

/// How long the headers of a store's frames are: the same for all of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum FrameShape {
    /// [`FRAME_HEADER_BYTES`].
    #[default]
    Plain,
    /// Of an encrypted store: room for session and tag besides (`sealed`).
    Sealed,
}

impl FrameShape {
    /// Bytes of a frame's header.
    #[must_use]
    pub const fn header_bytes(self) -> usize {
        match self {
            FrameShape::Plain => FRAME_HEADER_BYTES,
            FrameShape::Sealed => SEALED_HEADER_BYTES,
        }
    }
}

/// A frame's header without its checksum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameHeader {
    /// Bytes from the frame's start to its end, padding included.
    pub frame_bytes: u16,
    /// Bytes from the frame's start to the end of the last record byte in it.
    pub used_bytes: u16,
    /// Offset of the first record that starts in this frame; 0 if none does.
    pub first_record: u16,
    /// The generation of the segment that holds the frame.
    pub birth: Birth,
    /// The run of the store that wrote it.
    pub incarnation: Incarnation,
    /// Order of the first record that starts here (if none does: of the next one to come).
    pub first_seq: SeqNo,
    /// All orders up to this one were durable when the frame was written.
    pub durable_seq: SeqNo,
}

/// Writes the header, checksum last, over the first bytes of `frame`, which must already hold the
/// records and the zero padding and be exactly `header.frame_bytes` long.
pub fn seal_frame(salt: ChecksumSalt, address: u64, header: &FrameHeader, frame: &mut [u8]) {
    frame[4..6].copy_from_slice(&header.frame_bytes.to_le_bytes());
    frame[6..8].copy_from_slice(&header.used_bytes.to_le_bytes());
    frame[8..10].copy_from_slice(&header.first_record.to_le_bytes());
    frame[10..12].copy_from_slice(&[FRAME_VERSION, 0]);
    frame[12..16].copy_from_slice(&header.birth.0.to_le_bytes());
    frame[16..20].copy_from_slice(&header.incarnation.0.to_le_bytes());
    frame[20..26].copy_from_slice(&header.first_seq.0.to_le_bytes()[..SEQ_BYTES]);
    frame[26..32].copy_from_slice(&header.durable_seq.0.to_le_bytes()[..SEQ_BYTES]);
    let crc = checksum(salt, address, &frame[4..]);
    frame[..4].copy_from_slice(&crc.to_le_bytes());
}

/// Decodes a header without checking the checksum: enough to walk a block.
///
/// # Errors
/// Sizes or offsets that no frame of this shape at this place can have.
pub fn peek_frame(
    shape: FrameShape,
    address: u64,
    bytes: &[u8],
) -> Result<FrameHeader, DecodeError> {
    let header_bytes = shape.header_bytes();
    let bad = |field, expected, found| DecodeError::new("frame", address, field, expected, found);
    let header = decode_header(bytes)
        .ok_or_else(|| bad("length", FRAME_HEADER_BYTES as u64, bytes.len() as u64))?;
    let (frame_bytes, used) = (header.frame_bytes as usize, header.used_bytes as usize);
    let room = BLOCK_BYTES - (address as usize % BLOCK_BYTES);
    if frame_bytes < SECTOR_BYTES_MIN || frame_bytes > room || frame_bytes % SECTOR_BYTES_MIN != 0 {
        return Err(bad("frame size", room as u64, frame_bytes as u64));
    }
    if !(header_bytes..=frame_bytes).contains(&used) {
        return Err(bad("used size", frame_bytes as u64, used as u64));
    }
    let first = header.first_record as usize;
    if first != 0 && !(header_bytes..used).contains(&first) {
        return Err(bad("first record", used as u64, first as u64));
    }
    if bytes[10] != FRAME_VERSION {
        return Err(bad(
            "version",
            u64::from(FRAME_VERSION),
            u64::from(bytes[10]),
        ));
    }
    Ok(header)
}

fn decode_header(bytes: &[u8]) -> Option<FrameHeader> {
    let mut reader = Reader::new(bytes);
    let _crc = reader.u32()?;
    let frame_bytes = reader.u16()?;
    let used_bytes = reader.u16()?;
    let first_record = reader.u16()?;
    let _version_and_flags = reader.u16()?;
    Some(FrameHeader {
        frame_bytes,
        used_bytes,
        first_record,
        birth: Birth(reader.u32()?),
        incarnation: Incarnation(reader.u32()?),
        first_seq: SeqNo(reader.uint(SEQ_BYTES)?),
        durable_seq: SeqNo(reader.uint(SEQ_BYTES)?),
    })
}

/// The id of the data key that a frame is encrypted with, 0 for one that is not. Of a header that was
/// decoded.
#[must_use]
pub fn frame_key(bytes: &[u8]) -> u8 {
    bytes.get(KEY_AT).copied().unwrap_or(0)
}

/// Says which data key a frame is encrypted with; its checksum is void then.
pub fn set_frame_key(bytes: &mut [u8], key: u8) {
    if let Some(place) = bytes.get_mut(KEY_AT) {
        *place = key;
    }
}

/// Decodes the frame at the start of `bytes`, which is not encrypted (any more), and checks its
/// checksum.
///
/// # Errors
/// Anything that differs from what [`seal_frame`] wrote at this address of this store.
pub fn open_frame(
    shape: FrameShape,
    salt: ChecksumSalt,
    address: u64,
    bytes: &[u8],
) -> Result<FrameHeader, DecodeError> {
    let locked =
        |field, expected, found| Err(DecodeError::new("frame", address, field, expected, found));
    peek_frame(shape, address, bytes)?;
    match frame_key(bytes) {
        // The checksum is void: the mark is not what is on media.
        LOCKED_TAG => locked(TAG_FIELD, 1, 0),
        LOCKED_PLAIN => locked(KEY_FIELD, 1, 0),
        0 => check_frame(shape, salt, address, bytes),
        key => {
            check_frame(shape, salt, address, bytes)?;
            locked(KEY_FIELD, 0, u64::from(key))
        }
    }
}

/// As [`open_frame`], for a frame that may be encrypted.
///
/// # Errors
/// As [`open_frame`].
pub fn check_frame(
    shape: FrameShape,
    salt: ChecksumSalt,
    address: u64,
    bytes: &[u8],
) -> Result<FrameHeader, DecodeError> {
    let header = peek_frame(shape, address, bytes)?;
    let Some(frame) = bytes.get(..header.frame_bytes as usize) else {
        let (want, have) = (u64::from(header.frame_bytes), bytes.len() as u64);
        return Err(DecodeError::new("frame", address, "length", want, have));
    };
    let stored = u32::from_le_bytes([frame[0], frame[1], frame[2], frame[3]]);
    let computed = checksum(salt, address, &frame[4..]);
    if stored != computed {
        let (want, have) = (u64::from(stored), u64::from(computed));
        return Err(DecodeError::new("frame", address, "checksum", want, have));
    }
    Ok(header)
}

/// How many payload bytes fit from `address` (inside a frame's payload) to the end of its block.
#[must_use]
pub fn payload_room(address: u64) -> usize {
    BLOCK_BYTES - (address as usize % BLOCK_BYTES)
}

/// The address right after `len` payload bytes that start at `address`, stepping over the frame
/// headers of the blocks in between. Ends at a block border are given as that border.
#[must_use]
pub fn advance(shape: FrameShape, address: u64, len: u64) -> u64 {
    let header_bytes = shape.header_bytes();
    let room = payload_room(address) as u64;
    if len <= room {
        return address + len;
    }
    let per_block = (BLOCK_BYTES - header_bytes) as u64;
    let beyond = len - room;
    let (blocks, last) = ((beyond - 1) / per_block, (beyond - 1) % per_block + 1);
    address + room + blocks * BLOCK_BYTES as u64 + header_bytes as u64 + last
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: FrameShape = FrameShape::Plain;

    fn sample(frame_bytes: u16) -> (FrameHeader, Vec<u8>) {
        let header = FrameHeader {
            frame_bytes,
            used_bytes: 40,
            first_record: 32,
            birth: Birth(7),
            incarnation: Incarnation(2),
            first_seq: SeqNo(99),
            durable_seq: SeqNo(42),
        };
        let mut frame = vec![0u8; frame_bytes as usize];
        frame[32..40].copy_from_slice(b"recordee");
        seal_frame(ChecksumSalt(5), 1024, &header, &mut frame);
        (header, frame)
    }

    #[test]
    fn a_sealed_frame_opens_at_its_own_address_only() {
        let (header, frame) = sample(1024);
        assert_eq!(open_frame(PLAIN, ChecksumSalt(5), 1024, &frame), Ok(header));
        assert!(open_frame(PLAIN, ChecksumSalt(5), 512, &frame).is_err());
        assert!(open_frame(PLAIN, ChecksumSalt(6), 1024, &frame).is_err());
    }

    #[test]
    fn every_flipped_bit_is_found() {
        let (_, frame) = sample(512);
        for bit in 0..frame.len() * 8 {
            let mut bad = frame.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(
                open_frame(PLAIN, ChecksumSalt(5), 1024, &bad).is_err(),
                "bit {bit}"
            );
        }
    }

    #[test]
    fn a_frame_may_not_cross_its_block() {
        let (_, frame) = sample(4096);
        assert_eq!(
            peek_frame(PLAIN, 1024, &frame).unwrap_err().field,
            "frame size",
            "3,072 bytes are left in the block"
        );
    }

    #[test]
    fn advance_steps_over_frame_headers() {
        assert_eq!(advance(PLAIN, 4096 + 32, 4064), 8192);
        assert_eq!(advance(PLAIN, 4096 + 32, 4065), 8192 + 33);
        assert_eq!(advance(PLAIN, 100, 3996 + 4064 + 4064), 3 * 4096);
        assert_eq!(advance(PLAIN, 100, 3996 + 4064 + 1), 2 * 4096 + 33);
        assert_eq!(advance(PLAIN, 50, 0), 50);
    }

    #[test]
    fn a_longer_header_is_part_of_every_bound() {
        let sealed = FrameShape::Sealed;
        assert_eq!(advance(sealed, 4096 + 64, 4032), 8192);
        assert_eq!(advance(sealed, 4096 + 64, 4033), 8192 + 65);
        // What is a frame of a plain store may end, or have records, within a sealed header.
        let (_, frame) = sample(512);
        let field = |shape| peek_frame(shape, 1024, &frame).map_err(|e| e.field);
        assert!(field(PLAIN).is_ok());
        assert_eq!(field(sealed), Err("used size"));
        let mut longer = frame.clone();
        longer[6] = 80;
        assert_eq!(
            peek_frame(sealed, 1024, &longer).map_err(|e| e.field),
            Err("first record")
        );
    }

    #[test]
    fn a_frame_that_is_encrypted_is_not_taken_for_one_that_is_not() {
        let (_, mut frame) = sample(512);
        for (key, field) in [
            (3, KEY_FIELD),
            (LOCKED_PLAIN, KEY_FIELD),
            (LOCKED_TAG, TAG_FIELD),
        ] {
            frame[KEY_AT] = key;
            let crc = checksum(ChecksumSalt(5), 1024, &frame[4..]);
            frame[..4].copy_from_slice(&crc.to_le_bytes());
            assert!(check_frame(PLAIN, ChecksumSalt(5), 1024, &frame).is_ok());
            let error = open_frame(PLAIN, ChecksumSalt(5), 1024, &frame).unwrap_err();
            assert_eq!((error.field, error.is_locked()), (field, true));
        }
        // A torn one is not taken for one that cannot be decrypted.
        frame[KEY_AT] = 3;
        let error = open_frame(PLAIN, ChecksumSalt(5), 1024, &frame).unwrap_err();
        assert_eq!((error.field, error.is_locked()), ("checksum", false));
    }
}
