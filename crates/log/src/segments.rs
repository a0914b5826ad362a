//! States and accounting of all segments.
//!
//! [`SegmentTable`] lives under the log's lock. [`SegmentViews`] are the few facts that readers
//! check without it: which generation a segment is in, and how much of it is on media.

use std::collections::BTreeMap;

use heliox_format::checkpoint::SegmentEntry;
use heliox_format::ids::{Birth, Location, SegmentId, SeqNo};
use heliox_format::segment::SegmentKind;
use heliox_sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::expiries::Expiries;
use crate::sums::Settlement;

/// Where a segment is in its life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SegmentState {
    /// Nothing of it is needed; it may be opened.
    Free,
    /// Records or chunks are being added.
    Open,
    /// Complete; records in it may be live.
    Sealed,
    /// Empty of needed records and given back; becomes free after its discard.
    Retired,
}

/// The account of one segment.
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    /// Where it is in its life.
    pub state: SegmentState,
    /// What it is used for.
    pub kind: SegmentKind,
    /// Which life it is.
    pub birth: Birth,
    /// The order of the next record when it was opened.
    pub first_seq: SeqNo,
    /// The order of its last record.
    pub last_seq: SeqNo,
    /// Bytes written into it.
    pub used_bytes: u64,
    /// Of these, what its records take with their alignment and frames; the rest filled up blocks that
    /// had to be written before they were full.
    pub packed_bytes: u64,
    /// Records appended to it.
    pub records: u32,
    /// Of these, how many no index entry points to any more.
    pub dead: u32,
    /// How many records named one of its records as displaced, or took its entry away.
    pub displaced: u32,
    /// The sum of the hashes of the keys of these records, each times the weight of the location
    /// displaced (see `sums`).
    pub displaced_sum: u64,
    /// The sum of the hashes of the keys of its own records, each times the weight of its location,
    /// as far as the index points to them when they are appended. Once all are displaced, the two
    /// sums agree, or a record lost its entry to another key.
    pub appended_sum: u64,
    /// The order of the last record that displaced one of its records.
    pub last_displaced: SeqNo,
    /// The first cut, by its number in this run, that knows of the last entry that went without a
    /// record that says so.
    pub removal_cut: u64,
    /// The sum cannot be compared any more.
    pub voided: bool,
    /// Records of it may be heads of values in chunks: it must be read before it goes.
    pub heads: bool,
    /// Some of these were written by an earlier run: that one is dead shows only when it is read.
    pub untold_heads: bool,
    /// It is of an earlier run: when its records expire shows only when it is read.
    pub untold_expiries: bool,
}

impl Segment {
    const FREE: Segment = Segment {
        state: SegmentState::Free,
        kind: SegmentKind::User,
        birth: Birth(0),
        first_seq: SeqNo::ZERO,
        last_seq: SeqNo::ZERO,
        used_bytes: 0,
        packed_bytes: 0,
        records: 0,
        dead: 0,
        displaced: 0,
        displaced_sum: 0,
        appended_sum: 0,
        last_displaced: SeqNo::ZERO,
        removal_cut: 0,
        voided: false,
        heads: false,
        untold_heads: false,
        untold_expiries: false,
    };

    /// Records that the index points to.
    #[must_use]
    pub fn live(&self) -> u32 {
        self.records.saturating_sub(self.dead)
    }

    /// Live bytes, estimated as live records times the segment's mean. What only fills up blocks is not:
    /// a copy of the records goes without it.
    #[must_use]
    pub fn live_bytes(&self) -> u64 {
        self.mean_bytes(self.live())
    }

    /// Bytes that so many of its records take, as the mean goes.
    #[must_use]
    pub fn mean_bytes(&self, records: u32) -> u64 {
        self.packed_bytes * u64::from(records) / u64::from(self.records.max(1))
    }

    /// True if it holds log records (and not a checkpoint).
    #[must_use]
    pub fn is_log(&self) -> bool {
        let is_used = matches!(self.state, SegmentState::Open | SegmentState::Sealed);
        is_used && self.kind != SegmentKind::Checkpoint
    }

