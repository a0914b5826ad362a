//! The command `heliox`: makes, fills, reads, checks, backs up and measures stores.
//!
//! Each command has a file of its own. Exit codes are decided in one place (`exit.rs`): 0 done, 1
//! not there or damage found, 2 any error, with one message on stderr. One thread, apart from the
//! engine's own and those of a benchmark. A library only so that fuzzing reaches it (`hostile.rs`).
#![forbid(unsafe_code)]

mod args;
mod backup;
mod bench;
mod check;
mod create;
mod delete;
mod destroy;
mod dropin;
mod escape;
mod exit;
mod get;
#[doc(hidden)]
pub mod hostile;
mod import;
mod migrate;
mod open;
mod output;
mod put;
mod report;
mod restore;
mod rotate_key;
mod scan;
mod scrub;
mod stat;
mod verify;

use std::process::ExitCode;

use clap::Parser;

use args::{Args, Command};
use exit::{Failure, Outcome};

/// Does what the program's arguments ask for.
#[must_use]
pub fn main() -> ExitCode {
    match Args::try_parse() {
        Ok(args) => exit::report(run(&args)),
        Err(error) => exit::report_usage(&error),
    }
}

fn run(args: &Args) -> Result<Outcome, Failure> {
    let shared = &args.shared;
    match &args.command {
        Command::Create(args) => create::run(args, shared),
        Command::Put(args) => put::run(args, shared),
        Command::Get(args) => get::run(args, shared),
        Command::Delete(args) => delete::run(args, shared),
        Command::Destroy(args) => destroy::run(args),
        Command::Scan(args) => scan::run(args, shared),
        Command::Stat(args) => stat::run(args, shared),
        Command::Check(args) => check::run(args, shared),
        Command::Scrub(args) => scrub::run(args, shared),
        Command::Backup(args) => backup::run(args, shared),
        Command::Restore(args) => restore::run(args, shared),
        Command::Herocks(args) => dropin::run(&dropin::HEROCKS, args, shared),
        Command::Heleveldb(args) => dropin::run(&dropin::HELEVELDB, args, shared),
        Command::Verify(args) => verify::run(args, shared),
        Command::RotateKey(args) => rotate_key::run(args, shared),
        Command::Import(args) => match args.from {
            Some(engine) => migrate::import(args, engine, shared),
            None => import::run(args, shared),
        },
        Command::Export(args) => migrate::export(args, shared),
        Command::Bench(args) => bench::run(args, shared),
        Command::Report(args) => report::run(args, shared),
    }
}
