//! The offline check: verifies a whole store that nobody has open, and writes nothing.
//!
//! It opens the store as every open does (labels, superblock copies, checkpoint, tail replayed in
//! memory), then reads each segment of the log once and compares three accounts of the same thing:
//! the records that are there, the index, and the counts and sums of the segment table. Damage is
//! a finding, not an error: an error says that the check itself could not be done.
//!
//! Invariants: nothing is written, not even the superblock; memory is that of an open (the index)
//! plus one segment and the list of its live locations. Threads: the caller's alone; the store is
//! locked meanwhile.
//!
//! Not decidable from what is on media, so not reported: whether an entry that is missing in a
//! segment with voided sums (some went without a record while a checkpoint was written) or for a
//! member of a batch (whose commit may never have been written) was lost.

mod accounts;

use std::path::Path;

use heliox_format::ids::{Birth, Location, SegmentId};
use heliox_format::record::{Record, RecordKind};
use heliox_format::segment::SegmentKind;
use heliox_index::{Index, PreparedKey};
use heliox_log::scan::{HeaderState, Scanned, SegmentScanner};
use heliox_log::segments::{Segment, SegmentState, SegmentTable};
use heliox_log::sums::weight;
use heliox_log::{Log, LogError, LogOptions};

use crate::error::{Error, ErrorKind, Result};
use crate::keyspaces::{CHUNKS, OWNERS};
use crate::large;
use crate::options::Options;
use crate::recover;
use crate::root::Root;

/// Problems that are told in words; further ones are counted.
const PROBLEMS_MAX: usize = 100;

/// How far a check is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CheckProgress {
    /// Bytes verified so far.
    pub done_bytes: u64,
    /// Bytes that will have been verified at the end; known once the index is loaded.
    pub total_bytes: u64,
}

/// What a check found.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct CheckReport {
    /// Whole records in the log, dead ones included.
    pub records: u64,
    /// Entries of the index.
    pub entries: u64,
    /// Segments in use.
    pub segments: u64,
    /// Bytes that were read and verified.
    pub bytes: u64,
    /// Records that lost their entry to another key of the same fingerprint. That is no damage:
    /// they are found by reads, and garbage collection gives them an entry again.
    pub strangers: u64,
    /// The first hundred problems in words: what, where, expected and found. Empty: all is well.
    pub problems: Vec<String>,
    /// How many problems there are.
    pub problem_count: u64,
}

impl CheckReport {
    fn problem(&mut self, what: impl Into<String>) {
        self.problem_count += 1;
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(what.into());
        }
    }
}

/// Verifies the store in `dir`, which nobody may have open.
pub(crate) fn run(
    dir: &Path,
    options: &Options,
    progress: &mut dyn FnMut(CheckProgress),
) -> Result<CheckReport> {
    let settings = options.validate()?;
    let mut report = CheckReport::default();
    let (root, superblock) = match Root::open(dir, &settings) {
        Ok(opened) => opened,
        Err(error) => return damage_only(report, error),
    };
    for damage in root.superblock_damage()? {
        report.problem(damage);
    }
    let geometry = root.log_geometry(&superblock);
    let recovered = recover::run(&root, &superblock, &settings);
    let recovered = match recovered {
        Ok(recovered) => recovered,
        Err(error) => {
            let mut report = damage_only(report, error)?;
            scan_blindly(&root, &geometry, &mut report, progress)?;
            return Ok(report);
        }
    };
    for damage in &recovered.damage {
        report.problem(damage.clone());
    }
    accounts::check_meta(&recovered.meta, recovered.next_seq, &mut report);
    let log_options = LogOptions {
        geometry,
        incarnation: superblock.incarnation,
        next_seq: recovered.next_seq,
        next_birth: recovered.next_birth,
    };
    let table = recovered.table;
    let used: Vec<(SegmentId, Segment)> = in_use(&table);
    let check = Check {
        // For reading only: nothing is appended to it.
        log: Log::new(root.media(), log_options, table),
        index: recovered.index,
        seed: superblock.hash_seed,
        fingerprint_bits: settings.fingerprint_bits,
        next_birth: recovered.next_birth,
        next_keyspace: recovered.meta.next_keyspace.max(crate::keyspaces::FIRST_ID),
        meta: recovered.meta,
        now_ms: settings.environment.now_ms(),
        report,
    };
    check.run(&used, progress)
}

/// Damage that keeps a store from being opened is what a check is there to report.
fn damage_only(mut report: CheckReport, error: Error) -> Result<CheckReport> {
    if error.kind() != ErrorKind::Damaged {
        return Err(error);
    }
    report.problem(error.to_string());
    Ok(report)
}

fn in_use(table: &SegmentTable) -> Vec<(SegmentId, Segment)> {
    let used = table.iter().filter(|(_, s)| s.state != SegmentState::Free);
    used.map(|(id, s)| (id, *s)).collect()
}

