//! The log under schedules that a test decides: writers, readers, flushers and those who wait for
//! durability.

use std::sync::Arc;
use std::time::Duration;

use heliox_format::checksum::ChecksumSalt;
use heliox_format::frame::FrameShape;
use heliox_format::ids::{Birth, Incarnation, KeyspaceId, SeqNo};
use heliox_format::limits::BLOCK_BYTES;
use heliox_format::record::RecordKind;
use heliox_media::{AlignedBuf, FaultMedia, Media, MemoryMedia, Operation};
use heliox_sync::atomic::{AtomicU64, Ordering};
use heliox_sync::{explore, thread, Plan};

use crate::append::{Appended, NewRecord};
use crate::geometry::LogGeometry;
use crate::read::ReadBuf;
use crate::segments::SegmentTable;
use crate::{Log, LogError, LogOptions, Stream};

const SEGMENT_BYTES: u64 = 4 << 20;
const SEGMENTS: u32 = 3;
/// Nothing here waits for a time.
const PATIENT: bool = true;

fn under_schedules(schedules: u64, test: impl Fn() + Send + Sync + 'static) {
    let patient = PATIENT;
    explore(Plan { schedules, patient }, move |_| test());
}

fn over(media: Arc<dyn Media>) -> Log {
    let geometry = LogGeometry {
        segment_bytes: SEGMENT_BYTES,
        segments: SEGMENTS,
        unit_shift: 0,
        sector_bytes: 512,
        salt: ChecksumSalt(7),
        shape: FrameShape::Plain,
    };
    let options = LogOptions {
        geometry,
        incarnation: Incarnation(1),
        next_seq: SeqNo(1),
        next_birth: Birth(1),
    };
    Log::new(media, options, SegmentTable::new(SEGMENTS))
}

fn memory() -> MemoryMedia {
    MemoryMedia::new(SEGMENT_BYTES * u64::from(SEGMENTS), 512).unwrap()
}

fn append(log: &Log, stream: Stream, name: u8) -> Result<Appended, LogError> {
    // Of several sectors, so that flushes end frames between records.
    let (key, value) = ([name; 8], [name; 600]);
    log.append(
        stream,
        &NewRecord::new(RecordKind::Put, KeyspaceId(1), &key, &value),
    )
}

/// The name of the whole record there, and the life of its segment; none if there is none any more.
fn find(log: &Log, at: &Appended) -> Option<(u8, Birth)> {
    let mut buf = ReadBuf::default();
    let found = log.read(at.location, &mut buf).unwrap()?;
    let name = found.record.key[0];
    assert_eq!(found.record.key, [name; 8]);
    assert_eq!(found.record.value, [name; 600]);
    Some((name, found.birth))
}

fn read(log: &Log, at: &Appended) -> Option<u8> {
    find(log, at).map(|(name, _)| name)
}

/// True if the device itself holds bytes of the record, wherever its frames begin.
fn is_on_media(log: &Log, at: &Appended, name: u8) -> bool {
    let mut blocks = AlignedBuf::new(2 * BLOCK_BYTES).unwrap();
    let from = LogGeometry::block_of(log.geometry().address(at.location));
    log.media().read_at(from, &mut blocks).unwrap();
    blocks.windows(100).any(|bytes| bytes == [name; 100])
}

/// Everybody who waits for durability gets it, from whoever flushes, and not before it is true.
#[test]
fn nobody_waits_for_ever_and_nobody_goes_on_early() {
    under_schedules(1500, || {
        let log = over(Arc::new(memory()));
        let write = |name: u8| {
            for stream in [Stream::User, Stream::Survivor] {
                let appended = append(&log, stream, name).unwrap();
                log.sync_to(appended.seq).unwrap();
                assert!(log.durable_seq() >= appended.seq);
                assert!(is_on_media(&log, &appended, name));
            }
        };
        let write_only = |name: u8| {
            let appended = append(&log, Stream::User, name).unwrap();
            log.write_all().unwrap();
            assert!(is_on_media(&log, &appended, name));
        };
        thread::scope(|scope| {
            scope.spawn(|| write(1));
            scope.spawn(|| write(2));
            scope.spawn(|| log.write_full_chunks().unwrap());
            scope.spawn(|| write_only(3));
            scope.spawn(|| write_only(4));
        });
        log.sync().unwrap();
        assert_eq!(log.durable_seq(), log.last_seq());
        assert_eq!((log.unsynced_bytes(), log.unwritten_bytes()), (0, 0));
    });
}

