//! The open loop: operations that fall due at a rate, whether or not those before them are done.
//!
//! A closed loop, each thread asking again as soon as it was answered, stops asking while an engine
//! stalls, so that a stall counts as one slow call however many would have come meanwhile: the
//! coordinated omission that Gil Tene named, for which wrk2 and HdrHistogram have their remedies and
//! YCSB its intended latency. Here the moments are drawn beforehand, and a latency counts from the
//! moment its operation was due.
//!
//! The gaps between them are exponential: the arrivals of many clients that know nothing of each
//! other. Even gaps would never queue below the full load, and flatter every engine. All threads
//! serve one queue, so that an operation waits only while all of them are busy.
//!
//! Threads: shared by all workers. A claim is one atomic addition; sums of the gaps do not depend
//! on their order.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::{json, Value};

use crate::mix::mix2;
use crate::tally::Waits;

/// A load is kept up with if this share of its rate is achieved.
const KEEPS_UP: f64 = 0.95;

/// When operations are due.
#[derive(Debug)]
pub(crate) struct Schedule {
    start: Instant,
    rate: u64,
    seed: u64,
    /// When the last operation is due that was claimed, after the start.
    last_nanos: AtomicU64,
}

impl Schedule {
    /// `rate` operations a second, from `start` on.
    pub(crate) fn new(start: Instant, rate: u64, seed: u64) -> Schedule {
        Schedule {
            start,
            rate,
            seed,
            last_nanos: AtomicU64::new(0),
        }
    }

    /// Operations a second.
    pub(crate) fn rate(&self) -> u64 {
        self.rate
    }

    /// When the next `count` operations are due, which one call makes; `op` draws the gap.
    pub(crate) fn claim(&self, op: u64, count: u64) -> Instant {
        let gap = self.gap_nanos(op, count);
        let before = self.last_nanos.fetch_add(gap, Ordering::Relaxed);
        let due = Duration::from_nanos(before.saturating_add(gap));
        // The clock tells moments in more years than nanoseconds of 64 bits reach.
        self.start.checked_add(due).unwrap_or(self.start)
    }

    fn gap_nanos(&self, op: u64, count: u64) -> u64 {
        // From 2^-53 to 1, so that the logarithm is finite.
        let uniform = ((mix2(self.seed, op) >> 11) + 1) as f64 / (1u64 << 53) as f64;
        let mean = 1e9 * count as f64 / self.rate.max(1) as f64;
        (-uniform.ln() * mean).round() as u64
    }

    /// How many operations were due before a moment and not claimed: what their number is on average.
    fn unclaimed(&self, until: Instant) -> u64 {
        let behind = self.until_nanos(until).saturating_sub(self.claimed_nanos());
        (behind as f64 / 1e9 * self.rate as f64) as u64
    }

    fn claimed_nanos(&self) -> u64 {
        self.last_nanos.load(Ordering::Relaxed)
    }

    fn until_nanos(&self, until: Instant) -> u64 {
        let passed = until.saturating_duration_since(self.start).as_nanos();
        u64::try_from(passed).unwrap_or(u64::MAX)
    }

    /// How `ops` operations went that took `elapsed`; those due up to `until` were to be done, or
    /// all that were claimed.
    pub(crate) fn outcome(
        &self,
        ops: u64,
        waits: &Waits,
        elapsed: Duration,
        until: Option<Instant>,
    ) -> OpenLoop {
        let unserved = waits.unserved + until.map_or(0, |until| self.unclaimed(until));
        let span = until.map_or(self.claimed_nanos(), |until| self.until_nanos(until));
        let per_s = |ops: u64, nanos: u128| match nanos {
            0 => 0.0,
            nanos => ops as f64 * 1e9 / nanos as f64,
        };
        let offered = per_s(ops + unserved, u128::from(span));
        let achieved = per_s(ops, elapsed.as_nanos());
        OpenLoop {
            rate: self.rate,
            offered_ops_per_s: offered,
            achieved_ops_per_s: achieved,
            unserved_ops: unserved,
            keeps_up: achieved >= offered * KEEPS_UP,
            wake_p50_us: waits.wakes.percentile_us(50.0),
            wake_p99_us: waits.wakes.percentile_us(99.0),
        }
    }
}

