//! How the command ends: outcomes, failures, their exit codes and the one message on stderr.
//!
//! Invariant: nothing else decides an exit code or prints a failure.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use heliox::ErrorKind;
use heliox_bench::BenchError;
use heliox_report::ReportError;

/// How a command ended that met no error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It did what was asked.
    Done,
    /// The key is not there.
    KeyNotThere,
    /// The check found damage, and has printed it.
    DamageFound,
}

impl Outcome {
    /// That of a check which found so many problems.
    pub(crate) fn of_findings(count: u64) -> Outcome {
        match count {
            0 => Outcome::Done,
            _ => Outcome::DamageFound,
        }
    }
}

/// Why a command could not do what was asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The store refused.
    #[error("{0}{hint}", hint = hint(.0))]
    Store(#[from] heliox::Error),
    /// The benchmark refused or failed.
    #[error("bench: {0}")]
    Bench(#[from] BenchError),
    /// Results of a benchmark that cannot be shown.
    #[error("report: {0}")]
    Report(#[from] ReportError),
    /// An argument makes no sense.
    #[error("{0}")]
    Argument(String),
    /// The directory holds no store.
    #[error("{dir} holds no store: make one with `heliox create {dir}`", dir = .0.display())]
    NoStore(PathBuf),
    /// The standard output does not take more; a closed pipe ends the command quietly.
    #[error("cannot write to the standard output: {0}")]
    Output(io::Error),
    /// A file cannot be read or written.
    #[error("cannot {verb} {path}: {source}", path = path.display())]
    File {
        /// What was tried.
        verb: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A malformed line, in an import that stops at the first.
    #[error("line {line} of {path}: {reason} (--strict; {rows} rows before it are stored)",
        path = path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The number of the line, from 1.
        line: u64,
        /// What is wrong with it.
        reason: String,
        /// How many rows were stored before.
        rows: u64,
    },
}

impl Failure {
    /// A file that cannot be read or written.
    pub(crate) fn file(verb: &'static str, path: &Path, source: io::Error) -> Failure {
        Failure::File {
            verb,
            path: path.to_owned(),
            source,
        }
    }
}

/// What to do about an error of the store, where the command knows more than the engine.
fn hint(error: &heliox::Error) -> &'static str {
    match error.kind() {
        ErrorKind::UnknownKeyspace => {
            " (`heliox stat DIR` lists the keyspaces; put and import make a missing one)"
        }
        ErrorKind::OverBudget => " (--memory BYTES raises the budget)",
        _ => "",
    }
}

/// The exit code of a command, after its message if it has one.
pub(crate) fn report(result: Result<Outcome, Failure>) -> ExitCode {
    match result {
        Ok(Outcome::Done) => ExitCode::SUCCESS,
        Ok(Outcome::KeyNotThere) => {
            say("there is no such key");
            ExitCode::from(1)
        }
        Ok(Outcome::DamageFound) => ExitCode::from(1),
        // Whoever read the output has seen enough: `heliox scan DIR | head`.
        Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            ExitCode::SUCCESS
        }
        Err(failure) => {
            say(&failure.to_string());
            ExitCode::from(2)
        }
    }
}

/// The exit code of a command line that was not understood, or that asked for help.
pub(crate) fn report_usage(error: &clap::Error) -> ExitCode {
    // Nothing is left to be told to anyone if this cannot be printed.
    let _ = error.print();
    if error.use_stderr() {
        ExitCode::from(2)
    } else {
        ExitCode::SUCCESS
    }
}

/// One message on stderr.
fn say(message: &str) {
    // Nothing is left to be told to anyone if this cannot be printed.
    let _ = writeln!(io::stderr(), "heliox: {message}");
}
