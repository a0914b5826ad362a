//! Latencies in the few numbers that reports show. Plain data, no threads.

use crate::latency::Latency;

/// The latencies of one kind of call, in microseconds.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct CallSummary {
    /// How many calls were timed.
    pub calls: u64,
    /// The mean.
    pub mean_us: f64,
    /// The median.
    pub p50_us: f64,
    /// 95 % were not slower.
    pub p95_us: f64,
    /// 99 % were not slower.
    pub p99_us: f64,
    /// 99.9 % were not slower.
    pub p999_us: f64,
    /// 99.99 % were not slower.
    pub p9999_us: f64,
    /// 99.999 % were not slower.
    pub p99999_us: f64,
    /// The slowest.
    pub max_us: f64,
}

impl CallSummary {
    /// The numbers of a histogram.
    pub(crate) fn of(latency: &Latency) -> CallSummary {
        CallSummary {
            calls: latency.calls(),
            mean_us: latency.mean_us(),
            p50_us: latency.percentile_us(50.0),
            p95_us: latency.percentile_us(95.0),
            p99_us: latency.percentile_us(99.0),
            p999_us: latency.percentile_us(99.9),
            p9999_us: latency.percentile_us(99.99),
            p99999_us: latency.percentile_us(99.999),
            max_us: latency.max_us(),
        }
    }
}
