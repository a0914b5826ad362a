//! Verifying a segment of the log piece by piece: what a scrub does beside running writers.
//!
//! A [`SegmentScanner`](crate::scan::SegmentScanner) needs the whole segment in memory and gives
//! its records. Here each block is verified by itself: frames lie inside blocks and follow each
//! other without a gap, so that a block needs nothing of its neighbours, and memory is that of the
//! piece. A record that goes on in the next block is verified frame by frame.
//!
//! Pure functions of bytes: whether the segment still lives the life meant is the caller's to ask,
//! after the read.

use heliox_format::error::DecodeError;
use heliox_format::frame::open_frame;
use heliox_format::ids::Birth;
use heliox_format::limits::{BLOCK_BYTES, SECTOR_BYTES_MIN};
use heliox_format::record::{decode_header, Decoded};
use heliox_format::segment::SegmentHeader;

use crate::geometry::LogGeometry;

/// Bytes that are not what was written there.
#[derive(Clone, Debug)]
pub struct Unverified {
    /// The first address that does not verify.
    pub from: u64,
    /// The address after it.
    pub to: u64,
    /// What was expected and found.
    pub error: DecodeError,
    /// It is the segment's header: frames tell the same, so no record is lost with it.
    pub is_header: bool,
}

/// Verifies blocks of a segment: the frames in them, that these are of the life `birth` and leave
/// no gap, that records parse, and the segment's header if its block is among them. `address`: where
/// `bytes` begin, at a block. `end`: the address up to which the segment was written; what begins
/// beyond it is not looked at.
pub fn verify_blocks(
    geometry: &LogGeometry,
    birth: Birth,
    address: u64,
    bytes: &[u8],
    end: u64,
    found: &mut dyn FnMut(Unverified),
) {
    for (n, block) in bytes.chunks(BLOCK_BYTES).enumerate() {
        let start = address + (n * BLOCK_BYTES) as u64;
        if start.is_multiple_of(geometry.segment_bytes) {
            if let Err(error) = verify_header(geometry, birth, start, block) {
                found(Unverified {
                    from: start,
                    to: start + geometry.sector_bytes as u64,
                    error,
                    is_header: true,
                });
            }
        }
        verify_block(geometry, birth, start, block, end, found);
    }
}

fn verify_header(
    geometry: &LogGeometry,
    birth: Birth,
    start: u64,
    block: &[u8],
) -> Result<(), DecodeError> {
    if SegmentHeader::is_absent(block) {
        // A crash may lose it while frames of the same write arrive, and they tell all of it.
        return Ok(());
    }
    let header = match SegmentHeader::decode(geometry.salt, start, block) {
        Ok(header) => header,
        // It never arrived, in a crash, and frames tell all that it would.
        Err(_) if SegmentHeader::is_absent(block) => return Ok(()),
        Err(error) => return Err(error),
    };
    if header.birth == birth {
        return Ok(());
    }
    let (want, have) = (u64::from(birth.0), u64::from(header.birth.0));
    Err(DecodeError::new(
        "segment header",
        start,
        "birth",
        want,
        have,
    ))
}

fn verify_block(
    geometry: &LogGeometry,
    birth: Birth,
    start: u64,
    block: &[u8],
    end: u64,
    found: &mut dyn FnMut(Unverified),
) {
    let block_end = end.min(start + block.len() as u64);
    let mut at = geometry.first_frame(start);
    let mut gap: Option<(u64, DecodeError)> = None;
    while at < block_end {
        let bytes = block.get((at - start) as usize..).unwrap_or_default();
        match verify_frame(geometry, birth, at, bytes) {
            Ok(frame_bytes) => {
                if let Some((from, error)) = gap.take() {
                    let (to, is_header) = (at, false);
                    found(Unverified {
                        from,
                        to,
                        error,
                        is_header,
                    });
                }
                at += frame_bytes;
            }
            // A frame behind it tells where the damage ends.
            Err(error) => {
                gap.get_or_insert((at, error));
                at += SECTOR_BYTES_MIN as u64;
            }
        }
    }
    if let Some((from, error)) = gap {
        let (to, is_header) = (start + block.len() as u64, false);
        found(Unverified {
            from,
            to,
            error,
            is_header,
        });
    }
}

/// The length of the frame at the start of `bytes`, if it is whole and of this life.
fn verify_frame(
    geometry: &LogGeometry,
    birth: Birth,
    at: u64,
    bytes: &[u8],
) -> Result<u64, DecodeError> {
    let header = open_frame(geometry.shape, geometry.salt, at, bytes)?;
    if header.birth != birth {
        let (want, have) = (u64::from(birth.0), u64::from(header.birth.0));
        return Err(DecodeError::new("frame", at, "birth", want, have));
    }
    let used = bytes.get(..usize::from(header.used_bytes));
    if header.first_record != 0 {
        parse_records(at, used.unwrap_or_default(), header.first_record.into())?;
    }
    Ok(u64::from(header.frame_bytes))
}

