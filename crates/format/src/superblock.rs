//! The superblock: the root of a store. `FORMAT.md`, section "Superblock".
//!
//! Two copies are written one after the other, each followed by a sync; the newer whole copy wins.

use crate::bytes::{Reader, WriteBytes};
use crate::checksum::{checksum, ChecksumSalt};
use crate::error::DecodeError;
use crate::ids::Location;
use crate::ids::{Birth, Incarnation, SegmentId, SeqNo, StoreUuid};
use crate::limits::{
    BIRTH_MAX, BLOCK_BYTES, ORDER_MAX, SECTOR_BYTES_MAX, SECTOR_BYTES_MIN, SEGMENT_BYTES_MAX,
    SEGMENT_BYTES_MIN, STORE_BYTES_MAX,
};
use crate::sealed::{KeySlot, KEYS_MAX, KEY_ID_MAX};

const MAGIC: u64 = 0x3142_5053_584c_4548; // "HELXSPB1"
/// The version of all formats of a store.
pub const FORMAT_VERSION: u32 = 1;
/// The version of all formats of an encrypted store: one that older programs refuse.
pub const ENCRYPTED_FORMAT_VERSION: u32 = 2;
/// The number of the only cipher so far: AES-256-GCM with the nonces of XAES-256-GCM.
const CIPHER: u8 = 1;
/// Where the two copies stand in the first volume.
pub const SUPERBLOCK_OFFSETS: [u64; 2] = [64 << 10, 128 << 10];
/// Most incarnations that may end between two checkpoints.
pub const CUTS_MAX: usize = 64;

/// A run of the store that ended: no record of it after `last` counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cut {
    /// The run.
    pub incarnation: Incarnation,
    /// Its last order that counts.
    pub last: SeqNo,
}

/// Where the newest checkpoint is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CheckpointRoot {
    /// Its number: no other attempt at a checkpoint of the store has it.
    pub number: u64,
    /// Its last segment; earlier ones are chained from its header.
    pub last_segment: SegmentId,
    /// The generation of that segment.
    pub birth: Birth,
    /// How many segments it has.
    pub segments: u32,
    /// Replay starts right after this order.
    pub cut: SeqNo,
}

/// The decoded superblock.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Superblock {
    /// The store.
    pub uuid: StoreUuid,
    /// Grows by one with each write of the superblock.
    pub generation: u64,
    /// The run that wrote it.
    pub incarnation: Incarnation,
    /// The store was closed in order: nothing follows the checkpoint.
    pub clean: bool,
    /// Location unit = 1 << this, in bytes.
    pub unit_shift: u8,
    /// Bytes of a segment.
    pub segment_bytes: u64,
    /// How many segments the store has.
    pub segments: u32,
    /// Bytes of the sector that frames are padded to.
    pub sector_bytes: u32,
    /// The secret that keys the store's hashes.
    pub hash_seed: u64,
    /// The newest checkpoint; none in a store that was never checkpointed.
    pub checkpoint: Option<CheckpointRoot>,
    /// Runs that ended since that checkpoint.
    pub cuts: Vec<Cut>,
    /// The data keys of an encrypted store, by first birth; none in a plain one.
    pub keys: Vec<KeySlot>,
}

impl Superblock {
    /// What every checksum of this store is salted with.
    #[must_use]
    pub fn salt(&self) -> ChecksumSalt {
        self.uuid.salt()
    }

    /// True if the store is encrypted.
    #[must_use]
    pub fn is_encrypted(&self) -> bool {
        !self.keys.is_empty()
    }

    /// What a program must know to read the store.
    fn version(&self) -> u32 {
        match self.is_encrypted() {
            false => FORMAT_VERSION,
            true => ENCRYPTED_FORMAT_VERSION,
        }
    }

