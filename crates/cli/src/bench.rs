//! `heliox bench`: runs workloads, shows how they go on, prints and writes their figures.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::ops::Range;
use std::path::Path;

use heliox_bench::{
    forget_pages, row_to_json, rows_to_json, rows_to_table, rows_to_text, short, trials_to_table,
    Bench, BenchError, Config, HelioxEngine, HelioxSetup, Observer, Progress, Reopening, Row, Step,
    Trial, Workload,
};
use indicatif::ProgressBar;

use crate::args::{BenchArgs, Shared};
use crate::exit::{Failure, Outcome};
use crate::output::{live_line, print_line};

/// The keyspace of the benchmark's data.
const KEYSPACE: &str = "bench";

/// Runs all workloads; what was measured before a failure is printed and written too.
pub(crate) fn run(args: &BenchArgs, shared: &Shared) -> Result<Outcome, Failure> {
    let config = config(args);
    // Before a store is made: nonsense is refused without a trace.
    config.validate()?;
    can_be_run(&config)?;
    if let Some(path) = &args.json {
        writable(path)?;
    }
    let setup = HelioxSetup {
        dir: args.dir.clone(),
        keyspace: shared
            .keyspace
            .clone()
            .unwrap_or_else(|| KEYSPACE.to_owned()),
        durability: args.durability,
        memory_bytes: shared.memory,
        capacity_bytes: args.capacity,
        encryption: shared.encryption(),
        scrub_period: args.scrub_period,
    };
    let mut measured = Measured {
        rows: Vec::new(),
        json: args.json.as_deref(),
    };
    let result = run_all(&setup, &config, &mut measured);
    if !measured.rows.is_empty() {
        print_line(&rows_to_table(&measured.rows))?;
    }
    result?;
    Ok(Outcome::Done)
}

/// Refuses what only `bench-compare` can do, which measures in a process of its own.
fn can_be_run(config: &Config) -> Result<(), BenchError> {
    if !config.workloads.contains(&Workload::ReopenKilled) {
        return Ok(());
    }
    Err(BenchError::OutOfRange {
        option: "--workload",
        found: Workload::ReopenKilled.to_string(),
        expected: "another workload: a process that is killed measures no more (bench-compare has \
                   it, which measures in another)"
            .to_owned(),
    })
}

pub(crate) fn config(args: &BenchArgs) -> Config {
    let narrow = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    Config {
        workloads: args.workload.clone(),
        num: args.num,
        key_bytes: args.key_size.map_or(args.keys.default_size_bytes(), narrow),
        value_bytes: narrow(args.value_size),
        keys: args.keys,
        distribution: args.distribution,
        threads: args.threads.clone(),
        duration: args.duration,
        rate: args.rate,
        writer_rate: args.writer_rate,
        latency_limit: args.latency_limit.clone(),
        durability: args.durability,
        read_share_percent: args.read_share,
        scan_entries: args.scan_length,
        batch_keys: args.batch,
        multi_keys: match args.batch {
            1 => Config::new().multi_keys,
            keys => keys,
        },
        seed: args.seed,
        control_dir: args.control.clone(),
    }
}

/// What was measured so far, and the file that has it.
struct Measured<'a> {
    rows: Vec<Row>,
    json: Option<&'a Path>,
}

impl Measured<'_> {
    fn add(&mut self, row: Row) -> Result<(), Failure> {
        if let Some(trials) = trials_to_table(&row_to_json(&row)) {
            let (workload, threads) = (row.workload, row.threads);
            print_line(&format!("{}:\n{trials}", Step { workload, threads }))?;
        }
        if let Some(remark) = row.remark() {
            // A remark that cannot be printed changes no result.
            let _ = writeln!(std::io::stderr(), "heliox: {remark}");
        }
        self.rows.push(row);
        self.json
            .map_or(Ok(()), |path| write_json(path, &self.rows))
    }
}