/// Walks the records that start in a frame; the last may go on in the next.
fn parse_records(at: u64, used: &[u8], first: usize) -> Result<(), DecodeError> {
    let mut next = first;
    while let Some(bytes) = used.get(next..).filter(|bytes| !bytes.is_empty()) {
        match decode_header(at + next as u64, bytes)? {
            Decoded::Padding => next += 1,
            Decoded::Record(header, header_bytes) => next += header_bytes + header.body_bytes(),
            Decoded::Short => return Ok(()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use heliox_format::checksum::ChecksumSalt;
    use heliox_format::frame::{seal_frame, FrameHeader, FrameShape, FRAME_HEADER_BYTES};
    use heliox_format::ids::{Incarnation, SegmentId, SeqNo};
    use heliox_format::segment::SegmentKind;

    use super::*;

    const GEOMETRY: LogGeometry = LogGeometry {
        segment_bytes: 4 << 20,
        segments: 4,
        unit_shift: 0,
        sector_bytes: 512,
        salt: ChecksumSalt(7),
        shape: FrameShape::Plain,
    };
    const BIRTH: Birth = Birth(5);

    fn frame(address: u64, birth: Birth, bytes: &mut [u8]) {
        let header = FrameHeader {
            frame_bytes: bytes.len() as u16,
            used_bytes: FRAME_HEADER_BYTES as u16 + 8,
            first_record: 0,
            birth,
            incarnation: Incarnation(1),
            first_seq: SeqNo(1),
            durable_seq: SeqNo(0),
        };
        seal_frame(GEOMETRY.salt, address, &header, bytes);
    }

    /// The first three blocks of segment 1: a header, then frames of 512, 1024, 2048 and 4096 bytes;
    /// the last block was written up to its middle.
    fn blocks() -> (u64, Vec<u8>, u64) {
        let start = GEOMETRY.start(SegmentId(1));
        let mut bytes = vec![0; 3 * BLOCK_BYTES];
        let header = SegmentHeader {
            kind: SegmentKind::User,
            class: Default::default(),
            birth: BIRTH,
            incarnation: Incarnation(1),
            first_seq: SeqNo(1),
            previous: None,
            checkpoint: 0,
        };
        bytes[..512].copy_from_slice(&header.encode(GEOMETRY.salt, start, 512));
        let frames = [
            (512, 512),
            (1024, 1024),
            (2048, 2048),
            (4096, 4096),
            (8192, 2048),
        ];
        for (at, len) in frames {
            frame(start + at as u64, BIRTH, &mut bytes[at..at + len]);
        }
        (start, bytes, start + 10240)
    }

    fn verify(bytes: &[u8], end: u64) -> Vec<(u64, u64, bool)> {
        let start = GEOMETRY.start(SegmentId(1));
        let mut found = Vec::new();
        verify_blocks(&GEOMETRY, BIRTH, start, bytes, end, &mut |u| {
            found.push((u.from - start, u.to - start, u.is_header));
        });
        found
    }

    #[test]
    fn whole_frames_are_passed_and_every_flipped_bit_is_placed() {
        let (_, bytes, end) = blocks();
        assert_eq!(verify(&bytes, end), []);
        for byte in (0..48).chain((512..10240).step_by(61)) {
            let mut bad = bytes.clone();
            bad[byte] ^= 0x10;
            let found = verify(&bad, end);
            let frame = match byte {
                0..512 => (0, 512, true),
                512..1024 => (512, 1024, false),
                1024..2048 => (1024, 2048, false),
                2048..4096 => (2048, 4096, false),
                4096..8192 => (4096, 8192, false),
                _ => (8192, 12288, false),
            };
            assert_eq!(found, [frame], "byte {byte}");
        }
    }

    #[test]
    fn what_was_not_written_is_not_looked_at_and_another_life_is_no_frame() {
        let (start, mut bytes, end) = blocks();
        bytes[10240..].fill(0xee);
        assert_eq!(verify(&bytes, end), []);
        assert_eq!(verify(&bytes, end + 1), [(10240, 12288, false)]);
        frame(start + 1024, Birth(4), &mut bytes[1024..2048]);
        assert_eq!(
            verify(&bytes, end),
            [(1024, 2048, false)],
            "a write was lost"
        );
    }

    #[test]
    fn a_header_that_never_arrived_is_no_damage() {
        let (_, mut bytes, end) = blocks();
        bytes[..512].fill(0);
        assert_eq!(verify(&bytes, end), []);
    }

    #[test]
    fn records_that_do_not_parse_are_told_in_a_whole_frame() {
        let (start, mut bytes, end) = blocks();
        let header = FrameHeader {
            frame_bytes: 512,
            used_bytes: FRAME_HEADER_BYTES as u16 + 8,
            first_record: FRAME_HEADER_BYTES as u16,
            birth: BIRTH,
            incarnation: Incarnation(1),
            first_seq: SeqNo(1),
            durable_seq: SeqNo(0),
        };
        bytes[512 + FRAME_HEADER_BYTES..512 + FRAME_HEADER_BYTES + 8].fill(0xff);
        seal_frame(GEOMETRY.salt, start + 512, &header, &mut bytes[512..1024]);
        assert_eq!(verify(&bytes, end), [(512, 1024, false)]);
    }
}
