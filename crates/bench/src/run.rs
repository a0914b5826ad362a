//! Runs workloads: says what their threads are to do, and turns what they and the engine counted
//! into a row.
//!
//! Threads: those of a workload live inside one call, which calls the observer itself.

use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use crate::config::{Config, Step};
use crate::control::Control;
use crate::crew::{Account, Crew};
use crate::dispenser::Dispenser;
use crate::draw::Draw;
use crate::engine::Engine;
use crate::error::BenchError;
use crate::inserts::Inserts;
use crate::keys::KeyGen;
use crate::limit::LatencyLimit;
use crate::mix::mix2;
use crate::observer::Observer;
use crate::open_loop::Schedule;
use crate::permutation::Permutation;
use crate::row::{Measured, Reading, Row};
use crate::search::{LimitSearch, Search, Trial};
use crate::stall::StallClock;
use crate::values::ValueGen;
use crate::worker::Plan;
use crate::workload::Workload;

/// How long one trial of a search for a rate lasts where no duration is given.
const TRIAL: Duration = Duration::from_secs(5);

/// How the operations of a step are offered.
#[derive(Clone, Copy, Debug)]
struct Offer {
    /// Draws the keys.
    draw_seed: u64,
    rate: Option<u64>,
    duration: Option<Duration>,
}

/// A checked benchmark of one engine.
#[derive(Debug)]
pub struct Bench<'e, E: Engine + ?Sized> {
    engine: &'e E,
    config: Config,
    keys: KeyGen,
    values: ValueGen,
    draw: Draw,
    /// Keys that workloads added so far, which those after them read.
    inserts: Inserts,
}