fn run_all(
    setup: &HelioxSetup,
    config: &Config,
    measured: &mut Measured<'_>,
) -> Result<(), Failure> {
    let mut engine = HelioxEngine::open(setup)?;
    let (mut from, mut count) = (0, config.num);
    loop {
        let until = config.next_reopen(from);
        let result = run_steps(&engine, config, from..until, &mut count, measured);
        if result.is_err() || until == config.steps().len() {
            let closed = engine.close();
            return result.and(closed.map_err(Failure::from));
        }
        let mut reopening = Reopening::begin()?;
        engine.close()?;
        reopening.closed();
        forget_pages(&setup.dir).map_err(|error| Failure::file("read", &setup.dir, error))?;
        reopening.opening();
        engine = HelioxEngine::open(setup)?;
        measured.add(reopening.done(&engine, config, until)?)?;
        from = until + 1;
    }
}

/// Runs steps, none of which opens the store again; `count` keys are there.
fn run_steps(
    engine: &HelioxEngine,
    config: &Config,
    places: Range<usize>,
    count: &mut u64,
    measured: &mut Measured<'_>,
) -> Result<(), Failure> {
    let bench = Bench::resume(engine, config.clone(), *count)?;
    let mut live = Live {
        line: live_line(),
        last_ops: 0,
        last_seconds: 0.0,
    };
    for place in places {
        let row: Result<Row, BenchError> = bench.run(place, &mut live);
        live.clear();
        measured.add(row?)?;
    }
    *count = bench.count();
    Ok(())
}

/// Fails before the measurement rather than after it.
fn writable(path: &Path) -> Result<(), Failure> {
    let file = OpenOptions::new().create(true).append(true).open(path);
    file.map(|_| ())
        .map_err(|error| Failure::file("write", path, error))
}

fn write_json(path: &Path, rows: &[Row]) -> Result<(), Failure> {
    let text = rows_to_text(&rows_to_json(rows));
    fs::write(path, text).map_err(|error| Failure::file("write", path, error))
}

/// One line on a terminal that says how the workload goes on.
struct Live {
    line: ProgressBar,
    last_ops: u64,
    last_seconds: f64,
}

impl Live {
    fn clear(&mut self) {
        self.line.finish_and_clear();
        *self = Live {
            line: live_line(),
            last_ops: 0,
            last_seconds: 0.0,
        };
    }
}

impl Observer for Live {
    fn progress(&mut self, progress: &Progress) {
        let seconds = progress.elapsed.as_secs_f64();
        let passed = (seconds - self.last_seconds).max(1e-9);
        let rate = progress.ops.saturating_sub(self.last_ops) as f64 / passed;
        (self.last_ops, self.last_seconds) = (progress.ops, seconds);
        let share = match progress.total_ops {
            Some(total) => format!(
                " {:.0} %",
                100.0 * progress.ops as f64 / total.max(1) as f64
            ),
            None => String::new(),
        };
        let Progress { workload, ops, .. } = progress;
        let offered = progress
            .rate
            .map_or_else(String::new, |rate| format!(" at {rate} ops/s"));
        let message =
            format!("{workload}{offered}: {ops} ops{share}, {rate:.0} ops/s, {seconds:.1} s");
        self.line.set_message(message);
        self.line.tick();
    }

    fn settling(&mut self, workload: Workload) {
        self.line
            .set_message(format!("{workload}: making everything durable"));
        self.line.tick();
    }

    fn tried(&mut self, workload: Workload, trial: &Trial) {
        let told = format!(
            "heliox: {workload} at {} ops/s: p50 {} us, p99 {} us: {}",
            trial.rate,
            short(trial.calls.p50_us),
            short(trial.calls.p99_us),
            trial.verdict()
        );
        // What is told of a trial here is told again in the end.
        let _ = self.line.suspend(|| writeln!(std::io::stderr(), "{told}"));
        self.last_ops = 0;
        self.last_seconds = 0.0;
    }
}
