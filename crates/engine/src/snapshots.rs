//! Live snapshots, and the older versions that they keep readable.
//!
//! A snapshot is an order: it sees every record up to it. While snapshots live, each displaced
//! record is noted here with the order of the record that displaced it, so that garbage collection
//! knows which dead records a snapshot still reads: it copies those and notes where. Snapshots
//! therefore never pin the log. Everything here is volatile and within a budget; beyond it, or when
//! a writer finds no room while versions are kept, the oldest snapshot fails.
//!
//! # Invariants
//! 1. A record displaced while a snapshot lives is noted before its index entry changes, so garbage
//!    collection sees it either live or noted.
//! 2. A copy is noted before the segment of its original is retired.
//!
//! Lock order: a leaf's lock, then the lock here. Nothing is called with the lock held.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use heliox_format::ids::{Location, SegmentId, SeqNo};
use heliox_sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use heliox_sync::Mutex;

/// Memory that one noted record takes, roughly, for the budget.
const NOTE_BYTES: u64 = 16;
/// Memory that one copied record takes, roughly, for the budget.
const COPY_BYTES: u64 = 96;
/// How long one snapshot that was given up for room is waited for, before the next.
const PRESS_MS: u64 = 500;

/// A record that no index entry points to any more.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct DeadVersion {
    /// Where it was when it was displaced.
    pub(crate) location: Location,
    /// The order of the record that displaced it.
    pub(crate) death: SeqNo,
}

#[derive(Default)]
struct Inner {
    live: BTreeMap<SeqNo, usize>,
    noted: HashMap<SegmentId, Vec<DeadVersion>>,
    noted_count: u64,
    copies: HashMap<DeadVersion, Location>,
    originals: BTreeMap<Location, DeadVersion>,
    /// Versions that were dropped, and what each of them displaced.
    below: HashMap<DeadVersion, DeadVersion>,
}

/// The live snapshots of a store.
pub(crate) struct Snapshots {
    count: AtomicUsize,
    floor: AtomicU64,
    budget_bytes: AtomicU64,
    /// When room was last asked of snapshots, in milliseconds of the environment.
    pressed_ms: AtomicU64,
    inner: Mutex<Inner>,
}

impl Snapshots {
    pub(crate) fn new(budget_bytes: u64) -> Snapshots {
        Snapshots {
            count: AtomicUsize::new(0),
            floor: AtomicU64::new(0),
            budget_bytes: AtomicU64::new(budget_bytes),
            pressed_ms: AtomicU64::new(0),
            inner: Mutex::new(Inner::default()),
        }
    }

    /// True while any snapshot lives.
    pub(crate) fn any(&self) -> bool {
        self.count.load(Ordering::SeqCst) != 0
    }

    /// Registers a snapshot whose order `order` gives. From before `order` runs, displaced records
    /// are noted.
    pub(crate) fn register(&self, order: impl FnOnce() -> SeqNo) -> SeqNo {
        self.count.fetch_add(1, Ordering::SeqCst);
        let mut inner = self.inner.lock();
        let seq = order();
        // One of this order gave way, and nothing was written since: what it read is all there, and it
        // may be read again.
        self.floor.fetch_min(seq.0, Ordering::AcqRel);
        *inner.live.entry(seq).or_insert(0) += 1;
        seq
    }

    /// Ends a snapshot.
    pub(crate) fn release(&self, seq: SeqNo) {
        let mut inner = self.inner.lock();
        if let Some(holders) = inner.live.get_mut(&seq) {
            *holders -= 1;
            if *holders == 0 {
                inner.live.remove(&seq);
            }
        }
        self.count.fetch_sub(1, Ordering::SeqCst);
        if inner.live.is_empty() && self.count.load(Ordering::SeqCst) == 0 {
            *inner = Inner::default();
        }
    }

    /// True if the snapshot can still be read.
    pub(crate) fn is_readable(&self, seq: SeqNo) -> bool {
        seq.0 >= self.floor.load(Ordering::Acquire)
    }

