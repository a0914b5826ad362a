//! Range deletes that are not swept yet.
//!
//! A range delete is accepted in constant time: its interval and order are kept here, and a record
//! is gone if an interval of larger order covers its key. A paced sweep takes the entries away; an
//! interval goes when it was swept, a checkpoint covers the sweep, and no snapshot is older.

use std::collections::BTreeMap;

use heliox_format::checkpoint::RangeEntry;
use heliox_format::ids::{KeyspaceId, SeqNo};
use heliox_format::limits::RANGE_DELETES_MAX;
use heliox_sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use heliox_sync::{RwLock, RwLockReadGuard};

use crate::canary::{is, Canary};

/// One interval and how far its sweep is.
#[derive(Clone, Debug)]
struct RangeState {
    entry: RangeEntry,
    /// When its sweep was complete.
    swept: Option<Swept>,
    /// Which interval ends last of this one and those before it.
    furthest: usize,
}

/// When a sweep was complete.
#[derive(Clone, Copy, Debug)]
struct Swept {
    /// The newest order then.
    at: SeqNo,
    /// The first cut, by its number in this run, that knows of it.
    cut: u64,
}

impl RangeState {
    fn of(entry: RangeEntry) -> RangeState {
        RangeState {
            entry,
            swept: None,
            furthest: 0,
        }
    }
}

/// The intervals of each keyspace, by their starts.
#[derive(Default)]
pub(crate) struct Intervals(BTreeMap<KeyspaceId, Vec<RangeState>>);

/// All intervals of a store.
#[derive(Default)]
pub(crate) struct Ranges {
    count: AtomicUsize,
    /// How often intervals were dropped.
    dropped: AtomicU64,
    ranges: RwLock<Intervals>,
}

impl Intervals {
    fn add(&mut self, entry: RangeEntry) {
        let ranges = self.0.entry(entry.keyspace).or_default();
        let at = ranges.partition_point(|r| r.entry.from <= entry.from);
        ranges.insert(at, RangeState::of(entry));
        find_furthest(ranges);
    }

    /// True if an interval that holds the key is `wanted`. Looks only at those that may hold it: with
    /// intervals that do not overlap, at one.
    fn any(&self, keyspace: KeyspaceId, key: &[u8], wanted: impl Fn(&RangeEntry) -> bool) -> bool {
        let ranges = self.0.get(&keyspace).map_or(&[][..], Vec::as_slice);
        let begun = ranges.partition_point(|r| r.entry.from.as_slice() <= key);
        let reaches = |n: usize| ranges.get(n).is_some_and(|r| ends_after(&r.entry, key));
        let may_hold = ranges.iter().take(begun).rev();
        may_hold
            .take_while(|r| reaches(r.furthest))
            .any(|r| ends_after(&r.entry, key) && wanted(&r.entry))
    }

    fn iter(&self) -> impl Iterator<Item = &RangeState> {
        self.0.values().flatten()
    }
}

fn find_furthest(ranges: &mut [RangeState]) {
    let mut furthest = 0;
    for n in 0..ranges.len() {
        let is_further = match (ranges.get(furthest), ranges.get(n)) {
            (Some(old), Some(new)) => match (&old.entry.to, &new.entry.to) {
                (None, _) => false,
                (_, None) => true,
                (Some(old), Some(new)) => new > old,
            },
            _ => false,
        };
        if is_further {
            furthest = n;
        }
        if let Some(range) = ranges.get_mut(n) {
            range.furthest = furthest;
        }
    }
}

impl Ranges {
    /// Takes as many as recovery found: those that the newest checkpoint lists, though they may have
    /// been dropped since, and those that were added after it.
    pub(crate) fn new(entries: Vec<RangeEntry>) -> Ranges {
        let count = AtomicUsize::new(entries.len());
        let mut intervals = Intervals::default();
        for entry in entries {
            let own = intervals.0.entry(entry.keyspace).or_default();
            own.push(RangeState::of(entry));
        }
        for own in intervals.0.values_mut() {
            own.sort_by(|a, b| a.entry.from.cmp(&b.entry.from));
            find_furthest(own);
        }
        Ranges {
            count,
            dropped: AtomicU64::new(0),
            ranges: RwLock::new(intervals),
        }
    }

    /// Adds an interval whose order `append` gives; readers see it as soon as it has one. None, and
    /// nothing is appended, if there are as many as may wait.
    pub(crate) fn add<E>(
        &self,
        append: impl FnOnce() -> Result<RangeEntry, E>,
    ) -> Result<Option<SeqNo>, E> {
        let mut ranges = self.ranges.write();
        if self.count.load(Ordering::SeqCst) >= RANGE_DELETES_MAX {
            return Ok(None);
        }
        // Readers that miss the fast path below wait for the lock until the order is known.
        self.count.fetch_add(1, Ordering::SeqCst);
        match append() {
            Ok(entry) => {
                let seq = entry.seq;
                ranges.add(entry);
                Ok(Some(seq))
            }
            Err(error) => {
                self.count.fetch_sub(1, Ordering::SeqCst);
                Err(error)
            }
        }
    }

