//! `bench-compare`: Heliox beside other key-value stores, measured in one run.
//!
//! The workloads, the measurement and the trait of an engine are those of `heliox bench`
//! (`heliox_bench`); here are the other engines, a process for each, and the comparison.
//!
//! - [`engines`]: who is compared, one file an engine with its configuration.
//! - `child` measures one engine; `parent` starts the children (kills one where that is measured) and
//!   gathers what they say.
//! - `raw` measures the device without an engine; `suite` runs what papers ran, and lists of our own; `cost`
//!   says which kind of node is the cheapest for what was measured.
//! - `results` gathers, `table` shows; `preflight` and `limit` see to room and memory.

mod args;
mod child;
mod cost;
mod disk;
pub mod engines;
mod limit;
mod message;
mod parent;
mod preflight;
mod raw;
mod results;
mod suite;
mod table;

use std::io::Write;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::Arc;

use clap::Parser;

use args::{Args, Command, CostArgs, RunArgs, SuiteArgs};
use results::Results;

/// An engine failed; the others were measured.
const ENGINE_FAILED: u8 = 1;
/// Nothing could be measured, or the results could not be written.
const ERROR: u8 = 2;
/// As shells have it for a program that the user ended.
const INTERRUPTED: u8 = 130;

/// Runs the command line of this process.
#[must_use]
pub fn main() -> ExitCode {
    let outcome = match Args::parse().command {
        Command::Engines => list(),
        Command::Run(args) => run(&args),
        Command::Suite(args) => run_suite(&args),
        Command::Cost(args) => show_cost(&args),
    };
    outcome.unwrap_or_else(|message| {
        // There is nobody left to tell if this fails.
        let _ = writeln!(std::io::stderr(), "bench-compare: {message}");
        ExitCode::from(ERROR)
    })
}

fn list() -> Result<ExitCode, String> {
    for kind in engines::BUILT_IN {
        print(kind.name)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn run(args: &RunArgs) -> Result<ExitCode, String> {
    if let (Some(engine), Some(dir)) = (&args.child, &args.child_dir) {
        return Ok(child::run(args, engine, dir));
    }
    let line: Vec<_> = std::env::args_os().skip(1).collect();
    let results = parent::run(args, &line, &interruptions()?, None)?;
    print(&table::show(&results, None).map_err(|error| error.to_string())?)?;
    table::write_page(args, &results, None)?;
    Ok(exit_code(&results))
}

fn run_suite(args: &SuiteArgs) -> Result<ExitCode, String> {
    if args.list {
        print(&suite::list(args))?;
        return Ok(ExitCode::SUCCESS);
    }
    let (results, text) = suite::run(args, &interruptions()?)?;
    print(&text)?;
    Ok(exit_code(&results))
}

fn show_cost(args: &CostArgs) -> Result<ExitCode, String> {
    print(&cost::show(args)?)?;
    Ok(ExitCode::SUCCESS)
}

/// How often the user wanted to end the run.
static INTERRUPTIONS: AtomicU32 = AtomicU32::new(0);

/// Becomes true when the user ends the run.
fn interruptions() -> Result<Arc<AtomicBool>, String> {
    let interrupted = Arc::new(AtomicBool::new(false));
    let told = interrupted.clone();
    let handler = move || {
        INTERRUPTIONS.fetch_add(1, Ordering::Relaxed);
        told.store(true, Ordering::Relaxed);
    };
    ctrlc::set_handler(handler).map_err(|error| format!("catching interruptions: {error}"))?;
    Ok(interrupted)
}

/// Whether the user does not want to wait for the workload that is under way either.
fn interrupted_again() -> bool {
    INTERRUPTIONS.load(Ordering::Relaxed) > 1
}

fn exit_code(results: &Results) -> ExitCode {
    if results.interrupted {
        ExitCode::from(INTERRUPTED)
    } else if results.failures.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(ENGINE_FAILED)
    }
}

/// Prints one line or more to the standard output.
fn print(text: &str) -> Result<(), String> {
    writeln!(std::io::stdout(), "{text}").map_err(|error| format!("standard output: {error}"))
}
