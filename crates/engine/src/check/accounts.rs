//! Comparing what a scan found with what the table, the index and the checkpoint say.
//!
//! Where the sums of a segment agree, each of its dead records was displaced by a record of its own
//! key and nothing more needs to be read. Where they do not, every dead record is explained one by
//! one, with a read of the record that the index has for its key now.

use std::collections::BTreeSet;

use heliox_format::checkpoint::CheckpointMeta;
use heliox_format::ids::{Location, SegmentId, SeqNo};
use heliox_format::limits::{KEYSPACE_NAME_BYTES_MAX, RANGE_DELETES_MAX};
use heliox_format::record::{Record, RecordKind};
use heliox_index::{Entry, PreparedKey};
use heliox_log::read::ReadBuf;
use heliox_log::scan::Scanned;
use heliox_log::segments::Segment;
use heliox_log::sums::is_told;

use super::{Check, CheckReport, Tally};
use crate::error::Result;
use crate::keyspaces::{CHUNKS, OWNERS};
use crate::read::OwnedRecord;

/// Keyspaces and range deletes: are they what a store can have?
pub(super) fn check_meta(meta: &CheckpointMeta, next_seq: SeqNo, report: &mut CheckReport) {
    let (mut ids, mut names) = (BTreeSet::new(), BTreeSet::new());
    let next_keyspace = meta.next_keyspace.max(crate::keyspaces::FIRST_ID);
    for keyspace in &meta.keyspaces {
        let name = &keyspace.name;
        if name.is_empty() || name.len() > KEYSPACE_NAME_BYTES_MAX {
            report.problem(format!(
                "keyspace {}: a name of 1 to {KEYSPACE_NAME_BYTES_MAX} bytes expected, found {}",
                keyspace.id.0,
                name.len()
            ));
        }
        let id = keyspace.id.0;
        if id >= next_keyspace || id < crate::keyspaces::FIRST_ID {
            report.problem(format!(
                "keyspace {name:?}: an id from {} to {} expected, found {id}",
                crate::keyspaces::FIRST_ID,
                next_keyspace.saturating_sub(1)
            ));
        }
        if !ids.insert(id) | !names.insert(name) {
            report.problem(format!("keyspace {name:?} (id {id}) is there twice"));
        }
    }
    // A store takes no more than its limit. A crash brings those back that were dropped after the
    // checkpoint which lists them, beside those added since; a second one before they are swept
    // again may do the same.
    let most = 3 * RANGE_DELETES_MAX;
    if meta.ranges.len() > most {
        let found = meta.ranges.len();
        report.problem(format!(
            "{most} range deletes at most expected, found {found}"
        ));
    }
    for range in &meta.ranges {
        let is_empty = range.to.as_ref().is_some_and(|to| *to <= range.from);
        if is_empty || range.seq >= next_seq || range.keyspace.0 >= next_keyspace {
            report.problem(format!(
                "range delete of order {} in keyspace {}: an interval, an order below {next_seq} and a keyspace id below {next_keyspace} expected",
                range.seq, range.keyspace.0
            ));
        }
    }
}

/// What is known of a segment whose dead records must be explained.
#[derive(Clone, Copy)]
struct Why {
    /// Its sums cannot be compared.
    voided: bool,
    /// Its sums tell that this very record lost its entry to another key.
    told: bool,
}

impl Check {
    /// Compares the scan of a segment with the index and the table.
    pub(super) fn compare(
        &mut self,
        id: SegmentId,
        segment: &Segment,
        entries: u32,
        tally: &Tally,
    ) -> Result<()> {
        if tally.records != segment.records && tally.gaps == 0 {
            self.report.problem(format!(
                "segment {}: {} records expected, found {}",
                id.0, segment.records, tally.records
            ));
        }
        if segment.live() != entries {
            self.report.problem(format!(
                "segment {}: {} live records expected, found {entries} index entries",
                id.0,
                segment.live()
            ));
        }
        if tally.live.len() as u32 != entries {
            self.report_unmatched(id, &tally.live, entries);
        }
        // Members of a batch that was not committed are in no sum.
        let dead_sum = match tally.has_dead_members {
            true => segment.appended_sum.wrapping_sub(tally.live_sum),
            false => tally.dead_sum,
        };
        let difference = dead_sum.wrapping_sub(segment.displaced_sum);
        let agree = difference == 0 && !segment.voided;
        if !agree && tally.gaps == 0 {
            let told = match segment.voided {
                false => self.told(id, segment, difference)?,
                true => None,
            };
            self.explain_dead(id, segment, told)?;
        }
        Ok(())
    }

    /// Tells the entries of a segment for which the scan found no record of their key.
    pub(super) fn report_unmatched(&mut self, id: SegmentId, live: &[Location], entries: u32) {
        let geometry = *self.log.geometry();
        let found: BTreeSet<u64> = live.iter().map(|l| l.bits()).collect();
        let (report, mut told) = (&mut self.report, 0u32);
        self.index.for_each_entry(&mut |entry| {
            let here = geometry.segment_at(entry.location) == Some(id);
            if here && !found.contains(&entry.location.bits()) {
                told += 1;
                report.problem(format!(
                    "index: the record at address {:#x} (segment {}) cannot be read, or is not of the entry's key",
                    geometry.address(entry.location),
                    id.0
                ));
            }
        });
        let expected = entries.saturating_sub(live.len() as u32);
        if told != expected {
            report.problem(format!(
                "index: {entries} entries point into segment {}, to {} different records",
                id.0,
                live.len()
            ));
        }
    }