/// A write or sync that fails ends the log for everybody: nobody is left waiting, and nobody is told
/// that what came after is durable.
#[test]
fn a_failure_reaches_everybody_who_waits() {
    for (failing, nth) in [
        (Operation::Sync, 1),
        (Operation::Write, 1),
        (Operation::Write, 2),
    ] {
        under_schedules(600, move || {
            let media = Arc::new(FaultMedia::new(memory()));
            media.fail_nth(failing, nth, 5);
            let log = over(media);
            let write = |name: u8| {
                let synced = append(&log, Stream::User, name)
                    .and_then(|appended| log.sync_to(appended.seq).map(|()| appended));
                let failed = log.failure().is_some();
                assert!(synced.is_ok_and(|a| log.durable_seq() >= a.seq) || failed);
            };
            thread::scope(|scope| {
                scope.spawn(|| write(1));
                scope.spawn(|| write(2));
                scope.spawn(|| write(3));
            });
            assert_eq!(log.failure().is_some(), log.sync().is_err());
        });
    }
}

/// Writers that wait for room in the tail all go on: a chunk wakes one of them, and each the next,
/// also where what it writes itself asks for no further chunk, and where others take the room first.
#[test]
fn nobody_waits_for_room_that_is_there() {
    under_schedules(2000, || {
        let log = over(Arc::new(memory()));
        // As little as is told.
        let limit = 4 << 10;
        let append = |bytes: usize| {
            let value = vec![1; bytes];
            let record = NewRecord::new(RecordKind::Put, KeyspaceId(1), b"k", &value);
            log.append(Stream::User, &record).unwrap();
        };
        append(9000);
        let left = AtomicU64::new(4);
        let write = |bytes: usize| {
            while log.unwritten_bytes() > limit {
                log.wait_for_room(limit, Duration::from_secs(1));
            }
            append(bytes);
            left.fetch_sub(1, Ordering::SeqCst);
        };
        thread::scope(|scope| {
            let write = &write;
            for bytes in [100, 9000, 100, 100] {
                scope.spawn(move || write(bytes));
            }
            scope.spawn(|| {
                while left.load(Ordering::SeqCst) > 0 {
                    if log.unwritten_bytes() > limit {
                        log.write_all().unwrap();
                    }
                    thread::yield_now();
                }
            });
        });
    });
}

/// Who waits for room goes on when the log fails.
#[test]
fn nobody_waits_for_room_in_a_log_that_failed() {
    under_schedules(1000, || {
        let log = over(Arc::new(memory()));
        let record = NewRecord::new(RecordKind::Put, KeyspaceId(1), b"k", &[1; 9000]);
        log.append(Stream::User, &record).unwrap();
        let wait = || {
            while log.failure().is_none() {
                log.wait_for_room(0, Duration::from_secs(1));
            }
        };
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(wait);
            }
            scope.spawn(|| log.fail(LogError::Internal("for the test")));
        });
    });
}

/// A record is found at its place from the moment it has one: in the tail, while its chunk is frozen
/// and written, and on the device.
#[test]
fn a_reader_finds_what_was_appended() {
    under_schedules(1500, || {
        let log = over(Arc::new(memory()));
        let first = append(&log, Stream::User, 1).unwrap();
        thread::scope(|scope| {
            scope.spawn(|| {
                let second = append(&log, Stream::User, 2).unwrap();
                assert_eq!(
                    (read(&log, &second), read(&log, &first)),
                    (Some(2), Some(1))
                );
            });
            scope.spawn(|| {
                log.seal_segments();
                let third = append(&log, Stream::User, 3).unwrap();
                assert_eq!((read(&log, &third), read(&log, &first)), (Some(3), Some(1)));
            });
            scope.spawn(|| log.sync().unwrap());
            scope.spawn(|| log.write_full_chunks().unwrap());
        });
    });
}

/// A segment is given back and used again, even for a record at the same place: who reads it finds
/// a record of the life that it is in, or nothing; never damage.
#[test]
fn a_place_that_is_used_again_does_not_mix_its_lives() {
    under_schedules(3000, || {
        let log = over(Arc::new(memory()));
        let old = append(&log, Stream::User, 1).unwrap();
        let segment = log.geometry().segment_at(old.location).unwrap();
        log.seal_segments();
        log.sync().unwrap();
        thread::scope(|scope| {
            scope.spawn(|| {
                let found = find(&log, &old);
                // A reader who comes late finds the new record, as one of the new life.
                let next = Birth(old.birth.0 + 1);
                assert!([None, Some((1, old.birth)), Some((2, next))].contains(&found));
            });
            scope.spawn(|| {
                log.retire(segment);
                log.release(segment);
                let new = append(&log, Stream::User, 2).unwrap();
                assert_eq!(new.location, old.location);
                log.write_all().unwrap();
                assert_eq!(read(&log, &new), Some(2));
            });
        });
    });
}
