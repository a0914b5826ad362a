//! The first sector of an open segment. `FORMAT.md`, section "Segment header".

use crate::bytes::{Reader, WriteBytes};
use crate::checksum::{checksum, ChecksumSalt};
use crate::error::DecodeError;
use crate::ids::{Birth, Incarnation, MediaClass, SegmentId, SeqNo};
use crate::limits::{BIRTH_MAX, ORDER_MAX};

const MAGIC: u32 = 0x4753_4c48; // "HLSG"
const VERSION: u16 = 1;
/// Bytes of a segment header; it is padded with zeros to one sector.
pub const SEGMENT_HEADER_BYTES: usize = 48;

/// What a segment is used for. The numbers are on media.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum SegmentKind {
    /// Records as users wrote them.
    User = 1,
    /// Records that garbage collection moved.
    Survivor = 2,
    /// A part of a checkpoint.
    Checkpoint = 3,
}

impl SegmentKind {
    /// The kind of a stored number.
    #[must_use]
    pub fn from_u8(value: u8) -> Option<SegmentKind> {
        Some(match value {
            1 => SegmentKind::User,
            2 => SegmentKind::Survivor,
            3 => SegmentKind::Checkpoint,
            _ => return None,
        })
    }
}

/// The decoded header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SegmentHeader {
    /// What the segment is used for.
    pub kind: SegmentKind,
    /// The class of its media.
    pub class: MediaClass,
    /// Which life of the segment this is.
    pub birth: Birth,
    /// Which run of the store opened it.
    pub incarnation: Incarnation,
    /// The order that the next record had when the segment was opened.
    pub first_seq: SeqNo,
    /// For a checkpoint: the segment before this one in the same checkpoint.
    pub previous: Option<SegmentId>,
    /// For a checkpoint: its number.
    pub checkpoint: u64,
}

