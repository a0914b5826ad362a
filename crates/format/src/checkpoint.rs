//! The pieces of a checkpoint and what its first piece says. `FORMAT.md`, section "Checkpoint".
//!
//! A checkpoint is a stream of chunks, each with its own checksum, laid into checkpoint segments.
//! The first chunk holds the [`CheckpointMeta`], the others leaf images of the index.

use crate::bytes::{Reader, WriteBytes};
use crate::checksum::{checksum, ChecksumSalt};
use crate::error::DecodeError;
use crate::ids::{Birth, Incarnation, KeyspaceId, Location, SegmentId, SeqNo};
use crate::limits::{BIRTH_MAX, ORDER_MAX};
use crate::sealed::SEALED_HEADER_BYTES;
use crate::segment::SegmentKind;

const MAGIC: u32 = 0x5043_4c48; // "HLCP"
/// Bytes of a chunk's header.
pub const CHUNK_HEADER_BYTES: usize = 32;
/// Most payload bytes of a chunk.
pub const CHUNK_PAYLOAD_BYTES_MAX: usize = (1 << 20) - CHUNK_HEADER_BYTES;

/// Where the header says which data key a chunk is encrypted with.
const KEY_AT: usize = 25;
const BIRTH_AT: usize = 28;
/// Bytes of session and tag, which stand before the content in the payload of an encrypted chunk.
pub const CHUNK_SEAL_BYTES: usize = SEALED_HEADER_BYTES - CHUNK_HEADER_BYTES;

/// How a chunk is encrypted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChunkSeal {
    /// The id of the data key.
    pub key: u8,
    /// The generation of its segment.
    pub birth: Birth,
}

/// How the chunk at the start of `bytes`, whose header was decoded, is encrypted; none if it is not.
#[must_use]
pub fn chunk_seal(bytes: &[u8]) -> Option<ChunkSeal> {
    let key = *bytes.get(KEY_AT)?;
    let birth = bytes.get(BIRTH_AT..CHUNK_HEADER_BYTES)?.try_into().ok()?;
    let birth = Birth(u32::from_le_bytes(birth));
    (key != 0).then_some(ChunkSeal { key, birth })
}

/// Says how a chunk is encrypted; its checksum is void then.
pub fn set_chunk_seal(bytes: &mut [u8], seal: ChunkSeal) {
    if let Some(header) = bytes.get_mut(..CHUNK_HEADER_BYTES) {
        header[KEY_AT] = seal.key;
        header[BIRTH_AT..].copy_from_slice(&seal.birth.0.to_le_bytes());
    }
}

/// What a chunk carries. The numbers are on media.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChunkKind {
    /// A part of the encoded [`CheckpointMeta`]; the parts in order make the whole.
    Meta = 1,
    /// Leaf images, each after the order at which it was copied.
    Leaves = 2,
    /// The end: the payload is empty.
    End = 3,
}

/// The header of a chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChunkHeader {
    /// What follows.
    pub kind: ChunkKind,
    /// The checkpoint that the chunk belongs to.
    pub checkpoint: u64,
    /// Its place in the stream, from 0.
    pub number: u32,
    /// Bytes of the payload.
    pub payload_bytes: u32,
}

/// A whole chunk, padded with zeros to a multiple of `sector_bytes`.
#[must_use]
pub fn encode_chunk(
    salt: ChecksumSalt,
    address: u64,
    header: &ChunkHeader,
    payload: &[u8],
    sector_bytes: usize,
) -> Vec<u8> {
    let whole = CHUNK_HEADER_BYTES + payload.len();
    let mut out = Vec::with_capacity(whole.next_multiple_of(sector_bytes));
    out.put_u32(0);
    out.put_u32(MAGIC);
    out.put_u64(header.checkpoint);
    out.put_u32(header.number);
    out.put_u32(payload.len() as u32);
    out.put_u64(header.kind as u64);
    out.put(payload);
    let crc = checksum(salt, address, &out[4..]);
    out[..4].copy_from_slice(&crc.to_le_bytes());
    out.resize(whole.next_multiple_of(sector_bytes), 0);
    out
}

/// Of the field that holds the kind: what must be zero or say the kind. Key and birth are free in an
/// encrypted chunk.
fn kind_mask(bytes: &[u8]) -> u64 {
    match chunk_seal(bytes) {
        None => u64::MAX,
        Some(_) => 0xffff_00ff,
    }
}