/// Without an index: at least every frame that says that it belongs to the store is verified.
fn scan_blindly(
    root: &Root,
    geometry: &heliox_log::geometry::LogGeometry,
    report: &mut CheckReport,
    progress: &mut dyn FnMut(CheckProgress),
) -> Result<()> {
    let media = root.media();
    let total_bytes = u64::from(geometry.segments) * geometry.segment_bytes;
    for id in (0..geometry.segments).map(SegmentId) {
        let header = heliox_log::scan::read_segment_header(&*media, geometry, id)?;
        if header.is_some_and(|h| h.kind != SegmentKind::Checkpoint) {
            let mut scanner = SegmentScanner::load(&*media, geometry, id, None)?;
            report.segments += 1;
            report.bytes += scanner.loaded_bytes();
            while let Some(item) = scanner.next() {
                match item {
                    Scanned::Record { .. } => report.records += 1,
                    Scanned::Gap { from, to, error } => report.problem(gap(id, from, to, &error)),
                }
            }
        }
        let done_bytes = (u64::from(id.0) + 1) * geometry.segment_bytes;
        progress(CheckProgress {
            done_bytes,
            total_bytes,
        });
    }
    Ok(())
}

fn gap(id: SegmentId, from: u64, to: u64, error: &dyn std::fmt::Display) -> String {
    format!(
        "segment {}: addresses {from:#x} to {to:#x} cannot be read: {error}",
        id.0
    )
}

/// A check under way.
struct Check {
    log: Log,
    index: Index,
    seed: u64,
    fingerprint_bits: u32,
    next_birth: Birth,
    next_keyspace: u32,
    meta: heliox_format::checkpoint::CheckpointMeta,
    now_ms: u64,
    report: CheckReport,
}

/// What the scan of a segment found.
#[derive(Default)]
struct Tally {
    records: u32,
    /// Records that the index points to.
    live: Vec<Location>,
    /// The sum over these, as segments count them.
    live_sum: u64,
    /// The sum over the others, as far as the index pointed to them once.
    dead_sum: u64,
    /// Some of these are members of batches, which may never have been committed.
    has_dead_members: bool,
    gaps: u32,
}

impl Check {
    fn run(
        mut self,
        used: &[(SegmentId, Segment)],
        progress: &mut dyn FnMut(CheckProgress),
    ) -> Result<CheckReport> {
        let entries = self.count_entries(used);
        let total_bytes = used.iter().map(|(_, s)| s.used_bytes).sum();
        self.report.segments = used.len() as u64;
        let mut done_bytes = 0;
        for (id, segment) in used {
            if segment.birth >= self.next_birth || segment.birth == Birth(0) {
                self.report.problem(format!(
                    "segment {}: birth below {} expected, found {}",
                    id.0, self.next_birth.0, segment.birth.0
                ));
            }
            if segment.kind == SegmentKind::Checkpoint {
                // Its chunks were verified when the index was loaded from them.
                self.report.bytes += segment.used_bytes;
            } else {
                self.check_segment(*id, segment, entries[id.0 as usize])?;
            }
            done_bytes += segment.used_bytes;
            progress(CheckProgress {
                done_bytes,
                total_bytes,
            });
        }
        Ok(self.report)
    }

    /// Entries by segment; those that point to no segment of the log are told here.
    fn count_entries(&mut self, used: &[(SegmentId, Segment)]) -> Vec<u32> {
        let geometry = *self.log.geometry();
        let mut counts = vec![0u32; geometry.segments as usize];
        let mut holds_records = vec![false; geometry.segments as usize];
        for (id, segment) in used {
            holds_records[id.0 as usize] = segment.kind != SegmentKind::Checkpoint;
        }
        let (report, mut entries) = (&mut self.report, 0);
        self.index.for_each_entry(&mut |entry| {
            entries += 1;
            let id = geometry.segment_at(entry.location).map(|id| id.0 as usize);
            match id.filter(|id| holds_records[*id]) {
                Some(id) => counts[id] += 1,
                None => report.problem(format!(
                    "index: an entry points to address {:#x}, where no segment of the log is",
                    geometry.address(entry.location)
                )),
            }
        });
        self.report.entries = entries;
        counts
    }

    fn check_segment(&mut self, id: SegmentId, segment: &Segment, entries: u32) -> Result<()> {
        // Nothing points into it: it may have been given back after the checkpoint that lists it,
        // and then its place holds what the device likes.
        let is_needed = entries > 0;
        let Some(mut scanner) = self.load(id, segment, is_needed)? else {
            if is_needed {
                self.report_unmatched(id, &[], entries);
            }
            return Ok(());
        };
        self.report.bytes += scanner.loaded_bytes();
        let mut tally = Tally::default();
        while let Some(item) = scanner.next() {
            match item {
                // Beyond the last order that counts: written in a crash, never acknowledged.
                Scanned::Record { record, .. } if record.seq > segment.last_seq => {}
                Scanned::Record { location, record } => {
                    self.check_record(segment, location, &record, &mut tally)?;
                }
                Scanned::Gap { from, to, error } => {
                    tally.gaps += 1;
                    if is_needed {
                        self.report.problem(gap(id, from, to, &error));
                    }
                }
            }
        }
        drop(scanner);
        self.report.records += u64::from(tally.records);
        self.compare(id, segment, entries, &tally)
    }

