//! Latencies that are not to be exceeded: `p95=1ms,p99=2ms`. Plain data, no threads.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::error::BenchError;
use crate::summary::CallSummary;

/// What a limit may be on: its names, the operations that it takes to tell it from the slowest, and
/// where it stands in a report.
type Measure = (&'static [&'static str], u64, fn(&CallSummary) -> f64);

const MEASURES: [Measure; 7] = [
    (&["p50"], 2, |calls| calls.p50_us),
    (&["p95"], 20, |calls| calls.p95_us),
    (&["p99"], 100, |calls| calls.p99_us),
    (&["p99.9", "p999"], 1000, |calls| calls.p999_us),
    (&["p99.99", "p9999"], 10_000, |calls| calls.p9999_us),
    (&["p99.999", "p99999"], 100_000, |calls| calls.p99999_us),
    (&["max"], 100, |calls| calls.max_us),
];
const UNITS: [(&str, f64); 3] = [("us", 1.0), ("ms", 1e3), ("s", 1e6)];

#[derive(Clone, Copy, Debug)]
struct Bound {
    measure: &'static Measure,
    at_most: Duration,
}

/// Latencies that are not to be exceeded; all of them hold or the limit does not.
#[derive(Clone, Debug)]
pub struct LatencyLimit {
    text: String,
    bounds: Vec<Bound>,
}

impl LatencyLimit {
    /// Whether the calls keep to it.
    #[must_use]
    pub fn holds(&self, calls: &CallSummary) -> bool {
        let mut bounds = self.bounds.iter();
        bounds.all(|bound| (bound.measure.2)(calls) <= bound.at_most.as_secs_f64() * 1e6)
    }

    /// Operations without which its percentiles cannot be told from the slowest of all.
    #[must_use]
    pub fn ops_needed(&self) -> u64 {
        let needed = self.bounds.iter().map(|bound| bound.measure.1);
        needed.max().unwrap_or(1)
    }
}

impl fmt::Display for LatencyLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for LatencyLimit {
    type Err = BenchError;

    fn from_str(text: &str) -> Result<LatencyLimit, BenchError> {
        let bounds: Option<Vec<Bound>> = text.split(',').map(bound).collect();
        let bounds = bounds.ok_or_else(|| {
            let names = MEASURES.map(|(names, ..)| names.first().copied().unwrap_or_default());
            let expected = format!(
                "latencies with their limits, as in `p95=1ms,p99=2ms`; there are {}, and the units \
                 us, ms and s",
                names.join(", ")
            );
            BenchError::out_of_range("--latency-limit", format!("{text:?}"), expected)
        })?;
        Ok(LatencyLimit {
            text: text.to_owned(),
            bounds,
        })
    }
}

fn bound(text: &str) -> Option<Bound> {
    let (name, time) = text.trim().split_once('=')?;
    let measure = MEASURES.iter().find(|(names, ..)| names.contains(&name))?;
    let place = time.find(|c: char| c.is_ascii_alphabetic())?;
    let (number, unit) = time.split_at(place);
    let (_, micros) = UNITS.iter().find(|(name, _)| *name == unit)?;
    let micros = number.parse::<f64>().ok()? * micros;
    (0.001..=3.6e9).contains(&micros).then(|| Bound {
        measure,
        at_most: Duration::from_secs_f64(micros / 1e6),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_holds_if_all_its_latencies_do() {
        let limit: LatencyLimit = "p95=1ms, p99.9=2.5ms,max=1s".parse().unwrap();
        let calls = CallSummary {
            p95_us: 1000.0,
            p999_us: 2500.0,
            max_us: 1e6,
            ..CallSummary::default()
        };
        assert!(limit.holds(&calls));
        for broken in [
            CallSummary {
                p95_us: 1001.0,
                ..calls
            },
            CallSummary {
                p999_us: 2501.0,
                ..calls
            },
            CallSummary {
                max_us: 1.1e6,
                ..calls
            },
        ] {
            assert!(!limit.holds(&broken));
        }
        assert_eq!(limit.ops_needed(), 1000);
        assert_eq!(limit.to_string(), "p95=1ms, p99.9=2.5ms,max=1s");
        let same: LatencyLimit = "p9999=700us".parse().unwrap();
        assert_eq!(same.ops_needed(), 10_000);
    }

    #[test]
    fn what_is_no_limit_is_refused_with_what_is() {
        for text in [
            "",
            "p95",
            "p95=",
            "p95=1",
            "p95=ms",
            "p42=1ms",
            "p95=1h",
            "p95=-1ms",
            "p95=0ms",
            "p95=1ms,",
            "p95=infms",
            "p99=1e99s",
        ] {
            let error = text.parse::<LatencyLimit>().unwrap_err().to_string();
            let named = error.contains("--latency-limit") && error.contains("p95=1ms,p99=2ms");
            assert!(named, "{text}: {error}");
        }
    }
}
