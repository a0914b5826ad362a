//! What the watch over a store's health remembers from look to look: the last state, since when
//! each condition holds, and whether writers are stalled. Plain bookkeeping; `watch` looks.
//!
//! Threads: behind one lock.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::health::HealthState;

/// Writers that did not wait for so long are not stalled any more.
const STALL_ENDS_AFTER: Duration = Duration::from_secs(1);
/// How often sizes that take a look at every segment are taken.
const SIZES_EVERY: Duration = Duration::from_secs(10);

/// A change in whether writers wait for collection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stall {
    Began,
    /// After so many milliseconds.
    Ended(u64),
}

/// See the module's head.
pub(crate) struct Vitals {
    pub(crate) state: HealthState,
    /// By name of the condition.
    since_ms: BTreeMap<&'static str, u64>,
    waits: u64,
    stall: Option<(Duration, Duration)>,
    pub(crate) strangers_healed: u64,
    sizes_at: Option<Duration>,
    pub(crate) live_bytes: u64,
}

impl Default for Vitals {
    fn default() -> Vitals {
        Vitals {
            state: HealthState::Healthy,
            since_ms: BTreeMap::new(),
            waits: 0,
            stall: None,
            strangers_healed: 0,
            sizes_at: None,
            live_bytes: 0,
        }
    }
}

impl Vitals {
    /// Since when a condition holds, if it does now.
    pub(crate) fn since(&mut self, name: &'static str, holds: bool, now_ms: u64) -> Option<u64> {
        if holds {
            return Some(*self.since_ms.entry(name).or_insert(now_ms));
        }
        self.since_ms.remove(name);
        None
    }

    /// True if it is time to take the sizes that cost a little.
    pub(crate) fn wants_sizes(&mut self, now: Duration) -> bool {
        let is_due = self.sizes_at.is_none_or(|at| now >= at + SIZES_EVERY);
        if is_due {
            self.sizes_at = Some(now);
        }
        is_due
    }

    /// What became of writers, of which `waits` have waited so far.
    pub(crate) fn stall(&mut self, waits: u64, now: Duration) -> Option<Stall> {
        let have_waited = waits != std::mem::replace(&mut self.waits, waits);
        match (&mut self.stall, have_waited) {
            (None, false) => None,
            (None, true) => {
                self.stall = Some((now, now));
                Some(Stall::Began)
            }
            (Some((_, last)), true) => {
                *last = now;
                None
            }
            (Some((began, last)), false) => {
                let millis = (*last - *began).as_millis() as u64;
                let is_over = now.saturating_sub(*last) >= STALL_ENDS_AFTER;
                is_over.then(|| {
                    self.stall = None;
                    Stall::Ended(millis)
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_holds_since_it_was_first_seen() {
        let mut vitals = Vitals::default();
        assert_eq!(vitals.since("full", true, 5), Some(5));
        assert_eq!(vitals.since("full", true, 9), Some(5));
        assert_eq!(vitals.since("full", false, 10), None);
        assert_eq!(vitals.since("full", true, 11), Some(11));
    }

    #[test]
    fn a_stall_begins_with_a_wait_and_ends_a_second_after_the_last() {
        let mut vitals = Vitals::default();
        let ms = Duration::from_millis;
        assert_eq!(vitals.stall(0, ms(0)), None);
        assert_eq!(vitals.stall(3, ms(100)), Some(Stall::Began));
        assert_eq!(vitals.stall(4, ms(700)), None);
        assert_eq!(vitals.stall(4, ms(1600)), None);
        assert_eq!(vitals.stall(4, ms(1700)), Some(Stall::Ended(600)));
        assert_eq!(vitals.stall(4, ms(9000)), None);
        assert_eq!(vitals.stall(5, ms(9001)), Some(Stall::Began));
    }

    #[test]
    fn sizes_are_taken_now_and_then() {
        let mut vitals = Vitals::default();
        assert!(vitals.wants_sizes(Duration::ZERO));
        assert!(!vitals.wants_sizes(Duration::from_secs(9)));
        assert!(vitals.wants_sizes(Duration::from_secs(10)));
    }
}
