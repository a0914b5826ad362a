//! Latencies of calls in an HDR histogram, in nanoseconds, kept to three digits.
//!
//! Each thread records into its own; they are merged when the threads are joined.

use std::time::Duration;

use hdrhistogram::Histogram;

use crate::error::BenchError;

/// Longest latency kept apart; a longer one is recorded as this.
const LONGEST_NS: u64 = 3_600_000_000_000;
const SIGNIFICANT_DIGITS: u8 = 3;

/// The latencies of many calls.
#[derive(Clone, Debug)]
pub struct Latency {
    histogram: Histogram<u64>,
}

impl Latency {
    /// An empty histogram; holds about 260 KiB.
    ///
    /// # Errors
    /// Only if the bounds are refused, which would be a bug.
    pub fn new() -> Result<Latency, BenchError> {
        Histogram::new_with_bounds(1, LONGEST_NS, SIGNIFICANT_DIGITS)
            .map(|histogram| Latency { histogram })
            .map_err(|error| BenchError::Internal(format!("histogram bounds: {error}")))
    }

    /// Adds one call.
    pub fn record(&mut self, latency: Duration) {
        let nanos = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        self.histogram.saturating_record(nanos.clamp(1, LONGEST_NS));
    }

    /// Adds all calls of another histogram.
    ///
    /// # Errors
    /// Only if the two had different bounds, which would be a bug.
    pub fn merge(&mut self, other: &Latency) -> Result<(), BenchError> {
        self.histogram
            .add(&other.histogram)
            .map_err(|error| BenchError::Internal(format!("merging histograms: {error}")))
    }

    /// How many calls were recorded.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.histogram.len()
    }

    /// The latency that `percent` of all calls did not exceed, in microseconds; 0 without calls.
    #[must_use]
    pub fn percentile_us(&self, percent: f64) -> f64 {
        if self.histogram.is_empty() {
            return 0.0;
        }
        self.histogram.value_at_percentile(percent) as f64 / 1000.0
    }

    /// The whole distribution as (percent, microseconds): 46 points from 0 to 99.999 %, nine for
    /// each further nine of the percentage, so that tail and body are told alike; empty without
    /// calls.
    #[must_use]
    pub fn percentiles_us(&self) -> Vec<(f64, f64)> {
        if self.histogram.is_empty() {
            return Vec::new();
        }
        // Thousandths of a percent that are slower, in whole numbers, so that none is a near miss.
        let decades = [10_000u32, 1_000, 100, 10, 1];
        let slower = decades
            .iter()
            .flat_map(|step| (2..=10).rev().map(move |i| i * step));
        let percents = slower
            .chain([1])
            .map(|slower| f64::from(100_000 - slower) / 1000.0);
        percents
            .map(|percent| (percent, self.percentile_us(percent)))
            .collect()
    }

    /// How many calls took how long, as (microseconds, calls): up to so many microseconds, and longer
    /// than those of the bucket before. Bounds are 1, 2 and 5 times a power of ten; from the first
    /// bucket that has calls to the last one.
    #[must_use]
    pub fn buckets(&self) -> Vec<(f64, u64)> {
        let bounds = (2..13).flat_map(|power| [1, 2, 5].map(|step| step * 10u64.pow(power)));
        let mut calls: Vec<(u64, u64)> = bounds.map(|bound| (bound, 0)).collect();
        for value in self.histogram.iter_recorded() {
            let nanos = value.value_iterated_to();
            // A value stands for those that share its first digits, so that one at a bound is it.
            let nanos = self.histogram.lowest_equivalent(nanos);
            let place = calls.partition_point(|(bound, _)| *bound < nanos);
            if let Some((_, count)) = calls.get_mut(place) {
                *count += value.count_at_value();
            }
        }
        let has = |bucket: &(u64, u64)| bucket.1 > 0;
        let first = calls.iter().position(has).unwrap_or(calls.len());
        let end = calls.iter().rposition(has).map_or(first, |last| last + 1);
        let told = calls.into_iter().take(end).skip(first);
        told.map(|(bound, count)| (bound as f64 / 1000.0, count))
            .collect()
    }

    /// The mean, in microseconds; 0 without calls.
    #[must_use]
    pub fn mean_us(&self) -> f64 {
        if self.histogram.is_empty() {
            return 0.0;
        }
        self.histogram.mean() / 1000.0
    }

    /// The longest call, in microseconds; 0 without calls.
    #[must_use]
    pub fn max_us(&self) -> f64 {
        self.percentile_us(100.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(found: f64, expected: f64) {
        assert!(
            (found - expected).abs() <= expected * 0.002,
            "{found} instead of {expected}"
        );
    }

    #[test]
    fn percentiles_are_those_of_the_calls_of_all_threads() {
        let (mut one, mut two) = (Latency::new().unwrap(), Latency::new().unwrap());
        for micros in 1..=500 {
            one.record(Duration::from_micros(micros));
            two.record(Duration::from_micros(500 + micros));
        }
        one.merge(&two).unwrap();
        assert_eq!(one.calls(), 1000);
        close(one.mean_us(), 500.5);
        close(one.percentile_us(50.0), 500.0);
        close(one.percentile_us(95.0), 950.0);
        close(one.percentile_us(99.9), 999.0);
        close(one.max_us(), 1000.0);
    }

    #[test]
    fn the_whole_distribution_is_even_in_nines() {
        let mut latency = Latency::new().unwrap();
        assert!(latency.percentiles_us().is_empty());
        for micros in 1..=1000 {
            latency.record(Duration::from_micros(micros));
        }
        let points = latency.percentiles_us();
        let percents: Vec<f64> = points.iter().map(|point| point.0).collect();
        assert_eq!(percents.len(), 46);
        assert_eq!(&percents[..3], [0.0, 10.0, 20.0]);
        assert_eq!(&percents[8..12], [80.0, 90.0, 91.0, 92.0]);
        assert_eq!(&percents[43..], [99.997, 99.998, 99.999]);
        assert!(points
            .windows(2)
            .all(|pair| pair[0] < pair[1] || (pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1)));
        for (percent, micros) in [points[5], points[14]] {
            close(micros, percent * 10.0);
        }
    }

    #[test]
    fn nothing_recorded_is_zero_and_the_extremes_are_kept() {
        let mut latency = Latency::new().unwrap();
        close(latency.max_us() + 1.0, 1.0);
        assert_eq!(latency.mean_us(), 0.0);
        latency.record(Duration::ZERO);
        latency.record(Duration::from_secs(1 << 40));
        assert_eq!(latency.calls(), 2);
        close(latency.max_us(), 3.6e9);
    }

    #[test]
    fn calls_are_counted_in_buckets() {
        let mut latency = Latency::new().unwrap();
        assert!(latency.buckets().is_empty());
        for nanos in [900, 1000, 1001, 2000, 2100, 60_000, 3_600_000_000_000] {
            latency.record(Duration::from_nanos(nanos));
        }
        let told = latency.buckets();
        let expected = [(1.0, 2), (2.0, 2), (5.0, 1), (10.0, 0)];
        assert_eq!(told[..4], expected);
        assert_eq!(told[6], (100.0, 1));
        assert_eq!(told.last(), Some(&(5e9, 1)));
        assert_eq!(told.iter().map(|(_, calls)| calls).sum::<u64>(), 7);
    }
}