    /// The segment's content; none if not even its header says that it is the one meant.
    fn load(
        &mut self,
        id: SegmentId,
        segment: &Segment,
        is_needed: bool,
    ) -> Result<Option<SegmentScanner>> {
        let (media, geometry) = (self.log.media(), self.log.geometry());
        let place = geometry.start(id);
        let scanner = SegmentScanner::load(&**media, geometry, id, Some(segment.used_bytes));
        let scanner = match scanner {
            Ok(scanner) => scanner,
            Err(LogError::Damaged(error)) => {
                if is_needed {
                    self.report.problem(format!("segment {}: {error}", id.0));
                }
                return Ok(None);
            }
            Err(error) => return Err(error.into()),
        };
        if !is_needed {
            return Ok(Some(scanner).filter(|s| s.birth() == segment.birth));
        }
        let found = scanner.header().kind;
        match scanner.header_state() {
            HeaderState::Damaged(error) => {
                self.report.problem(format!("segment {}: {error}", id.0));
            }
            HeaderState::Whole if found != segment.kind => {
                self.report.problem(format!(
                    "segment {} at address {place:#x}: kind {:?} expected, found {found:?}",
                    id.0, segment.kind
                ));
            }
            HeaderState::Whole | HeaderState::Absent => {}
        }
        if scanner.birth() != segment.birth {
            self.report.problem(format!(
                "segment {} at address {place:#x}: birth {} expected, found {}",
                id.0,
                segment.birth.0,
                scanner.birth().0
            ));
            return Ok(None);
        }
        Ok(Some(scanner))
    }

    fn check_record(
        &mut self,
        segment: &Segment,
        location: Location,
        record: &Record<'_>,
        tally: &mut Tally,
    ) -> Result<()> {
        tally.records += 1;
        let header = &record.header;
        let address = self.log.geometry().address(location);
        if record.seq < segment.first_seq {
            self.report.problem(format!(
                "record at address {address:#x}: order {} or later expected, found {}",
                segment.first_seq, record.seq
            ));
        }
        if header.keyspace.0 >= self.next_keyspace && header.keyspace != OWNERS {
            self.report.problem(format!(
                "record {} at address {address:#x}: keyspace id below {} expected, found {}",
                record.seq, self.next_keyspace, header.keyspace.0
            ));
        }
        if !matches!(header.kind, RecordKind::Put | RecordKind::Tombstone) {
            return Ok(());
        }
        let key = PreparedKey::new(self.seed, header.keyspace, record.key);
        let matches = self.index.lookup(&key);
        let sum = key.hash().wrapping_mul(weight(location));
        let Some(entry) = matches.iter().find(|e| e.location == location) else {
            tally.dead_sum = tally.dead_sum.wrapping_add(sum);
            tally.has_dead_members |= header.batch_offset.is_some();
            return Ok(());
        };
        tally.live.push(location);
        tally.live_sum = tally.live_sum.wrapping_add(sum);
        let is_tombstone = header.kind == RecordKind::Tombstone;
        if entry.tombstone != is_tombstone {
            self.report.problem(format!(
                "index: the entry of record {} at address {address:#x} says tombstone {}, the record {}",
                record.seq, entry.tombstone, is_tombstone
            ));
        }
        if header.chunked {
            self.check_chunks(address, record);
        }
        self.check_others(location, record, &matches)
    }

    /// Every chunk of a large value must have its entry; the chunks themselves are records.
    fn check_chunks(&mut self, address: u64, head: &Record<'_>) {
        let Some(decoded) = large::Head::decode(head.value) else {
            self.report.problem(format!(
                "record {} at address {address:#x}: the head of a value in chunks does not decode",
                head.seq
            ));
            return;
        };
        if head.header.expiry_ms.is_some() || self.is_covered(head) {
            return;
        }
        for number in 0..decoded.chunks() {
            let key = large::chunk_key(decoded.id, number);
            let prepared = PreparedKey::new(self.seed, CHUNKS, &key);
            if self.index.lookup(&prepared).iter().all(|e| e.tombstone) {
                self.report.problem(format!(
                    "record {} at address {address:#x}: chunk {number} of {} of its value is missing",
                    head.seq,
                    decoded.chunks()
                ));
            }
        }
    }

    /// True if a range delete that is not swept yet takes the record away.
    fn is_covered(&self, record: &Record<'_>) -> bool {
        self.meta.ranges.iter().any(|range| {
            range.seq > record.version()
                && crate::ranges::holds(range, record.header.keyspace, record.key)
        })
    }
}
