//! Runs workloads: starts the threads, watches them, and turns what they and the engine counted
//! into a row.
//!
//! Threads: the workers live inside one call; the calling thread waits for them, calls the
//! observer, and joins them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use crate::config::Config;
use crate::control::Control;
use crate::dispenser::Dispenser;
use crate::distribution::{Latest, Scrambled};
use crate::engine::Engine;
use crate::error::BenchError;
use crate::inserts::Inserts;
use crate::keys::KeyGen;
use crate::mix::mix2;
use crate::open_loop::Schedule;
use crate::permutation::Permutation;
use crate::row::{Measured, Reading, Row};
use crate::stall::StallClock;
use crate::tally::Tally;
use crate::values::ValueGen;
use crate::worker::{Plan, Worker};
use crate::workload::Workload;

/// How often an observer is told about progress.
const PROGRESS_EVERY: Duration = Duration::from_millis(100);

/// How far a workload is.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// The workload.
    pub workload: Workload,
    /// Operations done so far.
    pub ops: u64,
    /// Operations in all; `None` when a time ends the workload.
    pub total_ops: Option<u64>,
    /// Time since the workload began.
    pub elapsed: Duration,
}

/// Is told how a workload goes on, in the thread that runs the benchmark.
pub trait Observer {
    /// About ten times a second while a workload runs.
    fn progress(&mut self, progress: &Progress);
    /// The operations are done; the engine is made to settle.
    fn settling(&mut self, workload: Workload);
}

/// An observer that does nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Observer for Silent {
    fn progress(&mut self, _: &Progress) {}
    fn settling(&mut self, _: Workload) {}
}

/// A checked benchmark of one engine.
#[derive(Debug)]
pub struct Bench<'e, E: Engine + ?Sized> {
    engine: &'e E,
    config: Config,
    keys: KeyGen,
    values: ValueGen,
    latest: Latest,
    /// Keys that workloads added so far, which those after them read.
    inserts: Inserts,
}

impl<'e, E: Engine + ?Sized> Bench<'e, E> {
    /// Checks the configuration and prepares keys and values.
    ///
    /// # Errors
    /// What [`Config::validate`] refuses.
    pub fn new(engine: &'e E, config: Config) -> Result<Bench<'e, E>, BenchError> {
        let keys = config.validate()?;
        let values = ValueGen::new(config.value_bytes, config.seed);
        let (latest, inserts) = (Latest::new(config.num), Inserts::new(config.num));
        Ok(Bench {
            engine,
            config,
            keys,
            values,
            latest,
            inserts,
        })
    }

    /// Runs all workloads in order.
    ///
    /// # Errors
    /// The first error of the engine.
    pub fn run_all(&self, observer: &mut dyn Observer) -> Result<Vec<Row>, BenchError> {
        let places = 0..self.config.workloads.len();
        places.map(|place| self.run(place, observer)).collect()
    }

    /// Runs the workload at `place` in the configured list. The place takes part in drawing its
    /// keys, so that two runs of one workload in a list differ.
    ///
    /// # Errors
    /// The first error of the engine; no workload at that place.
    pub fn run(&self, place: usize, observer: &mut dyn Observer) -> Result<Row, BenchError> {
        let Some(workload) = self.config.workloads.get(place).copied() else {
            let expected = format!("a place below {}", self.config.workloads.len());
            return Err(BenchError::out_of_range(
                "place of a workload",
                place,
                expected,
            ));
        };
        let before = Reading::take(self.engine)?;
        let start = Instant::now();
        let plan = self.plan(workload, place as u64, start);
        let (front, background, control) = work(&plan, start, observer)?;
        let settle_begin = Instant::now();
        observer.settling(workload);
        let settle = |source| BenchError::Engine {
            workload: format!("{workload}: sync"),
            source,
        };
        self.engine.settle().map_err(settle)?;
        let settled = settle_begin.elapsed();
        let after = Reading::take(self.engine)?;
        // In the open loop the wait for what was next due belongs to the time.
        let until = plan.deadline.filter(|_| plan.schedule.is_some());
        let end = until.map_or(front.end, |until| front.end.max(until));
        let elapsed = end.saturating_duration_since(start);
        let open_loop = plan.schedule.as_ref().map(|schedule| {
            let ops = front.read_ops + front.write_ops;
            schedule.outcome(ops, &front.waits, elapsed, until)
        });
        let writer_loop = plan.writer_schedule.as_ref().map(|schedule| {
            let writer = &background;
            schedule.outcome(writer.write_ops, &writer.waits, elapsed, Some(end))
        });
        let measured = Measured {
            front,
            background,
            elapsed,
            control,
            open_loop,
            writer_loop,
            settled,
            before,
            after,
        };
        Row::new(self.engine.name(), workload, &self.config, &measured)
    }

    fn plan(&self, workload: Workload, place: u64, start: Instant) -> Plan<'_, E> {
        let config = &self.config;
        let duration = config.duration.filter(|_| !workload.is_fill());
        let total = if duration.is_some() {
            None
        } else {
            Some(config.num)
        };
        let per_call = config.keys_per_call(workload);
        let draw_seed = mix2(config.seed, place + 1);
        let rate = config.rate_of(workload);
        let dispenser = if rate.is_some() {
            Dispenser::one_call(total, per_call)
        } else {
            Dispenser::new(total, config.threads, per_call)
        };
        let has_writer = workload == Workload::ReadWhileWriting;
        let writer_rate = config.writer_rate.filter(|_| has_writer);
        Plan {
            engine: self.engine,
            config,
            keys: &self.keys,
            values: &self.values,
            workload,
            order: Permutation::new(config.num, config.seed),
            draw_seed,
            dispenser,
            schedule: rate.map(|rate| Schedule::new(start, rate, mix2(draw_seed, 1))),
            writer_schedule: writer_rate.map(|rate| Schedule::new(start, rate, mix2(draw_seed, 2))),
            hot: Scrambled::new(config.num),
            latest: &self.latest,
            inserts: &self.inserts,
            background_stop: AtomicBool::new(false),
            deadline: duration.and_then(|duration| start.checked_add(duration)),
            stall: StallClock::new(start),
            done: AtomicU64::new(0),
        }
    }
}

