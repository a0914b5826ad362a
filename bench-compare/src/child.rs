//! Measures one engine in this process, which is there for that alone, so that its memory and its
//! I/O are the engine's.
//!
//! Threads: the workers of the workload, and for durability `bounded` one that syncs.

use std::io::Write;
use std::ops::Range;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use heliox_bench::{
    forget_pages, row_to_json, thousands, Bench, Config, Counters, DurabilityMode, Engine,
    EngineError, Observer, Progress, Reopening, Row, Seen, Trial, Workload,
};
use rustix::process::{set_parent_process_death_signal, Signal};
use serde_json::{Map, Value};

use crate::args::RunArgs;
use crate::disk;
use crate::engines::{self, Kind, Setup};
use crate::limit;
use crate::message::Message;

/// How late a write is durable under `bounded`; Heliox keeps to the same by itself.
const SYNC_EVERY: Duration = Duration::from_millis(100);
/// The engine that reports what it writes by cause, and syncs by itself.
pub(crate) const OURS: &str = "heliox";

/// The user wants no more: what is under way is cut short, and nothing follows.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Measures, and tells the parent on the standard output.
pub(crate) fn run(args: &RunArgs, name: &str, dir: &Path) -> ExitCode {
    // Without the handler an interruption ends the process, which loses the workload under way alone.
    let _ = ctrlc::set_handler(|| INTERRUPTED.store(true, Ordering::Relaxed));
    let last = match measure(args, name, dir) {
        Ok(()) => Message::Done,
        Err(why) => Message::Failed(why.to_string()),
    };
    tell(&last);
    ExitCode::SUCCESS
}

fn measure(args: &RunArgs, name: &str, dir: &Path) -> Result<(), EngineError> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    if let Some(group) = &args.child_group {
        limit::enter(group).map_err(|error| format!("entering {}: {error}", group.display()))?;
    }
    let config = args.config();
    let setup = setup(args, &config, dir);
    let kind: Kind = engines::find(name)?;
    let mut count = args.child_count.unwrap_or(config.num);
    let (mut engine, mut from) = match args.child_from {
        None => (open(kind, &setup)?, 0),
        Some(from) => (open_killed(kind, &setup, &config, from)?, from),
    };
    loop {
        let until = config.next_reopen(from);
        end_if_interrupted();
        let result = segment(
            args,
            engine.as_ref(),
            &setup,
            &config,
            from..until,
            &mut count,
        );
        let next = config.steps().get(until).map(|step| step.workload);
        if result.is_ok() && next == Some(Workload::ReopenKilled) {
            be_killed(until + 1, count);
        }
        let mut reopening = Reopening::begin()?;
        let closed = engine.close().map_err(|error| format!("close: {error}"));
        result?;
        closed?;
        if next.is_none() {
            return Ok(());
        }
        reopening.closed();
        forget_pages(dir)?;
        reopening.opening();
        engine = open(kind, &setup)?;
        tell_reopened(engine.as_ref(), &setup, &config, until, reopening)?;
        from = until + 1;
    }
}

fn open(kind: Kind, setup: &Setup) -> Result<Box<dyn Engine>, EngineError> {
    Ok((kind.open)(setup).map_err(|error| format!("open: {error}"))?)
}

/// Opens the store of a process that was killed in the step before `from`.
fn open_killed(
    kind: Kind,
    setup: &Setup,
    config: &Config,
    from: usize,
) -> Result<Box<dyn Engine>, EngineError> {
    forget_pages(&setup.dir)?;
    let reopening = Reopening::begin()?;
    let engine = open(kind, setup)?;
    let place = from.saturating_sub(1);
    tell_reopened(engine.as_ref(), setup, config, place, reopening)?;
    Ok(engine)
}

fn tell_reopened(
    engine: &dyn Engine,
    setup: &Setup,
    config: &Config,
    place: usize,
    reopening: Reopening,
) -> Result<(), EngineError> {
    let row = reopening.done(&Hosted { engine, setup }, config, place)?;
    tell(&Message::Row(comparable(&row)));
    Ok(())
}

/// Ends the process without closing the store, which is going to be removed.
fn end_if_interrupted() {
    if INTERRUPTED.load(Ordering::Relaxed) {
        tell(&Message::Done);
        std::process::exit(0);
    }
}

/// Has the parent kill this process, and start one that goes on.
fn be_killed(from: usize, count: u64) -> ! {
    tell(&Message::Kill { from, count });
    loop {
        thread::park();
    }
}

/// Runs steps between which the store stays open; `count` keys are there.
fn segment(
    args: &RunArgs,
    engine: &dyn Engine,
    setup: &Setup,
    config: &Config,
    places: Range<usize>,
    count: &mut u64,
) -> Result<(), EngineError> {
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        let syncs = config.durability == DurabilityMode::Bounded && engine.name() != OURS;
        let syncer = syncs.then(|| scope.spawn(|| sync_regularly(engine, &ended)));
        let result = workloads(args, engine, setup, config, places, count);
        ended.store(true, Ordering::Relaxed);
        let synced = syncer.map_or(Ok(()), |syncer| {
            syncer.thread().unpark();
            syncer
                .join()
                .unwrap_or_else(|_| Err("sync panicked".into()))
        });
        result.and(synced)
    })
}

/// What an engine is opened with.
pub(crate) fn setup(args: &RunArgs, config: &Config, dir: &Path) -> Setup {
    Setup {
        dir: dir.to_owned(),
        durability: config.durability,
        memory_bytes: args.memory,
        data_bytes: args.data_bytes(),
        full_percent: args.full,
        key_bytes: config.key_bytes,
        value_bytes: config.value_bytes,
        threads: config.threads_max() + 2,
    }
}

