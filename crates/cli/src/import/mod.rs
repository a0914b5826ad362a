//! `heliox import`: loads the rows of a file, one value a row, durable when it exits.
//!
//! A repeated key overwrites and is counted. Malformed lines are named on stderr, the first
//! [`LISTED_MAX`] of them, and skipped; `--strict` stops at the first.

mod delimited;
mod json_key;
mod lines;
mod ndjson;
mod source;

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::time::Instant;

use heliox::{ErrorKind, Keyspace, Store};
use heliox_bench::DurabilityMode;
use indicatif::ProgressBar;

use crate::args::{ImportArgs, ImportFormat, Shared};
use crate::exit::{Failure, Outcome};
use crate::open;
use crate::output::{byte_bar, print_line};

use delimited::Delimited;
use ndjson::Ndjson;
use source::{Malformed, Row, RowSource, SourceError, Step};

/// How many malformed lines are named.
const LISTED_MAX: u64 = 10;
/// Rows between two updates of the progress bar's text.
const TELL_EVERY_ROWS: u64 = 8192;

/// Loads the file.
pub(crate) fn run(args: &ImportArgs, shared: &Shared) -> Result<Outcome, Failure> {
    let (input, total_bytes) = open_input(&args.file)?;
    // The rows become durable together at the end; until then a crash loses little.
    let store = open::store(&args.dir, shared, DurabilityMode::Bounded)?;
    let bar = byte_bar(total_bytes);
    let input = Box::new(bar.wrap_read(input));
    let mut source = source(args, input).map_err(|error| failure(args, error))?;
    let keyspace = store.keyspace_or_create(shared.keyspace())?;
    let mut import = Import {
        args,
        keyspace,
        bar,
        remarks: Box::new(io::stderr()),
        counts: Counts::default(),
    };
    let begin = Instant::now();
    let result = import.rows(source.as_mut());
    let synced = store.sync();
    let seconds = begin.elapsed().as_secs_f64();
    import.bar.finish_and_clear();
    result?;
    synced?;
    let counts = finish(import, store)?;
    print_line(&counts.summary(seconds))?;
    Ok(Outcome::Done)
}

/// Loads `input` instead of a file: how many rows are stored and how many lines were malformed.
pub(crate) fn load(
    args: &ImportArgs,
    input: Box<dyn Read>,
    keyspace: Keyspace,
) -> Result<(u64, u64), Failure> {
    let mut source = source(args, input).map_err(|error| failure(args, error))?;
    let mut import = Import {
        args,
        keyspace,
        bar: ProgressBar::hidden(),
        remarks: Box::new(io::sink()),
        counts: Counts::default(),
    };
    import.rows(source.as_mut())?;
    Ok((import.counts.rows(), import.counts.malformed))
}

/// A row that owns its bytes.
pub(crate) type KeyAndValue = (Vec<u8>, Vec<u8>);

/// The rows of `input` up to its end, or to the first malformed line.
pub(crate) fn rows(args: &ImportArgs, input: Box<dyn Read>) -> Result<Vec<KeyAndValue>, Failure> {
    let mut source = source(args, input).map_err(|error| failure(args, error))?;
    let (mut row, mut rows) = (Row::default(), Vec::new());
    while let Step::Row = source
        .next(&mut row)
        .map_err(|error| failure(args, error))?
    {
        rows.push((row.key.clone(), row.value.clone()));
    }
    Ok(rows)
}

/// Ends the list of malformed lines and closes the store.
fn finish(mut import: Import<'_>, store: Store) -> Result<Counts, Failure> {
    let unlisted = import.counts.malformed.saturating_sub(LISTED_MAX);
    if unlisted > 0 {
        import.say(&format!("... and {unlisted} more malformed lines"));
    }
    let Import {
        counts, keyspace, ..
    } = import;
    drop(keyspace);
    store.close()?;
    Ok(counts)
}

fn open_input(path: &Path) -> Result<(Box<dyn Read>, Option<u64>), Failure> {
    if path == Path::new("-") {
        return Ok((Box::new(io::stdin()), None));
    }
    let read = |error| Failure::file("read", path, error);
    let file = File::open(path).map_err(read)?;
    let metadata = file.metadata().map_err(read)?;
    Ok((Box::new(file), metadata.is_file().then_some(metadata.len())))
}

