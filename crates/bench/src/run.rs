//! Runs workloads: says what their threads are to do, and turns what they and the engine counted
//! into a row.
//!
//! Threads: those of a workload live inside one call, which calls the observer itself.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
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
use crate::warm_up::{WarmUp, WarmedUp};
use crate::worker::Plan;
use crate::workload::Workload;

/// How long one trial of a search for a rate lasts where no duration is given.
const TRIAL: Duration = Duration::from_secs(5);
/// A rate that is not kept up with is tried lower, so often at most.
const LOWER_RATES: usize = 12;
/// The next lower rate, as a share of the one before.
const LOWER: f64 = 0.85;

/// How the operations of a step are offered.
#[derive(Clone, Copy, Debug)]
struct Offer {
    /// Draws the keys.
    draw_seed: u64,
    rate: Option<u64>,
    duration: Option<Duration>,
    /// Keys that are added have indices below this.
    insert_limit: u64,
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
    /// The most that one workload adds.
    inserts_max: u64,
    /// How long a workload is run unmeasured before it is measured, at most.
    warm_up_max: Option<Duration>,
    /// The rates of the first, second, ... step that is no fill.
    rates: Vec<u64>,
    /// The user wants no more.
    interrupted: Option<&'e AtomicBool>,
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
            inserts_max: u64::MAX,
            warm_up_max: None,
            rates: Vec::new(),
            interrupted: None,
            config,
        })
    }

    /// Has each workload add so many keys at most, as the store has room for; further inserts write keys
    /// again that were added before, which the row tells. Without this there is no bound.
    #[must_use]
    pub fn inserting_at_most(self, keys: u64) -> Bench<'e, E> {
        Bench {
            inserts_max: keys,
            ..self
        }
    }

    /// Has each workload that draws keys run unmeasured before it is measured, until what it fetches from
    /// storage for each operation no longer falls, for `at_most` so long: before the first trial, where a
    /// rate is looked for. Without this nothing is warmed up.
    #[must_use]
    pub fn warming_up(self, at_most: Duration) -> Bench<'e, E> {
        Bench {
            warm_up_max: Some(at_most),
            ..self
        }
    }

    /// Offers the n-th step that draws keys the n-th of these rates, instead of the configuration's; an
    /// engine that does not keep up is offered less, until it does or has been offered less 12 times.
    #[must_use]
    pub fn offering(self, rates: Vec<u64>) -> Bench<'e, E> {
        Bench { rates, ..self }
    }

    /// Ends the workload that is under way when this becomes true, within a tenth of a second and the call
    /// that takes the longest. Its row tells of what was done until then, see [`Row::cut_short`].
    #[must_use]
    pub fn until(self, interrupted: &'e AtomicBool) -> Bench<'e, E> {
        Bench {
            interrupted: Some(interrupted),
            ..self
        }
    }

    fn is_interrupted(&self) -> bool {
        let interrupted = self.interrupted;
        interrupted.is_some_and(|interrupted| interrupted.load(Ordering::Relaxed))
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
            insert_limit: self.count().saturating_add(self.inserts_max),
        };
        let at_most = self.warm_up_max.filter(|_| !is_whole);
        let warm_up = at_most.map(|at_most| self.warm_up(step, offer, at_most, observer));
        let warm_up = warm_up.transpose()?;
        let row = match config.latency_limit.as_ref().filter(|_| !is_whole) {
            Some(limit) => self.search(step, offer, limit, observer),
            None => match self.rate_at(place).filter(|_| !is_whole) {
                Some(rate) => self.held(step, offer, rate, observer),
                None => self.once(step, offer, observer),
            },
        };
        Ok(Row { warm_up, ..row? })
    }

    /// The rate of a step among those given for all, see [`Bench::offering`].
    fn rate_at(&self, place: usize) -> Option<u64> {
        let steps = self.config.steps();
        let before = steps.iter().take(place);
        let number = before.filter(|step| !step.workload.is_whole()).count();
        self.rates.get(number).copied()
    }

    /// Runs a step at a rate, or at the nearest lower one that the engine keeps up with.
    fn held(
        &self,
        step: Step,
        offer: Offer,
        rate: u64,
        observer: &mut dyn Observer,
    ) -> Result<Row, BenchError> {
        let duration = Some(offer.duration.unwrap_or(TRIAL));
        let (mut rate, mut lower) = (rate.max(1), 0);
        loop {
            let offer = Offer {
                rate: Some(rate),
                duration,
                ..offer
            };
            let row = self.once(step, offer, observer)?;
            let keeps_up = row.open_loop.is_none_or(|load| load.keeps_up);
            if keeps_up || lower == LOWER_RATES || rate == 1 || row.cut_short {
                return Ok(row);
            }
            lower += 1;
            rate = ((rate as f64 * LOWER) as u64).max(1);
        }
    }

    /// Runs a step unmeasured, each thread asking again as soon as it was answered.
    fn warm_up(
        &self,
        step: Step,
        offer: Offer,
        at_most: Duration,
        observer: &mut dyn Observer,
    ) -> Result<WarmedUp, BenchError> {
        let (begin, mut seen) = (Instant::now(), WarmUp::new());
        let window = WarmUp::window(offer.duration.unwrap_or(TRIAL), at_most);
        for number in 0u64.. {
            let offer = Offer {
                draw_seed: mix2(offer.draw_seed, !number),
                rate: None,
                duration: Some(window),
                ..offer
            };
            let row = self.once(step, offer, observer)?;
            let steady = seen.is_steady(row.kernel_read_bytes as f64 / row.ops.max(1) as f64);
            if steady || begin.elapsed() >= at_most || row.cut_short {
                let seconds = begin.elapsed().as_secs_f64();
                return Ok(WarmedUp { seconds, steady });
            }
        }
        Err(BenchError::Internal("a warm-up never ended".to_owned()))
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
                ..offer
            };
            let row = self.once(step, offer, observer)?;
            let Some(load) = row.open_loop.as_ref().filter(|_| !row.cut_short) else {
                // What was not found by then is not told as found.
                last = last.or(Some(row));
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
        row.cut_short |= self.is_interrupted();
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
        let cut_short = self.is_interrupted();
        let plan = plan
            .into_inner()
            .ok_or_else(|| BenchError::Internal("a workload ran without a plan".to_owned()))?;
        let settle_begin = Instant::now();
        observer.settling(workload);
        let settle = |source| BenchError::Engine {
            workload: format!("{workload}: sync"),
            source,
        };
        // Who interrupts does not want to wait for what is still to be done in the background.
        let done = if cut_short {
            self.engine.sync()
        } else {
            self.engine.settle()
        };
        done.map_err(settle)?;
        let settled = settle_begin.elapsed();
        let after = Reading::take(self.engine)?;
        let measured = measured(&plan, account, settled, before, after);
        let row = Row::new(self.engine.name(), step, &self.config, &measured)?;
        Ok(Row { cut_short, ..row })
    }

    fn plan(&self, step: Step, offer: Offer, start: Instant) -> Plan<'_, E> {
        let (config, workload) = (&self.config, step.workload);
        let Offer {
            draw_seed,
            rate,
            duration,
            insert_limit,
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
            insert_limit,
            interrupted: self.interrupted,
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