    /// The superblock as one block, for the copy at `offset`.
    #[must_use]
    pub fn encode(&self, offset: u64) -> Vec<u8> {
        let mut out = Vec::with_capacity(BLOCK_BYTES);
        out.put_u64(MAGIC);
        out.put_u32(0);
        out.put_u32(self.version());
        out.put(&self.uuid.0);
        out.put_u64(self.generation);
        out.put_u32(self.incarnation.0);
        let cipher = if self.is_encrypted() { CIPHER } else { 0 };
        out.put(&[u8::from(self.clean), self.unit_shift, cipher, 0]);
        out.put_u64(self.segment_bytes);
        out.put_u32(self.segments);
        out.put_u32(self.sector_bytes);
        out.put_u64(self.hash_seed);
        out.put_u32(u32::from(self.checkpoint.is_some()));
        if let Some(root) = &self.checkpoint {
            out.put_u64(root.number);
            out.put_u32(root.last_segment.0);
            out.put_u32(root.birth.0);
            out.put_u32(root.segments);
            out.put_u64(root.cut.0);
        }
        out.put_u32(self.cuts.len() as u32);
        for cut in self.cuts.iter().take(CUTS_MAX) {
            out.put_u32(cut.incarnation.0);
            out.put_u64(cut.last.0);
        }
        if self.is_encrypted() {
            out.put_u32(self.keys.len() as u32);
        }
        for slot in self.keys.iter().take(KEYS_MAX) {
            slot.encode(&mut out);
        }
        out.resize(BLOCK_BYTES, 0);
        let crc = checksum(ChecksumSalt(0), offset, &out[12..]);
        out[8..12].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// Decodes the copy at `offset`.
    ///
    /// # Errors
    /// Bytes that are no superblock, a damaged one, or one of another version.
    pub fn decode(offset: u64, bytes: &[u8]) -> Result<Superblock, DecodeError> {
        let bad =
            |field, expected, found| DecodeError::new("superblock", offset, field, expected, found);
        let short = || bad("length", BLOCK_BYTES as u64, bytes.len() as u64);
        let block = bytes.get(..BLOCK_BYTES).ok_or_else(short)?;
        let mut reader = Reader::new(block);
        let magic = reader.u64().ok_or_else(short)?;
        if magic != MAGIC {
            return Err(bad("magic", MAGIC, magic));
        }
        let stored = reader.u32().ok_or_else(short)?;
        let computed = checksum(ChecksumSalt(0), offset, &block[12..]);
        if stored != computed {
            return Err(bad("checksum", u64::from(stored), u64::from(computed)));
        }
        let version = reader.u32().ok_or_else(short)?;
        let known = FORMAT_VERSION..=ENCRYPTED_FORMAT_VERSION;
        if !known.contains(&version) {
            let newest = u64::from(ENCRYPTED_FORMAT_VERSION);
            return Err(bad("version", newest, u64::from(version)));
        }
        let (mut superblock, cipher) = Superblock::decode_rest(&mut reader).ok_or_else(short)?;
        if version == ENCRYPTED_FORMAT_VERSION {
            if cipher != CIPHER {
                return Err(bad("version", u64::from(CIPHER), u64::from(cipher)));
            }
            superblock.keys = decode_keys(&mut reader).ok_or_else(short)?;
        }
        superblock.check_bounds(offset)?;
        Ok(superblock)
    }

    /// All but the keys; and the number of the cipher.
    fn decode_rest(reader: &mut Reader<'_>) -> Option<(Superblock, u8)> {
        let uuid = StoreUuid(reader.array()?);
        let generation = reader.u64()?;
        let incarnation = Incarnation(reader.u32()?);
        let [clean, unit_shift, cipher, _] = reader.array()?;
        let segment_bytes = reader.u64()?;
        let segments = reader.u32()?;
        let sector_bytes = reader.u32()?;
        let hash_seed = reader.u64()?;
        let checkpoint = match reader.u32()? {
            0 => None,
            _ => Some(CheckpointRoot {
                number: reader.u64()?,
                last_segment: SegmentId(reader.u32()?),
                birth: Birth(reader.u32()?),
                segments: reader.u32()?,
                cut: SeqNo(reader.u64()?),
            }),
        };
        let count = reader.u32()? as usize;
        // Without all of them, records that do not count would be replayed.
        if count > CUTS_MAX {
            return None;
        }
        let cuts = (0..count)
            .map(|_| {
                Some(Cut {
                    incarnation: Incarnation(reader.u32()?),
                    last: SeqNo(reader.u64()?),
                })
            })
            .collect::<Option<Vec<_>>>()?;
        let superblock = Superblock {
            uuid,
            generation,
            incarnation,
            clean: clean != 0,
            unit_shift,
            segment_bytes,
            segments,
            sector_bytes,
            hash_seed,
            checkpoint,
            cuts,
            keys: Vec::new(),
        };
        Some((superblock, cipher))
    }

    fn check_bounds(&self, offset: u64) -> Result<(), DecodeError> {
        let bad = |field, expected, found| {
            Err(DecodeError::new(
                "superblock",
                offset,
                field,
                expected,
                found,
            ))
        };
        if !(SEGMENT_BYTES_MIN..=SEGMENT_BYTES_MAX).contains(&self.segment_bytes)
            || !self.segment_bytes.is_multiple_of(BLOCK_BYTES as u64)
        {
            return bad("segment size", SEGMENT_BYTES_MIN, self.segment_bytes);
        }
        let total = self.segment_bytes.saturating_mul(u64::from(self.segments));
        if self.segments == 0 || total > STORE_BYTES_MAX {
            return bad("segment count", STORE_BYTES_MAX, total);
        }
        let runs = self.cuts.iter().map(|cut| cut.incarnation.0);
        let births = self.checkpoint.iter().map(|root| root.birth.0);
        let mut short = runs.chain(births).chain([self.incarnation.0]);
        if let Some(found) = short.find(|number| *number > BIRTH_MAX) {
            return bad("run or birth", u64::from(BIRTH_MAX), u64::from(found));
        }
        let cuts = self.cuts.iter().map(|cut| cut.last.0);
        let roots = self.checkpoint.iter().map(|root| root.cut.0);
        let mut long = cuts.chain(roots).chain([self.generation]);
        if let Some(found) = long.find(|number| *number > ORDER_MAX) {
            return bad("order or generation", ORDER_MAX, found);
        }
        if self.unit_shift > 6 {
            return bad("location unit", 6, u64::from(self.unit_shift));
        }
        if total > (1u64 << Location::BITS) << self.unit_shift {
            return bad("location unit", 6, u64::from(self.unit_shift));
        }
        let sectors = SECTOR_BYTES_MIN as u32..=SECTOR_BYTES_MAX as u32;
        if !self.sector_bytes.is_power_of_two() || !sectors.contains(&self.sector_bytes) {
            let most = SECTOR_BYTES_MAX as u64;
            return bad("sector size", most, u64::from(self.sector_bytes));
        }
        let order = self.keys.windows(2);
        let mut falls = order.filter(|pair| pair[0].first_birth > pair[1].first_birth);
        if let Some(pair) = falls.next() {
            let [least, found] = [&pair[0], &pair[1]].map(|slot| u64::from(slot.first_birth.0));
            return bad("first birth of a key", least, found);
        }
        let ids = self.keys.iter().enumerate();
        let twice = |n: usize, id: u8| self.keys.iter().take(n).any(|slot| slot.id == id);
        let mut odd =
            ids.filter(|(n, slot)| !(1..=KEY_ID_MAX).contains(&slot.id) || twice(*n, slot.id));
        if let Some((_, slot)) = odd.next() {
            return bad("id of a key", u64::from(KEY_ID_MAX), u64::from(slot.id));
        }
        if let Some(root) = &self.checkpoint {
            let last = u64::from(root.last_segment.0);
            if root.last_segment.0 >= self.segments || root.segments > self.segments {
                return bad("checkpoint segment", u64::from(self.segments), last);
            }
        }
        Ok(())
    }
}

/// One key at least; without all of them, some of the store could not be read.
fn decode_keys(reader: &mut Reader<'_>) -> Option<Vec<KeySlot>> {
    let count = reader.u32()? as usize;
    if !(1..=KEYS_MAX).contains(&count) {
        return None;
    }
    (0..count).map(|_| KeySlot::decode(reader)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Superblock {
        Superblock {
            uuid: StoreUuid([3; 16]),
            generation: 8,
            incarnation: Incarnation(2),
            clean: true,
            unit_shift: 0,
            segment_bytes: 32 << 20,
            segments: 100,
            sector_bytes: 512,
            hash_seed: 0xfeed,
            checkpoint: Some(CheckpointRoot {
                number: 4,
                last_segment: SegmentId(7),
                birth: Birth(12),
                segments: 2,
                cut: SeqNo(1000),
            }),
            cuts: vec![Cut {
                incarnation: Incarnation(1),
                last: SeqNo(1200),
            }],
            keys: Vec::new(),
        }
    }

    fn slot(id: u8, first_birth: u32) -> KeySlot {
        KeySlot {
            id,
            first_birth: Birth(first_birth),
            nonce: [id; 24],
            wrapped: [!id; 32],
            tag: [id / 2; 16],
        }
    }

    #[test]
    fn an_encrypted_store_has_keys_and_a_version_of_its_own() {
        let plain = sample();
        assert_eq!(plain.encode(0)[12..16], [1, 0, 0, 0]);
        let mut full = plain.clone();
        full.cuts = vec![plain.cuts[0]; CUTS_MAX];
        full.keys = (0..KEYS_MAX as u8).map(|n| slot(n + 1, n.into())).collect();
        let block = full.encode(0);
        assert_eq!(block.len(), BLOCK_BYTES);
        assert_eq!(block[12..16], [2, 0, 0, 0]);
        assert_eq!(Superblock::decode(0, &block), Ok(full.clone()));
        let field = |keys: Vec<KeySlot>| {
            let changed = Superblock { keys, ..sample() };
            Superblock::decode(0, &changed.encode(0)).unwrap_err().field
        };
        assert_eq!(field(vec![slot(0, 0)]), "id of a key");
        assert_eq!(field(vec![slot(254, 0)]), "id of a key");
        assert_eq!(field(vec![slot(1, 0), slot(1, 1)]), "id of a key");
        assert_eq!(field(vec![slot(1, 5), slot(2, 4)]), "first birth of a key");
        // Encoding keeps the first ones only.
        full.keys.push(slot(99, 99));
        assert_eq!(
            Superblock::decode(0, &full.encode(0)).unwrap_err().field,
            "length"
        );
    }

    #[test]
    fn a_cipher_of_a_later_program_is_a_later_version() {
        let mut superblock = sample();
        superblock.keys = vec![slot(1, 0)];
        let mut block = superblock.encode(0);
        block[46] = 2;
        let crc = checksum(ChecksumSalt(0), 0, &block[12..]);
        block[8..12].copy_from_slice(&crc.to_le_bytes());
        assert!(Superblock::decode(0, &block).unwrap_err().is_version());
    }

    #[test]
    fn a_superblock_round_trips() {
        let mut superblock = sample();
        let block = superblock.encode(64 << 10);
        assert_eq!(Superblock::decode(64 << 10, &block), Ok(superblock.clone()));
        superblock.checkpoint = None;
        superblock.cuts = vec![
            Cut {
                incarnation: Incarnation(1),
                last: SeqNo(5)
            };
            CUTS_MAX
        ];
        let block = superblock.encode(0);
        assert_eq!(Superblock::decode(0, &block), Ok(superblock));
    }

    #[test]
    fn the_copies_are_not_interchangeable_and_flipped_bits_are_found() {
        let block = sample().encode(64 << 10);
        assert!(Superblock::decode(128 << 10, &block).is_err());
        for bit in 0..BLOCK_BYTES * 8 {
            let mut bad = block.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(Superblock::decode(64 << 10, &bad).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn nonsense_that_carries_a_good_checksum_is_refused() {
        let mut superblock = sample();
        let field = |s: &Superblock| Superblock::decode(0, &s.encode(0)).unwrap_err().field;
        superblock.segment_bytes = 12345;
        assert_eq!(field(&superblock), "segment size");
        let small_sector = Superblock {
            sector_bytes: 256,
            ..sample()
        };
        assert_eq!(field(&small_sector), "sector size");
        let beyond_reach = Superblock {
            segments: (1 << 15) + 1,
            ..sample()
        };
        assert_eq!(field(&beyond_reach), "location unit");
        let mut lost_root = sample();
        lost_root.segments = 7;
        assert_eq!(field(&lost_root), "checkpoint segment");
        // Encoding keeps the first ones only; what says that more were cut must not decode.
        let many_cuts = Superblock {
            cuts: vec![sample().cuts[0]; CUTS_MAX + 1],
            ..sample()
        };
        assert_eq!(field(&many_cuts), "length");
    }

    /// Every checkpoint writes the next generation, every open the next run.
    #[test]
    fn numbers_without_a_next_are_refused() {
        type Change = (fn(&mut Superblock), &'static str);
        let changes: [Change; 4] = [
            (|s| s.generation = u64::MAX, "generation"),
            (|s| s.incarnation = Incarnation(u32::MAX), "run or birth"),
            (|s| s.cuts[0].last = SeqNo(u64::MAX), "order"),
            (
                |s| s.cuts[0].incarnation = Incarnation(u32::MAX),
                "run or birth",
            ),
        ];
        for (change, field) in changes {
            let mut bad = sample();
            bad.cuts = vec![Cut {
                incarnation: Incarnation(1),
                last: SeqNo(5),
            }];
            assert!(Superblock::decode(0, &bad.encode(0)).is_ok());
            change(&mut bad);
            let error = Superblock::decode(0, &bad.encode(0))
                .unwrap_err()
                .to_string();
            assert!(error.contains(field), "{error}");
        }
    }
}
