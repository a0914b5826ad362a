//! One record: header, key, value. `FORMAT.md`, section "Record".
//!
//! A fresh put of a short key and value has a header of four bytes. Everything rarer (what the
//! record displaced, expiry, batch membership, a moved record's own version) is announced by a flag
//! and costs its bytes only where it is used.

use crate::bytes::{varint_bytes, Reader, WriteBytes};
use crate::error::DecodeError;
use crate::ids::{KeyspaceId, Location, SeqNo};
use crate::limits::{CHUNK_BYTES, KEY_BYTES_MAX};

const KIND_MASK: u8 = 0x07;
const HAS_DISPLACED: u8 = 1 << 3;
const HAS_LINK: u8 = 1 << 4;
const HAS_EXPIRY: u8 = 1 << 5;
const HAS_VERSION: u8 = 1 << 6;
const HAS_EXTENSION: u8 = 1 << 7;

const EXT_GAP: u8 = 1;
const EXT_BATCH: u8 = 1 << 1;
const EXT_CHUNKED: u8 = 1 << 2;
const EXT_COMPRESSED: u8 = 1 << 3;
const EXT_ENCRYPTED: u8 = 1 << 4;
const EXT_TOMBSTONE: u8 = 1 << 5;
const EXT_SETTLES: u8 = 1 << 6;
const EXT_KNOWN: u8 = EXT_GAP | EXT_BATCH | EXT_CHUNKED | EXT_TOMBSTONE | EXT_SETTLES;

const EXPIRY_BYTES: usize = 6;
/// The latest expiry that a record can carry, in milliseconds since 1970.
pub const EXPIRY_MS_MAX: u64 = (1 << 48) - 1;
/// Longest header of any record: what a reader needs to be sure to decode one.
pub const RECORD_HEADER_BYTES_MAX: usize = 2 + 5 + 3 + 4 + 10 + 10 + 5 + 5 + 6 + 10 + 5 + 8;

/// What a record does. The numbers are on media.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecordKind {
    /// Gives a key a value.
    Put = 1,
    /// Takes a key's value away.
    Tombstone = 2,
    /// A copy of an older version that a snapshot still reads; replay passes it over.
    Retained = 3,
    /// Makes the members of a batch visible; its value is their number.
    Commit = 4,
    /// Takes away every key of a keyspace in `[key, value)`. The value begins with a flag: 1, and
    /// the end follows; 0 for the end of the keyspace.
    RangeDelete = 5,
    /// Creates (value `[1]`) or drops (value `[0]`) the keyspace; the key is its name.
    Keyspace = 6,
}

impl RecordKind {
    fn from_bits(bits: u8) -> Option<RecordKind> {
        Some(match bits {
            1 => RecordKind::Put,
            2 => RecordKind::Tombstone,
            3 => RecordKind::Retained,
            4 => RecordKind::Commit,
            5 => RecordKind::RangeDelete,
            6 => RecordKind::Keyspace,
            _ => return None,
        })
    }
}

/// An older record of the same key that had lost its entry to another key, and that a record makes good.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settles {
    /// Where it lies.
    pub location: Location,
    /// What the sum of the displacing keys of its segment lacks.
    pub difference: u64,
}

/// Everything about a record but its key and value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecordHeader {
    /// What the record does.
    pub kind: RecordKind,
    /// The keyspace of the key.
    pub keyspace: KeyspaceId,
    /// Bytes of the key.
    pub key_bytes: u32,
    /// Bytes of the value as stored.
    pub value_bytes: u32,
    /// How many orders lie between the previous record of this appender and this one.
    pub seq_gap: u64,
    /// Member of a batch: order of this record less the order of the batch's first record.
    pub batch_offset: Option<u64>,
    /// The record whose index entry this one replaced; none for a new entry.
    pub displaced: Option<Location>,
    /// The next older version in the chain, where it is not `displaced`.
    pub link: Option<Location>,
    /// When the value expires, in milliseconds since 1970; see [`EXPIRY_MS_MAX`].
    pub expiry_ms: Option<u64>,
    /// For a moved or retained record: its order less the order of the version that it copies.
    pub version_delta: Option<u64>,
    /// The value is a list of chunks, not the bytes themselves.
    pub chunked: bool,
    /// A retained record that copies a tombstone.
    pub retained_tombstone: bool,
    /// What it settles: replay enters it, as the append did.
    pub settles: Option<Settles>,
}