fn sync_regularly(engine: &dyn Engine, ended: &AtomicBool) -> Result<(), EngineError> {
    while !ended.load(Ordering::Relaxed) {
        thread::park_timeout(SYNC_EVERY);
        engine.sync().map_err(|error| format!("sync: {error}"))?;
    }
    Ok(())
}

fn workloads(
    args: &RunArgs,
    engine: &dyn Engine,
    setup: &Setup,
    config: &Config,
    places: Range<usize>,
    count: &mut u64,
) -> Result<(), EngineError> {
    let hosted = Hosted { engine, setup };
    let mut live = Live {
        duration: config.duration,
        trials: 0,
        part: config.latency_limit.as_ref().map_or(1.0, |_| 0.15),
    };
    let bench = Bench::resume(&hosted, config.clone(), *count)?;
    let mut bench = bench.inserting_at_most(args.inserts_max());
    if let Some(at_most) = args.warm_up {
        bench = bench.warming_up(at_most);
    }
    if !args.child_rates.is_empty() {
        bench = bench.offering(args.child_rates.clone());
    }
    let bench = bench.until(&INTERRUPTED);
    for place in places {
        live.trials = 0;
        let row = bench.run(place, &mut live)?;
        tell(&Message::Row(comparable(&row)));
        end_if_interrupted();
    }
    *count = bench.count();
    Ok(())
}

/// The fields of a row, from sources that are the same for every engine: what the kernel counted
/// replaces the engine's word, and what an engine did not tell is null.
fn comparable(row: &Row) -> Map<String, Value> {
    let Value::Object(mut fields) = row_to_json(row) else {
        return Map::new();
    };
    let mut set = |name: &str, value: Value| fields.insert(name.to_owned(), value);
    set("media_bytes_written", row.kernel_write_bytes.into());
    set("media_bytes_read", row.kernel_read_bytes.into());
    let amplification = row.kernel_write_amplification;
    set("write_amplification", amplification.into());
    if row.engine != OURS {
        for name in [
            "capacity_bytes",
            "objects",
            "bytes_written_by_cause",
            "media_reads_per_op",
            "memory_share",
            "index_bytes_per_object",
        ] {
            set(name, Value::Null);
        }
    }
    fields
}

/// An engine with what its surroundings know of it.
struct Hosted<'e> {
    engine: &'e dyn Engine,
    setup: &'e Setup,
}

impl Engine for Hosted<'_> {
    fn name(&self) -> &str {
        self.engine.name()
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), EngineError> {
        self.engine.put(key, value)
    }

    fn put_batch(&self, entries: &[(Vec<u8>, Vec<u8>)]) -> Result<(), EngineError> {
        self.engine.put_batch(entries)
    }

    fn merge(&self, key: &[u8], operand: &[u8]) -> Result<(), EngineError> {
        self.engine.merge(key, operand)
    }

    fn delete(&self, key: &[u8]) -> Result<(), EngineError> {
        self.engine.delete(key)
    }

    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, EngineError> {
        self.engine.get(key, value)
    }

    fn multi_get(&self, keys: &[Vec<u8>]) -> Result<Seen, EngineError> {
        self.engine.multi_get(keys)
    }

    fn scan(
        &self,
        from: &[u8],
        entries: usize,
        each: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<(), EngineError> {
        self.engine.scan(from, entries, each)
    }

    fn sync(&self) -> Result<(), EngineError> {
        self.engine.sync()
    }

    fn settle(&self) -> Result<(), EngineError> {
        self.engine.settle()
    }

    fn counters(&self) -> Result<Counters, EngineError> {
        Ok(Counters {
            memory_bytes: self.setup.memory_bytes,
            disk_bytes: disk::occupied_bytes(&self.setup.dir),
            ..self.engine.counters()?
        })
    }

    /// The engine is closed by whoever opened it.
    fn close(self: Box<Self>) -> Result<(), EngineError> {
        Ok(())
    }
}

/// Tells the parent how a workload goes on.
struct Live {
    duration: Option<Duration>,
    /// Of the search for a rate that goes on.
    trials: i32,
    /// What the workload's progress, or a trial's, is of what is left.
    part: f64,
}

impl Observer for Live {
    fn progress(&mut self, progress: &Progress) {
        let seconds = progress.elapsed.as_secs_f64();
        // How many trials there will be is not known: each is a part of what is left.
        let left = 0.85f64.powi(self.trials);
        let share = match (progress.total_ops, self.duration) {
            (Some(total), _) => progress.ops as f64 / total.max(1) as f64,
            (None, Some(duration)) => seconds / duration.as_secs_f64(),
            (None, None) => 0.0,
        };
        tell(&Message::Progress {
            workload: match progress.rate {
                Some(rate) => format!("{} at {}/s", progress.workload, thousands(rate as f64)),
                None => progress.workload.name().to_owned(),
            },
            ops: progress.ops,
            permille: ((1.0 - left + self.part * left * share.clamp(0.0, 1.0)) * 1000.0) as u64,
            seconds,
        });
    }

    fn settling(&mut self, _: Workload) {}

    fn tried(&mut self, _: Workload, _: &Trial) {
        self.trials += 1;
    }
}

fn tell(message: &Message) {
    // A parent that is gone kills this process; see `set_parent_process_death_signal`.
    let _ = writeln!(std::io::stdout(), "{}", message.to_line());
}