    /// True if a record of this order is gone for a reader at `at`.
    pub(crate) fn covers(
        &self,
        keyspace: KeyspaceId,
        key: &[u8],
        version: SeqNo,
        at: SeqNo,
    ) -> bool {
        if self.count.load(Ordering::SeqCst) == 0 {
            return false;
        }
        let ranges = self.ranges.read();
        ranges.any(keyspace, key, |r| r.seq > version && r.seq <= at)
    }

    /// Keeps range deletes from getting an order while the guard lives; none if a version of this
    /// order is gone already. Whoever has read a value holds it over the append of what depends on
    /// it: else a range delete could come between, and what it took away would be back.
    pub(crate) fn hold(
        &self,
        keyspace: KeyspaceId,
        key: &[u8],
        version: SeqNo,
    ) -> Option<RwLockReadGuard<'_, Intervals>> {
        let ranges = self.ranges.read();
        let is_gone = ranges.any(keyspace, key, |r| r.seq > version);
        (!is_gone).then_some(ranges)
    }

    /// How often intervals may have been dropped so far.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::SeqCst)
    }

    /// All intervals in their order, for a checkpoint.
    pub(crate) fn entries(&self) -> Vec<RangeEntry> {
        let ranges = self.ranges.read();
        let mut entries: Vec<_> = ranges.iter().map(|r| r.entry.clone()).collect();
        entries.sort_by_key(|r| r.seq);
        entries
    }

    /// The first interval of an order after `after` that is not swept yet.
    pub(crate) fn unswept(&self, after: SeqNo) -> Option<RangeEntry> {
        let ranges = self.ranges.read();
        let waiting = ranges
            .iter()
            .filter(|r| r.swept.is_none() && r.entry.seq > after);
        waiting.min_by_key(|r| r.entry.seq).map(|r| r.entry.clone())
    }

    /// Says that the interval of order `seq` was swept, everything done by order `at` and before the
    /// cut of number `cut`.
    pub(crate) fn note_swept(&self, keyspace: KeyspaceId, seq: SeqNo, at: SeqNo, cut: u64) {
        let mut ranges = self.ranges.write();
        let mut own = ranges.0.get_mut(&keyspace).into_iter().flatten();
        if let Some(range) = own.find(|r| r.entry.seq == seq) {
            range.swept = Some(Swept { at, cut });
        }
    }

    /// True if so many were swept that room is worth a checkpoint, which lets them go.
    pub(crate) fn want_checkpoint(&self, oldest_snapshot: Option<SeqNo>) -> bool {
        if !self.is_half_full() {
            return false;
        }
        let ranges = self.ranges.read();
        let done = ranges.iter().filter(|r| r.swept.is_some());
        done.filter(|r| !is_seen(r, oldest_snapshot)).count() >= RANGE_DELETES_MAX / 4
    }

    /// True if there are half as many as may be.
    pub(crate) fn is_half_full(&self) -> bool {
        self.count.load(Ordering::Relaxed) >= RANGE_DELETES_MAX / 2
    }

    /// True if another interval may be added.
    pub(crate) fn has_room(&self) -> bool {
        self.count.load(Ordering::SeqCst) < RANGE_DELETES_MAX
    }

    /// True if an interval must stay, or cannot be swept, because of a snapshot of this order.
    pub(crate) fn wait_for(&self, snapshot: SeqNo) -> bool {
        let ranges = self.ranges.read();
        let mut ranges = ranges.iter();
        ranges.any(|r| snapshot < r.swept.map_or(r.entry.seq, |swept| swept.at))
    }

    /// True if an interval was swept of which the checkpoint with this cut does not know.
    pub(crate) fn wait_for_cut(&self, checkpointed_cut: u64) -> bool {
        let ranges = self.ranges.read();
        let mut swept = ranges.iter().filter_map(|r| r.swept);
        swept.any(|s| s.cut > checkpointed_cut)
    }

    /// Drops intervals that were swept before the checkpoint's cut and before every snapshot: one
    /// that was taken before the sweep's end may still reach a covered version through the record
    /// that displaced it.
    pub(crate) fn drop_done(&self, checkpointed_cut: u64, oldest_snapshot: Option<SeqNo>) {
        let is_done = |r: &RangeState| {
            let covered = r.swept.is_some_and(|s| s.cut <= checkpointed_cut)
                || is(Canary::RangeDeleteTooEarly);
            covered && !is_seen(r, oldest_snapshot)
        };
        let mut ranges = self.ranges.write();
        if !ranges.iter().any(is_done) {
            return;
        }
        // Before any is gone: a reader that misses one sees that it must ask the index again.
        self.dropped.fetch_add(1, Ordering::SeqCst);
        for own in ranges.0.values_mut() {
            own.retain(|r| !is_done(r));
            find_furthest(own);
        }
        ranges.0.retain(|_, own| !own.is_empty());
        self.count.store(ranges.iter().count(), Ordering::SeqCst);
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }
}

/// True if a snapshot was taken before the sweep's end.
fn is_seen(range: &RangeState, oldest_snapshot: Option<SeqNo>) -> bool {
    oldest_snapshot
        .zip(range.swept)
        .is_some_and(|(snapshot, swept)| snapshot < swept.at)
}