impl RecordHeader {
    /// A header with nothing but the mandatory fields.
    #[must_use]
    pub fn new(kind: RecordKind, keyspace: KeyspaceId, key: &[u8], value: &[u8]) -> RecordHeader {
        RecordHeader {
            kind,
            keyspace,
            key_bytes: key.len() as u32,
            value_bytes: value.len() as u32,
            seq_gap: 0,
            batch_offset: None,
            displaced: None,
            link: None,
            expiry_ms: None,
            version_delta: None,
            chunked: false,
            retained_tombstone: false,
            settles: None,
        }
    }

    /// The next older version: `link` where there is one, else what was displaced. What a copy
    /// displaced is the original of the same version, so for copies only `link` counts.
    #[must_use]
    pub fn older(&self) -> Option<Location> {
        match self.version_delta {
            Some(_) => self.link,
            None => self.link.or(self.displaced),
        }
    }

    /// Bytes of key and value.
    #[must_use]
    pub fn body_bytes(&self) -> usize {
        self.key_bytes as usize + self.value_bytes as usize
    }

    fn extension(&self) -> u8 {
        let bit = |on: bool, bit: u8| if on { bit } else { 0 };
        bit(self.seq_gap != 0, EXT_GAP)
            | bit(self.batch_offset.is_some(), EXT_BATCH)
            | bit(self.chunked, EXT_CHUNKED)
            | bit(self.retained_tombstone, EXT_TOMBSTONE)
            | bit(self.settles.is_some(), EXT_SETTLES)
    }

    fn flags(&self, extension: u8) -> u8 {
        let bit = |on: bool, bit: u8| if on { bit } else { 0 };
        self.kind as u8
            | bit(self.displaced.is_some(), HAS_DISPLACED)
            | bit(self.link.is_some(), HAS_LINK)
            | bit(self.expiry_ms.is_some(), HAS_EXPIRY)
            | bit(self.version_delta.is_some(), HAS_VERSION)
            | bit(extension != 0, HAS_EXTENSION)
    }

    /// Appends the encoded header; key and value bytes follow it on media.
    pub fn encode<W: WriteBytes>(&self, out: &mut W) {
        let extension = self.extension();
        out.put(&[self.flags(extension)]);
        if extension != 0 {
            out.put(&[extension]);
        }
        out.put_varint(u64::from(self.keyspace.0));
        out.put_varint(u64::from(self.key_bytes));
        out.put_varint(u64::from(self.value_bytes));
        if self.seq_gap != 0 {
            out.put_varint(self.seq_gap);
        }
        if let Some(offset) = self.batch_offset {
            out.put_varint(offset);
        }
        for location in [self.displaced, self.link].into_iter().flatten() {
            out.put_uint(location.bits(), Location::BYTES);
        }
        if let Some(expiry_ms) = self.expiry_ms {
            out.put_uint(expiry_ms.min(EXPIRY_MS_MAX), EXPIRY_BYTES);
        }
        if let Some(delta) = self.version_delta {
            out.put_varint(delta);
        }
        if let Some(settles) = self.settles {
            out.put_uint(settles.location.bits(), Location::BYTES);
            out.put_u64(settles.difference);
        }
    }

    /// Most bytes that the whole record can take with any gap and batch offset.
    #[must_use]
    pub fn record_bytes_max(&self) -> usize {
        RECORD_HEADER_BYTES_MAX + self.body_bytes()
    }