/// Decodes the header of the chunk at the start of `bytes`; the payload is not checked yet.
///
/// # Errors
/// Bytes that are no chunk.
pub fn peek_chunk(address: u64, bytes: &[u8]) -> Result<ChunkHeader, DecodeError> {
    let bad = |field, expected, found| {
        DecodeError::new("checkpoint chunk", address, field, expected, found)
    };
    let short = || bad("length", CHUNK_HEADER_BYTES as u64, bytes.len() as u64);
    let mut reader = Reader::new(bytes);
    let _crc = reader.u32().ok_or_else(short)?;
    let magic = reader.u32().ok_or_else(short)?;
    if magic != MAGIC {
        return Err(bad("magic", u64::from(MAGIC), u64::from(magic)));
    }
    let checkpoint = reader.u64().ok_or_else(short)?;
    let number = reader.u32().ok_or_else(short)?;
    let payload_bytes = reader.u32().ok_or_else(short)?;
    let kind = match reader.u64().ok_or_else(short)? & kind_mask(bytes) {
        1 => ChunkKind::Meta,
        2 => ChunkKind::Leaves,
        3 => ChunkKind::End,
        other => return Err(bad("kind", 1, other)),
    };
    if chunk_seal(bytes).is_some() && (payload_bytes as usize) < CHUNK_SEAL_BYTES {
        let least = CHUNK_SEAL_BYTES as u64;
        return Err(bad("payload size", least, u64::from(payload_bytes)));
    }
    if payload_bytes as usize > CHUNK_PAYLOAD_BYTES_MAX {
        let most = CHUNK_PAYLOAD_BYTES_MAX as u64;
        return Err(bad("payload size", most, u64::from(payload_bytes)));
    }
    Ok(ChunkHeader {
        kind,
        checkpoint,
        number,
        payload_bytes,
    })
}

/// Decodes and verifies the chunk at the start of `bytes`; gives its payload, encrypted if it is.
///
/// # Errors
/// Anything that differs from what [`encode_chunk`] wrote at this address.
pub fn open_chunk(
    salt: ChecksumSalt,
    address: u64,
    bytes: &[u8],
) -> Result<(ChunkHeader, &[u8]), DecodeError> {
    let header = peek_chunk(address, bytes)?;
    let whole = CHUNK_HEADER_BYTES + header.payload_bytes as usize;
    let Some(chunk) = bytes.get(..whole) else {
        let (want, have) = (whole as u64, bytes.len() as u64);
        return Err(DecodeError::new(
            "checkpoint chunk",
            address,
            "length",
            want,
            have,
        ));
    };
    let stored = u32::from_le_bytes([chunk[0], chunk[1], chunk[2], chunk[3]]);
    let computed = checksum(salt, address, &chunk[4..]);
    if stored != computed {
        let (want, have) = (u64::from(stored), u64::from(computed));
        return Err(DecodeError::new(
            "checkpoint chunk",
            address,
            "checksum",
            want,
            have,
        ));
    }
    Ok((header, &chunk[CHUNK_HEADER_BYTES..]))
}

/// What the checkpoint says of one segment in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SegmentEntry {
    /// The segment.
    pub id: SegmentId,
    /// What it is used for.
    pub kind: SegmentKind,
    /// Which life of it.
    pub birth: Birth,
    /// The order of the next record when it was opened.
    pub first_seq: SeqNo,
    /// The order of its last record.
    pub last_seq: SeqNo,
    /// Bytes written into it so far.
    pub used_bytes: u64,
    /// Of these, what its records take with their alignment and frames, without what filled up blocks
    /// that had to be written before they were full.
    pub packed_bytes: u64,
    /// Records appended to it so far.
    pub records: u32,
    /// How many records named one of its records as displaced.
    pub displaced: u32,
    /// The sum of the keyed hashes of these records' keys, and of the keys of entries that went
    /// without a record, each times the weight of the location in question.
    pub displaced_sum: u64,
    /// The sum of the keyed hashes of its own records' keys, times the weights of their locations.
    pub appended_sum: u64,
    /// The sum cannot be compared: entries went without a record of it.
    pub voided: bool,
    /// No record goes to it any more.
    pub sealed: bool,
    /// Records of it may be heads of values in chunks.
    pub heads: bool,
}