fn ends_after(range: &RangeEntry, key: &[u8]) -> bool {
    range.to.as_deref().is_none_or(|to| key < to)
}

/// True if the interval holds the key.
pub(crate) fn holds(range: &RangeEntry, keyspace: KeyspaceId, key: &[u8]) -> bool {
    range.keyspace == keyspace && key >= range.from.as_slice() && ends_after(range, key)
}

/// The first key after all keys with this prefix; none if there is no such key.
pub(crate) fn prefix_end(prefix: &[u8]) -> Option<Vec<u8>> {
    let keep = prefix.iter().rposition(|b| *b != 0xff)?;
    let mut end = prefix[..=keep].to_vec();
    end[keep] += 1;
    Some(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(seq: u64, from: &[u8], to: Option<&[u8]>) -> RangeEntry {
        RangeEntry {
            seq: SeqNo(seq),
            keyspace: KeyspaceId(1),
            from: from.to_vec(),
            to: to.map(<[u8]>::to_vec),
        }
    }

    #[test]
    fn order_and_interval_decide() {
        let ranges = Ranges::new(vec![range(10, b"b", Some(b"d"))]);
        let covers =
            |key: &[u8], version, at| ranges.covers(KeyspaceId(1), key, SeqNo(version), SeqNo(at));
        assert!(covers(b"b", 9, 10));
        assert!(covers(b"cz", 1, 99));
        assert!(!covers(b"d", 1, 99), "the end is exclusive");
        assert!(!covers(b"b", 10, 99), "younger than the delete");
        assert!(!covers(b"b", 9, 9), "a snapshot before the delete");
        assert!(!ranges.covers(KeyspaceId(2), b"b", SeqNo(1), SeqNo(99)));
    }

    #[test]
    fn an_interval_goes_when_swept_checkpointed_and_unseen() {
        let ranges = Ranges::new(vec![range(10, b"", None)]);
        assert!(ranges.wait_for(SeqNo(9)) && !ranges.wait_for(SeqNo(10)));
        ranges.note_swept(KeyspaceId(1), SeqNo(10), SeqNo(20), 3);
        assert!(ranges.wait_for(SeqNo(19)) && !ranges.wait_for(SeqNo(20)));
        ranges.drop_done(2, None);
        assert_eq!(ranges.len(), 1);
        ranges.drop_done(3, Some(SeqNo(19)));
        assert_eq!(ranges.len(), 1);
        ranges.drop_done(3, Some(SeqNo(20)));
        assert_eq!(ranges.len(), 0);
    }

    #[test]
    fn overlapping_intervals_answer_as_all_of_them_asked_in_turn() {
        let mut random = heliox_media::Random::new(3);
        let mut entries = Vec::new();
        for seq in 1..200 {
            let (from, len) = (random.below(250) as u8, 1 + random.below(6) as u8);
            let to = from.saturating_add(len);
            let to = (seq % 64 != 0 || from < 100).then_some([to]);
            let mut entry = range(seq, &[from], to.as_ref().map(|to| &to[..]));
            entry.keyspace = KeyspaceId(random.below(3) as u32);
            entries.push(entry);
        }
        let ranges = Ranges::new(entries.clone());
        for dropped in [0, 50] {
            for entry in &entries[..dropped] {
                ranges.note_swept(entry.keyspace, entry.seq, SeqNo(300), 1);
            }
            ranges.drop_done(1, None);
            for (keyspace, key) in (0..4).flat_map(|n| (0..=255).map(move |k| (KeyspaceId(n), k))) {
                let (version, at) = (SeqNo(random.below(200)), SeqNo(random.below(200)));
                let expected = entries[dropped..]
                    .iter()
                    .any(|r| holds(r, keyspace, &[key]) && r.seq > version && r.seq <= at);
                assert_eq!(ranges.covers(keyspace, &[key], version, at), expected);
            }
        }
    }

    #[test]
    fn no_more_than_the_limit_are_added_however_many_try() {
        let ranges = Ranges::default();
        let next = heliox_sync::atomic::AtomicU64::new(1);
        let add = || {
            let append = || {
                let seq = next.fetch_add(1, Ordering::Relaxed);
                std::thread::yield_now();
                Ok::<_, ()>(range(seq, b"a", None))
            };
            ranges.add(append).unwrap()
        };
        for _ in 0..RANGE_DELETES_MAX - 2 {
            assert!(add().is_some());
        }
        let added: usize = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|_| scope.spawn(|| (0..4).filter(|_| add().is_some()).count()))
                .collect();
            threads.into_iter().map(|t| t.join().unwrap()).sum()
        });
        assert_eq!((added, ranges.len()), (2, RANGE_DELETES_MAX));
    }

    #[test]
    fn the_end_of_a_prefix() {
        assert_eq!(prefix_end(b"ab"), Some(b"ac".to_vec()));
        assert_eq!(prefix_end(b"a\xff\xff"), Some(b"b".to_vec()));
        assert_eq!(prefix_end(b"\xff"), None);
        assert_eq!(prefix_end(b""), None);
    }
}
