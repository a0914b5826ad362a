//! The decoders of everything on media against random and mutated bytes: an answer or an error,
//! never a panic, and what was encoded comes back.
#![allow(clippy::unwrap_used, clippy::panic)] // these are tests

use heliox_format::bytes::{varint_bytes, Reader, WriteBytes};
use heliox_format::checkpoint::{encode_chunk, open_chunk, peek_chunk, CheckpointMeta};
use heliox_format::checkpoint::{ChunkHeader, ChunkKind};
use heliox_format::checksum::ChecksumSalt;
use heliox_format::frame::{advance, open_frame, peek_frame, FrameShape, FRAME_HEADER_BYTES};
use heliox_format::ids::{KeyspaceId, Location};
use heliox_format::label::Label;
use heliox_format::limits::{BLOCK_BYTES, CHUNK_BYTES, KEY_BYTES_MAX};
use heliox_format::record::{
    decode_header, Decoded, RecordHeader, RecordKind, Settles, EXPIRY_MS_MAX,
};
use heliox_format::segment::SegmentHeader;
use heliox_format::superblock::Superblock;
use proptest::option;
use proptest::prelude::*;

fn record() -> impl Strategy<Value = RecordHeader> {
    let kinds = prop_oneof![
        Just(RecordKind::Put),
        Just(RecordKind::Tombstone),
        Just(RecordKind::Retained),
        Just(RecordKind::Commit),
        Just(RecordKind::RangeDelete),
        Just(RecordKind::Keyspace),
    ];
    let location = || option::of(any::<u64>().prop_map(Location::from_bits));
    let lengths = (0..=KEY_BYTES_MAX as u32, 0..=CHUNK_BYTES as u32);
    let numbers = (any::<u32>(), any::<u64>(), option::of(any::<u64>()));
    let rare = (
        option::of(0..=EXPIRY_MS_MAX),
        option::of(any::<u64>()),
        any::<bool>(),
        any::<bool>(),
    );
    (kinds, lengths, numbers, location(), location(), rare).prop_map(
        |(kind, (key_bytes, value_bytes), (keyspace, seq_gap, batch), displaced, link, rare)| {
            let mut header = RecordHeader::new(kind, KeyspaceId(keyspace), &[], &[]);
            (header.key_bytes, header.value_bytes) = (key_bytes, value_bytes);
            (header.seq_gap, header.batch_offset) = (seq_gap, batch);
            (header.displaced, header.link) = (displaced, link);
            (
                header.expiry_ms,
                header.version_delta,
                header.chunked,
                header.retained_tombstone,
            ) = rare;
            header.settles = header.link.map(|location| Settles {
                location,
                difference: seq_gap,
            });
            header
        },
    )
}