    /// Exact bytes of the encoded header.
    #[must_use]
    pub fn header_bytes(&self) -> usize {
        let option = |v: Option<u64>| v.map_or(0, varint_bytes);
        let locations = usize::from(self.displaced.is_some()) + usize::from(self.link.is_some());
        1 + usize::from(self.extension() != 0)
            + varint_bytes(u64::from(self.keyspace.0))
            + varint_bytes(u64::from(self.key_bytes))
            + varint_bytes(u64::from(self.value_bytes))
            + option((self.seq_gap != 0).then_some(self.seq_gap))
            + option(self.batch_offset)
            + locations * Location::BYTES
            + if self.expiry_ms.is_some() {
                EXPIRY_BYTES
            } else {
                0
            }
            + option(self.version_delta)
            + self.settles.map_or(0, |_| Location::BYTES + 8)
    }
}

/// What stands at a record position.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decoded {
    /// A padding byte: the next position is one further.
    Padding,
    /// A record header of so many bytes; key and value follow.
    Record(RecordHeader, usize),
    /// More bytes are needed to tell.
    Short,
}

/// Decodes what stands at the start of `bytes`; `address` only serves messages.
///
/// # Errors
/// A header that no encoder writes.
pub fn decode_header(address: u64, bytes: &[u8]) -> Result<Decoded, DecodeError> {
    let bad = |field, found| DecodeError::new("record", address, field, 0, found);
    let Some(&flags) = bytes.first() else {
        return Ok(Decoded::Short);
    };
    if flags == 0 {
        return Ok(Decoded::Padding);
    }
    let kind = RecordKind::from_bits(flags & KIND_MASK)
        .ok_or_else(|| bad("kind", u64::from(flags & KIND_MASK)))?;
    let mut reader = Reader::new(&bytes[1..]);
    let Some((header, extension)) = decode_fields(kind, flags, &mut reader) else {
        // A varint that is too long reads as "short" for ever; the bound ends that.
        if bytes.len() >= RECORD_HEADER_BYTES_MAX {
            return Err(bad("header", bytes.len() as u64));
        }
        return Ok(Decoded::Short);
    };
    if extension & (EXT_COMPRESSED | EXT_ENCRYPTED) != 0 {
        return Err(DecodeError::new(
            "record",
            address,
            "version",
            0,
            u64::from(extension),
        ));
    }
    if extension & !EXT_KNOWN != 0 {
        return Err(bad("extension", u64::from(extension)));
    }
    if header.key_bytes as usize > KEY_BYTES_MAX {
        return Err(bad("key length", u64::from(header.key_bytes)));
    }
    if header.value_bytes as usize > CHUNK_BYTES {
        return Err(bad("value length", u64::from(header.value_bytes)));
    }
    Ok(Decoded::Record(header, bytes.len() - reader.rest().len()))
}

fn decode_fields(
    kind: RecordKind,
    flags: u8,
    reader: &mut Reader<'_>,
) -> Option<(RecordHeader, u8)> {
    let has = |bit: u8| flags & bit != 0;
    let extension = if has(HAS_EXTENSION) { reader.u8()? } else { 0 };
    let keyspace = KeyspaceId(saturate(reader.varint()?));
    let key_bytes = saturate(reader.varint()?);
    let value_bytes = saturate(reader.varint()?);
    let seq_gap = if extension & EXT_GAP != 0 {
        reader.varint()?
    } else {
        0
    };
    let batch_offset = if extension & EXT_BATCH != 0 {
        Some(reader.varint()?)
    } else {
        None
    };
    let mut location = |on: bool| -> Option<Option<Location>> {
        if !on {
            return Some(None);
        }
        Some(Some(Location::from_bits(reader.uint(Location::BYTES)?)))
    };
    let displaced = location(has(HAS_DISPLACED))?;
    let link = location(has(HAS_LINK))?;
    let expiry_ms = if has(HAS_EXPIRY) {
        Some(reader.uint(EXPIRY_BYTES)?)
    } else {
        None
    };
    let version_delta = if has(HAS_VERSION) {
        Some(reader.varint()?)
    } else {
        None
    };
    let settles = if extension & EXT_SETTLES != 0 {
        Some(Settles {
            location: Location::from_bits(reader.uint(Location::BYTES)?),
            difference: reader.u64()?,
        })
    } else {
        None
    };
    let header = RecordHeader {
        kind,
        keyspace,
        key_bytes,
        value_bytes,
        seq_gap,
        batch_offset,
        displaced,
        link,
        expiry_ms,
        version_delta,
        chunked: extension & EXT_CHUNKED != 0,
        retained_tombstone: extension & EXT_TOMBSTONE != 0,
        settles,
    };
    Some((header, extension))
}