/// A range delete that still covers records.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RangeEntry {
    /// Its order: records of the range that are older are gone.
    pub seq: SeqNo,
    /// The keyspace.
    pub keyspace: KeyspaceId,
    /// First key of the range.
    pub from: Vec<u8>,
    /// First key after the range; none for "to the end of the keyspace".
    pub to: Option<Vec<u8>>,
}

/// A keyspace that exists.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeyspaceEntry {
    /// Its id.
    pub id: KeyspaceId,
    /// Its name.
    pub name: String,
}

/// Everything a checkpoint holds beside the index.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CheckpointMeta {
    /// Replay starts right after this order.
    pub cut: SeqNo,
    /// The run that wrote it.
    pub incarnation: Incarnation,
    /// The next birth to give.
    pub next_birth: Birth,
    /// The next keyspace id to give.
    pub next_keyspace: u32,
    /// Bytes of keys and values that users wrote since the store was created.
    pub user_bytes: u64,
    /// All segments in use by the log.
    pub segments: Vec<SegmentEntry>,
    /// Range deletes that are not swept yet.
    pub ranges: Vec<RangeEntry>,
    /// All keyspaces.
    pub keyspaces: Vec<KeyspaceEntry>,
    /// Records of these segments that lost their entry to another key, and what was to be done
    /// about it was done. In order.
    pub settled: Vec<Location>,
}

impl CheckpointMeta {
    /// Appends the encoded meta.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.put_u64(self.cut.0);
        out.put_u32(self.incarnation.0);
        out.put_u32(self.next_birth.0);
        out.put_u32(self.next_keyspace);
        out.put_u64(self.user_bytes);
        out.put_varint(self.segments.len() as u64);
        for segment in &self.segments {
            encode_segment(segment, out);
        }
        out.put_varint(self.ranges.len() as u64);
        for range in &self.ranges {
            out.put_varint(range.seq.0);
            out.put_u32(range.keyspace.0);
            out.put_prefixed(&range.from);
            out.put(&[u8::from(range.to.is_some())]);
            out.put_prefixed(range.to.as_deref().unwrap_or_default());
        }
        out.put_varint(self.keyspaces.len() as u64);
        for keyspace in &self.keyspaces {
            out.put_u32(keyspace.id.0);
            out.put_prefixed(keyspace.name.as_bytes());
        }
        out.put_varint(self.settled.len() as u64);
        for location in &self.settled {
            out.put_u64(location.bits());
        }
    }

    /// Decodes what [`CheckpointMeta::encode`] wrote.
    ///
    /// # Errors
    /// Bytes that end early or hold an unknown number.
    pub fn decode(bytes: &[u8]) -> Result<CheckpointMeta, DecodeError> {
        let mut reader = Reader::new(bytes);
        let meta = decode_meta(&mut reader);
        match meta {
            Some(meta) if reader.rest().is_empty() => meta.check_bounds().map(|()| meta),
            _ => {
                let at = (bytes.len() - reader.rest().len()) as u64;
                let have = bytes.len() as u64;
                Err(DecodeError::new("checkpoint meta", 0, "length", at, have))
            }
        }
    }
}

impl CheckpointMeta {
    /// Numbers that are counted on from.
    fn check_bounds(&self) -> Result<(), DecodeError> {
        let bad = |field, most, found| {
            let found = DecodeError::new("checkpoint meta", 0, field, most, found);
            Err(found)
        };
        let births = self.segments.iter().map(|segment| segment.birth.0);
        let first = [self.incarnation.0, self.next_birth.0, self.next_keyspace];
        let keyspaces = self.keyspaces.iter().map(|keyspace| keyspace.id.0);
        let mut short = births.chain(keyspaces).chain(first);
        if let Some(found) = short.find(|number| *number > BIRTH_MAX) {
            let most = u64::from(BIRTH_MAX);
            return bad("run, birth or keyspace", most, u64::from(found));
        }
        let orders = self.segments.iter().flat_map(|s| [s.first_seq, s.last_seq]);
        let ranges = self.ranges.iter().map(|range| range.seq);
        let mut long = orders.chain(ranges).chain([self.cut]);
        match long.find(|order| order.0 > ORDER_MAX) {
            Some(found) => bad("order", ORDER_MAX, found.0),
            None => Ok(()),
        }
    }
}

