//! One thread of a workload: claims operations, makes their keys and values, times the calls.
//!
//! Only the call into the engine is timed; making keys and values is not. In the open loop a call is
//! timed from the moment at which its operation was due; keys and values are made before that where
//! there is time, and of an operation of two calls the second is timed from its own begin. Each worker owns its
//! buffers and its account; what it shares is behind `&` in the [`Plan`].

use std::num::NonZeroU64;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::thread::set_current_timer_slack;

use crate::config::Config;
use crate::dispenser::Dispenser;
use crate::draw::{Distribution, Draw};
use crate::engine::{Engine, EngineError, Seen};
use crate::error::BenchError;
use crate::inserts::Inserts;
use crate::keys::KeyGen;
use crate::mix::{below, mix2};
use crate::open_loop::Schedule;
use crate::permutation::Permutation;
use crate::stall::{StallClock, StallWatch};
use crate::tally::Tally;
use crate::values::ValueGen;
use crate::workload::Workload;

/// How often a thread that waits looks whether it is to end.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Entries that one call of `readseq` reads.
const STRIDE: u64 = 1000;
/// In the open loop, what was due when the time was over is still done for this long.
pub(crate) const GRACE: Duration = Duration::from_secs(1);

/// What all workers of a workload share.
pub(crate) struct Plan<'a, E: Engine + ?Sized> {
    pub(crate) engine: &'a E,
    pub(crate) config: &'a Config,
    pub(crate) keys: &'a KeyGen,
    pub(crate) values: &'a ValueGen,
    pub(crate) workload: Workload,
    /// The order of a random fill.
    pub(crate) order: Permutation,
    /// Draws the keys of this workload.
    pub(crate) draw_seed: u64,
    /// Which keys are drawn.
    pub(crate) draw: &'a Draw,
    /// Keys added beyond the N.
    pub(crate) inserts: &'a Inserts,
    /// What it adds has indices below this.
    pub(crate) insert_limit: u64,
    pub(crate) dispenser: Dispenser,
    /// When operations are due; `None`: each as soon as a thread is free.
    pub(crate) schedule: Option<Schedule>,
    /// The same for the further thread of `readwhilewriting`.
    pub(crate) writer_schedule: Option<Schedule>,
    /// Ends the workload when it becomes true.
    pub(crate) interrupted: Option<&'a AtomicBool>,
    /// Tells the further thread of `readwhilewriting` to end.
    pub(crate) background_stop: AtomicBool,
    pub(crate) deadline: Option<Instant>,
    pub(crate) stall: StallClock,
    /// Operations done so far, for the live display.
    pub(crate) done: AtomicU64,
}

impl<E: Engine + ?Sized> Plan<'_, E> {
    /// Ends the workload early.
    pub(crate) fn stop(&self) {
        self.dispenser.stop();
        self.background_stop.store(true, Ordering::Relaxed);
    }
}

/// One thread of a workload.
pub(crate) struct Worker<'a, E: Engine + ?Sized> {
    pub(crate) plan: &'a Plan<'a, E>,
    tally: Tally,
    watch: StallWatch<'a>,
    /// When the next call is due.
    due: Option<Instant>,
    key: Vec<u8>,
    value: Vec<u8>,
    batch: Vec<Vec<u8>>,
    entries: Vec<(Vec<u8>, Vec<u8>)>,
}

