//! What can go wrong in a benchmark. Plain data, no threads.

use std::path::PathBuf;

use crate::engine::EngineError;

/// Why a benchmark did not start or did not finish.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BenchError {
    /// A name that stands for nothing.
    #[error("unknown {what} {name:?}: expected one of {expected}")]
    Unknown {
        /// What kind of thing was named.
        what: &'static str,
        /// The name that was given.
        name: String,
        /// The names that exist, separated by commas.
        expected: String,
    },
    /// A number that makes no sense, alone or beside the others.
    #[error("{option} is {found}: expected {expected}")]
    OutOfRange {
        /// The option, as on the command line.
        option: &'static str,
        /// The value that was given.
        found: String,
        /// What would be accepted.
        expected: String,
    },
    /// The engine refused an operation.
    #[error("{workload}: {source}")]
    Engine {
        /// The workload that was running, or what the benchmark was doing.
        workload: String,
        /// What the engine said.
        source: EngineError,
    },
    /// The system refused a thread.
    #[error(
        "cannot start thread {} of {wanted}: {source}; give fewer --threads, or raise what limits \
         them (`ulimit -u`, pids.max of the control group)",
        .started + 1
    )]
    Threads {
        /// Threads that were started.
        started: usize,
        /// Threads that were to be.
        wanted: usize,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file of the system could not be read.
    #[error("cannot read {path}: {source}", path = path.display())]
    System {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The benchmark broke one of its own rules.
    #[error("internal error of the benchmark: {0}")]
    Internal(String),
}

impl BenchError {
    /// An unknown name, with the list of the known ones.
    pub(crate) fn unknown(what: &'static str, name: &str, known: &[&str]) -> BenchError {
        BenchError::Unknown {
            what,
            name: name.to_owned(),
            expected: known.join(", "),
        }
    }

    /// A value outside of what is accepted.
    pub(crate) fn out_of_range(
        option: &'static str,
        found: impl ToString,
        expected: impl Into<String>,
    ) -> BenchError {
        BenchError::OutOfRange {
            option,
            found: found.to_string(),
            expected: expected.into(),
        }
    }
}
