//! What a benchmark is asked to do, checked once before it starts. Plain data, no threads.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use crate::draw::Distribution;
use crate::error::BenchError;
use crate::family::KeyFamily;
use crate::keys::KeyGen;
use crate::limit::LatencyLimit;
use crate::workload::Workload;

/// Largest value a store takes, in bytes.
const VALUE_BYTES_MAX: usize = 256 << 20;
/// More threads than this are a slip of the finger.
const THREADS_MAX: usize = 4096;
/// A higher rate than any store or this program is capable of, in operations a second.
pub(crate) const RATE_MAX: u64 = 100_000_000;
/// Most keys of one `multi_get`.
const BATCH_MAX: usize = 65_536;

/// When a write is durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DurabilityMode {
    /// When the store pleases.
    None,
    /// Within a bounded time and number of bytes.
    Bounded,
    /// Before it returns.
    Sync,
}

impl DurabilityMode {
    /// Every mode, in the order in which help lists them.
    pub const ALL: [DurabilityMode; 3] = [
        DurabilityMode::None,
        DurabilityMode::Bounded,
        DurabilityMode::Sync,
    ];

    /// The name on the command line and in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            DurabilityMode::None => "none",
            DurabilityMode::Bounded => "bounded",
            DurabilityMode::Sync => "sync",
        }
    }
}

impl fmt::Display for DurabilityMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for DurabilityMode {
    type Err = BenchError;

    fn from_str(text: &str) -> Result<DurabilityMode, BenchError> {
        DurabilityMode::ALL
            .into_iter()
            .find(|mode| mode.name() == text)
            .ok_or_else(|| {
                let known = DurabilityMode::ALL.map(DurabilityMode::name);
                BenchError::unknown("durability", text, known.as_slice())
            })
    }
}

/// A workload with a number of threads: what one row tells of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    /// What is done to the store.
    pub workload: Workload,
    /// How many do it at the same time.
    pub threads: usize,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.threads {
            1 => write!(f, "{}, 1 thread", self.workload),
            threads => write!(f, "{}, {threads} threads", self.workload),
        }
    }
}

/// What to run, on any engine.
#[derive(Clone, Debug)]
pub struct Config {
    /// The workloads, in order.
    pub workloads: Vec<Workload>,
    /// How many keys there are, and how many operations a workload does over all threads.
    pub num: u64,
    /// The size of a key, in bytes.
    pub key_bytes: usize,
    /// The size of a value, in bytes.
    pub value_bytes: usize,
    /// What the keys look like.
    pub keys: KeyFamily,
    /// How keys are drawn, in every workload that draws some; `None`: evenly, and by YCSB's own
    /// distributions in its workloads.
    pub distribution: Option<Distribution>,
    /// Threads of a workload, which is run once for each of these counts; a fill once, with the most.
    /// `readwhilewriting` has its writer on top.
    pub threads: Vec<usize>,
    /// Ends every workload that is not a fill; `None`: each does `num` operations.
    pub duration: Option<Duration>,
    /// Operations a second that are offered over all threads to every workload that is no fill,
    /// and from which latencies count (see [`crate::OpenLoop`]); `None`: each thread asks again as
    /// soon as it was answered. The writer of `readwhilewriting` is not meant.
    pub rate: Option<u64>,
    /// The same for the writer of `readwhilewriting`.
    pub writer_rate: Option<u64>,
    /// Looks, for every workload that is no fill, for the highest rate at which this holds, by
    /// trials that last for `duration`, or 5 s. Not together with `rate`.
    pub latency_limit: Option<LatencyLimit>,
    /// Reported only: the engine was opened with it.
    pub durability: DurabilityMode,
    /// Reads among the operations of `readrandomwriterandom`, in percent.
    pub read_share_percent: f64,
    /// Entries that one operation of `scan` reads.
    pub scan_entries: usize,
    /// Keys that one call reads in `readrandom` and `readmissing`; 1: a plain get.
    pub batch_keys: usize,
    /// Keys of one call of `multireadrandom` and `fillbatch`.
    pub multi_keys: usize,
    /// Draws keys, values and orders.
    pub seed: u64,
    /// Runs a control loop in this directory beside each workload.
    pub control_dir: Option<PathBuf>,
}