impl SegmentHeader {
    /// The header as one sector of `sector_bytes`.
    #[must_use]
    pub fn encode(&self, salt: ChecksumSalt, address: u64, sector_bytes: usize) -> Vec<u8> {
        let mut out = Vec::with_capacity(sector_bytes);
        out.put_u32(0);
        out.put_u32(MAGIC);
        out.put_uint(u64::from(VERSION), 2);
        out.put(&[self.kind as u8, self.class.0]);
        out.put_u32(self.birth.0);
        out.put_u32(self.incarnation.0);
        out.put_u32(self.previous.map_or(u32::MAX, |s| s.0));
        out.put_u64(self.first_seq.0);
        out.put_u64(self.checkpoint);
        out.resize(sector_bytes.max(SEGMENT_HEADER_BYTES), 0);
        let crc = checksum(salt, address, &out[4..SEGMENT_HEADER_BYTES]);
        out[..4].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// True if the bytes are no damaged header either: none was written there, or it never arrived.
    #[must_use]
    pub fn is_absent(bytes: &[u8]) -> bool {
        let magic = MAGIC.to_le_bytes();
        let found = bytes.get(4..8).unwrap_or_default();
        let same = found.iter().zip(magic).filter(|(a, b)| *a == b);
        // A byte of it may be what is damaged.
        same.count() < magic.len() - 1
    }

    /// Decodes a header that was read from `address`.
    ///
    /// # Errors
    /// Bytes that are no header of this store at this address.
    pub fn decode(
        salt: ChecksumSalt,
        address: u64,
        bytes: &[u8],
    ) -> Result<SegmentHeader, DecodeError> {
        let bad = |field, expected, found| {
            DecodeError::new("segment header", address, field, expected, found)
        };
        let short = || bad("length", SEGMENT_HEADER_BYTES as u64, bytes.len() as u64);
        let head = bytes.get(..SEGMENT_HEADER_BYTES).ok_or_else(short)?;
        let mut reader = Reader::new(head);
        let stored = reader.u32().ok_or_else(short)?;
        let magic = reader.u32().ok_or_else(short)?;
        if magic != MAGIC {
            return Err(bad("magic", u64::from(MAGIC), u64::from(magic)));
        }
        let computed = checksum(salt, address, &head[4..]);
        if stored != computed {
            return Err(bad("checksum", u64::from(stored), u64::from(computed)));
        }
        let version = reader.u16().ok_or_else(short)?;
        if version != VERSION {
            return Err(bad("version", u64::from(VERSION), u64::from(version)));
        }
        let kind = reader.u8().ok_or_else(short)?;
        let kind = SegmentKind::from_u8(kind).ok_or_else(|| bad("kind", 1, u64::from(kind)))?;
        let header = SegmentHeader::decode_rest(kind, &mut reader).ok_or_else(short)?;
        let number = header.birth.0.max(header.incarnation.0);
        if number > BIRTH_MAX {
            return Err(bad("run or birth", u64::from(BIRTH_MAX), u64::from(number)));
        }
        if header.first_seq.0 > ORDER_MAX {
            return Err(bad("order", ORDER_MAX, header.first_seq.0));
        }
        Ok(header)
    }

    fn decode_rest(kind: SegmentKind, reader: &mut Reader<'_>) -> Option<SegmentHeader> {
        Some(SegmentHeader {
            kind,
            class: MediaClass(reader.u8()?),
            birth: Birth(reader.u32()?),
            incarnation: Incarnation(reader.u32()?),
            previous: match reader.u32()? {
                u32::MAX => None,
                id => Some(SegmentId(id)),
            },
            first_seq: SeqNo(reader.u64()?),
            checkpoint: reader.u64()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_round_trips_and_every_flipped_bit_is_found() {
        let header = SegmentHeader {
            kind: SegmentKind::Checkpoint,
            class: MediaClass(1),
            birth: Birth(77),
            incarnation: Incarnation(3),
            first_seq: SeqNo(1 << 40),
            previous: Some(SegmentId(9)),
            checkpoint: 12,
        };
        let sector = header.encode(ChecksumSalt(1), 1 << 20, 512);
        assert_eq!(sector.len(), 512);
        assert_eq!(
            SegmentHeader::decode(ChecksumSalt(1), 1 << 20, &sector),
            Ok(header)
        );
        assert!(!SegmentHeader::is_absent(&sector));
        assert!(SegmentHeader::is_absent(&[0; 512]) && SegmentHeader::is_absent(&[]));
        for bit in 0..SEGMENT_HEADER_BYTES * 8 {
            let mut bad = sector.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(SegmentHeader::decode(ChecksumSalt(1), 1 << 20, &bad).is_err());
            assert!(!SegmentHeader::is_absent(&bad), "bit {bit}");
        }
    }

    /// Opening a store counts on from what it finds: the next birth after the last possible one was
    /// a panic.
    #[test]
    fn numbers_without_a_next_are_refused() {
        let good = SegmentHeader {
            kind: SegmentKind::User,
            class: MediaClass(0),
            birth: Birth(BIRTH_MAX),
            incarnation: Incarnation(BIRTH_MAX),
            first_seq: SeqNo(ORDER_MAX),
            previous: None,
            checkpoint: u64::MAX,
        };
        let salt = ChecksumSalt(1);
        let decode = |header: SegmentHeader| {
            SegmentHeader::decode(salt, 0, &header.encode(salt, 0, 512)).map_err(|e| e.to_string())
        };
        assert_eq!(decode(good), Ok(good));
        let (mut birth, mut run, mut order) = (good, good, good);
        birth.birth = Birth(u32::MAX);
        run.incarnation = Incarnation(u32::MAX);
        order.first_seq = SeqNo(u64::MAX);
        for (header, field) in [
            (birth, "run or birth"),
            (run, "run or birth"),
            (order, "order"),
        ] {
            let error = decode(header).unwrap_err();
            assert!(error.contains(field), "{error}");
        }
    }
}
