//! The target `segment_scan`: a segment as recovery, garbage collection and the check read it.
//!
//! The seeds are what a log wrote. Every frame that looks like one gets its checksum put right, so
//! that the input reaches the scanner and not only its door. No threads.

use heliox_format::checksum::checksum;
use heliox_format::frame::{peek_frame, FrameShape};
use heliox_format::ids::{Birth, Incarnation, KeyspaceId, Location, SegmentId, SeqNo};
use heliox_format::limits::SEGMENT_BYTES_MIN;
use heliox_format::record::RecordKind;
use heliox_format::segment::SEGMENT_HEADER_BYTES;
use heliox_log::append::NewRecord;
use heliox_log::geometry::LogGeometry;
use heliox_log::scan::{Scanned, SegmentScanner};
use heliox_log::segments::SegmentTable;
use heliox_log::{Log, LogError, LogOptions, Stream};
use heliox_media::{Media, MemoryMedia};
use std::sync::Arc;

use crate::targets::SALT;

const SECTOR_BYTES: usize = 512;
/// The part of a segment that an input stands for.
const SCANNED_BYTES: usize = 64 << 10;

fn geometry(segment_bytes: u64, segments: u32) -> LogGeometry {
    LogGeometry {
        segment_bytes,
        segments,
        unit_shift: 0,
        sector_bytes: SECTOR_BYTES,
        salt: SALT,
        shape: FrameShape::Plain,
    }
}

/// Scans the input as the first segment of a store, with its length unknown and known.
///
/// # Panics
/// When the scanner breaks a promise.
pub fn segment_scan(data: &[u8]) {
    let mut bytes = data[..data.len().min(SCANNED_BYTES)].to_vec();
    bytes.resize(SCANNED_BYTES, 0);
    seal(&mut bytes);
    let Ok(media) = MemoryMedia::new(SCANNED_BYTES as u64, SECTOR_BYTES as u32) else {
        return;
    };
    media
        .poke(0, &bytes)
        .expect("the input is within the media");
    for used_bytes in [None, Some(data.len().min(SCANNED_BYTES) as u64)] {
        scan(&media, used_bytes);
    }
}

fn scan(media: &dyn Media, used_bytes: Option<u64>) {
    let geometry = geometry(SCANNED_BYTES as u64, 1);
    let Ok(mut scanner) = SegmentScanner::load(media, &geometry, SegmentId(0), used_bytes) else {
        return;
    };
    let _ = scanner.durable_seq_of_all();
    let mut items = 0;
    while let Some(item) = scanner.next() {
        items += 1;
        assert!(items <= SCANNED_BYTES, "a scan does not end");
        match item {
            Scanned::Record { location, record } => {
                assert!(geometry.address(location) < SCANNED_BYTES as u64);
                assert_eq!(record.key.len(), record.header.key_bytes as usize);
                assert_eq!(record.value.len(), record.header.value_bytes as usize);
                let _ = record.version();
            }
            Scanned::Gap { from, to, .. } => assert!(from < to && to <= SCANNED_BYTES as u64),
        }
    }
    assert!(scanner.written_bytes() <= scanner.loaded_bytes());
}

/// Puts the checksums of the header and of everything that looks like a frame right.
fn seal(bytes: &mut [u8]) {
    let crc = checksum(SALT, 0, &bytes[4..SEGMENT_HEADER_BYTES]);
    bytes[..4].copy_from_slice(&crc.to_le_bytes());
    let mut at = SECTOR_BYTES;
    while at < bytes.len() {
        let Ok(header) = peek_frame(FrameShape::Plain, at as u64, &bytes[at..]) else {
            at += SECTOR_BYTES;
            continue;
        };
        let end = at + header.frame_bytes as usize;
        let crc = checksum(SALT, at as u64, &bytes[at + 4..end]);
        bytes[at..at + 4].copy_from_slice(&crc.to_le_bytes());
        at = end;
    }
}

/// The first 64 KiB of segments with small records, with large ones, and with many flushes.
pub fn segments() -> Vec<Vec<u8>> {
    let seeds = [(400, 40, 0), (9, 7_000, 0), (60, 300, 2)];
    let written =
        seeds.map(|(records, value_bytes, flush_every)| write(records, value_bytes, flush_every));
    written.into_iter().filter_map(Result::ok).collect()
}

fn write(records: usize, value_bytes: usize, flush_every: usize) -> Result<Vec<u8>, LogError> {
    let media = Arc::new(MemoryMedia::new(
        4 * SEGMENT_BYTES_MIN,
        SECTOR_BYTES as u32,
    )?);
    let options = LogOptions {
        geometry: geometry(SEGMENT_BYTES_MIN, 4),
        incarnation: Incarnation(1),
        next_seq: SeqNo(1),
        next_birth: Birth(1),
    };
    let log = Log::new(media.clone(), options, SegmentTable::new(4));
    let mut displaced: Option<Location> = None;
    for at in 0..records {
        let key = format!("key{at}");
        let value = vec![at as u8; value_bytes];
        let kind = if at % 9 == 8 {
            RecordKind::Tombstone
        } else {
            RecordKind::Put
        };
        let mut record = NewRecord::new(kind, KeyspaceId(1), key.as_bytes(), &value);
        record.displaced = displaced.filter(|_| at % 3 == 0);
        record.expiry_ms = (at % 5 == 0).then_some(1_800_000_000_000);
        displaced = Some(log.append(Stream::User, &record)?.location);
        if flush_every != 0 && at % flush_every == 0 {
            log.sync()?;
        }
    }
    log.sync()?;
    let mut segment = vec![0; SCANNED_BYTES];
    media.peek(0, &mut segment)?;
    Ok(segment)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seeds_hold_records_without_gaps() {
        let seeds = segments();
        assert_eq!(seeds.len(), 3);
        for seed in seeds {
            let media = MemoryMedia::new(SCANNED_BYTES as u64, SECTOR_BYTES as u32).unwrap();
            media.poke(0, &seed).unwrap();
            let geometry = geometry(SCANNED_BYTES as u64, 1);
            let mut scanner = SegmentScanner::load(&media, &geometry, SegmentId(0), None).unwrap();
            let mut records = 0;
            while let Some(item) = scanner.next() {
                assert!(matches!(item, Scanned::Record { .. }), "{item:?}");
                records += 1;
            }
            assert!(records >= 8, "{records}");
        }
    }
}