impl<'a, E: Engine + ?Sized> Worker<'a, E> {
    /// A worker with an empty account.
    pub(crate) fn new(plan: &'a Plan<'a, E>) -> Result<Worker<'a, E>, BenchError> {
        Ok(Worker {
            plan,
            tally: Tally::new(plan.stall.start())?,
            watch: plan.stall.watch(),
            due: None,
            key: Vec::new(),
            value: Vec::new(),
            batch: Vec::new(),
            entries: Vec::new(),
        })
    }

    /// Works until the operations or the time are over; the first error ends all workers.
    pub(crate) fn run(mut self) -> Result<Tally, BenchError> {
        if self.plan.workload == Workload::ReadSeq {
            self.read_all().map_err(|source| self.failed(source))?;
            return Ok(self.finish());
        }
        wake_in_time(self.plan.schedule.is_some());
        while let Some(ops) = self.plan.dispenser.claim() {
            let count = ops.end - ops.start;
            if !self.is_to_do(&ops) {
                break;
            }
            self.chunk(ops).map_err(|source| self.failed(source))?;
            self.plan.done.fetch_add(count, Ordering::Relaxed);
        }
        Ok(self.finish())
    }

    /// Overwrites until it is told to stop: the further thread of `readwhilewriting`.
    pub(crate) fn run_background(mut self) -> Result<Tally, BenchError> {
        wake_in_time(self.plan.writer_schedule.is_some());
        for op in 0u64.. {
            if let Some(schedule) = &self.plan.writer_schedule {
                let due = schedule.claim(op, 1);
                if !self.wait(due, || self.plan.background_stop.load(Ordering::Relaxed)) {
                    break;
                }
                self.due = Some(due);
            }
            self.overwrite(!op).map_err(|source| self.failed(source))?;
            // Asked after the first write: however short the reads are, there is one beside them.
            if self.plan.background_stop.load(Ordering::Relaxed) {
                break;
            }
        }
        Ok(self.finish())
    }

    /// Whether claimed operations are to be done; sets when they are due. What is due after the
    /// deadline is not, nor what could not be begun for long after it.
    fn is_to_do(&mut self, ops: &Range<u64>) -> bool {
        let Some(schedule) = &self.plan.schedule else {
            return true;
        };
        let count = ops.end - ops.start;
        let due = schedule.claim(ops.start, count);
        if let Some(deadline) = self.plan.deadline {
            if due >= deadline {
                return false;
            }
            if deadline.elapsed() >= GRACE {
                self.plan.dispenser.stop();
                self.tally.waits.unserved += count;
                return false;
            }
        }
        self.due = Some(due);
        true
    }

    /// Sleeps until a moment; false if told to end before.
    fn wait(&mut self, due: Instant, told: impl Fn() -> bool) -> bool {
        let mut slept = false;
        loop {
            let now = Instant::now();
            let left = due.saturating_duration_since(now);
            if left.is_zero() {
                if slept {
                    self.tally.waits.wakes.record(now - due);
                }
                return true;
            }
            if told() {
                return false;
            }
            thread::sleep(left.min(LOOK_EVERY));
            slept = true;
        }
    }

    /// When the call that is made now counts as begun: when it was due, for which this waits.
    fn begin(&mut self) -> Instant {
        let Some(due) = self.due.take() else {
            return Instant::now();
        };
        self.wait(due, || self.plan.dispenser.stopped());
        due
    }

    fn failed(&self, source: EngineError) -> BenchError {
        self.plan.stop();
        BenchError::Engine {
            workload: self.plan.workload.name().to_owned(),
            source,
        }
    }

    fn finish(mut self) -> Tally {
        self.tally.longest_stall = self.watch.longest();
        self.tally
    }

    fn chunk(&mut self, ops: Range<u64>) -> Result<(), EngineError> {
        let batch = self.plan.config.keys_per_call(self.plan.workload) as u64;
        let mut next = ops.start;
        while next < ops.end && !self.plan.dispenser.stopped() {
            let until = (next + batch).min(ops.end);
            if self.plan.workload == Workload::FillBatch {
                self.put_batch(next..until)?;
            } else if batch > 1 {
                self.read_batch(next..until)?;
            } else {
                self.one(next)?;
            }
            next = until;
            let closed = self.plan.schedule.is_none();
            let deadline = self.plan.deadline.filter(|_| closed);
            if deadline.is_some_and(|deadline| self.tally.end >= deadline) {
                self.plan.dispenser.stop();
            }
        }
        Ok(())
    }

    fn one(&mut self, op: u64) -> Result<(), EngineError> {
        match self.plan.workload {
            Workload::FillSeq => self.put(op, 0),
            Workload::FillRandom | Workload::FillBatch => self.put(self.plan.order.at(op), 0),
            Workload::Overwrite => self.overwrite(op),
            Workload::MergeRandom => self.merge(op),
            Workload::ReadRandom
            | Workload::MultiReadRandom
            | Workload::ReadMissing
            | Workload::ReadWhileWriting => self.read(op),
            Workload::ReadRandomWriteRandom if self.is_read(op) => self.read(op),
            Workload::ReadRandomWriteRandom => self.overwrite(op),
            Workload::SeekRandom => self.scan(self.draw(op), 1),
            Workload::Scan => self.scan(self.draw(op), self.plan.config.scan_entries),
            Workload::DeleteRandom => self.delete(self.draw(op)),
            // Not made of operations with numbers.
            Workload::ReadSeq | Workload::Reopen | Workload::ReopenKilled => Ok(()),
            Workload::YcsbA
            | Workload::YcsbB
            | Workload::YcsbC
            | Workload::YcsbD
            | Workload::YcsbE
            | Workload::YcsbF => self.ycsb(op),
        }
    }

    /// A random index for an operation.
    fn draw(&self, op: u64) -> u64 {
        self.item(Distribution::Uniform, mix2(self.plan.draw_seed, op))
    }

    /// The index that a hash draws, in a workload whose own distribution is `own`.
    pub(crate) fn item(&self, own: Distribution, hash: u64) -> u64 {
        self.plan.draw.item(own, hash, self.plan.inserts.count())
    }

    fn is_read(&self, op: u64) -> bool {
        let roll = below(mix2(!self.plan.draw_seed, op), 1_000_000) as f64 / 10_000.0;
        roll < self.plan.config.read_share_percent
    }

    fn overwrite(&mut self, op: u64) -> Result<(), EngineError> {
        self.put(self.draw(op), self.version(op))
    }

    /// Version 0 is the fill's; every other write differs from it and from its neighbours.
    pub(crate) fn version(&self, op: u64) -> u64 {
        mix2(self.plan.draw_seed, op) | 1
    }

    pub(crate) fn put(&mut self, index: u64, version: u64) -> Result<(), EngineError> {
        self.plan.keys.key(index, &mut self.key);
        self.plan.values.value(index, version, &mut self.value);
        let begin = self.begin();
        self.plan.engine.put(&self.key, &self.value)?;
        self.has_written(begin, 1, self.key.len() + self.value.len());
        Ok(())
    }

    /// Adds a key; where there is no room for more, one that was added is written again.
    pub(crate) fn insert(&mut self, op: u64) -> Result<(), EngineError> {
        let (plan, first) = (self.plan, self.plan.config.num);
        if let Some(index) = plan.inserts.claim(plan.insert_limit) {
            self.put(index, 0)?;
            plan.inserts.done(index);
            return Ok(());
        }
        self.tally.inserts_again += 1;
        let added = plan.insert_limit.saturating_sub(first).max(1);
        let index = first + below(self.version(op), added);
        self.put(index, self.version(op))
    }

    fn merge(&mut self, op: u64) -> Result<(), EngineError> {
        self.plan.keys.key(self.draw(op), &mut self.key);
        let operand = self.version(op).to_le_bytes();
        let begin = self.begin();
        self.plan.engine.merge(&self.key, &operand)?;
        self.has_written(begin, 1, self.key.len() + operand.len());
        Ok(())
    }

    fn put_batch(&mut self, ops: Range<u64>) -> Result<(), EngineError> {
        let count = ops.end - ops.start;
        let mut bytes = 0;
        self.entries.resize(count as usize, Default::default());
        for ((key, value), op) in self.entries.iter_mut().zip(ops) {
            let index = self.plan.order.at(op);
            self.plan.keys.key(index, key);
            self.plan.values.value(index, 0, value);
            bytes += key.len() + value.len();
        }
        let begin = self.begin();
        self.plan.engine.put_batch(&self.entries)?;
        self.has_written(begin, count, bytes);
        Ok(())
    }

    fn delete(&mut self, index: u64) -> Result<(), EngineError> {
        self.plan.keys.key(index, &mut self.key);
        let begin = self.begin();
        self.plan.engine.delete(&self.key)?;
        self.has_written(begin, 1, self.key.len());
        Ok(())
    }

    fn has_written(&mut self, begin: Instant, ops: u64, bytes: usize) {
        let end = Instant::now();
        self.watch.completed(end);
        self.tally.writes.record(end - begin);
        self.tally.write_ops += ops;
        self.tally.user_bytes += bytes as u64;
        self.tally.series.add(end, ops);
        self.tally.end = end;
    }

    fn read_key(&self, op: u64, out: &mut Vec<u8>) {
        if self.plan.workload == Workload::ReadMissing {
            self.plan.keys.missing_key(self.draw(op), out);
        } else {
            self.plan.keys.key(self.draw(op), out);
        }
    }

    fn read(&mut self, op: u64) -> Result<(), EngineError> {
        let mut key = std::mem::take(&mut self.key);
        self.read_key(op, &mut key);
        self.key = key;
        self.get_key(1)
    }

    /// Reads the key of an index; `ops` is 0 where the read is part of another operation.
    pub(crate) fn get(&mut self, index: u64, ops: u64) -> Result<(), EngineError> {
        self.plan.keys.key(index, &mut self.key);
        self.get_key(ops)
    }

    fn get_key(&mut self, ops: u64) -> Result<(), EngineError> {
        let begin = self.begin();
        let found = self.plan.engine.get(&self.key, &mut self.value)?;
        let end = Instant::now();
        let mut seen = Seen::default();
        if found {
            seen.add(&self.key, &self.value);
        }
        self.has_read(begin, end, ops, ops.min(seen.entries), seen);
        Ok(())
    }

    fn read_batch(&mut self, ops: Range<u64>) -> Result<(), EngineError> {
        let mut batch = std::mem::take(&mut self.batch);
        let count = ops.end - ops.start;
        batch.resize(count as usize, Vec::new());
        for (key, op) in batch.iter_mut().zip(ops) {
            self.read_key(op, key);
        }
        let begin = self.begin();
        let seen = self.plan.engine.multi_get(&batch)?;
        let end = Instant::now();
        self.batch = batch;
        self.has_read(begin, end, count, seen.entries, seen);
        Ok(())
    }

    pub(crate) fn scan(&mut self, index: u64, entries: usize) -> Result<(), EngineError> {
        self.plan.keys.key(index, &mut self.key);
        let begin = self.begin();
        let mut seen = Seen::default();
        let mut count = |key: &[u8], value: &[u8]| seen.add(key, value);
        self.plan.engine.scan(&self.key, entries, &mut count)?;
        let end = Instant::now();
        self.has_read(begin, end, 1, u64::from(seen.entries > 0), seen);
        Ok(())
    }

    /// Reads everything in key order, many entries a call.
    fn read_all(&mut self) -> Result<(), EngineError> {
        // Below every key; some engines do not take an empty one.
        let mut from = vec![0];
        loop {
            let (mut seen, mut last) = (Seen::default(), Vec::new());
            let begin = Instant::now();
            let mut each = |key: &[u8], value: &[u8]| {
                seen.add(key, value);
                if seen.entries == STRIDE {
                    last.extend_from_slice(key);
                }
            };
            self.plan.engine.scan(&from, STRIDE as usize, &mut each)?;
            let end = Instant::now();
            // The call that finds the end is none that reads.
            if seen.entries > 0 {
                self.has_read(begin, end, seen.entries, seen.entries, seen);
            }
            self.plan.done.fetch_add(seen.entries, Ordering::Relaxed);
            if last.is_empty() || !increment(&mut last) || self.plan.dispenser.stopped() {
                return Ok(());
            }
            from = last;
        }
    }

    fn has_read(&mut self, begin: Instant, end: Instant, ops: u64, found: u64, seen: Seen) {
        self.tally.reads.record(end - begin);
        self.tally.read_ops += ops;
        self.tally.found += found;
        self.tally.seen.entries += seen.entries;
        self.tally.seen.bytes += seen.bytes;
        self.tally.series.add(end, ops);
        self.tally.end = end;
    }
}

/// Makes a key the next one of its size; false if there is none. All keys have the same size.
fn increment(key: &mut [u8]) -> bool {
    key.iter_mut().rev().any(|byte| {
        *byte = byte.wrapping_add(1);
        *byte != 0
    })
}

/// Has the kernel wake this thread when its sleep is over rather than 50 us later, to spare wake-ups.
fn wake_in_time(asked: bool) {
    if asked {
        // Where it is refused, threads wake up later, and the report says by how much.
        let _ = set_current_timer_slack(NonZeroU64::new(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_key_carries_and_ends_with_the_last() {
        for (key, next) in [([0, 1], [0, 2]), ([7, 255], [8, 0])] {
            let mut one = key;
            assert!(increment(&mut one));
            assert_eq!(one, next);
        }
        assert!(!increment(&mut [255, 255]));
    }
}
