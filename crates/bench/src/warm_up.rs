//! When a cache holds what it is going to hold: a workload is run unmeasured, window after window, until
//! what it fetches from storage for each operation no longer falls. Plain data, no threads.

use std::time::Duration;

/// A window counts as lower if it is below this share of the lowest so far.
const LOWER: f64 = 0.97;
/// So many windows in a row that are not lower are the steady state.
const WINDOWS: u32 = 2;
/// The longest window.
const WINDOW_MAX: Duration = Duration::from_secs(1);

/// How a store was made warm before a workload was measured.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct WarmedUp {
    /// How long that took, in seconds.
    pub seconds: f64,
    /// Whether what was fetched for each operation no longer fell; false: the time was over before.
    pub steady: bool,
}

/// What the windows so far have shown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WarmUp {
    lowest: f64,
    /// Windows in a row that were not lower.
    level: u32,
}

impl WarmUp {
    /// No window yet.
    pub(crate) fn new() -> WarmUp {
        WarmUp {
            lowest: f64::INFINITY,
            level: 0,
        }
    }

    /// How long one window lasts, of a workload that lasts for `duration`.
    pub(crate) fn window(duration: Duration, at_most: Duration) -> Duration {
        duration.min(WINDOW_MAX).min(at_most)
    }

    /// Takes the bytes that a window fetched for each operation; true in the steady state.
    pub(crate) fn is_steady(&mut self, bytes_per_op: f64) -> bool {
        if bytes_per_op < self.lowest * LOWER {
            self.level = 0;
        } else {
            self.level += 1;
        }
        self.lowest = self.lowest.min(bytes_per_op);
        self.level >= WINDOWS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn windows_until_steady(bytes: &[f64]) -> Option<usize> {
        let mut warm_up = WarmUp::new();
        let steady = |bytes: &f64| warm_up.is_steady(*bytes);
        bytes.iter().position(steady).map(|place| place + 1)
    }

    #[test]
    fn it_is_steady_when_nothing_falls_any_more() {
        assert_eq!(windows_until_steady(&[0.0, 0.0, 0.0, 0.0]), Some(3));
        let falling = [4096.0, 3000.0, 2500.0, 2200.0, 2048.0, 2040.0, 2051.0];
        assert_eq!(windows_until_steady(&falling), Some(7));
        // One window by chance is not enough, and what falls all the time is never steady.
        assert_eq!(windows_until_steady(&[9.0, 10.0, 8.0, 9.0, 7.0]), None);
        let ever: Vec<f64> = (0..30).map(|place| 0.9f64.powi(place)).collect();
        assert_eq!(windows_until_steady(&ever), None);
    }

    #[test]
    fn windows_are_no_longer_than_the_workload() {
        let [short, second, long] = [20, 1000, 60_000].map(Duration::from_millis);
        assert_eq!(WarmUp::window(short, long), short);
        assert_eq!(WarmUp::window(long, long), second);
        assert_eq!(WarmUp::window(long, short), short);
    }
}