impl Config {
    /// The defaults of `heliox bench`, with no workload.
    #[must_use]
    pub fn new() -> Config {
        Config {
            workloads: Vec::new(),
            num: 1_000_000,
            key_bytes: KeyFamily::Random.default_size_bytes(),
            value_bytes: 100,
            keys: KeyFamily::Random,
            distribution: None,
            threads: vec![1],
            duration: None,
            rate: None,
            writer_rate: None,
            latency_limit: None,
            durability: DurabilityMode::Bounded,
            read_share_percent: 90.0,
            scan_entries: 100,
            batch_keys: 1,
            multi_keys: 64,
            seed: 1,
            control_dir: None,
        }
    }

    /// Checks every number, alone and beside the others, and makes the key generator.
    ///
    /// # Errors
    /// The first number that makes no sense, with what would be accepted.
    pub fn validate(&self) -> Result<KeyGen, BenchError> {
        let keys = KeyGen::new(self.keys, self.key_bytes, self.seed)?;
        in_range("--num", self.num, 1, u64::MAX / 4)?;
        for threads in &self.threads {
            in_range("--threads", *threads as u64, 1, THREADS_MAX as u64)?;
        }
        if self.threads.is_empty() {
            let expected = "at least one number";
            return Err(BenchError::out_of_range("--threads", "empty", expected));
        }
        in_range(
            "--value-size",
            self.value_bytes as u64,
            0,
            VALUE_BYTES_MAX as u64,
        )?;
        in_range(
            "--scan-length",
            self.scan_entries as u64,
            1,
            u64::from(u32::MAX),
        )?;
        for keys in [self.batch_keys, self.multi_keys] {
            in_range("--batch", keys as u64, 1, BATCH_MAX as u64)?;
        }
        self.validate_rates()?;
        if self.workloads.is_empty() {
            return Err(BenchError::out_of_range(
                "--workload",
                "empty",
                "at least one workload",
            ));
        }
        if !(0.0..=100.0).contains(&self.read_share_percent) {
            let found = self.read_share_percent;
            return Err(BenchError::out_of_range(
                "--read-share",
                found,
                "0 to 100 percent",
            ));
        }
        let inserts = self.workloads.iter().any(|workload| workload.inserts());
        if self.num.saturating_mul(1 + u64::from(inserts)) > keys.index_limit() {
            let expected = format!(
                "at most {} keys: there are no more {} keys of {} bytes (give a larger --key-size)",
                keys.index_limit(),
                self.keys,
                self.key_bytes
            );
            return Err(BenchError::out_of_range("--num", self.num, expected));
        }
        Ok(keys)
    }

    /// What is run, in order: each workload with each number of threads.
    #[must_use]
    pub fn steps(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        for workload in self.workloads.iter().copied() {
            let with = |threads| Step { workload, threads };
            if workload.is_fill() {
                steps.push(with(self.threads_max()));
            } else if workload.is_reopen() {
                steps.push(with(1));
            } else {
                steps.extend(self.threads.iter().copied().map(with));
            }
        }
        steps
    }

    /// The step at a place of [`Config::steps`].
    pub(crate) fn step(&self, place: usize) -> Result<Step, BenchError> {
        let steps = self.steps();
        steps.get(place).copied().ok_or_else(|| {
            let expected = format!("a place below {}", steps.len());
            BenchError::out_of_range("place of a workload", place, expected)
        })
    }

    /// The first place from `from` on at which the store is opened again, or the number of steps.
    #[must_use]
    pub fn next_reopen(&self, from: usize) -> usize {
        let steps = self.steps();
        let mut later = steps.iter().enumerate().skip(from);
        let found = later.find(|(_, step)| step.workload.is_reopen());
        found.map_or(steps.len(), |(place, _)| place)
    }

    /// The largest number of threads.
    #[must_use]
    pub fn threads_max(&self) -> usize {
        self.threads.iter().copied().max().unwrap_or(1)
    }

