//! Whether the figures of a run hold: limits at every moment, and no growth from its second sixth to
//! its last. Plain data.

use super::sample::Sample;

/// What the figures may be.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Resident memory: the budget and what is allowed beside it.
    pub rss_bytes: u64,
    /// The store's own account of its memory.
    pub budget_bytes: u64,
    /// Open file descriptors.
    pub fds: u64,
    /// Threads.
    pub threads: u64,
    /// Longest time without an acknowledged write, in milliseconds.
    pub gap_ms: u64,
    /// What the store's directory may take on disk.
    pub store_files_bytes: u64,
    /// By how much a median may grow, in percent.
    pub growth_percent: u64,
}

/// A figure of which the medians of two windows are compared, and what it may grow by anyhow.
struct Watched {
    name: &'static str,
    of: fn(&Sample) -> u64,
    slack: u64,
}

const WATCHED: [Watched; 5] = [
    Watched {
        name: "resident bytes",
        of: |s| s.rss_bytes,
        slack: 16 << 20,
    },
    Watched {
        name: "open file descriptors",
        of: |s| s.fds,
        slack: 3,
    },
    Watched {
        name: "threads",
        of: |s| s.threads,
        slack: 2,
    },
    Watched {
        name: "bytes of the store's files",
        of: |s| s.store_files_bytes,
        slack: 32 << 20,
    },
    Watched {
        name: "bytes that the store says are live",
        of: |s| s.live_bytes,
        slack: 32 << 20,
    },
];

/// The fewest samples that windows can be made of.
const SAMPLES_MIN: usize = 12;

/// Everything that does not hold, in words.
pub(crate) fn judge(samples: &[Sample], limits: &Limits) -> Vec<String> {
    let mut words = Vec::new();
    let mut most = |what: &str, of: &dyn Fn(&Sample) -> u64, limit: u64| {
        if let Some(worst) = samples
            .iter()
            .max_by_key(|s| of(s))
            .filter(|s| of(s) > limit)
        {
            words.push(format!(
                "{what}: {} after {} s; at most {limit} are allowed",
                of(worst),
                worst.at_ms / 1000
            ));
        }
    };
    most("resident bytes", &|s| s.rss_bytes, limits.rss_bytes);
    most(
        "bytes of index, cache and tail",
        &Sample::store_memory_bytes,
        limits.budget_bytes,
    );
    most("open file descriptors", &|s| s.fds, limits.fds);
    most("threads", &|s| s.threads, limits.threads);
    most(
        "milliseconds without an acknowledged write",
        &|s| s.longest_gap_ms,
        limits.gap_ms,
    );
    most(
        "bytes of the store's files",
        &|s| s.store_files_bytes,
        limits.store_files_bytes,
    );
    most("damaged structures", &|s| s.damage_found, 0);
    if samples.len() < SAMPLES_MIN {
        words.push(format!(
            "only {} samples: growth cannot be judged",
            samples.len()
        ));
        return words;
    }
    let sixth = samples.len() / 6;
    let (early, late) = (
        samples.get(sixth..2 * sixth).unwrap_or_default(),
        samples.get(samples.len() - sixth..).unwrap_or_default(),
    );
    for watched in &WATCHED {
        let (before, after) = (median(early, watched.of), median(late, watched.of));
        let allowed = before + (before * limits.growth_percent / 100).max(watched.slack);
        if after > allowed {
            words.push(format!(
                "{} grew: {before} in the second sixth of the run, {after} in the last; at most {allowed} are allowed",
                watched.name
            ));
        }
    }
    words
}

/// The middle one; of a store that was closed at the time there is no figure.
fn median(samples: &[Sample], of: fn(&Sample) -> u64) -> u64 {
    let mut values: Vec<u64> = samples.iter().map(of).filter(|value| *value > 0).collect();
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or(0)
}

/// Median of the second sixth and of the last, for the report.
pub(crate) fn medians(samples: &[Sample], of: fn(&Sample) -> u64) -> (u64, u64) {
    let sixth = samples.len() / 6;
    let window = |from: usize| median(samples.get(from..from + sixth).unwrap_or_default(), of);
    (window(sixth), window(samples.len() - sixth))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> Limits {
        Limits {
            rss_bytes: 300 << 20,
            budget_bytes: 100 << 20,
            fds: 64,
            threads: 20,
            gap_ms: 1000,
            store_files_bytes: 1 << 30,
            growth_percent: 5,
        }
    }

    fn steady() -> Vec<Sample> {
        let sample = |n: u64| Sample {
            at_ms: n * 1000,
            rss_bytes: (200 << 20) + n % 7 * 4096,
            fds: 20 + n % 2,
            threads: 12,
            cache_bytes: 90 << 20,
            live_bytes: 500 << 20,
            store_files_bytes: 900 << 20,
            ..Sample::default()
        };
        (0..60).map(sample).collect()
    }

    fn found(change: fn(u64, &mut Sample)) -> String {
        let mut samples = steady();
        for (n, sample) in samples.iter_mut().enumerate() {
            change(n as u64, sample);
        }
        judge(&samples, &limits()).join("; ")
    }

    #[test]
    fn a_steady_run_holds() {
        assert_eq!(found(|_, _| ()), "");
        assert!(judge(&steady()[..5], &limits())[0].contains("5 samples"));
    }

    #[test]
    fn growth_is_told_from_waves() {
        assert!(found(|n, s| s.fds += n / 8).contains("descriptors grew"));
        assert!(found(|n, s| s.rss_bytes += n << 20).contains("resident bytes grew"));
        assert_eq!(found(|n, s| s.rss_bytes += (n % 10) << 21), "");
    }

    #[test]
    fn one_moment_beyond_a_limit_is_enough() {
        let at = |n: u64| n == 33;
        assert!(found(|n, s| s.fds += 50 * u64::from(n == 33)).contains("descriptors: 71 after 33"));
        assert!(found(|n, s| s.tail_bytes = u64::from(n == 33) << 24).contains("index, cache"));
        assert!(found(|n, s| s.longest_gap_ms = 1001 * u64::from(n == 9)).contains("milliseconds"));
        assert!(at(33));
    }
}