    /// The oldest order that a snapshot reads at.
    pub(crate) fn oldest(&self) -> Option<SeqNo> {
        if !self.any() {
            return None;
        }
        let floor = SeqNo(self.floor.load(Ordering::Acquire));
        let inner = self.inner.lock();
        // A snapshot that is being registered has no order yet: treat it as the oldest possible.
        if inner.live.is_empty() {
            return Some(floor);
        }
        inner.live.range(floor..).next().map(|(seq, _)| *seq)
    }

    /// Notes that the record at `location` lost its entry to the record of order `death`.
    pub(crate) fn note_displaced(&self, segment: SegmentId, location: Location, death: SeqNo) {
        let mut inner = self.inner.lock();
        // The last snapshot may have ended since the caller asked.
        if !self.any() {
            return;
        }
        inner
            .noted
            .entry(segment)
            .or_default()
            .push(DeadVersion { location, death });
        inner.noted_count += 1;
        if self.bytes_of(&inner) > self.budget_bytes.load(Ordering::Relaxed) {
            self.shrink(&mut inner);
        }
    }

    fn bytes_of(&self, inner: &Inner) -> u64 {
        inner.noted_count * NOTE_BYTES
            + (inner.copies.len() + inner.below.len()) as u64 * COPY_BYTES
    }

    /// Drops what no snapshot needs; if that is not enough, fails the oldest snapshots.
    fn shrink(&self, inner: &mut Inner) {
        loop {
            let floor = SeqNo(self.floor.load(Ordering::Acquire));
            let oldest = inner.live.range(floor..).next().map(|(seq, _)| *seq);
            inner.forget_before(oldest);
            if self.bytes_of(inner) <= self.budget_bytes.load(Ordering::Relaxed) * 3 / 4 {
                return;
            }
            let Some(oldest) = oldest else {
                return;
            };
            self.floor.store(oldest.0 + 1, Ordering::Release);
        }
    }

    /// Forgets what no snapshot sees any more.
    pub(crate) fn forget_unseen(&self) {
        if self.any() {
            let mut inner = self.inner.lock();
            let floor = SeqNo(self.floor.load(Ordering::Acquire));
            let oldest = inner.live.range(floor..).next().map(|(seq, _)| *seq);
            inner.forget_before(oldest);
        }
    }

    /// Asks for room on media: fails the oldest snapshot, if older versions are kept for any.
    /// True if that was done; once in [`PRESS_MS`] at most, so that its room can come back before the
    /// next one fails.
    pub(crate) fn give_up_oldest(&self, now_ms: u64) -> bool {
        let mut inner = self.inner.lock();
        let floor = SeqNo(self.floor.load(Ordering::Acquire));
        let mut readable = inner.live.range(floor..).map(|(seq, _)| *seq);
        let (oldest, next) = (readable.next(), readable.next());
        let pressed = self.pressed_ms.load(Ordering::Relaxed);
        let holds = inner.noted_count > 0 || !inner.copies.is_empty();
        let Some(oldest) = oldest.filter(|_| holds && now_ms >= pressed + PRESS_MS) else {
            return false;
        };
        self.pressed_ms.store(now_ms, Ordering::Relaxed);
        self.floor.store(oldest.0 + 1, Ordering::Release);
        inner.forget_before(next);
        true
    }

    /// Fails the oldest snapshot. False if there is none.
    pub(crate) fn fail_oldest(&self) -> bool {
        let mut inner = self.inner.lock();
        let floor = SeqNo(self.floor.load(Ordering::Acquire));
        let mut readable = inner.live.range(floor..).map(|(seq, _)| *seq);
        let (oldest, next) = (readable.next(), readable.next());
        let Some(oldest) = oldest else {
            return false;
        };
        self.floor.store(oldest.0 + 1, Ordering::Release);
        inner.forget_before(next);
        true
    }

    /// True if a snapshot that can be read may need older versions.
    pub(crate) fn hold_any(&self) -> bool {
        if !self.any() {
            return false;
        }
        let inner = self.inner.lock();
        let floor = SeqNo(self.floor.load(Ordering::Acquire));
        (inner.noted_count > 0 || !inner.copies.is_empty())
            && inner.live.range(floor..).next().is_some()
    }