    fn validate_rates(&self) -> Result<(), BenchError> {
        let rates = [("--rate", self.rate), ("--writer-rate", self.writer_rate)];
        for (option, rate) in rates {
            in_range(option, rate.unwrap_or(1), 1, RATE_MAX)?;
        }
        if let (Some(rate), Some(_)) = (self.rate, &self.latency_limit) {
            let expected = "absent beside --latency-limit, which looks for the rate";
            return Err(BenchError::out_of_range("--rate", rate, expected));
        }
        let writes_beside = self.workloads.contains(&Workload::ReadWhileWriting);
        if self.writer_rate.is_some() && !writes_beside && !self.workloads.is_empty() {
            return Err(BenchError::out_of_range(
                "--writer-rate",
                "given",
                "readwhilewriting among the workloads: no other has a writer of its own (--rate \
                 holds the operations of a workload to a rate)",
            ));
        }
        Ok(())
    }

    /// The rate at which operations of a workload are offered.
    pub(crate) fn rate_of(&self, workload: Workload) -> Option<u64> {
        self.rate.filter(|_| !workload.is_whole())
    }

    /// Keys of one call of a workload.
    #[must_use]
    pub fn keys_per_call(&self, workload: Workload) -> usize {
        match workload {
            Workload::ReadRandom | Workload::ReadMissing => self.batch_keys,
            Workload::MultiReadRandom | Workload::FillBatch => self.multi_keys,
            _ => 1,
        }
    }
}

impl Default for Config {
    fn default() -> Config {
        Config::new()
    }
}

fn in_range(option: &'static str, found: u64, min: u64, max: u64) -> Result<(), BenchError> {
    if (min..=max).contains(&found) {
        return Ok(());
    }
    Err(BenchError::out_of_range(
        option,
        found,
        format!("{min} to {max}"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> Config {
        Config {
            workloads: vec![Workload::FillSeq],
            ..Config::new()
        }
    }

    #[test]
    fn the_defaults_with_a_workload_are_valid() {
        assert!(config().validate().is_ok());
        assert!(Config::new().validate().is_err());
    }

    #[test]
    fn workloads_are_run_with_each_number_of_threads_and_fills_once() {
        let config = Config {
            workloads: vec![Workload::FillSeq, Workload::Scan, Workload::Overwrite],
            threads: vec![2, 8, 1],
            ..config()
        };
        let steps: Vec<String> = config.steps().iter().map(Step::to_string).collect();
        assert_eq!(
            steps.join("; "),
            "fillseq, 8 threads; scan, 2 threads; scan, 8 threads; scan, 1 thread; \
             overwrite, 2 threads; overwrite, 8 threads; overwrite, 1 thread"
        );
    }

    #[test]
    fn each_nonsense_number_is_refused_by_its_option() {
        let broken: [(Config, &str); 14] = [
            (
                Config {
                    rate: Some(1000),
                    latency_limit: "p95=1ms".parse().ok(),
                    ..config()
                },
                "--latency-limit",
            ),
            (
                Config {
                    threads: Vec::new(),
                    ..config()
                },
                "--threads",
            ),
            (Config { num: 0, ..config() }, "--num"),
            (
                Config {
                    rate: Some(0),
                    ..config()
                },
                "--rate",
            ),
            (
                Config {
                    rate: Some(100_000_001),
                    ..config()
                },
                "--rate",
            ),
            (
                Config {
                    workloads: vec![Workload::ReadWhileWriting],
                    writer_rate: Some(0),
                    ..config()
                },
                "--writer-rate",
            ),
            (
                Config {
                    writer_rate: Some(5),
                    ..config()
                },
                "readwhilewriting",
            ),
            (
                Config {
                    threads: vec![1, 0],
                    ..config()
                },
                "--threads",
            ),
            (
                Config {
                    value_bytes: (256 << 20) + 1,
                    ..config()
                },
                "--value-size",
            ),
            (
                Config {
                    scan_entries: 0,
                    ..config()
                },
                "--scan-length",
            ),
            (
                Config {
                    batch_keys: 0,
                    ..config()
                },
                "--batch",
            ),
            (
                Config {
                    read_share_percent: 101.0,
                    ..config()
                },
                "--read-share",
            ),
            (
                Config {
                    read_share_percent: f64::NAN,
                    ..config()
                },
                "--read-share",
            ),
            (
                Config {
                    key_bytes: 2,
                    ..config()
                },
                "--key-size",
            ),
        ];
        for (config, option) in broken {
            let message = config.validate().unwrap_err().to_string();
            assert!(message.contains(option), "{option}: {message}");
        }
    }
}
