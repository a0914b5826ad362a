//! What one thread of a workload has done, and the sum over threads. Plain data, no threads.

use std::time::{Duration, Instant};

use crate::engine::Seen;
use crate::error::BenchError;
use crate::latency::Latency;
use crate::series::Series;

/// How the open loop went for one thread or, merged, for a workload.
#[derive(Clone, Debug)]
pub(crate) struct Waits {
    /// How late it woke up for what was due.
    pub(crate) wakes: Latency,
    /// Operations that it claimed too late to begin them.
    pub(crate) unserved: u64,
}

impl Waits {
    /// No waits.
    pub(crate) fn new() -> Result<Waits, BenchError> {
        Ok(Waits {
            wakes: Latency::new()?,
            unserved: 0,
        })
    }

    fn merge(&mut self, other: &Waits) -> Result<(), BenchError> {
        self.unserved += other.unserved;
        self.wakes.merge(&other.wakes)
    }
}

/// The account of one thread or, merged, of a workload.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    /// Latencies of calls that read.
    pub(crate) reads: Latency,
    /// Latencies of calls that wrote.
    pub(crate) writes: Latency,
    /// Operations that read; a batched call counts once for each key.
    pub(crate) read_ops: u64,
    /// Operations that wrote.
    pub(crate) write_ops: u64,
    /// Reading operations that found something.
    pub(crate) found: u64,
    /// Entries and bytes that were returned.
    pub(crate) seen: Seen,
    /// Bytes of keys and values written.
    pub(crate) user_bytes: u64,
    /// Inserts for which there was no room, and which wrote again what was inserted before.
    pub(crate) inserts_again: u64,
    /// Operations by the second in which they ended.
    pub(crate) series: Series,
    /// The longest gap between completed writes that was measured.
    pub(crate) longest_stall: Duration,
    /// What the open loop adds.
    pub(crate) waits: Waits,
    /// When the last operation ended.
    pub(crate) end: Instant,
}

impl Tally {
    /// An empty account; `now` begins the first second of its series.
    pub(crate) fn new(now: Instant) -> Result<Tally, BenchError> {
        Ok(Tally {
            reads: Latency::new()?,
            writes: Latency::new()?,
            read_ops: 0,
            write_ops: 0,
            found: 0,
            seen: Seen::default(),
            user_bytes: 0,
            inserts_again: 0,
            series: Series::new(now),
            longest_stall: Duration::ZERO,
            waits: Waits::new()?,
            end: now,
        })
    }

    /// Adds the account of another thread.
    pub(crate) fn merge(&mut self, other: &Tally) -> Result<(), BenchError> {
        self.reads.merge(&other.reads)?;
        self.writes.merge(&other.writes)?;
        self.read_ops += other.read_ops;
        self.write_ops += other.write_ops;
        self.found += other.found;
        self.seen.entries += other.seen.entries;
        self.seen.bytes += other.seen.bytes;
        self.user_bytes += other.user_bytes;
        self.inserts_again += other.inserts_again;
        self.series.merge(&other.series);
        self.longest_stall = self.longest_stall.max(other.longest_stall);
        self.waits.merge(&other.waits)?;
        self.end = self.end.max(other.end);
        Ok(())
    }
}
