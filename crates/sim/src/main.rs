//! `heliox-sim`: runs seeds, and exits with 0 only if every promise held in all of them.
//!
//! The last line of output is a JSON object. One thread a job, and one a run.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::Parser;
use heliox_sim::{as_test, generate, replay, shrink, Counts};
use parking_lot::Mutex;

/// Deterministic simulation of the store.
#[derive(Parser, Debug)]
#[command(name = "heliox-sim", version)]
struct Args {
    /// Runs this seed alone.
    #[arg(long, conflicts_with = "seeds")]
    seed: Option<u64>,
    /// Runs so many seeds.
    #[arg(long)]
    seeds: Option<u64>,
    /// The first of them: a number, or the hash of a commit, whose first digits count.
    #[arg(long, default_value = "1")]
    first: String,
    /// Ends after so many seconds, whatever is left.
    #[arg(long)]
    seconds: Option<u64>,
    /// Events in a run.
    #[arg(long, default_value_t = 6000)]
    events: usize,
    /// Runs at a time.
    #[arg(long, default_value_t = 1)]
    jobs: usize,
    /// Seconds for making a failing script short; 0 prints no script.
    #[arg(long, default_value_t = 60)]
    shrink: u64,
    /// Runs every seed twice and compares.
    #[arg(long)]
    twice: bool,
    /// Plants this defect (`list` names them): only in a build with the feature `canary`.
    #[arg(long)]
    canary: Option<String>,
}

/// A run takes less than a second; one that takes so long hangs, however busy the machine is.
const RUN_TIME_MAX: Duration = Duration::from_secs(300);

/// How often it is told how far it is.
const TOLD_EVERY: Duration = Duration::from_secs(30);

/// What all seeds did together.
#[derive(Default)]
struct Total {
    runs: u64,
    told: u32,
    violations: u64,
    counts: Counts,
    failing: Option<u64>,
}

impl Total {
    fn tell(&mut self, elapsed: Duration) {
        if elapsed >= TOLD_EVERY * (self.told + 1) {
            self.told = (elapsed.as_secs() / TOLD_EVERY.as_secs()) as u32;
            println!(
                "{} s: {} runs, {} operations, {} crashes, {} faults, {} broken promises",
                elapsed.as_secs(),
                self.runs,
                self.counts.operations,
                self.counts.crashes,
                self.counts.faults,
                self.violations
            );
        }
    }
}