impl<'e, E: Engine + ?Sized> Bench<'e, E> {
    /// Checks the configuration and prepares keys and values.
    ///
    /// # Errors
    /// What [`Config::validate`] refuses.
    pub fn new(engine: &'e E, config: Config) -> Result<Bench<'e, E>, BenchError> {
        let count = config.num;
        Bench::resume(engine, config, count)
    }

    /// The same on a store that already has `count` keys, as [`Bench::count`] told of it.
    ///
    /// # Errors
    /// As [`Bench::new`].
    pub fn resume(engine: &'e E, config: Config, count: u64) -> Result<Bench<'e, E>, BenchError> {
        let keys = config.validate()?;
        let values = ValueGen::new(config.value_bytes, config.seed);
        Ok(Bench {
            engine,
            keys,
            values,
            draw: Draw::new(config.num, config.distribution),
            inserts: Inserts::new(count),
            config,
        })
    }

    /// How many keys the store has, those included that workloads added.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.inserts.count()
    }

    /// Runs all steps in order.
    ///
    /// # Errors
    /// The first error of the engine.
    pub fn run_all(&self, observer: &mut dyn Observer) -> Result<Vec<Row>, BenchError> {
        let places = 0..self.config.steps().len();
        places.map(|place| self.run(place, observer)).collect()
    }

    /// Runs the step at `place` of [`Config::steps`]. The place takes part in drawing its keys, so
    /// that two runs of one workload differ.
    ///
    /// # Errors
    /// The first error of the engine; no step at that place.
    pub fn run(&self, place: usize, observer: &mut dyn Observer) -> Result<Row, BenchError> {
        let step = self.config.step(place)?;
        if step.workload.is_reopen() {
            let expected = "a workload that the owner of the engine need not do: see Reopening";
            return Err(BenchError::out_of_range(
                "workload",
                step.workload,
                expected,
            ));
        }
        let config = &self.config;
        let is_whole = step.workload.is_whole();
        let offer = Offer {
            draw_seed: mix2(config.seed, place as u64 + 1),
            rate: config.rate_of(step.workload),
            duration: config.duration.filter(|_| !is_whole),
        };
        match config.latency_limit.as_ref().filter(|_| !is_whole) {
            Some(limit) => self.search(step, offer, limit, observer),
            None => self.once(step, offer, observer),
        }
    }

    /// Runs a step at rate after rate, and gives the row of the highest at which the limit holds.
    fn search(
        &self,
        step: Step,
        offer: Offer,
        limit: &LatencyLimit,
        observer: &mut dyn Observer,
    ) -> Result<Row, BenchError> {
        let duration = offer.duration.unwrap_or(TRIAL);
        let mut search = Search::new(limit, duration.as_secs_f64());
        let (mut trials, mut best, mut last) = (Vec::new(), None, None);
        while let Some(rate) = search.next() {
            let offer = Offer {
                draw_seed: mix2(offer.draw_seed, trials.len() as u64),
                rate: Some(rate),
                duration: Some(duration),
            };
            let row = self.once(step, offer, observer)?;
            let Some(load) = &row.open_loop else {
                break;
            };
            let trial = Trial::of(load, row.calls, limit);
            observer.tried(step.workload, &trial);
            search.tried(rate, trial.holds);
            trials.push(trial);
            if trial.holds {
                best = Some((rate, row));
            } else {
                last = Some(row);
            }
        }
        let found_rate = best.as_ref().map(|(rate, _)| *rate);
        let row = best.map(|(_, row)| row).or(last);
        let mut row =
            row.ok_or_else(|| BenchError::Internal("a search tried no rate".to_owned()))?;
        row.search = Some(LimitSearch {
            limit: limit.to_string(),
            found_rate,
            trials,
        });
        Ok(row)
    }

    /// Runs a step once.
    fn once(
        &self,
        step: Step,
        offer: Offer,
        observer: &mut dyn Observer,
    ) -> Result<Row, BenchError> {
        let workload = step.workload;
        let control = self.config.control_dir.as_deref();
        let crew = Crew {
            threads: step.threads,
            writer: workload == Workload::ReadWhileWriting,
            control: control.map(Control::new).transpose()?,
        };
        let before = Reading::take(self.engine)?;
        let plan = OnceLock::new();
        let make = |start| self.plan(step, offer, start);
        let account = crew.work(&plan, make, observer)?;
        let plan = plan
            .into_inner()
            .ok_or_else(|| BenchError::Internal("a workload ran without a plan".to_owned()))?;
        let settle_begin = Instant::now();
        observer.settling(workload);
        let settle = |source| BenchError::Engine {
            workload: format!("{workload}: sync"),
            source,
        };
        self.engine.settle().map_err(settle)?;
        let settled = settle_begin.elapsed();
        let after = Reading::take(self.engine)?;
        let measured = measured(&plan, account, settled, before, after);
        Row::new(self.engine.name(), step, &self.config, &measured)
    }

    fn plan(&self, step: Step, offer: Offer, start: Instant) -> Plan<'_, E> {
        let (config, workload) = (&self.config, step.workload);
        let Offer {
            draw_seed,
            rate,
            duration,
        } = offer;
        let total = match duration {
            Some(_) => None,
            None => Some(config.num),
        };
        let per_call = config.keys_per_call(workload);
        let dispenser = if rate.is_some() {
            Dispenser::one_call(total, per_call)
        } else {
            Dispenser::new(total, step.threads, per_call)
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
            draw: &self.draw,
            inserts: &self.inserts,
            background_stop: AtomicBool::new(false),
            deadline: duration.and_then(|duration| start.checked_add(duration)),
            stall: StallClock::new(start),
            done: AtomicU64::new(0),
        }
    }
}

/// All that was measured, with how the loads went that were offered at a rate.
fn measured<E: Engine + ?Sized>(
    plan: &Plan<'_, E>,
    account: Account,
    settled: Duration,
    before: Reading,
    after: Reading,
) -> Measured {
    let Account {
        front,
        background,
        control,
        used,
    } = account;
    // In the open loop the wait for what was next due belongs to the time.
    let until = plan.deadline.filter(|_| plan.schedule.is_some());
    let end = until.map_or(front.end, |until| front.end.max(until));
    let elapsed = end.saturating_duration_since(plan.stall.start());
    let open_loop = plan.schedule.as_ref().map(|schedule| {
        let ops = front.read_ops + front.write_ops;
        schedule.outcome(ops, &front.waits, elapsed, until)
    });
    let writer_loop = plan.writer_schedule.as_ref().map(|schedule| {
        let writer = &background;
        schedule.outcome(writer.write_ops, &writer.waits, elapsed, Some(end))
    });
    Measured {
        front,
        background,
        elapsed,
        control,
        used,
        open_loop,
        writer_loop,
        settled,
        before,
        after,
    }
}