const VOIDED: u8 = 0x1;
const SEALED: u8 = 0x2;
const NO_HEADS: u8 = 0x4;
/// How much of it is padding is said behind the rest: where there is none, as before that was known.
const PADDED: u8 = 0x8;

fn encode_segment(segment: &SegmentEntry, out: &mut Vec<u8>) {
    let padding_bytes = segment.used_bytes.saturating_sub(segment.packed_bytes);
    let flag = |bit: u8, is_set: bool| if is_set { bit } else { 0 };
    out.put_varint(u64::from(segment.id.0));
    out.put(&[
        segment.kind as u8,
        flag(VOIDED, segment.voided)
            | flag(SEALED, segment.sealed)
            | flag(NO_HEADS, !segment.heads)
            | flag(PADDED, padding_bytes > 0),
    ]);
    out.put_varint(u64::from(segment.birth.0));
    out.put_varint(segment.first_seq.0);
    out.put_varint(segment.last_seq.0);
    out.put_varint(segment.used_bytes);
    out.put_varint(u64::from(segment.records));
    out.put_varint(u64::from(segment.displaced));
    out.put_u64(segment.displaced_sum);
    out.put_u64(segment.appended_sum);
    if padding_bytes > 0 {
        out.put_varint(padding_bytes);
    }
}

fn decode_segment(reader: &mut Reader<'_>) -> Option<SegmentEntry> {
    let id = SegmentId(u32::try_from(reader.varint()?).ok()?);
    let kind = SegmentKind::from_u8(reader.u8()?)?;
    let flags = reader.u8()?;
    let mut entry = SegmentEntry {
        id,
        kind,
        birth: Birth(u32::try_from(reader.varint()?).ok()?),
        first_seq: SeqNo(reader.varint()?),
        last_seq: SeqNo(reader.varint()?),
        used_bytes: reader.varint()?,
        packed_bytes: 0,
        records: u32::try_from(reader.varint()?).ok()?,
        displaced: u32::try_from(reader.varint()?).ok()?,
        displaced_sum: reader.u64()?,
        appended_sum: reader.u64()?,
        voided: flags & VOIDED != 0,
        sealed: flags & SEALED != 0,
        heads: flags & NO_HEADS == 0,
    };
    let padding_bytes = match flags & PADDED {
        0 => 0,
        _ => reader.varint()?,
    };
    entry.packed_bytes = entry.used_bytes.checked_sub(padding_bytes)?;
    Some(entry)
}

fn decode_meta(reader: &mut Reader<'_>) -> Option<CheckpointMeta> {
    let mut meta = CheckpointMeta {
        cut: SeqNo(reader.u64()?),
        incarnation: Incarnation(reader.u32()?),
        next_birth: Birth(reader.u32()?),
        next_keyspace: reader.u32()?,
        user_bytes: reader.u64()?,
        ..CheckpointMeta::default()
    };
    for _ in 0..reader.varint()? {
        meta.segments.push(decode_segment(reader)?);
    }
    for _ in 0..reader.varint()? {
        meta.ranges.push(decode_range(reader)?);
    }
    for _ in 0..reader.varint()? {
        let id = KeyspaceId(reader.u32()?);
        let name = String::from_utf8(reader.prefixed()?.to_vec()).ok()?;
        meta.keyspaces.push(KeyspaceEntry { id, name });
    }
    for _ in 0..reader.varint()? {
        meta.settled.push(Location::from_bits(reader.u64()?));
    }
    Some(meta)
}

