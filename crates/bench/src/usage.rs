//! What the process used in each second of a workload, by the kernel's account. Plain data, no
//! threads.

use std::time::Duration;

use crate::error::BenchError;
use crate::system::ProcessUsage;

/// What this process used in one second.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Used {
    /// Bytes that the kernel fetched from storage for this process.
    pub read_bytes: u64,
    /// Bytes that it sent there.
    pub write_bytes: u64,
    /// Processor time of all threads, in seconds.
    pub cpu_seconds: f64,
}

/// The seconds since a workload began.
#[derive(Clone, Debug)]
pub(crate) struct UsageSeries {
    last: ProcessUsage,
    seconds: Vec<Used>,
}

impl UsageSeries {
    /// Second 0 begins now.
    pub(crate) fn begin() -> Result<UsageSeries, BenchError> {
        Ok(UsageSeries {
            last: ProcessUsage::read()?,
            seconds: Vec::new(),
        })
    }

    /// How long it takes until a second is over, `elapsed` after the begin.
    pub(crate) fn left(&self, elapsed: Duration) -> Duration {
        Duration::from_secs(self.seconds.len() as u64 + 1).saturating_sub(elapsed)
    }

    /// Takes account of the seconds that are over; does nothing within one.
    pub(crate) fn look(&mut self, elapsed: Duration) -> Result<(), BenchError> {
        if self.left(elapsed).is_zero() {
            self.account(elapsed.as_secs() as usize, ProcessUsage::read()?);
        }
        Ok(())
    }

    /// The seconds, the last of which is as long as the workload leaves.
    pub(crate) fn end(mut self, elapsed: Duration) -> Result<Vec<Used>, BenchError> {
        self.look(elapsed)?;
        if elapsed > Duration::from_secs(self.seconds.len() as u64) {
            self.account(self.seconds.len() + 1, ProcessUsage::read()?);
        }
        Ok(self.seconds)
    }

    /// Spreads what was used since the last reading over the seconds up to `until`: a thread that
    /// looks late sees several at once.
    fn account(&mut self, until: usize, now: ProcessUsage) {
        let parts = until.saturating_sub(self.seconds.len()).max(1) as u64;
        let last = std::mem::replace(&mut self.last, now);
        let read = now.read_bytes.saturating_sub(last.read_bytes);
        let written = now.write_bytes.saturating_sub(last.write_bytes);
        let share = |sum: u64, part: u64| sum * (part + 1) / parts - sum * part / parts;
        self.seconds.extend((0..parts).map(|part| Used {
            read_bytes: share(read, part),
            write_bytes: share(written, part),
            cpu_seconds: (now.cpu_seconds - last.cpu_seconds) / parts as f64,
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(read_bytes: u64, write_bytes: u64, cpu_seconds: f64) -> ProcessUsage {
        ProcessUsage {
            read_bytes,
            write_bytes,
            cpu_seconds,
            ..ProcessUsage::default()
        }
    }

    #[test]
    fn a_late_look_spreads_what_was_used_and_loses_nothing() {
        let mut series = UsageSeries {
            last: usage(100, 10, 1.0),
            seconds: Vec::new(),
        };
        series.account(1, usage(150, 10, 1.5));
        series.account(4, usage(160, 31, 4.5));
        let read: Vec<u64> = series.seconds.iter().map(|used| used.read_bytes).collect();
        let written: Vec<u64> = series.seconds.iter().map(|used| used.write_bytes).collect();
        let cpu: Vec<f64> = series.seconds.iter().map(|used| used.cpu_seconds).collect();
        assert_eq!(read, [50, 3, 3, 4]);
        assert_eq!(written, [0, 7, 7, 7]);
        assert_eq!(cpu, [0.5, 1.0, 1.0, 1.0]);
    }

    #[test]
    fn a_second_counts_when_it_is_over_and_the_last_one_always() {
        let mut series = UsageSeries::begin().unwrap();
        let millis = Duration::from_millis;
        assert_eq!(series.left(millis(300)), millis(700));
        for (at, seconds) in [(999, 0), (1000, 1), (1900, 1), (3100, 3)] {
            series.look(millis(at)).unwrap();
            assert_eq!(series.seconds.len(), seconds, "{at}");
        }
        assert_eq!(series.clone().end(millis(3000)).unwrap().len(), 3);
        assert_eq!(series.end(millis(3001)).unwrap().len(), 4);
    }
}