fn main() -> ExitCode {
    let args = Args::parse();
    match plant(args.canary.as_deref()) {
        Ok(true) => {}
        Ok(false) => return ExitCode::SUCCESS,
        Err(words) => {
            eprintln!("{words}");
            return ExitCode::from(2);
        }
    }
    let Some(first) = args.seed.or_else(|| seed_of(&args.first)) else {
        eprintln!("--first {}: neither a number nor a hash", args.first);
        return ExitCode::from(2);
    };
    // What panics in a run is told with its script.
    std::panic::set_hook(Box::new(|_| {}));
    let total = run_all(&args, first);
    let last = serde_json::json!({
        "seed": total.failing.unwrap_or(first),
        "runs": total.runs,
        "operations": total.counts.operations,
        "crashes": total.counts.crashes,
        "faults": total.counts.faults,
        "interleaved": total.counts.interleaved,
        "refused": total.counts.refused,
        "collected": total.counts.collected,
        "violations": total.violations,
    });
    println!("{last}");
    match total.violations {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

/// A number in decimal, or the first 12 digits of a hash.
fn seed_of(text: &str) -> Option<u64> {
    if let Ok(number) = text.parse() {
        return Some(number);
    }
    u64::from_str_radix(text.get(..12.min(text.len()))?, 16).ok()
}

/// Plants a defect. False if only the list was asked for.
#[cfg(feature = "canary")]
fn plant(name: Option<&str>) -> Result<bool, String> {
    use heliox::canary::{set, NAMES};
    let Some(name) = name else {
        return Ok(true);
    };
    if name == "list" {
        NAMES.iter().for_each(|(_, name, _)| println!("{name}"));
        return Ok(false);
    }
    let known = NAMES.iter().find(|(_, known, _)| *known == name);
    let (canary, _, words) = known.ok_or_else(|| format!("no canary {name}; see --canary list"))?;
    println!("planted: {words}");
    set(Some(*canary));
    Ok(true)
}

#[cfg(not(feature = "canary"))]
fn plant(name: Option<&str>) -> Result<bool, String> {
    match name {
        None => Ok(true),
        Some(_) => Err("this build has no canaries; build it with --features canary".to_owned()),
    }
}

fn run_all(args: &Args, first: u64) -> Total {
    let count = match args.seed {
        Some(_) => 1,
        None => args.seeds.unwrap_or(u64::MAX - first),
    };
    let next = AtomicU64::new(0);
    let stop = AtomicBool::new(false);
    let total = Mutex::new(Total::default());
    let begun = Instant::now();
    let is_late = || {
        args.seconds
            .is_some_and(|most| begun.elapsed() >= Duration::from_secs(most))
    };
    std::thread::scope(|scope| {
        for _ in 0..args.jobs.max(1) {
            scope.spawn(|| loop {
                let n = next.fetch_add(1, Ordering::Relaxed);
                // The first seed is run however late it is.
                if n >= count || stop.load(Ordering::Relaxed) || (n > 0 && is_late()) {
                    return;
                }
                if !run_one(args, first.wrapping_add(n), &total) {
                    stop.store(true, Ordering::Relaxed);
                }
                total.lock().tell(begun.elapsed());
            });
        }
    });
    let total = total.into_inner();
    let seconds = begun.elapsed().as_secs_f64();
    println!(
        "{} runs in {seconds:.1} s, {:.0} operations a second a job",
        total.runs,
        total.counts.operations as f64 / seconds / args.jobs.max(1) as f64
    );
    total
}

/// Ends the program with a broken promise unless what is given back is dropped in time: a run that
/// does not end cannot be stopped from outside.
fn watch(seed: u64, most: Duration) -> std::sync::mpsc::Sender<()> {
    let (alive, ended) = std::sync::mpsc::channel::<()>();
    std::thread::spawn(move || {
        if ended.recv_timeout(most) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
            println!("seed {seed}, a run does not end");
            println!(
                "{}",
                serde_json::json!({ "seed": seed, "operations": 0, "crashes": 0, "faults": 0, "violations": 1 })
            );
            std::process::exit(1);
        }
    });
    alive
}

/// Runs one seed; false if a promise broke.
fn run_one(args: &Args, seed: u64, total: &Mutex<Total>) -> bool {
    let _watch = watch(seed, Duration::from_secs(args.shrink) + RUN_TIME_MAX);
    let (setup, events) = generate(seed, args.events);
    let mut report = replay(&setup, &events);
    if args.twice && report.violation.is_none() {
        let again = replay(&setup, &events);
        if again != report {
            report.violation = Some(format!("not the same run twice: {report:?}, {again:?}"));
        }
    }
    {
        let mut total = total.lock();
        total.runs += 1;
        total.counts.add(&report.counts);
        total.violations += u64::from(report.violation.is_some());
        if report.violation.is_some() {
            total.failing.get_or_insert(seed);
        }
    }
    let Some(violation) = report.violation.clone() else {
        return true;
    };
    println!(
        "seed {seed}, event {} of {}: {violation}",
        report.events,
        events.len()
    );
    if args.shrink > 0 {
        let most = Duration::from_secs(args.shrink);
        let shrunk = shrink(&setup, &events, &report, most);
        let words = shrunk.report.violation.unwrap_or_default();
        println!("{}", as_test(&setup, &shrunk.events, &words));
    }
    false
}