    /// The one dead record that explains the difference of the sums, if there is exactly one: it
    /// lost its entry to another key, and the others to their own.
    fn told(
        &mut self,
        id: SegmentId,
        segment: &Segment,
        difference: u64,
    ) -> Result<Option<Location>> {
        let (mut told, mut count) = (None, 0);
        let Some(mut scanner) = self.load(id, segment, false)? else {
            return Ok(None);
        };
        while let Some(item) = scanner.next() {
            let Scanned::Record { location, .. } = item else {
                continue;
            };
            if is_told(difference, location, self.fingerprint_bits) {
                (told, count) = (Some(location), count + 1);
            }
        }
        Ok(told.filter(|_| count == 1))
    }

    /// Explains each dead record of a segment whose sums do not tell, or the one that they tell of.
    fn explain_dead(
        &mut self,
        id: SegmentId,
        segment: &Segment,
        told: Option<Location>,
    ) -> Result<()> {
        let Some(mut scanner) = self.load(id, segment, false)? else {
            return Ok(());
        };
        let mut buf = ReadBuf::default();
        while let Some(item) = scanner.next() {
            let Scanned::Record { location, record } = item else {
                continue;
            };
            let is_indexed = matches!(record.header.kind, RecordKind::Put | RecordKind::Tombstone);
            let is_other = told.is_some_and(|told| told != location);
            if !is_indexed || record.seq > segment.last_seq || is_other {
                continue;
            }
            if self.log.is_settled(location) {
                continue;
            }
            let key = PreparedKey::new(self.seed, record.header.keyspace, record.key);
            let matches = self.index.lookup(&key);
            if matches.iter().any(|e| e.location == location) {
                continue;
            }
            let why = Why {
                voided: segment.voided,
                told: told.is_some(),
            };
            self.explain(location, &record, &matches, why, &mut buf)?;
        }
        Ok(())
    }

    fn explain(
        &mut self,
        location: Location,
        dead: &Record<'_>,
        matches: &[Entry],
        why: Why,
        buf: &mut ReadBuf,
    ) -> Result<()> {
        let address = self.log.geometry().address(location);
        let mut older = None;
        for entry in matches {
            if why.voided && self.is_younger(entry.location, dead.seq) {
                return Ok(());
            }
            let Some(present) = self.read(entry.location, buf)? else {
                // Told where its own segment is checked.
                return Ok(());
            };
            if present.key != dead.key || present.header.keyspace != dead.header.keyspace {
                continue;
            }
            if present.seq > dead.seq || dead.header.batch_offset.is_some() {
                return Ok(());
            }
            older = Some(present.seq);
        }
        if let Some(older) = older {
            self.report.problem(format!(
                "index: the key of record {} at address {address:#x} has an entry for the older record {older}",
                dead.seq
            ));
            return Ok(());
        }
        if self.may_lack_entry(dead) {
            return Ok(());
        }
        if !matches.is_empty() || why.told {
            self.report.strangers += 1;
        } else if !why.voided {
            self.report.problem(format!(
                "index: record {} at address {address:#x} has no entry, and nothing says why",
                dead.seq
            ));
        }
        Ok(())
    }

    /// Two entries of one fingerprint must be of two keys.
    pub(super) fn check_others(
        &mut self,
        location: Location,
        record: &Record<'_>,
        matches: &[Entry],
    ) -> Result<()> {
        let mut buf = ReadBuf::default();
        for other in matches
            .iter()
            .filter(|e| e.location.bits() < location.bits())
        {
            let other = self.read(other.location, &mut buf)?;
            let is_same = |r: &OwnedRecord| {
                r.key == record.key && r.header.keyspace == record.header.keyspace
            };
            if let Some(other) = other.filter(is_same) {
                self.report.problem(format!(
                    "index: one key has entries for record {} and record {}",
                    other.seq, record.seq
                ));
            }
        }
        Ok(())
    }

    /// True if the record's whole segment was opened after the order was given. What another key of
    /// the same fingerprint wrote there is as likely as nothing.
    fn is_younger(&self, location: Location, seq: SeqNo) -> bool {
        let id = self.log.geometry().segment_at(location);
        id.is_some_and(|id| self.log.views().first_seq(id) > seq)
    }

    fn read(&self, location: Location, buf: &mut ReadBuf) -> Result<Option<OwnedRecord>> {
        match self.log.read(location, buf) {
            Ok(found) => Ok(found.map(|f| OwnedRecord::of(&f.record))),
            Err(heliox_log::LogError::Damaged(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// True if an entry of the record may have gone without a record that says so.
    fn may_lack_entry(&self, record: &Record<'_>) -> bool {
        let keyspace = record.header.keyspace;
        let is_dropped = ![CHUNKS, OWNERS].contains(&keyspace)
            && !self.meta.keyspaces.iter().any(|k| k.id == keyspace);
        record.is_tombstone()
            || record.header.batch_offset.is_some()
            || record.header.expiry_ms.is_some_and(|at| at <= self.now_ms)
            || is_dropped
            || self.is_covered(record)
    }
}
