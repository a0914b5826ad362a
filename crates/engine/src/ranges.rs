//! Range deletes that are not swept yet.
//!
//! A range delete is accepted in constant time: its interval and order are kept here, and a record
//! is gone if an interval of larger order covers its key. A paced sweep takes the entries away; an
//! interval goes when it was swept, a checkpoint covers the sweep, and no snapshot is older.

use std::sync::atomic::{AtomicUsize, Ordering};

use heliox_format::checkpoint::RangeEntry;
use heliox_format::ids::{KeyspaceId, SeqNo};
use heliox_format::limits::RANGE_DELETES_MAX;
use parking_lot::{RwLock, RwLockReadGuard};

/// One interval and how far its sweep is.
#[derive(Clone, Debug)]
pub(crate) struct RangeState {
    pub(crate) entry: RangeEntry,
    /// The order at which its sweep was complete.
    pub(crate) swept: Option<SeqNo>,
}

/// All intervals of a store.
#[derive(Default)]
pub(crate) struct Ranges {
    count: AtomicUsize,
    ranges: RwLock<Vec<RangeState>>,
}

impl Ranges {
    pub(crate) fn new(entries: Vec<RangeEntry>) -> Ranges {
        let ranges: Vec<_> = entries
            .into_iter()
            .map(|entry| RangeState { entry, swept: None })
            .collect();
        Ranges {
            count: AtomicUsize::new(ranges.len()),
            ranges: RwLock::new(ranges),
        }
    }

    /// True if another interval is welcome.
    pub(crate) fn has_room(&self) -> bool {
        self.count.load(Ordering::Acquire) < RANGE_DELETES_MAX
    }

    /// Adds an interval whose order `append` gives; readers see it as soon as it has one.
    pub(crate) fn add<E>(
        &self,
        append: impl FnOnce() -> Result<RangeEntry, E>,
    ) -> Result<SeqNo, E> {
        let mut ranges = self.ranges.write();
        // Readers that miss the fast path below wait for the lock until the order is known.
        self.count.fetch_add(1, Ordering::SeqCst);
        match append() {
            Ok(entry) => {
                let seq = entry.seq;
                ranges.push(RangeState { entry, swept: None });
                Ok(seq)
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
        ranges
            .iter()
            .any(|r| r.entry.seq > version && r.entry.seq <= at && holds(&r.entry, keyspace, key))
    }

    /// Keeps range deletes from getting an order while the guard lives; none if a version of this
    /// order is gone already. Whoever has read a value holds it over the append of what depends on
    /// it: else a range delete could come between, and what it took away would be back.
    pub(crate) fn hold(
        &self,
        keyspace: KeyspaceId,
        key: &[u8],
        version: SeqNo,
    ) -> Option<RwLockReadGuard<'_, Vec<RangeState>>> {
        let ranges = self.ranges.read();
        let is_gone = ranges
            .iter()
            .any(|r| r.entry.seq > version && holds(&r.entry, keyspace, key));
        (!is_gone).then_some(ranges)
    }

    /// All intervals, for a checkpoint.
    pub(crate) fn entries(&self) -> Vec<RangeEntry> {
        self.ranges.read().iter().map(|r| r.entry.clone()).collect()
    }

    /// The first interval that is not swept yet.
    pub(crate) fn unswept(&self) -> Option<RangeEntry> {
        let ranges = self.ranges.read();
        ranges
            .iter()
            .find(|r| r.swept.is_none())
            .map(|r| r.entry.clone())
    }

    /// Says that the interval of order `seq` was swept, everything done by order `at`.
    pub(crate) fn note_swept(&self, seq: SeqNo, at: SeqNo) {
        let mut ranges = self.ranges.write();
        if let Some(range) = ranges.iter_mut().find(|r| r.entry.seq == seq) {
            range.swept = Some(at);
        }
    }

    /// Drops intervals that were swept before the checkpoint's cut and before every snapshot: one
    /// that was taken before the sweep's end may still reach a covered version through the record
    /// that displaced it.
    pub(crate) fn drop_done(&self, checkpointed: SeqNo, oldest_snapshot: Option<SeqNo>) {
        let mut ranges = self.ranges.write();
        ranges.retain(|r| {
            let covered = r.swept.is_some_and(|at| at < checkpointed);
            let needed = oldest_snapshot.zip(r.swept).is_some_and(|(s, at)| s < at);
            !covered || needed
        });
        self.count.store(ranges.len(), Ordering::SeqCst);
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }
}

/// True if the interval holds the key.
pub(crate) fn holds(range: &RangeEntry, keyspace: KeyspaceId, key: &[u8]) -> bool {
    range.keyspace == keyspace
        && key >= range.from.as_slice()
        && range.to.as_deref().is_none_or(|to| key < to)
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
        ranges.note_swept(SeqNo(10), SeqNo(20));
        ranges.drop_done(SeqNo(20), None);
        assert_eq!(ranges.len(), 1);
        ranges.drop_done(SeqNo(21), Some(SeqNo(19)));
        assert_eq!(ranges.len(), 1);
        ranges.drop_done(SeqNo(21), Some(SeqNo(20)));
        assert_eq!(ranges.len(), 0);
    }

    #[test]
    fn the_end_of_a_prefix() {
        assert_eq!(prefix_end(b"ab"), Some(b"ac".to_vec()));
        assert_eq!(prefix_end(b"a\xff\xff"), Some(b"b".to_vec()));
        assert_eq!(prefix_end(b"\xff"), None);
        assert_eq!(prefix_end(b""), None);
    }
}
