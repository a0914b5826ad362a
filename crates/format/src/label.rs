//! The label of a volume: which store it belongs to and which part of it. `FORMAT.md`, "Label".
//!
//! A label is written when the store is created (and where it is damaged, the same again), so that a wrong, missing or foreign device
//! is refused by name before anything of it is trusted.

use crate::bytes::{Reader, WriteBytes};
use crate::checksum::{checksum, ChecksumSalt};
use crate::error::DecodeError;
use crate::ids::{MediaClass, StoreUuid};

const MAGIC: u64 = 0x314c_424c_584c_4548; // "HELXLBL1"
const VERSION: u32 = 1;
/// Bytes of a label; it is padded with zeros to one block.
pub const LABEL_BYTES: usize = 72;
/// Where the label stands in its volume.
pub const LABEL_OFFSET: u64 = 0;
/// Bytes at the start of each volume that hold its label and the superblocks.
pub const HEAD_BYTES: u64 = 1 << 20;

/// What a label says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Label {
    /// The store.
    pub uuid: StoreUuid,
    /// Which of the store's volumes this is, from 0.
    pub volume: u16,
    /// How many volumes the store has.
    pub volumes: u16,
    /// The class of media that the volume belongs to.
    pub class: MediaClass,
    /// Bytes of the volume that the store uses, head included.
    pub volume_bytes: u64,
    /// Bytes of a stripe unit.
    pub stripe_bytes: u32,
    /// When the store was created, in milliseconds since 1970.
    pub created_ms: u64,
}

impl Label {
    /// The label as one block.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.put_u64(MAGIC);
        out.put_u32(0);
        out.put_u32(VERSION);
        out.put(&self.uuid.0);
        out.put_uint(u64::from(self.volume), 2);
        out.put_uint(u64::from(self.volumes), 2);
        out.put_u32(u32::from(self.class.0));
        out.put_u64(self.volume_bytes);
        out.put_u32(self.stripe_bytes);
        out.put_u64(self.created_ms);
        out.resize(LABEL_BYTES, 0);
        let crc = checksum(ChecksumSalt(0), LABEL_OFFSET, &out[12..]);
        out[8..12].copy_from_slice(&crc.to_le_bytes());
        out.resize(crate::limits::BLOCK_BYTES, 0);
        out
    }

    /// Decodes the block at [`LABEL_OFFSET`] of a volume. `Ok(None)`: the block holds no label.
    ///
    /// # Errors
    /// A label that is damaged, or of another version.
    pub fn decode(bytes: &[u8]) -> Result<Option<Label>, DecodeError> {
        let bad = |field, expected, found| {
            DecodeError::new("label", LABEL_OFFSET, field, expected, found)
        };
        let short = || bad("length", LABEL_BYTES as u64, bytes.len() as u64);
        let head = bytes.get(..LABEL_BYTES).ok_or_else(short)?;
        let mut reader = Reader::new(head);
        let magic = reader.u64().ok_or_else(short)?;
        let stored = reader.u32().ok_or_else(short)?;
        let computed = checksum(ChecksumSalt(0), LABEL_OFFSET, &head[12..]);
        if magic != MAGIC {
            // With the checksum of a label it is one, and the volume not an empty one.
            return if stored == computed {
                Err(bad("magic", MAGIC, magic))
            } else {
                Ok(None)
            };
        }
        if stored != computed {
            return Err(bad("checksum", u64::from(stored), u64::from(computed)));
        }
        let version = reader.u32().ok_or_else(short)?;
        if version != VERSION {
            return Err(bad("version", u64::from(VERSION), u64::from(version)));
        }
        Label::decode_rest(&mut reader).map(Some).ok_or_else(short)
    }

    fn decode_rest(reader: &mut Reader<'_>) -> Option<Label> {
        Some(Label {
            uuid: StoreUuid(reader.array()?),
            volume: reader.u16()?,
            volumes: reader.u16()?,
            class: MediaClass(reader.u32()? as u8),
            volume_bytes: reader.u64()?,
            stripe_bytes: reader.u32()?,
            created_ms: reader.u64()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_round_trips_and_damage_is_told_from_absence() {
        let label = Label {
            uuid: StoreUuid([9; 16]),
            volume: 1,
            volumes: 3,
            class: MediaClass(0),
            volume_bytes: 1 << 40,
            stripe_bytes: 256 << 10,
            created_ms: 1_700_000_000_000,
        };
        let block = label.encode();
        assert_eq!(Label::decode(&block), Ok(Some(label)));
        assert_eq!(Label::decode(&[0; 4096]), Ok(None));
        for bit in 0..LABEL_BYTES * 8 {
            let mut bad = block.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(Label::decode(&bad).is_err(), "bit {bit}");
        }
    }
}