fn decode_range(reader: &mut Reader<'_>) -> Option<RangeEntry> {
    let seq = SeqNo(reader.varint()?);
    let keyspace = KeyspaceId(reader.u32()?);
    let from = reader.prefixed()?.to_vec();
    let bounded = reader.u8()? != 0;
    let to = reader.prefixed()?.to_vec();
    Some(RangeEntry {
        seq,
        keyspace,
        from,
        to: bounded.then_some(to),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meta() -> CheckpointMeta {
        CheckpointMeta {
            cut: SeqNo(10),
            incarnation: Incarnation(1),
            next_birth: Birth(4),
            next_keyspace: 9,
            user_bytes: 1 << 50,
            segments: vec![SegmentEntry {
                id: SegmentId(3),
                kind: SegmentKind::Survivor,
                birth: Birth(2),
                first_seq: SeqNo(1),
                last_seq: SeqNo(9),
                used_bytes: 12345,
                packed_bytes: 345,
                records: 4,
                displaced: 3,
                displaced_sum: u64::MAX,
                appended_sum: 1,
                voided: true,
                sealed: false,
                heads: false,
            }],
            ranges: vec![
                RangeEntry {
                    seq: SeqNo(5),
                    keyspace: KeyspaceId(1),
                    from: b"a".to_vec(),
                    to: None,
                },
                RangeEntry {
                    seq: SeqNo(6),
                    keyspace: KeyspaceId(1),
                    from: Vec::new(),
                    to: Some(b"b".to_vec()),
                },
            ],
            keyspaces: vec![KeyspaceEntry {
                id: KeyspaceId(1),
                name: "default".into(),
            }],
            settled: vec![Location::from_bits(1 << 39 | 5)],
        }
    }

    #[test]
    fn meta_round_trips_and_any_cut_is_refused() {
        let mut out = Vec::new();
        meta().encode(&mut out);
        assert_eq!(CheckpointMeta::decode(&out), Ok(meta()));
        for cut in 0..out.len() {
            assert!(CheckpointMeta::decode(&out[..cut]).is_err(), "cut at {cut}");
        }
        out.push(0);
        assert!(CheckpointMeta::decode(&out).is_err());
    }

    #[test]
    fn a_chunk_round_trips_and_flipped_bits_are_found() {
        let header = ChunkHeader {
            kind: ChunkKind::Leaves,
            checkpoint: 3,
            number: 1,
            payload_bytes: 5,
        };
        let chunk = encode_chunk(ChecksumSalt(9), 4096, &header, b"leafs", 512);
        assert_eq!(chunk.len(), 512);
        let opened = open_chunk(ChecksumSalt(9), 4096, &chunk).unwrap();
        assert_eq!(opened, (header, &b"leafs"[..]));
        for bit in 0..(CHUNK_HEADER_BYTES + 5) * 8 {
            let mut bad = chunk.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(
                open_chunk(ChecksumSalt(9), 4096, &bad).is_err(),
                "bit {bit}"
            );
        }
    }

    #[test]
    fn a_chunk_says_how_it_is_encrypted() {
        let header = ChunkHeader {
            kind: ChunkKind::Leaves,
            checkpoint: 7,
            number: 2,
            payload_bytes: 40,
        };
        let salt = ChecksumSalt(9);
        let mut chunk = encode_chunk(salt, 4096, &header, &[5; 40], 512);
        assert_eq!(chunk_seal(&chunk), None);
        let seal = ChunkSeal {
            key: 3,
            birth: Birth(0x0102_0304),
        };
        set_chunk_seal(&mut chunk, seal);
        assert!(
            open_chunk(salt, 4096, &chunk).is_err(),
            "its checksum is void"
        );
        crate::sealed::renew_checksum(salt, 4096, &mut chunk[..72]);
        assert_eq!(open_chunk(salt, 4096, &chunk), Ok((header, &[5; 40][..])));
        assert_eq!(chunk_seal(&chunk), Some(seal));
        chunk[26] = 1;
        assert_eq!(peek_chunk(4096, &chunk).unwrap_err().field, "kind");
        chunk[26] = 0;
        chunk[20] = 31;
        assert_eq!(peek_chunk(4096, &chunk).unwrap_err().field, "payload size");
    }

    /// Recovery counts on from the cut, from births and from numbers of keyspaces.
    #[test]
    fn numbers_without_a_next_are_refused() {
        type Change = (fn(&mut CheckpointMeta), &'static str);
        let changes: [Change; 6] = [
            (|m| m.cut = SeqNo(u64::MAX), "order"),
            (|m| m.next_birth = Birth(u32::MAX), "birth"),
            (|m| m.next_keyspace = u32::MAX, "keyspace"),
            (|m| m.segments[0].birth = Birth(u32::MAX), "birth"),
            (|m| m.segments[0].last_seq = SeqNo(u64::MAX), "order"),
            (|m| m.ranges[0].seq = SeqNo(u64::MAX), "order"),
        ];
        for (change, field) in changes {
            let (mut bad, mut out) = (meta(), Vec::new());
            change(&mut bad);
            bad.encode(&mut out);
            let error = CheckpointMeta::decode(&out).unwrap_err().to_string();
            assert!(error.contains(field), "{error}");
        }
    }
}
