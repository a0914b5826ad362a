//! Operations by the second in which they were completed. Plain data, no threads.

use std::time::Instant;

/// What was completed in each second since a start.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    start: Instant,
    ops: Vec<u64>,
}

impl Series {
    /// An empty series; second 0 begins at `start`.
    pub(crate) fn new(start: Instant) -> Series {
        Series {
            start,
            ops: Vec::new(),
        }
    }

    /// Counts operations that were completed at `end`.
    pub(crate) fn add(&mut self, end: Instant, ops: u64) {
        let second = end.saturating_duration_since(self.start).as_secs() as usize;
        if second >= self.ops.len() {
            self.ops.resize(second + 1, 0);
        }
        if let Some(count) = self.ops.get_mut(second) {
            *count += ops;
        }
    }

    /// Adds the series of another thread, which began at the same moment.
    pub(crate) fn merge(&mut self, other: &Series) {
        if self.ops.len() < other.ops.len() {
            self.ops.resize(other.ops.len(), 0);
        }
        for (sum, count) in self.ops.iter_mut().zip(&other.ops) {
            *sum += count;
        }
    }

    /// The operations of each second, up to the one of the last operation.
    pub(crate) fn ops_by_second(&self) -> Vec<u64> {
        self.ops.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn operations_count_in_their_second_and_an_idle_one_is_zero() {
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        let (mut one, mut two) = (Series::new(start), Series::new(start));
        for (millis, ops) in [(0, 1), (999, 64), (1000, 1), (3500, 2)] {
            one.add(at(millis), ops);
        }
        assert_eq!(one.ops_by_second(), [65, 1, 0, 2]);
        two.add(at(4100), 5);
        two.add(at(1100), 3);
        one.merge(&two);
        assert_eq!(one.ops_by_second(), [65, 4, 0, 2, 5]);
        two.merge(&one);
        assert_eq!(two.ops_by_second(), [65, 7, 0, 2, 10]);
    }
}