    /// True if it holds log records (and not a checkpoint) and no more will come.
    #[must_use]
    pub fn is_sealed_log(&self) -> bool {
        self.state == SegmentState::Sealed && self.kind != SegmentKind::Checkpoint
    }
}

/// What was entered for a record that lost its entry to another key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settled {
    /// The life of its segment.
    pub birth: Birth,
    /// What the segment's sum of displacing keys got for it.
    pub difference: u64,
}

/// All segments, by id.
#[derive(Debug)]
pub struct SegmentTable {
    segments: Vec<Segment>,
    free: Vec<SegmentId>,
    /// Records that lost their entry to another key and were dealt with, in segments that were not
    /// opened anew since. Hardly ever one.
    settled: BTreeMap<(SegmentId, Location), Settled>,
    /// When records expire, of segments where some do.
    expiries: BTreeMap<SegmentId, Expiries>,
}

impl SegmentTable {
    /// A table of `count` free segments.
    #[must_use]
    pub fn new(count: u32) -> SegmentTable {
        SegmentTable {
            segments: vec![Segment::FREE; count as usize],
            free: (0..count).rev().map(SegmentId).collect(),
            settled: BTreeMap::new(),
            expiries: BTreeMap::new(),
        }
    }

    /// The account of a segment.
    #[must_use]
    pub fn get(&self, id: SegmentId) -> &Segment {
        &self.segments[id.0 as usize]
    }

    /// The account of a segment, to change it.
    pub fn get_mut(&mut self, id: SegmentId) -> &mut Segment {
        &mut self.segments[id.0 as usize]
    }

    /// How many segments are free.
    #[must_use]
    pub fn free_count(&self) -> usize {
        self.free.len()
    }