fn source(args: &ImportArgs, input: Box<dyn Read>) -> Result<Box<dyn RowSource>, SourceError> {
    // The command line has both unless the rows come from elsewhere.
    let key = args.key.as_deref().unwrap_or_default();
    Ok(match args.format.unwrap_or(ImportFormat::Ndjson) {
        ImportFormat::Ndjson => Box::new(Ndjson::new(input, key)),
        ImportFormat::Csv => Box::new(Delimited::csv(input, key)?),
        ImportFormat::Tsv => Box::new(Delimited::tsv(input, key)?),
    })
}

fn failure(args: &ImportArgs, error: SourceError) -> Failure {
    match error {
        SourceError::Read(source) => Failure::file("read", &args.file, source),
        SourceError::Header(reason) => {
            Failure::Argument(format!("{}: {reason}", args.file.display()))
        }
    }
}

/// An import under way.
struct Import<'a> {
    args: &'a ImportArgs,
    keyspace: Keyspace,
    bar: ProgressBar,
    /// Where malformed lines are named.
    remarks: Box<dyn Write>,
    counts: Counts,
}

#[derive(Debug, Default)]
struct Counts {
    new: u64,
    overwritten: u64,
    malformed: u64,
}

impl Import<'_> {
    fn rows(&mut self, source: &mut dyn RowSource) -> Result<(), Failure> {
        let mut row = Row::default();
        loop {
            match source
                .next(&mut row)
                .map_err(|error| failure(self.args, error))?
            {
                Step::Row => self.store(&row)?,
                Step::Malformed(malformed) => self.malformed(malformed)?,
                Step::End => return Ok(()),
            }
        }
    }

    fn store(&mut self, row: &Row) -> Result<(), Failure> {
        match self.put(row) {
            Ok(true) => self.counts.new += 1,
            Ok(false) => self.counts.overwritten += 1,
            Err(error) if error.kind() == ErrorKind::TooLarge => {
                let malformed = Malformed {
                    line: row.line,
                    reason: error.to_string(),
                };
                return self.malformed(malformed);
            }
            Err(error) => return Err(Failure::Store(error)),
        }
        let rows = self.counts.rows();
        if rows.is_multiple_of(TELL_EVERY_ROWS) {
            self.bar.set_message(format!("{rows} rows"));
        }
        Ok(())
    }

    /// Whether the key is new. Nobody else writes between the two calls: one process has a store.
    fn put(&self, row: &Row) -> Result<bool, heliox::Error> {
        if self.keyspace.insert_if_absent(&row.key, &row.value)? {
            return Ok(true);
        }
        self.keyspace.put(&row.key, &row.value)?;
        Ok(false)
    }

    fn malformed(&mut self, malformed: Malformed) -> Result<(), Failure> {
        let Malformed { line, reason } = malformed;
        if self.args.strict {
            let (path, rows) = (self.args.file.clone(), self.counts.rows());
            return Err(Failure::Malformed {
                path,
                line,
                reason,
                rows,
            });
        }
        self.counts.malformed += 1;
        if self.counts.malformed <= LISTED_MAX {
            self.say(&format!("line {line}: {reason}; skipped"));
        }
        Ok(())
    }

    fn say(&mut self, message: &str) {
        let remarks = &mut self.remarks;
        // A remark that cannot be printed changes no result.
        self.bar.suspend(|| {
            let _ = writeln!(remarks, "heliox: {message}");
        });
    }
}

impl Counts {
    fn rows(&self) -> u64 {
        self.new + self.overwritten
    }

    fn summary(&self, seconds: f64) -> String {
        let Counts {
            new,
            overwritten,
            malformed,
        } = self;
        let rows = self.rows();
        let rate = rows as f64 / seconds.max(1e-9);
        format!(
            "{rows} rows: {new} new, {overwritten} overwritten; {malformed} malformed; \
             {seconds:.2} s, {rate:.0} rows/s"
        )
    }
}
