//! Hands out operation numbers to threads, each number once.
//!
//! Threads: shared by all workers; a claim is one atomic addition for many operations.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Most operations claimed at one time.
const CHUNK_MAX: u64 = 256;

/// The operations that are left, and the wish to end early.
#[derive(Debug)]
pub(crate) struct Dispenser {
    next: AtomicU64,
    total: u64,
    chunk: u64,
    stopped: AtomicBool,
}

impl Dispenser {
    /// `total` operations for `threads` threads that do `batch` in one call; `None`: as many as
    /// they like. What one claim gives is a multiple of `batch`, except for the last.
    pub(crate) fn new(total: Option<u64>, threads: usize, batch: usize) -> Dispenser {
        let total = total.unwrap_or(u64::MAX / 4);
        let fair = (total / (threads as u64 * 16).max(1)).clamp(1, CHUNK_MAX);
        let chunk = fair.next_multiple_of((batch as u64).max(1));
        Dispenser {
            next: AtomicU64::new(0),
            total,
            chunk,
            stopped: AtomicBool::new(false),
        }
    }

    /// The same, one call at a claim: so that operations are begun in the order in which they fall due.
    pub(crate) fn one_call(total: Option<u64>, batch: usize) -> Dispenser {
        Dispenser {
            chunk: (batch as u64).max(1),
            ..Dispenser::new(total, 1, batch)
        }
    }

    /// The next operations; `None` when there are none left or a stop was asked for.
    pub(crate) fn claim(&self) -> Option<Range<u64>> {
        if self.stopped() {
            return None;
        }
        let first = self.next.fetch_add(self.chunk, Ordering::Relaxed);
        (first < self.total).then(|| first..(first + self.chunk).min(self.total))
    }

    /// Ends the work: no claim succeeds from now on.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Whether a stop was asked for.
    pub(crate) fn stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_is_handed_out_once() {
        for (total, threads) in [(1, 1), (10, 3), (1000, 7), (100_001, 2)] {
            let dispenser = Dispenser::new(Some(total), threads, 3);
            let mut all: Vec<u64> = std::thread::scope(|scope| {
                let take = || std::iter::from_fn(|| dispenser.claim()).flatten().collect();
                let handles: Vec<_> = (0..threads).map(|_| scope.spawn(take)).collect();
                let parts = handles.into_iter().map(|handle| handle.join().unwrap());
                parts.collect::<Vec<Vec<u64>>>().concat()
            });
            all.sort_unstable();
            assert_eq!(all, (0..total).collect::<Vec<_>>());
        }
    }

    #[test]
    fn one_call_at_a_time_is_handed_out_where_asked() {
        let dispenser = Dispenser::one_call(Some(10_000), 3);
        assert_eq!(dispenser.claim(), Some(0..3));
        assert_eq!(Dispenser::one_call(None, 1).claim(), Some(0..1));
    }

    #[test]
    fn nothing_is_handed_out_after_a_stop() {
        let dispenser = Dispenser::new(None, 2, 1);
        assert!(dispenser.claim().is_some());
        dispenser.stop();
        assert!(dispenser.claim().is_none());
    }
}