    /// How many copies lie in each segment.
    pub(crate) fn copies_in(
        &self,
        segment_of: impl Fn(Location) -> Option<SegmentId>,
    ) -> HashMap<SegmentId, u32> {
        let mut copies = HashMap::new();
        if self.any() {
            let inner = self.inner.lock();
            for segment in inner.originals.keys().filter_map(|at| segment_of(*at)) {
                *copies.entry(segment).or_insert(0) += 1;
            }
        }
        copies
    }

    /// Takes the notes of a segment; the caller copies what is needed of them.
    pub(crate) fn take_noted(&self, segment: SegmentId) -> Vec<DeadVersion> {
        if !self.any() {
            return Vec::new();
        }
        let mut inner = self.inner.lock();
        let notes = inner.noted.remove(&segment).unwrap_or_default();
        inner.noted_count -= notes.len() as u64;
        notes
    }

    /// Gives notes back whose records could not be read: the segment stays for the snapshots.
    pub(crate) fn put_back(&self, segment: SegmentId, notes: impl Iterator<Item = DeadVersion>) {
        let mut inner = self.inner.lock();
        let notes: Vec<DeadVersion> = notes.collect();
        if notes.is_empty() || !self.any() {
            return;
        }
        inner.noted_count += notes.len() as u64;
        inner.noted.entry(segment).or_default().extend(notes);
    }

    /// True if records of the segment were displaced that nobody has looked at yet.
    pub(crate) fn has_noted(&self, segment: SegmentId) -> bool {
        self.any() && self.inner.lock().noted.contains_key(&segment)
    }

    /// True if a readable snapshot sees the version from `version` on and not yet its displacer.
    pub(crate) fn needs(&self, version: SeqNo, death: SeqNo) -> bool {
        let from = version.0.max(self.floor.load(Ordering::Acquire));
        if death.0 <= from {
            return false;
        }
        let inner = self.inner.lock();
        inner.live.range(SeqNo(from)..death).next().is_some()
    }

    /// Notes that garbage collection copied a dead version to `copy`.
    pub(crate) fn note_copy(&self, original: DeadVersion, copy: Location) {
        let mut inner = self.inner.lock();
        if !self.any() {
            return;
        }
        if let Some(previous) = inner.copies.insert(original, copy) {
            inner.originals.remove(&previous);
        }
        inner.originals.insert(copy, original);
    }

    /// True if copies lie at some of these places.
    pub(crate) fn has_copies(&self, places: Range<Location>) -> bool {
        self.any() && self.inner.lock().originals.range(places).next().is_some()
    }

    /// The copies that lie at some of these places, and what each stands for.
    pub(crate) fn copies_at(&self, places: Range<Location>) -> Vec<(Location, DeadVersion)> {
        let inner = self.inner.lock();
        let copies = inner.originals.range(places);
        copies.map(|(at, original)| (*at, *original)).collect()
    }

    /// Notes that a dead version goes because no snapshot sees it. While an older snapshot lives,
    /// what lies below it stays within reach.
    pub(crate) fn drop_version(
        &self,
        dead: DeadVersion,
        version: SeqNo,
        below: Option<DeadVersion>,
    ) {
        let mut inner = self.inner.lock();
        if let Some(copy) = inner.copies.remove(&dead) {
            inner.originals.remove(&copy);
        }
        let floor = SeqNo(self.floor.load(Ordering::Acquire));
        let is_passed = inner
            .live
            .range(floor..)
            .next()
            .is_some_and(|(seq, _)| *seq < version);
        if let Some(below) = below.filter(|_| is_passed) {
            inner.below.insert(dead, below);
            if self.bytes_of(&inner) > self.budget_bytes.load(Ordering::Relaxed) {
                self.shrink(&mut inner);
            }
        }
    }

    /// The next older version below one that was dropped.
    pub(crate) fn below(&self, dead: DeadVersion) -> Option<DeadVersion> {
        self.inner.lock().below.get(&dead).copied()
    }

    /// The orders that readable snapshots read at.
    pub(crate) fn orders(&self) -> Vec<SeqNo> {
        let floor = SeqNo(self.floor.load(Ordering::Acquire));
        self.inner
            .lock()
            .live
            .range(floor..)
            .map(|(seq, _)| *seq)
            .collect()
    }

    /// Which dead version the retained copy at `location` stands for, if it is still in use.
    pub(crate) fn original_of(&self, location: Location) -> Option<DeadVersion> {
        self.inner.lock().originals.get(&location).copied()
    }

