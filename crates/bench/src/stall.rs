//! The longest time in which no thread completed a write.
//!
//! All writers share the time of the last completed write. A writer publishes its completions
//! there at most every [`PUBLISH_NANOS`], so that the shared line is not fought over; when it
//! does, it publishes its previous completion too, so that a stall is overstated by less than that
//! and never understated. A stall of all threads is seen by the first that wakes up.
//!
//! Invariant: the shared time only grows, so each gap between published completions is measured by
//! exactly one thread.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How often one thread publishes, and thus the resolution: far below a millisecond.
const PUBLISH_NANOS: u64 = 100_000;

/// The time of the last completed write, shared by all writers.
#[derive(Debug)]
pub struct StallClock {
    start: Instant,
    last_nanos: AtomicU64,
}

impl StallClock {
    /// A clock whose first gap begins at `start`.
    #[must_use]
    pub fn new(start: Instant) -> StallClock {
        StallClock {
            start,
            last_nanos: AtomicU64::new(0),
        }
    }

    /// When the first gap began.
    #[must_use]
    pub fn start(&self) -> Instant {
        self.start
    }

    /// One writer's view of the clock.
    #[must_use]
    pub fn watch(&self) -> StallWatch<'_> {
        StallWatch {
            clock: self,
            published_nanos: 0,
            previous_nanos: 0,
            longest_nanos: 0,
        }
    }

    fn publish(&self, nanos: u64) -> u64 {
        self.last_nanos.fetch_max(nanos, Ordering::Relaxed)
    }
}

/// One writer's part in finding the longest stall.
#[derive(Debug)]
pub struct StallWatch<'c> {
    clock: &'c StallClock,
    published_nanos: u64,
    previous_nanos: u64,
    longest_nanos: u64,
}

impl StallWatch<'_> {
    /// Says that a write was completed at `now`. Costs a comparison, rarely an atomic operation.
    pub fn completed(&mut self, now: Instant) {
        let nanos = u64::try_from(now.saturating_duration_since(self.clock.start).as_nanos());
        let nanos = nanos.unwrap_or(u64::MAX);
        if nanos.saturating_sub(self.published_nanos) >= PUBLISH_NANOS {
            self.measure(self.previous_nanos);
            self.measure(nanos);
            self.published_nanos = nanos;
        }
        self.previous_nanos = nanos;
    }

    /// The longest gap that this writer has measured. The stall of a workload is the longest over
    /// all writers, each asked after its last write.
    #[must_use]
    pub fn longest(&self) -> Duration {
        Duration::from_nanos(self.longest_nanos)
    }

    fn measure(&mut self, nanos: u64) {
        let before = self.clock.publish(nanos);
        self.longest_nanos = self.longest_nanos.max(nanos.saturating_sub(before));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds completions (writer, microsecond) in order and gives the longest stall.
    fn longest_us(writers: usize, completions: &[(usize, u64)]) -> u128 {
        let start = Instant::now();
        let clock = StallClock::new(start);
        let mut watches: Vec<_> = (0..writers).map(|_| clock.watch()).collect();
        for (writer, micros) in completions {
            watches[*writer].completed(start + Duration::from_micros(*micros));
        }
        watches
            .iter()
            .map(|watch| watch.longest().as_micros())
            .max()
            .unwrap()
    }

    #[test]
    fn a_stall_of_all_threads_is_measured() {
        let mut completions: Vec<_> = (1..=995).map(|i| (i as usize % 2, i * 10)).collect();
        completions.push((1, 37_000));
        completions.push((0, 37_005));
        // Writer 1 last completed at 9,950, long after anyone published.
        assert_eq!(longest_us(2, &completions), 27_050);
    }

    #[test]
    fn one_thread_that_hangs_is_no_stall_while_another_writes() {
        let completions: Vec<_> = (1..=5000)
            .map(|i| (0, i * 10))
            .chain([(1, 50_001)])
            .collect();
        assert!(longest_us(2, &completions) < 500);
    }

    #[test]
    fn the_wait_for_the_first_write_counts() {
        let longest = longest_us(1, &[(0, 8_000), (0, 8_010)]);
        assert_eq!(longest, 8_000);
    }

    #[test]
    fn threads_that_take_turns_are_measured_between_them() {
        let completions: Vec<_> = (1..=40).map(|i| (i as usize % 4, i * 2_000)).collect();
        assert_eq!(longest_us(4, &completions), 2_000);
    }

    #[test]
    fn real_threads_that_all_sleep_are_seen() {
        let start = Instant::now();
        let clock = StallClock::new(start);
        let together = std::sync::Barrier::new(2);
        let longest = std::thread::scope(|scope| {
            let run = || {
                let mut watch = clock.watch();
                while start.elapsed() < Duration::from_millis(20) {
                    watch.completed(Instant::now());
                }
                together.wait();
                std::thread::sleep(Duration::from_millis(40));
                watch.completed(Instant::now());
                watch.longest()
            };
            let handles = [scope.spawn(run), scope.spawn(run)];
            handles
                .into_iter()
                .map(|handle| handle.join().unwrap())
                .max()
                .unwrap()
        });
        assert!(longest >= Duration::from_millis(39), "{longest:?}");
    }
}