fn saturate(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

/// A decoded record: header, its own order, and the bytes of key and value.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// The header.
    pub header: RecordHeader,
    /// The record's own place in the global order.
    pub seq: SeqNo,
    /// The key.
    pub key: &'a [u8],
    /// The value as stored.
    pub value: &'a [u8],
}

impl Record<'_> {
    /// The order of the version that the record holds: its own, or the one it was copied from.
    #[must_use]
    pub fn version(&self) -> SeqNo {
        SeqNo(
            self.seq
                .0
                .saturating_sub(self.header.version_delta.unwrap_or(0)),
        )
    }

    /// True if reading this version tells that the key is not there.
    #[must_use]
    pub fn is_tombstone(&self) -> bool {
        self.header.kind == RecordKind::Tombstone || self.header.retained_tombstone
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(header: &RecordHeader) {
        let mut out = Vec::new();
        header.encode(&mut out);
        assert_eq!(out.len(), header.header_bytes());
        assert!(out.len() <= RECORD_HEADER_BYTES_MAX);
        assert_eq!(
            decode_header(0, &out),
            Ok(Decoded::Record(*header, out.len()))
        );
        for cut in 0..out.len() {
            assert_eq!(
                decode_header(0, &out[..cut]),
                Ok(Decoded::Short),
                "cut at {cut}"
            );
        }
    }

    #[test]
    fn a_fresh_small_put_has_a_header_of_four_bytes() {
        let header = RecordHeader::new(RecordKind::Put, KeyspaceId(1), &[0; 16], &[0; 100]);
        assert_eq!(header.header_bytes(), 4);
        round_trip(&header);
    }

    #[test]
    fn every_field_round_trips() {
        let mut header = RecordHeader::new(
            RecordKind::Retained,
            KeyspaceId(u32::MAX),
            &[0; KEY_BYTES_MAX],
            &vec![0; CHUNK_BYTES],
        );
        header.seq_gap = u64::MAX >> 16;
        header.batch_offset = Some(300);
        header.displaced = Some(Location::from_bits(0x12_3456_789a));
        header.link = Some(Location::from_bits(1));
        header.expiry_ms = Some(EXPIRY_MS_MAX);
        header.version_delta = Some(u64::MAX >> 16);
        header.chunked = true;
        header.retained_tombstone = true;
        header.settles = Some(Settles {
            location: Location::from_bits(0xff_ffff_fffe),
            difference: u64::MAX - 1,
        });
        round_trip(&header);
    }

    #[test]
    fn unknown_kinds_and_lengths_out_of_bounds_are_damage() {
        assert_eq!(decode_header(0, &[7, 0, 0, 0]).unwrap_err().field, "kind");
        let mut header = RecordHeader::new(RecordKind::Put, KeyspaceId(1), &[], &[]);
        header.value_bytes = CHUNK_BYTES as u32 + 1;
        let mut out = Vec::new();
        header.encode(&mut out);
        assert_eq!(decode_header(0, &out).unwrap_err().field, "value length");
        let endless = [1u8 | HAS_EXTENSION; 80];
        assert!(decode_header(0, &endless).is_err());
    }

    #[test]
    fn compression_and_encryption_are_a_later_version_not_damage() {
        let bytes = [
            RecordKind::Put as u8 | HAS_EXTENSION,
            EXT_COMPRESSED,
            1,
            0,
            0,
        ];
        assert!(decode_header(0, &bytes).unwrap_err().is_version());
    }
}
