//! Keys that workloads add beyond the N that a fill wrote.
//!
//! Invariant: every index below [`Inserts::count`] was written; those that writers finish out of
//! order wait until the ones before them are there. Threads: shared by all workers.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// The indices that were given out, and those that were written.
#[derive(Debug)]
pub(crate) struct Inserts {
    next: AtomicU64,
    count: AtomicU64,
    early: Mutex<BTreeSet<u64>>,
}

impl Inserts {
    /// `count` keys are there.
    pub(crate) fn new(count: u64) -> Inserts {
        Inserts {
            next: AtomicU64::new(count),
            count: AtomicU64::new(count),
            early: Mutex::new(BTreeSet::new()),
        }
    }

    /// An index below `limit` for a new key, to be told by [`Inserts::done`]; `None` if there is none.
    pub(crate) fn claim(&self, limit: u64) -> Option<u64> {
        let next = |next| (next < limit).then_some(next + 1);
        self.next
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, next)
            .ok()
    }

    /// The key of a claimed index was written.
    pub(crate) fn done(&self, index: u64) {
        let mut early = self.early.lock().unwrap_or_else(PoisonError::into_inner);
        early.insert(index);
        let mut count = self.count.load(Ordering::Relaxed);
        while early.remove(&count) {
            count += 1;
        }
        self.count.store(count, Ordering::Release);
    }

    /// All indices below this one have their key.
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_finished_early_counts_when_all_before_it_is_there() {
        let inserts = Inserts::new(10);
        let claimed: Vec<_> = (0..4).map(|_| inserts.claim(13)).collect();
        assert_eq!(claimed, [Some(10), Some(11), Some(12), None]);
        for (index, count) in [(12, 10), (10, 11), (11, 13)] {
            inserts.done(index);
            assert_eq!(inserts.count(), count);
        }
    }
}
