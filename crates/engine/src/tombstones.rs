//! Tombstones that hold an entry of the index, in line until they may go.
//!
//! Whether one may go is mostly told by its order: not before a checkpoint covers it, and not while
//! an older snapshot lives. So the line is by order, and what is too young is never looked at.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use heliox_format::ids::{Location, SeqNo};
use heliox_log::append::Appended;
use heliox_sync::Mutex;

/// One tombstone.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Tombstone {
    /// Its order, or a later one that was given before its place could hold anything else.
    pub(crate) seq: SeqNo,
    pub(crate) location: Location,
}

impl Tombstone {
    /// One that was appended just now.
    pub(crate) fn of(appended: &Appended) -> Tombstone {
        Tombstone {
            seq: appended.seq,
            location: appended.location,
        }
    }
}

/// All that wait.
#[derive(Default)]
pub(crate) struct Tombstones {
    lines: Mutex<Lines>,
}

#[derive(Default)]
struct Lines {
    /// The oldest first.
    by_order: BinaryHeap<Reverse<Tombstone>>,
    /// Old enough, but something was in the way when they were looked at.
    put_off: VecDeque<Tombstone>,
    /// By version: until no segment of the log began before them.
    kept: BTreeMap<SeqNo, Tombstone>,
}

impl Tombstones {
    /// Puts some in line.
    pub(crate) fn add(&self, tombstones: impl IntoIterator<Item = Tombstone>) {
        let mut lines = self.lines.lock();
        lines.by_order.extend(tombstones.into_iter().map(Reverse));
    }

    /// Puts some in line again that could not go yet.
    pub(crate) fn put_off(&self, tombstones: impl IntoIterator<Item = Tombstone>) {
        self.lines.lock().put_off.extend(tombstones);
    }

    /// Keeps one until no segment of the log began before `version`.
    pub(crate) fn keep(&self, version: SeqNo, tombstone: Tombstone) {
        self.lines.lock().kept.insert(version, tombstone);
    }

    /// Takes the oldest, at most so many, that are no younger than `upto`.
    pub(crate) fn take(&self, upto: SeqNo, most: usize) -> Vec<Tombstone> {
        let mut lines = self.lines.lock();
        let mut taken = Vec::new();
        while taken.len() < most {
            match lines.by_order.peek() {
                Some(Reverse(oldest)) if oldest.seq <= upto => {}
                _ => break,
            }
            taken.extend(lines.by_order.pop().map(|Reverse(oldest)| oldest));
        }
        taken
    }

    /// How many were put off.
    pub(crate) fn count_put_off(&self) -> usize {
        self.lines.lock().put_off.len()
    }

    /// Memory that the lines take, roughly.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let lines = self.lines.lock();
        let waiting = lines.by_order.capacity() + lines.put_off.capacity();
        // A node of the map is two thirds full, and has a key besides.
        let kept = lines.kept.len() * 5 / 2;
        ((waiting + kept) * size_of::<Tombstone>()) as u64
    }

    /// Takes those that were put off for longest, at most so many.
    pub(crate) fn take_put_off(&self, most: usize) -> Vec<Tombstone> {
        let mut lines = self.lines.lock();
        let most = most.min(lines.put_off.len());
        lines.put_off.drain(..most).collect()
    }

    /// Puts those in line again that were kept for the sake of segments which are gone; `oldest`
    /// tells the order before which none of the log began.
    pub(crate) fn release_kept(&self, oldest: impl FnOnce() -> SeqNo) {
        if self.lines.lock().kept.is_empty() {
            return;
        }
        let oldest = oldest();
        let mut lines = self.lines.lock();
        let rest = lines.kept.split_off(&oldest.next());
        let released = std::mem::replace(&mut lines.kept, rest);
        lines.put_off.extend(released.into_values());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(seq: u64) -> Tombstone {
        let location = Location::from_bits(1000 - seq);
        let seq = SeqNo(seq);
        Tombstone { seq, location }
    }

    #[test]
    fn the_oldest_come_first_and_none_comes_too_early() {
        let tombstones = Tombstones::default();
        tombstones.add([5, 2, 9, 3].map(of));
        assert_eq!(tombstones.take(SeqNo(1), 10), []);
        assert_eq!(tombstones.take(SeqNo(8), 2), [2, 3].map(of));
        // One that was long on its way is not behind younger ones.
        tombstones.add([4].map(of));
        assert_eq!(tombstones.take(SeqNo(8), 10), [4, 5].map(of));
        assert_eq!(tombstones.take(SeqNo(9), 10), [9].map(of));
        tombstones.put_off([7, 6].map(of));
        assert_eq!(tombstones.take(SeqNo::MAX, 10), []);
        assert_eq!(tombstones.count_put_off(), 2);
        assert_eq!(tombstones.take_put_off(1), [7].map(of));
        assert_eq!(tombstones.take_put_off(9), [6].map(of));
    }

    #[test]
    fn one_is_kept_until_no_older_segment_is_left() {
        let tombstones = Tombstones::default();
        tombstones.release_kept(|| panic!("nothing is kept"));
        tombstones.keep(SeqNo(4), of(8));
        tombstones.release_kept(|| SeqNo(3));
        assert_eq!(tombstones.take_put_off(9), []);
        tombstones.release_kept(|| SeqNo(4));
        assert_eq!(tombstones.take_put_off(9), [8].map(of));
    }
}