const SHAPES: [FrameShape; 2] = [FrameShape::Plain, FrameShape::Sealed];

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn random_bytes_decode_or_are_refused(
        bytes in prop::collection::vec(any::<u8>(), 0..6000),
        address in any::<u64>(),
    ) {
        let salt = ChecksumSalt(1);
        for shape in SHAPES {
            let _ = peek_frame(shape, address, &bytes);
            let _ = open_frame(shape, salt, address, &bytes);
        }
        let _ = decode_header(address, &bytes);
        let _ = SegmentHeader::decode(salt, address, &bytes);
        let _ = Superblock::decode(address, &bytes);
        let _ = Label::decode(&bytes);
        let _ = peek_chunk(address, &bytes);
        let _ = open_chunk(salt, address, &bytes);
        let _ = CheckpointMeta::decode(&bytes);
        let _ = Reader::new(&bytes).varint();
        let _ = Reader::new(&bytes).prefixed();
    }

    #[test]
    fn a_frame_that_peeks_lies_within_its_block(
        bytes in prop::collection::vec(any::<u8>(), FRAME_HEADER_BYTES..80),
        sizes in any::<[u8; 3]>(),
        sector in 0u64..64,
        shape in prop::sample::select(SHAPES.to_vec()),
    ) {
        let mut bytes = bytes;
        // Sizes that are multiples of a sector, so that many pass.
        bytes[4..6].copy_from_slice(&(u16::from(sizes[0] % 10) * 512).to_le_bytes());
        bytes[6..8].copy_from_slice(&(u16::from(sizes[1]) * 17).to_le_bytes());
        bytes[8..10].copy_from_slice(&(u16::from(sizes[2]) * 5).to_le_bytes());
        bytes[10] = 1;
        let at = sector * 512;
        let header_bytes = shape.header_bytes();
        if let Ok(header) = peek_frame(shape, at, &bytes) {
            let (size, used) = (usize::from(header.frame_bytes), usize::from(header.used_bytes));
            prop_assert!(at as usize % BLOCK_BYTES + size <= BLOCK_BYTES);
            prop_assert!(header_bytes <= used && used <= size);
            let first = usize::from(header.first_record);
            prop_assert!(first == 0 || (header_bytes..used).contains(&first));
        }
    }

    #[test]
    fn a_record_header_round_trips_and_a_mutated_one_does_no_harm(
        header in record(),
        hits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
    ) {
        let mut bytes = Vec::new();
        header.encode(&mut bytes);
        prop_assert_eq!(bytes.len(), header.header_bytes());
        prop_assert!(bytes.len() + header.body_bytes() <= header.record_bytes_max());
        prop_assert_eq!(decode_header(0, &bytes), Ok(Decoded::Record(header, bytes.len())));
        for (at, byte) in hits {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Ok(Decoded::Record(header, len)) = decode_header(0, &bytes) {
            prop_assert!(len <= bytes.len());
            prop_assert!(header.key_bytes as usize <= KEY_BYTES_MAX);
            prop_assert!(header.value_bytes as usize <= CHUNK_BYTES);
        }
    }

    #[test]
    fn varints_round_trip(value in any::<u64>(), shift in 0u32..64) {
        let value = value >> shift;
        let mut bytes = Vec::new();
        bytes.put_varint(value);
        prop_assert_eq!(bytes.len(), varint_bytes(value));
        prop_assert_eq!(Reader::new(&bytes).varint(), Some(value));
    }

    #[test]
    fn a_chunk_with_any_byte_changed_is_refused(
        payload in prop::collection::vec(any::<u8>(), 0..2000),
        at in any::<prop::sample::Index>(),
        xor in 1u8..,
    ) {
        let header = ChunkHeader {
            kind: ChunkKind::Meta,
            checkpoint: 1,
            number: 2,
            payload_bytes: payload.len() as u32,
        };
        let mut chunk = encode_chunk(ChecksumSalt(1), 512, &header, &payload, 512);
        prop_assert_eq!(open_chunk(ChecksumSalt(1), 512, &chunk), Ok((header, &payload[..])));
        let len = 32 + payload.len();
        for at in [at.index(len), 0, len - 1] {
            chunk[at] ^= xor;
            prop_assert!(open_chunk(ChecksumSalt(1), 512, &chunk).is_err());
            chunk[at] ^= xor;
        }
    }

    #[test]
    fn advance_goes_the_way_that_single_bytes_go(
        block in 0u64..1000,
        shape in prop::sample::select(SHAPES.to_vec()),
        offset in FrameShape::Sealed.header_bytes() as u64..BLOCK_BYTES as u64,
        blocks in 0u64..5,
        more in 0u64..100,
    ) {
        let from = block * BLOCK_BYTES as u64 + offset;
        // Lengths around whole blocks: these are the ones to get wrong.
        let payload = (BLOCK_BYTES - shape.header_bytes()) as u64;
        let len = (BLOCK_BYTES as u64 - offset + blocks * payload + more).saturating_sub(50);
        let mut at = from;
        for _ in 0..len {
            if at.is_multiple_of(BLOCK_BYTES as u64) {
                at += shape.header_bytes() as u64;
            }
            at += 1;
        }
        prop_assert_eq!(advance(shape, from, len), at);
    }
}
