//! Why results cannot be shown. Plain data, no threads.

/// What is wrong, where, and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    /// The file cannot be read.
    #[error("cannot read {name}: {source}")]
    File {
        /// The file.
        name: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// The text is no JSON, or ends too early.
    #[error(
        "{name} is not JSON, or was cut off: {source}; give a file that `heliox bench --json` or \
         `bench-compare run --json` wrote"
    )]
    NotJson {
        /// The file.
        name: String,
        /// What is wrong, with line and column.
        source: serde_json::Error,
    },
    /// JSON, but not of a benchmark.
    #[error(
        "{name} is JSON, but holds no results of a benchmark: {source}; give a file that `heliox \
         bench --json` or `bench-compare run --json` wrote"
    )]
    NotResults {
        /// The file.
        name: String,
        /// What is wrong, with line and column.
        source: serde_json::Error,
    },
    /// A list without a row.
    #[error("{name} holds no results: the run ended before its first workload did; run it again")]
    Empty {
        /// The file.
        name: String,
    },
    /// A row that says too little, or what cannot be.
    #[error(
        "{name}, row {row}: {what}; a row needs what `heliox bench --json` writes, or what \
         `bench-compare run --json` writes of an engine that failed"
    )]
    Row {
        /// The file.
        name: String,
        /// Its place in the list, from 1.
        row: usize,
        /// What is wrong.
        what: String,
    },
    /// A chart could not be drawn.
    #[error("internal error of the report: drawing {chart}: {what}")]
    Chart {
        /// Which.
        chart: String,
        /// What the library said.
        what: String,
    },
}