    /// Where the copy of a dead version is.
    pub(crate) fn copy_of(&self, original: DeadVersion) -> Option<Location> {
        self.inner.lock().copies.get(&original).copied()
    }

    /// Memory in use.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes_of(&self.inner.lock())
    }
}

impl Inner {
    /// Forgets versions that died before every live snapshot.
    fn forget_before(&mut self, oldest: Option<SeqNo>) {
        let Some(oldest) = oldest else {
            self.noted.clear();
            self.noted_count = 0;
            self.copies.clear();
            self.below.clear();
            self.originals.clear();
            return;
        };
        self.noted.retain(|_, notes| {
            notes.retain(|n| n.death > oldest);
            !notes.is_empty()
        });
        self.noted_count = self.noted.values().map(|n| n.len() as u64).sum();
        self.copies.retain(|original, _| original.death > oldest);
        self.below.retain(|dead, _| dead.death > oldest);
        self.originals.retain(|_, original| original.death > oldest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEGMENT: SegmentId = SegmentId(1);

    fn dead(location: u64, death: u64) -> DeadVersion {
        DeadVersion {
            location: Location::from_bits(location),
            death: SeqNo(death),
        }
    }

    #[test]
    fn a_snapshot_of_the_order_of_one_that_gave_way_can_be_read() {
        let snapshots = Snapshots::new(1 << 20);
        let older = snapshots.register(|| SeqNo(3));
        let order = || SeqNo(5);
        let given_up = snapshots.register(order);
        assert!(snapshots.fail_oldest() && snapshots.fail_oldest());
        assert!(!snapshots.is_readable(given_up));
        let new = snapshots.register(order);
        assert!(snapshots.is_readable(new) && !snapshots.is_readable(older));
        assert_eq!(snapshots.oldest(), Some(new));
    }

    #[test]
    fn a_version_is_needed_from_its_order_to_its_death() {
        let snapshots = Snapshots::new(1 << 20);
        let seq = snapshots.register(|| SeqNo(10));
        assert!(snapshots.needs(SeqNo(10), SeqNo(11)));
        assert!(snapshots.needs(SeqNo(3), SeqNo(11)));
        assert!(!snapshots.needs(SeqNo(3), SeqNo(10)));
        assert!(!snapshots.needs(SeqNo(11), SeqNo(12)));
        snapshots.release(seq);
        assert!(!snapshots.needs(SeqNo(10), SeqNo(11)));
    }

    #[test]
    fn the_last_release_forgets_everything() {
        let snapshots = Snapshots::new(1 << 20);
        let first = snapshots.register(|| SeqNo(1));
        let second = snapshots.register(|| SeqNo(2));
        snapshots.note_displaced(SEGMENT, Location::from_bits(7), SeqNo(3));
        snapshots.note_copy(dead(7, 3), Location::from_bits(9));
        snapshots.release(first);
        assert!(snapshots.has_noted(SEGMENT));
        assert_eq!(snapshots.take_noted(SEGMENT), vec![dead(7, 3)]);
        assert!(!snapshots.has_noted(SEGMENT));
        assert_eq!(snapshots.copy_of(dead(7, 3)), Some(Location::from_bits(9)));
        snapshots.release(second);
        assert_eq!(snapshots.copy_of(dead(7, 3)), None);
        assert_eq!(snapshots.bytes(), 0);
    }

    #[test]
    fn beyond_the_budget_the_oldest_snapshot_fails() {
        let snapshots = Snapshots::new(20 * NOTE_BYTES);
        let old = snapshots.register(|| SeqNo(10));
        for i in 0..15 {
            snapshots.note_displaced(SEGMENT, Location::from_bits(i), SeqNo(20 + i));
        }
        let young = snapshots.register(|| SeqNo(100));
        assert!(snapshots.is_readable(old));
        for i in 0..15 {
            snapshots.note_displaced(SEGMENT, Location::from_bits(i), SeqNo(200 + i));
        }
        assert!(!snapshots.is_readable(old));
        assert!(snapshots.is_readable(young));
        assert_eq!(snapshots.oldest(), Some(young));
        assert!(snapshots.bytes() <= 20 * NOTE_BYTES);
    }
}
