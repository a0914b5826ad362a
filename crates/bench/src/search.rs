//! The search for the highest rate at which latencies keep to a limit.
//!
//! From a first rate it doubles until a trial fails, or halves until one holds, and then halves the
//! distance between the best that held and the worst that failed. A rate fails when its trial and the
//! same once more do, so that one hiccup of the machine does not cap the search. No threads.

use serde_json::{json, Value};

use crate::config::RATE_MAX;
use crate::limit::LatencyLimit;
use crate::open_loop::OpenLoop;
use crate::summary::CallSummary;

/// Where the search begins, in operations a second.
const FIRST: u64 = 1000;
/// It ends when the rate is known to this part of it.
const PRECISION: u64 = 20;

/// What is known of the rate so far. Invariant: what held is below what failed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Search {
    /// Below this, trials say nothing.
    lowest: u64,
    held: Option<u64>,
    failed: Option<u64>,
    /// A trial at it failed, which is repeated.
    doubted: Option<u64>,
}

impl Search {
    /// Nothing is known; a trial of `seconds` is to have the operations that the limit needs.
    pub(crate) fn new(limit: &LatencyLimit, seconds: f64) -> Search {
        let lowest = (limit.ops_needed() as f64 / seconds.max(1e-3)).ceil() as u64;
        Search {
            lowest: lowest.clamp(1, RATE_MAX),
            held: None,
            failed: None,
            doubted: None,
        }
    }

    /// The rate to try next; `None` when it is found, or none is to be found.
    pub(crate) fn next(&self) -> Option<u64> {
        if self.doubted.is_some() {
            return self.doubted;
        }
        match (self.held, self.failed) {
            (None, None) => Some(FIRST.max(self.lowest)),
            (Some(held), None) => (held < RATE_MAX).then(|| (held * 2).min(RATE_MAX)),
            (None, Some(failed)) => (failed > self.lowest).then(|| (failed / 2).max(self.lowest)),
            (Some(held), Some(failed)) => {
                let between = failed.saturating_sub(held);
                (between > (held / PRECISION).max(1)).then(|| held + between / 2)
            }
        }
    }

    /// A rate was tried.
    pub(crate) fn tried(&mut self, rate: u64, holds: bool) {
        if holds {
            self.held = Some(rate);
        } else if self.doubted != Some(rate) {
            self.doubted = Some(rate);
            return;
        } else {
            self.failed = Some(rate);
        }
        self.doubted = None;
    }
}

/// One rate that was tried.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Trial {
    /// Operations a second that were asked for.
    pub rate: u64,
    /// Operations a second that fell due.
    pub offered_ops_per_s: f64,
    /// Operations a second that were done.
    pub achieved_ops_per_s: f64,
    /// Latencies, from when an operation was due.
    pub calls: CallSummary,
    /// Whether the engine kept up.
    pub keeps_up: bool,
    /// Whether it kept up, and the latencies kept to the limit.
    pub holds: bool,
}

impl Trial {
    /// What a load and the latencies of its calls say.
    pub(crate) fn of(load: &OpenLoop, calls: CallSummary, limit: &LatencyLimit) -> Trial {
        Trial {
            rate: load.rate,
            offered_ops_per_s: load.offered_ops_per_s,
            achieved_ops_per_s: load.achieved_ops_per_s,
            calls,
            keeps_up: load.keeps_up,
            // Without a call there is no latency to keep to.
            holds: load.keeps_up && calls.calls > 0 && limit.holds(&calls),
        }
    }

    /// Why it does not hold, or that it does.
    #[must_use]
    pub fn verdict(&self) -> &'static str {
        match (self.holds, self.keeps_up) {
            (true, _) => "holds",
            (false, true) => "too slow",
            (false, false) => "not kept up",
        }
    }
}

/// How the highest rate was looked for at which latencies keep to a limit.
#[derive(Clone, PartialEq, Debug)]
pub struct LimitSearch {
    /// The limit, as it was given.
    pub limit: String,
    /// The highest rate that held, in operations a second, known to 5 %; `None` if none did.
    pub found_rate: Option<u64>,
    /// All that were tried, in order.
    pub trials: Vec<Trial>,
}

impl LimitSearch {
    /// The fields for a report.
    pub(crate) fn to_json(&self) -> Value {
        let trials = self.trials.iter().map(|trial| {
            json!({
                "rate": trial.rate,
                "offered_ops_per_s": trial.offered_ops_per_s,
                "achieved_ops_per_s": trial.achieved_ops_per_s,
                "p50_us": trial.calls.p50_us,
                "p95_us": trial.calls.p95_us,
                "p99_us": trial.calls.p99_us,
                "p999_us": trial.calls.p999_us,
                "max_us": trial.calls.max_us,
                "verdict": trial.verdict(),
            })
        });
        json!({
            "limit": self.limit,
            "found_rate": self.found_rate,
            "trials": Value::Array(trials.collect()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rate found, and the number of trials, for an engine that holds up to a rate.
    fn find(capable: u64, lowest_ops: &str, seconds: f64) -> (Option<u64>, usize) {
        let limit: LatencyLimit = lowest_ops.parse().unwrap();
        let mut search = Search::new(&limit, seconds);
        let mut trials = 0;
        while let Some(rate) = search.next() {
            search.tried(rate, rate <= capable);
            trials += 1;
            assert!(trials < 100);
        }
        (search.held, trials)
    }

    #[test]
    fn the_highest_rate_is_found_to_a_twentieth() {
        for capable in [1, 2, 3, 19, 37, 500, 999, 1000, 1001, 45_678, 3_000_000] {
            let (found, trials) = find(capable, "p50=1ms", 10.0);
            let found = found.unwrap();
            assert!(found <= capable, "{found} of {capable}");
            let missed = capable - found;
            assert!(missed <= (capable / 20).max(1), "{found} of {capable}");
            assert!(trials <= 40, "{trials} for {capable}");
        }
        assert_eq!(find(u64::MAX, "p50=1ms", 10.0).0, Some(RATE_MAX));
    }

    #[test]
    fn a_trial_that_fails_once_does_not_cap_the_search() {
        let limit: LatencyLimit = "p50=1ms".parse().unwrap();
        let mut search = Search::new(&limit, 10.0);
        let (mut tried, mut hiccups) = (Vec::new(), 0);
        while let Some(rate) = search.next() {
            // Each rate above the first fails at its first trial.
            let hiccup = rate > FIRST && !tried.contains(&rate);
            search.tried(rate, rate <= 15_000 && !hiccup);
            hiccups += u64::from(hiccup);
            tried.push(rate);
        }
        let found = search.held.unwrap();
        assert!((14_250..=15_000).contains(&found), "{found}: {tried:?}");
        assert!(hiccups > 3, "{tried:?}");
        // Twice, and not once more.
        assert_eq!(tried.iter().filter(|rate| **rate == 16_000).count(), 2);
    }

    #[test]
    fn where_none_holds_it_ends_at_the_lowest_that_says_something() {
        assert_eq!(find(0, "p50=1ms", 10.0).0, None);
        // At 20 a second, 5 s have the 100 operations of which one is the slowest hundredth.
        assert_eq!(find(19, "p99=1ms", 5.0).0, None);
        assert_eq!(find(20, "p99=1ms", 5.0).0, Some(20));
        // More than the first rate is needed from the start.
        let search = Search::new(&"p99.99=1ms".parse().unwrap(), 1.0);
        assert_eq!(search.next(), Some(10_000));
    }
}
