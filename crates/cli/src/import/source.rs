//! What the readers of all formats have in common. Plain data, no threads.

use std::io;

/// One row, ready to be stored.
#[derive(Debug, Default)]
pub(super) struct Row {
    /// The text of the key field.
    pub(super) key: Vec<u8>,
    /// The row as a JSON object.
    pub(super) value: Vec<u8>,
    /// The number of the line on which it begins, from 1.
    pub(super) line: u64,
}

/// A line that is no row.
#[derive(Debug)]
pub(super) struct Malformed {
    /// The number of the line, from 1.
    pub(super) line: u64,
    /// What is wrong with it.
    pub(super) reason: String,
}

/// What was read next.
#[derive(Debug)]
pub(super) enum Step {
    /// A row, now in the buffer that was given.
    Row,
    /// A line that is no row.
    Malformed(Malformed),
    /// There is nothing more.
    End,
}

/// Why reading cannot go on.
#[derive(Debug)]
pub(super) enum SourceError {
    /// The system refused.
    Read(io::Error),
    /// The names of the columns are no use.
    Header(String),
}

/// Reads rows.
pub(super) trait RowSource {
    /// Reads the next row into `row`.
    fn next(&mut self, row: &mut Row) -> Result<Step, SourceError>;
}