/// Runs the threads of a workload: the accounts of those asked for, merged, and of the background
/// writer, and the longest gap of the control loop.
fn work<E: Engine + ?Sized>(
    plan: &Plan<'_, E>,
    start: Instant,
    observer: &mut dyn Observer,
) -> Result<(Tally, Tally, Option<Duration>), BenchError> {
    let control = plan
        .config
        .control_dir
        .as_deref()
        .map(Control::new)
        .transpose()?;
    let control = control.as_ref();
    let caller = thread::current();
    let caller = &caller;
    thread::scope(|scope| {
        let workers: Vec<_> = (0..plan.config.threads)
            .map(|_| {
                scope.spawn(move || {
                    let result = Worker::new(plan).and_then(Worker::run);
                    caller.unpark();
                    result
                })
            })
            .collect();
        let writer = (plan.workload == Workload::ReadWhileWriting)
            .then(|| scope.spawn(|| Worker::new(plan).and_then(Worker::run_background)));
        let control = control.map(|control| scope.spawn(|| control.run(&plan.background_stop)));
        watch(plan, &workers, start, observer);
        plan.background_stop.store(true, Ordering::Relaxed);
        let front = join(workers, start);
        let background = join(writer.into_iter().collect(), start);
        let gap = control.map(|thread| {
            let panicked = || BenchError::Internal("the control loop panicked".to_owned());
            thread.join().map_err(|_| panicked())?
        });
        Ok((front?, background?, gap.transpose()?))
    })
}

fn watch<E: Engine + ?Sized>(
    plan: &Plan<'_, E>,
    workers: &[ScopedJoinHandle<'_, Result<Tally, BenchError>>],
    start: Instant,
    observer: &mut dyn Observer,
) {
    let mut told = start;
    while !workers.iter().all(ScopedJoinHandle::is_finished) {
        thread::park_timeout(PROGRESS_EVERY);
        if told.elapsed() < PROGRESS_EVERY {
            // A worker that says it is done is finished a moment later.
            thread::yield_now();
            continue;
        }
        told = Instant::now();
        observer.progress(&Progress {
            workload: plan.workload,
            ops: plan.done.load(Ordering::Relaxed),
            total_ops: plan.deadline.is_none().then_some(plan.config.num),
            elapsed: start.elapsed(),
        });
    }
}

fn join(
    handles: Vec<ScopedJoinHandle<'_, Result<Tally, BenchError>>>,
    start: Instant,
) -> Result<Tally, BenchError> {
    let mut sum = Tally::new(start)?;
    let mut first_error = None;
    for handle in handles {
        let result = handle.join().unwrap_or_else(|_| {
            Err(BenchError::Internal(
                "a thread of the workload panicked".to_owned(),
            ))
        });
        match result {
            Ok(tally) => sum.merge(&tally)?,
            Err(error) => first_error = first_error.or(Some(error)),
        }
    }
    first_error.map_or(Ok(sum), Err)
}
