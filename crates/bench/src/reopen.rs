//! A store that is closed and opened again: how long both took, as a row.
//!
//! Whoever owns the engine closes and opens it; this takes the times. Opening ends when the first
//! read is answered, so that an engine that opens now and works later has no advantage. Plain data,
//! no threads.

use std::time::{Duration, Instant};

use crate::config::Config;
use crate::counters::Counters;
use crate::engine::{Engine, EngineError};
use crate::error::BenchError;
use crate::row::{Measured, Reading, Reopened, Row};
use crate::system::ProcessUsage;
use crate::tally::Tally;

/// Takes the times of one reopening.
#[derive(Clone, Copy, Debug)]
pub struct Reopening {
    usage: ProcessUsage,
    begin: Instant,
    closed: Option<Duration>,
    opening: Instant,
}

impl Reopening {
    /// The store is closed from now on; or it was not closed, and is opened from now on.
    ///
    /// # Errors
    /// The kernel does not tell what this process uses.
    pub fn begin() -> Result<Reopening, BenchError> {
        let usage = ProcessUsage::read()?;
        let now = Instant::now();
        Ok(Reopening {
            usage,
            begin: now,
            closed: None,
            opening: now,
        })
    }

    /// The store is closed.
    pub fn closed(&mut self) {
        self.closed = Some(self.begin.elapsed());
    }

    /// The store is opened from now on.
    pub fn opening(&mut self) {
        self.opening = Instant::now();
    }

    /// The store is open: asks it for a first key, and gives the row of the step at `place` of
    /// [`Config::steps`].
    ///
    /// # Errors
    /// Those of the engine; a store that has nothing any more.
    pub fn done<E: Engine + ?Sized>(
        self,
        engine: &E,
        config: &Config,
        place: usize,
    ) -> Result<Row, BenchError> {
        let step = config.step(place)?;
        let failed = |source: EngineError| BenchError::Engine {
            workload: step.workload.name().to_owned(),
            source,
        };
        let mut key = Vec::new();
        config.validate()?.key(0, &mut key);
        let found = first_read(engine, &key).map_err(failed)?;
        let opened = self.opening.elapsed();
        let elapsed = opened + self.closed.unwrap_or_default();
        let after = Reading::take(engine)?;
        let measured = self.measured(elapsed, found, after)?;
        let reopened = Reopened {
            close_seconds: self.closed.map(|closed| closed.as_secs_f64()),
            open_seconds: opened.as_secs_f64(),
        };
        Ok(Row {
            reopened: Some(reopened),
            ..Row::new(engine.name(), step, config, &measured)?
        })
    }

    fn measured(
        &self,
        elapsed: Duration,
        found: bool,
        after: Reading,
    ) -> Result<Measured, BenchError> {
        let mut front = Tally::new(self.begin)?;
        front.reads.record(elapsed);
        front.read_ops = 1;
        front.found = u64::from(found);
        Ok(Measured {
            front,
            background: Tally::new(self.begin)?,
            elapsed,
            control: None,
            used: Vec::new(),
            open_loop: None,
            writer_loop: None,
            settled: Duration::ZERO,
            // An engine counts from its opening on.
            before: Reading::of(Counters::default(), self.usage),
            after,
        })
    }
}

/// Whether this key is there; an error if nothing is.
fn first_read<E: Engine + ?Sized>(engine: &E, key: &[u8]) -> Result<bool, EngineError> {
    let found = engine.get(key, &mut Vec::new())?;
    let mut entries = u64::from(found);
    if !found {
        engine.scan(&[0], 1, &mut |_, _| entries += 1)?;
    }
    if entries == 0 {
        return Err("the store is empty: fill it first, or the engine kept nothing".into());
    }
    Ok(found)
}
