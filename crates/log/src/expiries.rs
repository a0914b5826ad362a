//! When the records of a segment expire, roughly: enough to tell how many have.
//!
//! Counts by time, in steps that widen until there are few; a record counts as expired only when all
//! of its step is over, so never too early. Volatile, under the log's lock.

use std::collections::BTreeMap;

/// The finest step: about a second.
const SHIFT_MIN: u32 = 10;
/// Steps that hold records, at most.
const STEPS_MAX: usize = 32;

/// The expiry of some records.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Expiries {
    shift: u32,
    counts: BTreeMap<u64, u32>,
}

impl Default for Expiries {
    fn default() -> Expiries {
        Expiries {
            shift: SHIFT_MIN,
            counts: BTreeMap::new(),
        }
    }
}

impl Expiries {
    /// Memory that one takes at most, roughly: the nodes of its map may be half full.
    pub const MEMORY_BYTES_MAX: usize = STEPS_MAX * 2 * 16 + 64;

    /// Adds a record that expires then, in milliseconds since 1970.
    pub fn add(&mut self, expiry_ms: u64) {
        *self.counts.entry(expiry_ms >> self.shift).or_insert(0) += 1;
        while self.counts.len() > STEPS_MAX {
            self.shift += 1;
            for (step, count) in std::mem::take(&mut self.counts) {
                *self.counts.entry(step >> 1).or_insert(0) += count;
            }
        }
    }

    /// How many have expired for certain.
    #[must_use]
    pub fn expired(&self, now_ms: u64) -> u32 {
        self.counts
            .range(..now_ms >> self.shift)
            .map(|(_, n)| n)
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn none_counts_too_early_and_all_in_the_end() {
        let mut expiries = Expiries::default();
        let times: Vec<u64> = (0..10_000).map(|n| 5_000_000 + n * n / 3).collect();
        for time in &times {
            expiries.add(*time);
        }
        expiries.add(u64::MAX);
        assert!(expiries.counts.len() <= STEPS_MAX);
        for now in (4_900_000..40_000_000).step_by(77_777) {
            let expired = times.iter().filter(|t| **t <= now).count() as u32;
            let told = expiries.expired(now);
            assert!(told <= expired, "{told} of {expired} at {now}");
            assert!(told + 2600 > expired, "{told} of {expired} at {now}");
        }
        assert_eq!(expiries.expired(u64::MAX - 1), 10_000);
    }
}
