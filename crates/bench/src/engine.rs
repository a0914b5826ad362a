//! The engine under test, as the workloads see it.
//!
//! Threads: workers share one engine and call it at the same time.

use std::error::Error;

use crate::counters::Counters;
use crate::merge::add_number;

/// Whatever an engine says when it refuses an operation.
pub type EngineError = Box<dyn Error + Send + Sync>;

/// What a read over several entries returned.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Seen {
    /// Entries returned.
    pub entries: u64,
    /// Bytes of their keys and values.
    pub bytes: u64,
}

impl Seen {
    /// Counts one entry.
    pub fn add(&mut self, key: &[u8], value: &[u8]) {
        self.entries += 1;
        self.bytes += (key.len() + value.len()) as u64;
    }
}

/// A store that can be measured.
pub trait Engine: Sync {
    /// Its name in reports.
    fn name(&self) -> &str;

    /// Writes one value.
    ///
    /// # Errors
    /// Whatever the engine reports.
    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), EngineError>;

    /// Reads one value into `value`, which it empties first; false if there is none.
    ///
    /// # Errors
    /// Whatever the engine reports.
    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, EngineError>;

    /// Writes all entries as one atomic batch.
    ///
    /// # Errors
    /// Whatever the engine reports.
    fn put_batch(&self, entries: &[(Vec<u8>, Vec<u8>)]) -> Result<(), EngineError>;

    /// Merges an operand into a value, as [`add_number`] does. An engine that has no such call is
    /// asked for the value and given the sum, which is not atomic: of two that merge into one key
    /// at the same time, one may be lost.
    ///
    /// # Errors
    /// Whatever the engine reports.
    fn merge(&self, key: &[u8], operand: &[u8]) -> Result<(), EngineError> {
        let mut value = Vec::new();
        let found = self.get(key, &mut value)?;
        self.put(key, &add_number(found.then_some(&value), operand))
    }

    /// Deletes a key, present or not.
    ///
    /// # Errors
    /// Whatever the engine reports.
    fn delete(&self, key: &[u8]) -> Result<(), EngineError>;

    /// Reads the values of all keys in one call and counts those found. An engine that has no such
    /// call is asked for one key after the other.
    ///
    /// # Errors
    /// Whatever the engine reports.
    fn multi_get(&self, keys: &[Vec<u8>]) -> Result<Seen, EngineError> {
        let (mut seen, mut value) = (Seen::default(), Vec::new());
        for key in keys {
            if self.get(key, &mut value)? {
                seen.add(key, &value);
            }
        }
        Ok(seen)
    }

    /// Gives up to `entries` entries, keys and values, in key order from `from` on to `each`.
    ///
    /// # Errors
    /// Whatever the engine reports.
    fn scan(
        &self,
        from: &[u8],
        entries: usize,
        each: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<(), EngineError>;

    /// Makes every write durable.
    ///
    /// # Errors
    /// Whatever the engine reports.
    fn sync(&self) -> Result<(), EngineError>;

    /// Makes every write durable and waits for what the writes caused in the background, so that
    /// it is counted.
    ///
    /// # Errors
    /// Whatever the engine reports.
    fn settle(&self) -> Result<(), EngineError> {
        self.sync()
    }

    /// Reads the counters.
    ///
    /// # Errors
    /// Whatever the engine reports.
    fn counters(&self) -> Result<Counters, EngineError> {
        Ok(Counters::default())
    }

    /// Ends the use of the store.
    ///
    /// # Errors
    /// Whatever the engine reports.
    fn close(self: Box<Self>) -> Result<(), EngineError>;
}