    /// How many segments there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.segments.len()
    }

    /// All segments with their ids.
    pub fn iter(&self) -> impl Iterator<Item = (SegmentId, &Segment)> {
        let with_id = |(i, s)| (SegmentId(i as u32), s);
        self.segments.iter().enumerate().map(with_id)
    }

    /// The free segment that is opened next.
    #[must_use]
    pub fn next(&self) -> Option<SegmentId> {
        self.free.last().copied()
    }

    /// Takes that segment away; it is not free until [`SegmentTable::put_next`].
    pub fn take_next(&mut self) -> Option<SegmentId> {
        self.free.pop()
    }

    /// Puts it back, to be opened next.
    pub fn put_next(&mut self, id: SegmentId) {
        self.free.push(id);
    }

    /// Takes a free segment and opens it.
    pub fn open(&mut self, kind: SegmentKind, birth: Birth, first_seq: SeqNo) -> Option<SegmentId> {
        let id = self.free.pop()?;
        // Not when it was given back: until its place is used again a crash can bring it back.
        self.settled.retain(|(of, _), _| *of != id);
        self.expiries.remove(&id);
        *self.get_mut(id) = Segment {
            state: SegmentState::Open,
            kind,
            birth,
            first_seq,
            last_seq: SeqNo(first_seq.0.saturating_sub(1)),
            ..Segment::FREE
        };
        Some(id)
    }

    /// Puts a segment that media hold back into the table; used by recovery. False, and nothing
    /// changes, for an id beyond the store: the entry is damaged.
    pub fn restore(&mut self, entry: &SegmentEntry) -> bool {
        if entry.id.0 as usize >= self.segments.len() {
            return false;
        }
        self.free.retain(|id| *id != entry.id);
        *self.get_mut(entry.id) = Segment {
            state: SegmentState::Sealed,
            kind: entry.kind,
            birth: entry.birth,
            first_seq: entry.first_seq,
            last_seq: entry.last_seq,
            used_bytes: entry.used_bytes,
            packed_bytes: entry.packed_bytes,
            records: entry.records,
            displaced: entry.displaced,
            displaced_sum: entry.displaced_sum,
            appended_sum: entry.appended_sum,
            voided: entry.voided,
            heads: entry.heads,
            untold_heads: entry.heads,
            untold_expiries: true,
            ..Segment::FREE
        };
        true
    }

    /// Enters a settlement into the account of its segment. False, and nothing changes, if it was
    /// entered before, or the segment is not in the life that is meant. What stands in for the record
    /// has the order `at` or an earlier one; the segment is needed until that is durable.
    pub fn settle(&mut self, id: SegmentId, settlement: &Settlement, at: SeqNo) -> bool {
        let key = (id, settlement.location);
        let is_known = self.settled.contains_key(&key);
        let segment = self.get_mut(id);
        let is_in_use = matches!(segment.state, SegmentState::Open | SegmentState::Sealed);
        let is_of_it = (segment.first_seq..=segment.last_seq).contains(&settlement.seq);
        if !is_in_use || !is_of_it || is_known {
            return false;
        }
        let (birth, difference) = (segment.birth, settlement.difference);
        segment.displaced_sum = segment.displaced_sum.wrapping_add(difference);
        segment.last_displaced = segment.last_displaced.max(at);
        self.settled.insert(key, Settled { birth, difference });
        true
    }

    /// A record of the segment expires then, in milliseconds since 1970.
    pub fn add_expiry(&mut self, id: SegmentId, expiry_ms: u64) {
        self.expiries.entry(id).or_default().add(expiry_ms);
    }

    /// Says when the records of a segment expire of which that was not known.
    pub fn tell_expiries(&mut self, id: SegmentId, expiries: Expiries) {
        if expiries != Expiries::default() {
            self.expiries.insert(id, expiries);
        }
        self.get_mut(id).untold_expiries = false;
    }

    /// Memory that the expiries take, at most, roughly.
    #[must_use]
    pub fn expiries_memory_bytes(&self) -> u64 {
        (self.expiries.len() * Expiries::MEMORY_BYTES_MAX) as u64
    }

    /// How many records of the segment, live or not, have expired, as far as is known.
    #[must_use]
    pub fn expired(&self, id: SegmentId, now_ms: u64) -> u32 {
        self.expiries.get(&id).map_or(0, |e| e.expired(now_ms))
    }

    /// True if the record at this place was settled.
    #[must_use]
    pub fn is_settled(&self, id: SegmentId, location: Location) -> bool {
        self.settled.contains_key(&(id, location))
    }

    /// All settled records.
    pub fn settled(&self) -> impl Iterator<Item = (Location, Settled)> + '_ {
        self.settled
            .iter()
            .map(|((_, at), settled)| (*at, *settled))
    }

    /// Puts a settled record back whose segment's account has it already; used by recovery.
    pub fn restore_settled(&mut self, id: SegmentId, location: Location) {
        let birth = self.get(id).birth;
        let difference = 0;
        let settled = Settled { birth, difference };
        self.settled.insert((id, location), settled);
    }

    /// Makes a retired segment free.
    pub fn release(&mut self, id: SegmentId) {
        *self.get_mut(id) = Segment::FREE;
        self.free.push(id);
    }

    /// What a checkpoint says of the log's segments.
    #[must_use]
    pub fn entries(&self) -> Vec<SegmentEntry> {
        self.iter()
            .filter(|(_, s)| s.kind != SegmentKind::Checkpoint)
            .filter(|(_, s)| matches!(s.state, SegmentState::Open | SegmentState::Sealed))
            .map(|(id, s)| SegmentEntry {
                id,
                kind: s.kind,
                birth: s.birth,
                first_seq: s.first_seq,
                last_seq: s.last_seq,
                used_bytes: s.used_bytes,
                packed_bytes: s.packed_bytes,
                records: s.records,
                displaced: s.displaced,
                displaced_sum: s.displaced_sum,
                appended_sum: s.appended_sum,
                voided: s.voided,
                heads: s.heads,
                sealed: s.state == SegmentState::Sealed,
            })
            .collect()
    }
}

/// What readers may know of a segment without the lock.
#[derive(Debug, Default)]
pub struct SegmentView {
    birth: AtomicU32,
    first_seq: AtomicU64,
    written_bytes: AtomicU32,
}

/// The views of all segments.
#[derive(Debug)]
pub struct SegmentViews(Vec<SegmentView>);

impl SegmentViews {
    /// Views of `count` free segments.
    #[must_use]
    pub fn new(count: u32) -> SegmentViews {
        SegmentViews((0..count).map(|_| SegmentView::default()).collect())
    }

