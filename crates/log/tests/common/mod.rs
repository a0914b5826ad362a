//! What the tests of the log share: a small store in memory, records whose every byte follows from
//! a number, and a device that watches over its sectors and fails when told to.
#![allow(dead_code, unreachable_pub)] // each test takes what it needs
#![allow(clippy::unwrap_used, clippy::panic)] // these are tests

use std::collections::HashSet;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

use heliox_format::checksum::ChecksumSalt;
use heliox_format::frame::FrameShape;
use heliox_format::ids::{Birth, Incarnation, KeyspaceId, Location, SegmentId, SeqNo};
use heliox_format::record::{Record, RecordKind};
use heliox_log::append::{Appended, NewRecord};
use heliox_log::geometry::LogGeometry;
use heliox_log::read::{Found, ReadBuf};
use heliox_log::scan::{Scanned, SegmentScanner};
use heliox_log::segments::SegmentTable;
use heliox_log::{Log, LogError, LogOptions, Stream};
use heliox_media::{Geometry, Media, MediaError, MemoryMedia, Operation};
use heliox_sync::Mutex;

pub const SEGMENT_BYTES: u64 = 4 << 20;
pub const USER: Stream = Stream::User;
pub const SURVIVOR: Stream = Stream::Survivor;

/// Runs when a write reached the device, before it returns.
type Hook = Box<dyn FnMut(u64, usize) + Send>;

/// A device in memory that notes which sectors were written, and fails on demand.
pub struct Probe {
    pub inner: MemoryMedia,
    written: Mutex<HashSet<u64>>,
    /// Sectors written although they had been written in this generation.
    pub rewritten: AtomicU64,
    /// Writes (syncs) that still succeed; negative: all do.
    pub writes_left: AtomicI64,
    pub syncs_left: AtomicI64,
    pub after_write: Mutex<Option<Hook>>,
    pub in_sync: Mutex<Option<Hook>>,
    /// Runs while a range is prepared.
    pub in_prepare: Mutex<Option<Hook>>,
    /// How long a write takes, in microseconds.
    pub write_us: AtomicU64,
}

impl Probe {
    pub fn new(len_bytes: u64, sector_bytes: u32) -> Probe {
        Probe::over(MemoryMedia::new(len_bytes, sector_bytes).unwrap())
    }

    pub fn over(inner: MemoryMedia) -> Probe {
        Probe {
            inner,
            written: Mutex::default(),
            rewritten: AtomicU64::new(0),
            writes_left: AtomicI64::new(-1),
            syncs_left: AtomicI64::new(-1),
            after_write: Mutex::new(None),
            in_sync: Mutex::new(None),
            in_prepare: Mutex::new(None),
            write_us: AtomicU64::new(0),
        }
    }

    /// A segment starts a new generation.
    pub fn forget(&self, id: SegmentId) {
        let first = u64::from(id.0) * SEGMENT_BYTES / 512;
        let sectors = first..first + SEGMENT_BYTES / 512;
        self.written.lock().retain(|s| !sectors.contains(s));
    }

    fn spend(left: &AtomicI64, operation: Operation) -> Result<(), MediaError> {
        match left.load(Ordering::SeqCst) {
            0 => Err(MediaError::Io {
                device: "probe".into(),
                operation,
                offset: 0,
                len_bytes: 0,
                errno: 5,
            }),
            n if n > 0 => {
                left.fetch_sub(1, Ordering::SeqCst);
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

impl Media for Probe {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), MediaError> {
        self.inner.read_at(offset, buf)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), MediaError> {
        Probe::spend(&self.writes_left, Operation::Write)?;
        {
            let mut written = self.written.lock();
            let sectors = offset / 512..(offset + data.len() as u64) / 512;
            let again = sectors.filter(|s| !written.insert(*s)).count();
            self.rewritten.fetch_add(again as u64, Ordering::Relaxed);
        }
        match self.write_us.load(Ordering::Relaxed) {
            0 => {}
            us => std::thread::sleep(Duration::from_micros(us)),
        }
        self.inner.write_at(offset, data)?;
        if let Some(hook) = self.after_write.lock().as_mut() {
            hook(offset, data.len());
        }
        Ok(())
    }

    fn sync(&self) -> Result<(), MediaError> {
        if let Some(hook) = self.in_sync.lock().as_mut() {
            hook(0, 0);
        }
        Probe::spend(&self.syncs_left, Operation::Sync)
    }

    fn discard(&self, offset: u64, len_bytes: u64) -> Result<(), MediaError> {
        self.inner.discard(offset, len_bytes)
    }

    fn prepare(&self, offset: u64, len_bytes: u64) -> Result<u64, MediaError> {
        if let Some(hook) = self.in_prepare.lock().as_mut() {
            hook(offset, len_bytes as usize);
        }
        Ok(len_bytes)
    }

    fn describe(&self) -> String {
        "probe".into()
    }
}

/// The shape of a test's store.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub segments: u32,
    pub sector_bytes: usize,
    pub unit_shift: u8,
}

pub const PLAIN: Shape = Shape {
    segments: 8,
    sector_bytes: 512,
    unit_shift: 0,
};

pub fn geometry(shape: Shape) -> LogGeometry {
    LogGeometry {
        segment_bytes: SEGMENT_BYTES,
        segments: shape.segments,
        unit_shift: shape.unit_shift,
        sector_bytes: shape.sector_bytes,
        salt: ChecksumSalt(0x1234_5678_9abc_def0),
        shape: FrameShape::Plain,
    }
}

pub fn probe(shape: Shape) -> Arc<Probe> {
    let len_bytes = SEGMENT_BYTES * u64::from(shape.segments);
    Arc::new(Probe::new(len_bytes, shape.sector_bytes as u32))
}

pub fn log_over(media: Arc<dyn Media>, shape: Shape) -> Log {
    let options = LogOptions {
        geometry: geometry(shape),
        incarnation: Incarnation(3),
        next_seq: SeqNo(1),
        next_birth: Birth(1),
    };
    Log::new(media, options, SegmentTable::new(shape.segments))
}

pub fn small_log(shape: Shape) -> (Arc<Probe>, Log) {
    let probe = probe(shape);
    let log = log_over(probe.clone(), shape);
    (probe, log)
}

/// Bytes that follow from `n` alone and look like those of no other number.
pub fn bytes(n: u64, len: usize) -> Vec<u8> {
    let mut state = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut out = Vec::with_capacity(len + 8);
    while out.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        out.extend_from_slice(&state.to_le_bytes());
    }
    out.truncate(len);
    out
}

/// A record that was appended, as the test remembers it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    pub n: u64,
    pub at: Location,
    pub seq: SeqNo,
    pub birth: Birth,
    pub stream: Stream,
    pub key_bytes: usize,
    pub value_bytes: usize,
    pub displaced: Option<Location>,
}

