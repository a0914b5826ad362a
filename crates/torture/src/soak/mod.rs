//! A soak: a store under mixed load for as long as one likes, verified at every read, and watched
//! from outside. Does memory stay within its budget, are file descriptors bounded, does anything
//! grow, does a writer ever wait for long?
//!
//! Threads: those of the load, each with keys of its own that it knows exactly; one that keeps the
//! store (checkpoints, backups, reopening); the caller's takes the samples.

mod gate;
mod keeper;
mod model;
mod report;
mod restored;
mod run;
mod sample;
mod value;
mod verdict;
mod worker;

pub use restored::restore_and_verify;
pub use sample::Sample;
pub use verdict::Limits;

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use heliox::Options;

use crate::failure::{Failure, Result};
use model::{KEYSPACES, STATE_BYTES};
use run::{Kind, Run, KINDS};
use sample::{peak_rss_bytes, Series};
use worker::Worker;

/// Bytes of a record of the load, roughly: of it follows how many keys there are.
const RECORD_BYTES: u64 = 600;
/// Of so many keys, five have a value.
const KEYS_PER_FIVE: u64 = 7;
/// Memory that is not the store's: code, stacks, buffers of operations, and what the allocator keeps, which
/// is most: with large pages it held 150 MB more than the 200 MB that were in use at the peak.
const PROGRAM_BYTES: u64 = 112 << 20;
const THREAD_BYTES: u64 = 12 << 20;
/// File descriptors and threads beside those of the load.
const FDS: u64 = 64;
const THREADS: u64 = 24;
/// Samples of a run, roughly, and how far apart they are at least and at most.
const SAMPLES: u32 = 720;
const SAMPLE_MIN: Duration = Duration::from_millis(50);
const SAMPLE_MAX: Duration = Duration::from_secs(5);

/// Defects of a run that can be planted, to see that its limits are watched.
pub const PLANTS: [&str; 3] = ["leak-fd", "leak-memory", "wrong-model"];

/// What to do.
#[derive(Clone, Debug)]
pub struct SoakPlan {
    /// This program, which knows the command `soak-restore`.
    pub program: PathBuf,
    /// Where store, backups and the time series are kept; there must be no store yet.
    pub dir: PathBuf,
    /// How long the load lasts, once the store is filled.
    pub duration: Duration,
    /// The store's memory budget.
    pub memory_bytes: u64,
    /// The store's capacity.
    pub capacity_bytes: u64,
    /// How full the load keeps it, in percent of the capacity.
    pub full_percent: u64,
    /// Threads of the load.
    pub threads: u16,
    /// Decides what the threads do.
    pub seed: u64,
    /// Longest time without an acknowledged write.
    pub gap: Duration,
    /// By how much a median may grow, in percent.
    pub growth_percent: u64,
    /// One of [`PLANTS`].
    pub plant: Option<String>,
}

impl SoakPlan {
    fn options(&self) -> Options {
        Options::new()
            .capacity_bytes(self.capacity_bytes)
            .memory_budget_bytes(self.memory_bytes)
    }

    /// What the store may need for a thread's keys, roughly.
    fn part_bytes(&self) -> u64 {
        self.capacity_bytes * self.full_percent / 100 / u64::from(self.threads.max(1))
    }

    /// Keys of a thread in a keyspace.
    fn slots(&self) -> u32 {
        let keys = self.part_bytes() / RECORD_BYTES * KEYS_PER_FIVE / 5;
        (keys / KEYSPACES.len() as u64).clamp(100, 99_999_999) as u32
    }

    fn plants(&self, name: &str) -> bool {
        self.plant.as_deref() == Some(name)
    }

    /// What the load itself remembers.
    fn model_bytes(&self) -> u64 {
        let keys = u64::from(self.slots()) * KEYSPACES.len() as u64;
        keys * STATE_BYTES * u64::from(self.threads)
    }

    /// What the figures may be.
    #[must_use]
    pub fn limits(&self) -> Limits {
        let threads = u64::from(self.threads);
        Limits {
            rss_bytes: self.memory_bytes
                + self.model_bytes()
                + PROGRAM_BYTES
                + threads * THREAD_BYTES,
            budget_bytes: self.memory_bytes,
            fds: FDS,
            threads: threads + THREADS,
            gap_ms: self.gap.as_millis() as u64,
            store_files_bytes: self.capacity_bytes + (1 << 20),
            growth_percent: self.growth_percent,
        }
    }
}

