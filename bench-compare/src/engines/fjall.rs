//! fjall, a log-structured merge tree in Rust.
//!
//! - Memory: two memtables, the rest is its cache of blocks. It reads and writes through the page
//!   cache, which only a limit on the whole process bounds (see `limit.rs`).
//! - Bloom filters and block sizes are its defaults; as many workers as processors.
//! - Compression off (built without it), as for every engine that allows it.
//! - Durability: sync persists the journal after each write. Under none and bounded writes stay in
//!   fjall's buffer of the journal (`manual_journal_persist`), for bounded until this program has it
//!   written and synced, every 100 ms: a killed process loses what is not synced, as with Heliox.
//! - What flushes and compactions still have to do when a workload ends is waited for.

use std::time::{Duration, Instant};

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use heliox_bench::{DurabilityMode, Engine, EngineError};

use super::{block_cache_bytes, write_buffer_bytes, Setup};

/// Compactions that take longer than this are not waited for.
const REST_LIMIT: Duration = Duration::from_secs(300);
const REST_STEP: Duration = Duration::from_millis(50);
/// Without work for so many looks in a row it is at rest.
const RESTING_LOOKS: u32 = 6;

struct Fjall {
    db: Database,
    table: Keyspace,
    sync: bool,
}

pub(super) fn open(setup: &Setup) -> Result<Box<dyn Engine>, EngineError> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let db = Database::builder(&setup.dir)
        .cache_size(block_cache_bytes(setup))
        .worker_threads(cores)
        // Each write is persisted by `written` where it is to be.
        .manual_journal_persist(true)
        .open()?;
    let memtable = write_buffer_bytes(setup);
    let table = db.keyspace("bench", || {
        KeyspaceCreateOptions::default()
            .max_memtable_size(memtable)
            .manual_journal_persist(true)
    })?;
    Ok(Box::new(Fjall {
        db,
        table,
        sync: setup.durability == DurabilityMode::Sync,
    }))
}

impl Fjall {
    fn written(&self) -> Result<(), EngineError> {
        if self.sync {
            self.sync()?;
        }
        Ok(())
    }
}

impl Engine for Fjall {
    fn name(&self) -> &str {
        "fjall"
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), EngineError> {
        self.table.insert(key, value)?;
        self.written()
    }

    fn put_batch(&self, entries: &[(Vec<u8>, Vec<u8>)]) -> Result<(), EngineError> {
        let mut batch = self.db.batch();
        for (key, value) in entries {
            batch.insert(&self.table, key.as_slice(), value.as_slice());
        }
        batch.commit()?;
        self.written()
    }

    fn delete(&self, key: &[u8]) -> Result<(), EngineError> {
        self.table.remove(key)?;
        self.written()
    }

    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, EngineError> {
        value.clear();
        let found = self.table.get(key)?;
        if let Some(found) = &found {
            value.extend_from_slice(found);
        }
        Ok(found.is_some())
    }

    fn scan(
        &self,
        from: &[u8],
        entries: usize,
        each: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<(), EngineError> {
        for entry in self.table.range(from..).take(entries) {
            let (key, value) = entry.into_inner()?;
            each(&key, &value);
        }
        Ok(())
    }

    fn sync(&self) -> Result<(), EngineError> {
        Ok(self.db.persist(PersistMode::SyncData)?)
    }

    fn settle(&self) -> Result<(), EngineError> {
        self.sync()?;
        let (begin, mut resting) = (Instant::now(), 0);
        while resting < RESTING_LOOKS && begin.elapsed() < REST_LIMIT {
            std::thread::sleep(REST_STEP);
            let busy = self.db.outstanding_flushes() > 0 || self.db.active_compactions() > 0;
            resting = if busy { 0 } else { resting + 1 };
        }
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<(), EngineError> {
        self.sync()
    }
}