/// Appends the record number `n`.
pub fn append_n(
    log: &Log,
    stream: Stream,
    n: u64,
    key_bytes: usize,
    value_bytes: usize,
    displaced: Option<Location>,
) -> Result<Known, LogError> {
    let (key, value) = (bytes(n, key_bytes), bytes(!n, value_bytes));
    let mut record = NewRecord::new(RecordKind::Put, KeyspaceId(n as u32), &key, &value);
    record.displaced = displaced;
    record.key_hash = n.wrapping_mul(0xdead_beef_1234_5677);
    let Appended {
        location,
        seq,
        birth,
    } = log.append(stream, &record)?;
    Ok(Known {
        n,
        at: location,
        seq,
        birth,
        stream,
        key_bytes,
        value_bytes,
        displaced,
    })
}

/// The record is, to the last byte, the known one.
pub fn is_same(known: &Known, record: &Record<'_>) -> bool {
    record.seq == known.seq
        && record.header.keyspace == KeyspaceId(known.n as u32)
        && record.header.displaced == known.displaced
        && record.key == bytes(known.n, known.key_bytes)
        && record.value == bytes(!known.n, known.value_bytes)
}

#[track_caller]
pub fn assert_found(known: &Known, found: Option<Found<'_>>) {
    let found = found.unwrap_or_else(|| panic!("record {} is gone", known.seq));
    assert!(is_same(known, &found.record), "record {}", known.seq);
    assert_eq!(found.birth, known.birth);
}

#[track_caller]
pub fn assert_readable(log: &Log, buf: &mut ReadBuf, known: &Known) {
    assert_found(known, log.read(known.at, buf).unwrap());
}

/// What a scan of a segment gave: records as (location, order, key, value), and gaps.
#[derive(Default, Debug)]
pub struct Scan {
    pub records: Vec<(Location, SeqNo, Vec<u8>, Vec<u8>)>,
    pub gaps: Vec<(u64, u64)>,
}

pub fn scan(media: &dyn Media, geometry: &LogGeometry, id: SegmentId, used: Option<u64>) -> Scan {
    let scanner = SegmentScanner::load(media, geometry, id, used);
    run_scanner(scanner.unwrap())
}

pub fn run_scanner(mut scanner: SegmentScanner) -> Scan {
    let mut scan = Scan::default();
    while let Some(step) = scanner.next() {
        match step {
            Scanned::Record { location, record } => scan.records.push((
                location,
                record.seq,
                record.key.to_vec(),
                record.value.to_vec(),
            )),
            Scanned::Gap { from, to, .. } => scan.gaps.push((from, to)),
        }
        assert!(scan.records.len() + scan.gaps.len() < 10_000_000, "endless");
    }
    scan
}

/// The scanned record is the known one.
pub fn is_scanned(known: &Known, scanned: &(Location, SeqNo, Vec<u8>, Vec<u8>)) -> bool {
    let (location, seq, key, value) = scanned;
    (*location, *seq) == (known.at, known.seq)
        && *key == bytes(known.n, known.key_bytes)
        && *value == bytes(!known.n, known.value_bytes)
}

/// The known records of one life of one segment, in order.
pub fn of_segment(log: &Log, known: &[Known], id: SegmentId) -> Vec<Known> {
    let birth = log.segment(id).birth;
    let here = |k: &&Known| k.birth == birth;
    known.iter().filter(here).cloned().collect()
}

/// A small generator, for choices that need no shrinking.
pub struct Dice(pub u64);

impl Dice {
    pub fn roll(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) % below
    }
}