/// What became of it.
#[derive(Clone, Debug)]
pub struct SoakReport {
    /// What was planned.
    pub plan: SoakPlan,
    /// What the figures could be at most.
    pub limits: Limits,
    /// The samples, in the order of time.
    pub samples: Vec<Sample>,
    /// How often what was done, by name.
    pub counts: Vec<(&'static str, u64)>,
    /// How long filling and load took, in seconds.
    pub fill_seconds: f64,
    /// How long the load took, in seconds.
    pub seconds: f64,
    /// Peak of the resident memory.
    pub peak_rss_bytes: u64,
    /// Longest time that the store was closed and opened again, in milliseconds.
    pub longest_reopen_ms: u64,
    /// Records that the offline check read at the end.
    pub checked_records: u64,
    /// Everything that does not hold, in words.
    pub violations: Vec<String>,
}

/// Soaks a store. Calls `observe` with the share of the time that is over and the latest sample.
///
/// # Errors
/// What kept the run from being done. A promise that does not hold is in the report.
pub fn run(plan: &SoakPlan, observe: &mut dyn FnMut(f64, &Sample)) -> Result<SoakReport> {
    if let Some(name) = plan.plant.as_deref().filter(|name| !PLANTS.contains(name)) {
        return Err(Failure::Other(format!(
            "no defect {name} to plant; there are: {}",
            PLANTS.join(", ")
        )));
    }
    let run = Run::new(plan.clone());
    let made = std::fs::create_dir_all(&plan.dir);
    made.map_err(Failure::system(plan.dir.display().to_string()))?;
    if run.store_dir().exists() {
        let words = format!(
            "{}: there is something already; choose another directory",
            run.store_dir().display()
        );
        return Err(Failure::Other(words));
    }
    keeper::open(&run)?;
    let workers: Vec<Mutex<Worker<'_>>> = (0..plan.threads)
        .map(|thread| Mutex::new(Worker::new(&run, thread)))
        .collect();
    let begun = Instant::now();
    together(&run, &workers, Worker::fill);
    let fill_seconds = begun.elapsed().as_secs_f64();
    run.forget_gaps();
    let begun = Instant::now();
    let samples = load(&run, &workers, observe)?;
    let seconds = begun.elapsed().as_secs_f64();
    let counts = run.counts();
    let peak_rss_bytes = peak_rss_bytes()?;
    together(&run, &workers, Worker::verify_all);
    drop(workers);
    if let Err(failure) = keeper::close(&run, true) {
        run.violation(failure.to_string());
    }
    let checked = restored::check(&run.store_dir(), &plan.options());
    if let Err(failure) = &checked {
        run.violation(failure.to_string());
    }
    let limits = plan.limits();
    let violations = [run.violations(), verdict::judge(&samples, &limits)].concat();
    Ok(SoakReport {
        plan: plan.clone(),
        limits,
        samples,
        counts: KINDS.iter().copied().zip(counts).collect(),
        fill_seconds,
        seconds,
        peak_rss_bytes,
        longest_reopen_ms: run.longest_closed_ns.load(Ordering::Relaxed) / 1_000_000,
        checked_records: checked.unwrap_or(0),
        violations,
    })
}

/// All threads of the load do this; what goes wrong is noted.
fn together<'a>(run: &Run, workers: &[Mutex<Worker<'a>>], what: fn(&mut Worker<'a>) -> Result<()>) {
    std::thread::scope(|scope| {
        for worker in workers {
            scope.spawn(move || {
                let mut worker = worker.lock().unwrap_or_else(PoisonError::into_inner);
                note(run, what(&mut worker));
            });
        }
    });
}

fn note(run: &Run, outcome: Result<()>) {
    if let Err(failure) = outcome {
        run.violation(failure.to_string());
    }
}

fn load(
    run: &Run,
    workers: &[Mutex<Worker<'_>>],
    observe: &mut dyn FnMut(f64, &Sample),
) -> Result<Vec<Sample>> {
    std::thread::scope(|scope| {
        for worker in workers {
            scope.spawn(move || {
                let mut worker = worker.lock().unwrap_or_else(PoisonError::into_inner);
                note(run, worker.work());
                run.gate.leave();
            });
        }
        scope.spawn(move || note(run, keeper::keep(run)));
        let samples = watch(run, observe);
        run.stop();
        samples
    })
}

/// Takes samples until the time is over or something went wrong.
fn watch(run: &Run, observe: &mut dyn FnMut(f64, &Sample)) -> Result<Vec<Sample>> {
    let (whole, begun) = (run.plan.duration, Instant::now());
    let every = (whole / SAMPLES).clamp(SAMPLE_MIN, SAMPLE_MAX);
    let mut series = Series::create(&run.plan.dir.join("series.csv"))?;
    let (mut samples, mut leaked) = (Vec::new(), Vec::new());
    while begun.elapsed() < whole && !run.is_stopped() {
        std::thread::sleep(every);
        if run.plan.plants("leak-fd") {
            let path = "/dev/null";
            std::mem::forget(std::fs::File::open(path).map_err(Failure::system(path))?);
        }
        if run.plan.plants("leak-memory") {
            leaked.push(vec![1_u8; 4 << 20]);
        }
        let mut sample = sample(run)?;
        sample.at_ms = begun.elapsed().as_millis() as u64;
        series.add(&sample)?;
        observe(begun.elapsed().as_secs_f64() / whole.as_secs_f64(), &sample);
        samples.push(sample);
    }
    drop(leaked);
    Ok(samples)
}

fn sample(run: &Run) -> Result<Sample> {
    let mut sample = Sample::of_system(&run.store_dir(), &run.set_dir())?;
    // The store is not held on to: it could not be closed meanwhile.
    let store = run.store.read().unwrap_or_else(PoisonError::into_inner);
    if let Some(store) = store.as_ref() {
        sample = sample.with_store(&store.stats());
    }
    drop(store);
    let counts = run.counts();
    let passive = [Kind::ScannedItems, Kind::SnapshotTooOld, Kind::SnapshotRead];
    let all: u64 = counts.iter().sum();
    sample.operations = all
        - passive
            .iter()
            .filter_map(|kind| counts.get(*kind as usize))
            .sum::<u64>();
    sample.longest_gap_ms = run.longest_gap_ms();
    Ok(sample)
}