/// How a load went that was offered at a rate.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct OpenLoop {
    /// Operations a second that were asked for.
    pub rate: u64,
    /// Operations a second that fell due: about the rate, since their moments are drawn.
    pub offered_ops_per_s: f64,
    /// Operations a second that were done.
    pub achieved_ops_per_s: f64,
    /// Operations that were due and not begun when the time was over; they have no latency.
    pub unserved_ops: u64,
    /// False if less than 95 % of what was offered was achieved. The queue grew then for as long
    /// as the workload ran, and its latencies say as much about that time as about the engine.
    pub keeps_up: bool,
    /// How late a thread woke up that slept until its operation was due: the part of the latencies
    /// that is this program's and the machine's. The median, in microseconds.
    pub wake_p50_us: f64,
    /// 99 % were not later.
    pub wake_p99_us: f64,
}

impl OpenLoop {
    /// The fields for a report.
    pub(crate) fn to_json(self) -> Value {
        json!({
            "rate": self.rate,
            "offered_ops_per_s": self.offered_ops_per_s,
            "achieved_ops_per_s": self.achieved_ops_per_s,
            "unserved_ops": self.unserved_ops,
            "keeps_up": self.keeps_up,
            "wake_p50_us": self.wake_p50_us,
            "wake_p99_us": self.wake_p99_us,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits() -> Waits {
        Waits::new().unwrap()
    }

    #[test]
    fn gaps_are_exponential_and_keep_to_the_rate() {
        let schedule = Schedule::new(Instant::now(), 50_000, 7);
        let gaps: Vec<u64> = (0..100_000).map(|op| schedule.gap_nanos(op, 1)).collect();
        let mean = gaps.iter().sum::<u64>() as f64 / 1e5;
        assert!((mean - 20_000.0).abs() < 200.0, "{mean}");
        // Of exponential gaps, one in e is longer than the mean.
        let longer = gaps.iter().filter(|gap| **gap > 20_000).count() as f64 / 1e5;
        assert!((longer - 0.3679).abs() < 0.005, "{longer}");
        let batch = schedule.gap_nanos(3, 64);
        assert!(
            batch.abs_diff(64 * schedule.gap_nanos(3, 1)) <= 64,
            "{batch}"
        );
    }

    #[test]
    fn moments_do_not_depend_on_which_thread_claims_them() {
        let start = Instant::now();
        let ends = [0..1000, 500..1500].map(|ops| {
            let schedule = Schedule::new(start, 1000, 1);
            ops.clone().for_each(|op| {
                schedule.claim(op, 1);
            });
            schedule.claimed_nanos()
        });
        assert_ne!(ends[0], ends[1]);
        let backwards = Schedule::new(start, 1000, 1);
        (0..1000).rev().for_each(|op| {
            backwards.claim(op, 1);
        });
        assert_eq!(backwards.claimed_nanos(), ends[0]);
    }

    #[test]
    fn what_is_not_served_is_counted_and_told() {
        let start = Instant::now();
        let schedule = Schedule::new(start, 1000, 1);
        let second = Duration::from_secs(1);
        (0..500).for_each(|op| {
            schedule.claim(op, 1);
        });
        let outcome = schedule.outcome(500, &waits(), 2 * second, Some(start + 2 * second));
        assert!((1400..1600).contains(&outcome.unserved_ops), "{outcome:?}");
        assert!((950.0..1050.0).contains(&outcome.offered_ops_per_s));
        assert_eq!(outcome.achieved_ops_per_s, 250.0);
        assert!(!outcome.keeps_up);
        // All that was claimed was to be done, and took as long as it was meant to.
        let span = Duration::from_nanos(schedule.claimed_nanos());
        assert!(schedule.outcome(500, &waits(), span, None).keeps_up);
        assert!(!schedule.outcome(500, &waits(), span * 2, None).keeps_up);
    }

    #[test]
    fn an_extreme_rate_overflows_nothing() {
        let slow = Schedule::new(Instant::now(), 1, 1);
        (0..10_000).for_each(|op| {
            slow.claim(op, 65_536);
        });
        let fast = Schedule::new(Instant::now(), u64::MAX, 1);
        assert_eq!(fast.gap_nanos(1, 1), 0);
    }
}
