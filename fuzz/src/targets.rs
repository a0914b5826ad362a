//! The targets. Each decodes its input as it is, and, where a checksum would stop nearly every
//! mutation at the door, once more with the checksum put right. No state, no threads.

use heliox_format::checkpoint::{encode_chunk, open_chunk, CheckpointMeta, CHUNK_HEADER_BYTES};
use heliox_format::checksum::{checksum, ChecksumSalt};
use heliox_format::frame::{open_frame, peek_frame, seal_frame, FrameShape};
use heliox_format::label::{Label, LABEL_BYTES};
use heliox_format::limits::BLOCK_BYTES;
use heliox_format::record::{decode_header, Decoded};
use heliox_format::segment::{SegmentHeader, SEGMENT_HEADER_BYTES};
use heliox_format::superblock::Superblock;
use heliox_index::{Index, IndexOptions};

/// The store that all inputs claim to be of.
pub const SALT: ChecksumSalt = ChecksumSalt(0x5eed);
/// The address that all inputs claim to be read from: the second block.
pub const ADDRESS: u64 = BLOCK_BYTES as u64;

/// One frame at the start of a block.
pub fn frame(data: &[u8]) {
    check_frame(data);
    if let Ok(header) = peek_frame(FrameShape::Plain, ADDRESS, data) {
        check_frame(&with_checksum(
            data,
            0,
            4..header.frame_bytes as usize,
            SALT,
            ADDRESS,
        ));
    }
}

fn check_frame(data: &[u8]) {
    let Ok(header) = open_frame(FrameShape::Plain, SALT, ADDRESS, data) else {
        return;
    };
    let whole = header.frame_bytes as usize;
    assert!(whole <= data.len(), "a frame is longer than what was read");
    assert!(header.used_bytes <= header.frame_bytes);
    assert!(header.first_record <= header.used_bytes);
    let mut again = data[..whole].to_vec();
    seal_frame(SALT, ADDRESS, &header, &mut again);
    assert_eq!(
        open_frame(FrameShape::Plain, SALT, ADDRESS, &again),
        Ok(header)
    );
}

/// Frames one after the other to the end of a block, as a reader walks them.
pub fn frame_block(data: &[u8]) {
    let mut at = 0;
    while let Some(rest) = data
        .get(at..)
        .filter(|rest| !rest.is_empty() && at < BLOCK_BYTES)
    {
        let address = ADDRESS + at as u64;
        let Ok(header) = peek_frame(FrameShape::Plain, address, rest) else {
            return;
        };
        // Of an encrypted store it has a longer header, within which nothing of it ends.
        if let Ok(sealed) = peek_frame(FrameShape::Sealed, address, rest) {
            assert_eq!(sealed, header);
            assert!(usize::from(sealed.used_bytes) >= FrameShape::Sealed.header_bytes());
        }
        assert!(header.frame_bytes > 0, "a walk stands still");
        at += header.frame_bytes as usize;
        assert!(at <= BLOCK_BYTES, "a frame leaves its block");
    }
}

/// One record header.
pub fn record(data: &[u8]) {
    let Ok(Decoded::Record(header, header_bytes)) = decode_header(ADDRESS, data) else {
        return;
    };
    assert!(header_bytes <= data.len());
    let mut again = Vec::new();
    header.encode(&mut again);
    assert_eq!(again.len(), header.header_bytes());
    let found = decode_header(ADDRESS, &again);
    assert_eq!(found, Ok(Decoded::Record(header, again.len())));
}

/// Records one after the other, as a scan of a segment meets them.
pub fn record_stream(data: &[u8]) {
    let mut at = 0;
    while at < data.len() {
        at += match decode_header(at as u64, &data[at..]) {
            Ok(Decoded::Padding) => 1,
            Ok(Decoded::Record(header, header_bytes)) => {
                assert!(header_bytes > 0, "a walk stands still");
                header_bytes + header.body_bytes()
            }
            Ok(Decoded::Short) | Err(_) => return,
        };
    }
}

/// A copy of the superblock.
pub fn superblock(data: &[u8]) {
    let sealed = with_checksum(data, 8, 12..BLOCK_BYTES, ChecksumSalt(0), ADDRESS);
    for data in [data, &sealed] {
        if let Ok(superblock) = Superblock::decode(ADDRESS, data) {
            let again = Superblock::decode(ADDRESS, &superblock.encode(ADDRESS));
            assert_eq!(again, Ok(superblock));
        }
    }
}

/// A volume's label.
pub fn label(data: &[u8]) {
    let sealed = with_checksum(data, 8, 12..LABEL_BYTES, ChecksumSalt(0), 0);
    for data in [data, &sealed] {
        if let Ok(Some(label)) = Label::decode(data) {
            assert_eq!(Label::decode(&label.encode()), Ok(Some(label)));
        }
    }
}

/// The header of a segment.
pub fn segment_header(data: &[u8]) {
    let sealed = with_checksum(data, 0, 4..SEGMENT_HEADER_BYTES, SALT, ADDRESS);
    for data in [data, &sealed] {
        if let Ok(header) = SegmentHeader::decode(SALT, ADDRESS, data) {
            let again = SegmentHeader::decode(SALT, ADDRESS, &header.encode(SALT, ADDRESS, 512));
            assert_eq!(again, Ok(header));
        }
    }
}

/// One piece of a checkpoint.
pub fn checkpoint_chunk(data: &[u8]) {
    check_chunk(data);
    if let Some(payload_bytes) = data.get(20..24).and_then(|bytes| bytes.try_into().ok()) {
        let whole = CHUNK_HEADER_BYTES.saturating_add(u32::from_le_bytes(payload_bytes) as usize);
        check_chunk(&with_checksum(data, 0, 4..whole, SALT, ADDRESS));
    }
}

fn check_chunk(data: &[u8]) {
    let Ok((header, payload)) = open_chunk(SALT, ADDRESS, data) else {
        return;
    };
    assert_eq!(payload.len(), header.payload_bytes as usize);
    let again = encode_chunk(SALT, ADDRESS, &header, payload, 512);
    assert_eq!(open_chunk(SALT, ADDRESS, &again), Ok((header, payload)));
}

/// What a checkpoint says beside the index.
pub fn checkpoint_meta(data: &[u8]) {
    if let Ok(meta) = CheckpointMeta::decode(data) {
        let mut again = Vec::new();
        meta.encode(&mut again);
        assert_eq!(CheckpointMeta::decode(&again), Ok(meta));
    }
}

/// Leaf images of the index. What loads must answer questions and make images again.
pub fn index_image(data: &[u8]) {
    let mut loader = Index::loader(IndexOptions {
        limit_bytes: 64 << 20,
        ..IndexOptions::default()
    });
    let mut rest = data;
    while !rest.is_empty() {
        let before = rest.len();
        if loader.push(&mut rest).is_err() {
            return;
        }
        assert!(rest.len() < before, "a leaf took no bytes");
    }
    let Ok(index) = loader.finish() else { return };
    let mut entries = 0u64;
    index.for_each_entry(&mut |_| entries += 1);
    assert_eq!(index.stats().entries, entries);
    crate::images::walk(&index, entries);
}

/// `data` with the checksum of `range` put at `at`; as it is where it is too short for that.
fn with_checksum(
    data: &[u8],
    at: usize,
    range: std::ops::Range<usize>,
    salt: ChecksumSalt,
    address: u64,
) -> Vec<u8> {
    let mut sealed = data.to_vec();
    if let Some(covered) = data.get(range) {
        let crc = checksum(salt, address, covered);
        sealed[at..at + 4].copy_from_slice(&crc.to_le_bytes());
    }
    sealed
}