    /// Announces a new life of a segment.
    pub fn open(&self, id: SegmentId, birth: Birth, first_seq: SeqNo, written_bytes: u64) {
        let view = &self.0[id.0 as usize];
        view.written_bytes
            .store(written_bytes as u32, Ordering::Relaxed);
        view.first_seq.store(first_seq.0, Ordering::Relaxed);
        view.birth.store(birth.0, Ordering::Release);
    }

    /// Announces the end of a segment's life: readers of it start over.
    pub fn close(&self, id: SegmentId) {
        self.0[id.0 as usize].birth.store(0, Ordering::Release);
    }

    /// The life that a segment is in; birth 0 means none, as for an id beyond the store.
    #[must_use]
    pub fn birth(&self, id: SegmentId) -> Birth {
        let view = self.0.get(id.0 as usize);
        Birth(view.map_or(0, |view| view.birth.load(Ordering::Acquire)))
    }

    /// The order that the next record had when the segment was opened.
    #[must_use]
    pub fn first_seq(&self, id: SegmentId) -> SeqNo {
        SeqNo(self.0[id.0 as usize].first_seq.load(Ordering::Acquire))
    }

    /// Bytes of the segment that are on media, up to the end of a record.
    #[must_use]
    pub fn written_bytes(&self, id: SegmentId) -> u64 {
        u64::from(self.0[id.0 as usize].written_bytes.load(Ordering::Acquire))
    }

    /// Announces that more of the segment is on media.
    pub fn set_written(&self, id: SegmentId, bytes: u64) {
        let view = &self.0[id.0 as usize];
        view.written_bytes.store(bytes as u32, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_goes_from_free_to_open_and_back() {
        let mut table = SegmentTable::new(2);
        let id = table.open(SegmentKind::User, Birth(1), SeqNo(5)).unwrap();
        assert_eq!(table.get(id).last_seq, SeqNo(4));
        assert_eq!(table.free_count(), 1);
        assert!(table.open(SegmentKind::User, Birth(2), SeqNo(5)).is_some());
        assert!(table.open(SegmentKind::User, Birth(3), SeqNo(5)).is_none());
        table.release(id);
        assert_eq!(table.get(id).state, SegmentState::Free);
        assert_eq!(
            table.open(SegmentKind::Survivor, Birth(3), SeqNo(6)),
            Some(id)
        );
    }

    #[test]
    fn entries_and_restore_are_inverse() {
        let mut table = SegmentTable::new(3);
        let id = table
            .open(SegmentKind::Survivor, Birth(8), SeqNo(5))
            .unwrap();
        let segment = table.get_mut(id);
        segment.records = 10;
        segment.dead = 4;
        segment.used_bytes = 4000;
        segment.packed_bytes = 1000;
        segment.displaced_sum = 77;
        segment.heads = true;
        assert_eq!(segment.live_bytes(), 600);
        let entries = table.entries();
        let mut other = SegmentTable::new(3);
        assert!(other.restore(&entries[0]));
        let beyond = SegmentEntry {
            id: SegmentId(3),
            ..entries[0]
        };
        assert!(!other.restore(&beyond), "an id beyond the store");
        assert_eq!(other.free_count(), 2);
        assert_eq!(other.get(id).displaced_sum, 77);
        assert_eq!(other.get(id).packed_bytes, 1000);
        assert!(other.get(id).heads);
        assert_eq!(other.get(id).birth, Birth(8));
    }

    #[test]
    fn a_view_shows_the_life_it_is_in() {
        let views = SegmentViews::new(1);
        assert_eq!(views.birth(SegmentId(0)), Birth(0));
        views.open(SegmentId(0), Birth(3), SeqNo(9), 512);
        assert_eq!(views.birth(SegmentId(0)), Birth(3));
        assert_eq!(views.first_seq(SegmentId(0)), SeqNo(9));
        views.set_written(SegmentId(0), 4096);
        assert_eq!(views.written_bytes(SegmentId(0)), 4096);
        views.close(SegmentId(0));
        assert_eq!(views.birth(SegmentId(0)), Birth(0));
    }
}
