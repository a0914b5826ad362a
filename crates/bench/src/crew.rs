//! The threads of a workload: starts them all, lets them begin together, watches them, and gathers
//! their accounts.
//!
//! Threads: they live inside one call; the calling thread waits for them, calls the observer, and
//! joins them.

use std::sync::atomic::Ordering;
use std::sync::OnceLock;
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use crate::control::Control;
use crate::engine::Engine;
use crate::error::BenchError;
use crate::gate::Gate;
use crate::observer::{Observer, Progress};
use crate::open_loop::Schedule;
use crate::tally::Tally;
use crate::usage::{UsageSeries, Used};
use crate::worker::{Plan, Worker};

/// How often an observer is told about progress.
const PROGRESS_EVERY: Duration = Duration::from_millis(100);

type Handle<'scope> = ScopedJoinHandle<'scope, Result<Tally, BenchError>>;

/// Which threads a workload has.
#[derive(Debug)]
pub(crate) struct Crew {
    /// Those asked for.
    pub(crate) threads: usize,
    /// The further one of `readwhilewriting`.
    pub(crate) writer: bool,
    /// The control loop.
    pub(crate) control: Option<Control>,
}

/// What they have done.
#[derive(Debug)]
pub(crate) struct Account {
    /// The threads asked for.
    pub(crate) front: Tally,
    /// The further writer.
    pub(crate) background: Tally,
    /// The longest gap of the control loop.
    pub(crate) control: Option<Duration>,
    /// What the process used, second by second.
    pub(crate) used: Vec<Used>,
}

impl Crew {
    /// Works: when all threads are there, `make` puts into `plan` what they do from then on.
    pub(crate) fn work<'p, E: Engine + ?Sized>(
        &self,
        plan: &OnceLock<Plan<'p, E>>,
        make: impl FnOnce(Instant) -> Plan<'p, E>,
        observer: &mut dyn Observer,
    ) -> Result<Account, BenchError> {
        let gate = Gate::default();
        let (gate, caller) = (&gate, &thread::current());
        thread::scope(|scope| {
            let wanted = self.threads + usize::from(self.writer);
            let mut workers: Vec<Handle<'_>> = Vec::with_capacity(wanted);
            for number in 0..wanted {
                let further = number >= self.threads;
                let body = move || {
                    let result = enter(gate, plan, further);
                    caller.unpark();
                    result
                };
                match thread::Builder::new().spawn_scoped(scope, body) {
                    Ok(handle) => workers.push(handle),
                    Err(source) => {
                        gate.open(false);
                        return Err(BenchError::Threads {
                            started: number,
                            wanted,
                            source,
                        });
                    }
                }
            }
            gate.wait_for(wanted);
            let start = Instant::now();
            let plan = plan.get_or_init(|| make(start));
            gate.open(true);
            let stop = &plan.background_stop;
            let control = self.control.as_ref();
            let control = control.map(|control| scope.spawn(|| control.run(stop)));
            let writer = workers.split_off(self.threads.min(workers.len()));
            let used = watch(plan, &workers, start, observer);
            stop.store(true, Ordering::Relaxed);
            let front = join(workers, start);
            let background = join(writer, start);
            let gap = control.map(|thread| {
                let panicked = || BenchError::Internal("the control loop panicked".to_owned());
                thread.join().map_err(|_| panicked())?
            });
            Ok(Account {
                front: front?,
                background: background?,
                control: gap.transpose()?,
                used: used?,
            })
        })
    }
}

/// One thread, from the gate on.
fn enter<E: Engine + ?Sized>(
    gate: &Gate,
    plan: &OnceLock<Plan<'_, E>>,
    further: bool,
) -> Result<Tally, BenchError> {
    let work = gate.pass();
    let Some(plan) = plan.get().filter(|_| work) else {
        return Tally::new(Instant::now());
    };
    let worker = Worker::new(plan)?;
    if further {
        worker.run_background()
    } else {
        worker.run()
    }
}

fn watch<E: Engine + ?Sized>(
    plan: &Plan<'_, E>,
    workers: &[Handle<'_>],
    start: Instant,
    observer: &mut dyn Observer,
) -> Result<Vec<Used>, BenchError> {
    let mut told = start;
    let mut used = UsageSeries::begin();
    while !workers.iter().all(ScopedJoinHandle::is_finished) {
        let left = used.as_ref().map(|used| used.left(start.elapsed()));
        thread::park_timeout(left.unwrap_or(PROGRESS_EVERY).min(PROGRESS_EVERY));
        used = used.and_then(|mut used| used.look(start.elapsed()).map(|()| used));
        let interrupted = plan.interrupted;
        if interrupted.is_some_and(|interrupted| interrupted.load(Ordering::Relaxed)) {
            plan.stop();
        }
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
            rate: plan.schedule.as_ref().map(Schedule::rate),
            elapsed: start.elapsed(),
        });
    }
    used?.end(start.elapsed())
}

fn join(handles: Vec<Handle<'_>>, start: Instant) -> Result<Tally, BenchError> {
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
