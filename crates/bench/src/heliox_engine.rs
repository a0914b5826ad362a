//! Heliox as the engine under test.
//!
//! Threads: a store and a keyspace are shared by all workers.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use heliox::{Batch, Durability, KeySource, Keyspace, MergeOperator, Options, Store};

use crate::config::DurabilityMode;
use crate::counters::{ByCause, Counters};
use crate::engine::{Engine, EngineError, Seen};
use crate::merge::add_number;

/// The counters are at rest when they did not move for this long.
const REST: Duration = Duration::from_millis(300);
/// Background work that does not come to rest is not waited for any longer.
const REST_LIMIT: Duration = Duration::from_secs(3);
const REST_STEP: Duration = Duration::from_millis(50);

/// How to open the store that is measured.
#[derive(Clone, Debug)]
pub struct HelioxSetup {
    /// The directory of the store; made if missing.
    pub dir: PathBuf,
    /// The keyspace that holds the benchmark's data; made if missing.
    pub keyspace: String,
    /// The default of every write.
    pub durability: DurabilityMode,
    /// The memory budget, in bytes; `None`: the store's default.
    pub memory_bytes: Option<u64>,
    /// The capacity of a store that is made now, in bytes; `None`: the store's default.
    pub capacity_bytes: Option<u64>,
    /// Where the key of an encrypted store comes from; `None`: the store is plain.
    pub encryption: Option<KeySource>,
    /// How long a pass of the scrub takes, zero for none; `None`: the store's default.
    pub scrub_period: Option<Duration>,
}

impl DurabilityMode {
    /// The engine's word for this mode, with its default bounds.
    #[must_use]
    pub fn for_heliox(self) -> Durability {
        match self {
            DurabilityMode::None => Durability::None,
            DurabilityMode::Bounded => Durability::Bounded {
                ms: 100,
                bytes: 8 << 20,
            },
            DurabilityMode::Sync => Durability::Sync,
        }
    }
}

/// What `mergerandom` merges by.
struct Adder;

impl MergeOperator for Adder {
    fn name(&self) -> &str {
        "uint64add"
    }

    fn merge(&self, _: &[u8], base: Option<&[u8]>, operand: &[u8]) -> Option<Vec<u8>> {
        Some(add_number(base, operand))
    }
}

/// An open store with the keyspace of the benchmark.
#[derive(Clone)]
pub struct HelioxEngine {
    store: Store,
    keyspace: Keyspace,
}

impl HelioxEngine {
    /// Opens the store, or makes it.
    ///
    /// # Errors
    /// Whatever opening a store may report.
    pub fn open(setup: &HelioxSetup) -> Result<HelioxEngine, heliox::Error> {
        let mut options = Options::new()
            .create_if_missing(true)
            .durability(setup.durability.for_heliox())
            .merge_operator(Arc::new(Adder));
        if let Some(bytes) = setup.memory_bytes {
            options = options.memory_budget_bytes(bytes);
        }
        if let Some(bytes) = setup.capacity_bytes {
            options = options.capacity_bytes(bytes);
        }
        if let Some(key) = &setup.encryption {
            options = options.encryption(key.clone());
        }
        if let Some(period) = setup.scrub_period {
            options = options.scrub_period_secs(period.as_secs());
        }
        let dir: &Path = &setup.dir;
        let store = Store::open(dir, &options)?;
        let keyspace = store.keyspace_or_create(&setup.keyspace)?;
        Ok(HelioxEngine { store, keyspace })
    }

    /// Closes the store.
    ///
    /// # Errors
    /// Whatever closing a store may report.
    pub fn close(self) -> Result<(), heliox::Error> {
        drop(self.keyspace);
        self.store.close()
    }
}

impl Engine for HelioxEngine {
    fn name(&self) -> &str {
        "heliox"
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), EngineError> {
        Ok(self.keyspace.put(key, value)?)
    }

    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, EngineError> {
        Ok(self.keyspace.get_into(key, value)?)
    }

    fn put_batch(&self, entries: &[(Vec<u8>, Vec<u8>)]) -> Result<(), EngineError> {
        let mut batch = Batch::new();
        for (key, value) in entries {
            batch.put(&self.keyspace, key, value);
        }
        Ok(self.store.write(&batch)?)
    }

    fn merge(&self, key: &[u8], operand: &[u8]) -> Result<(), EngineError> {
        Ok(self.keyspace.merge(key, operand)?)
    }

    fn delete(&self, key: &[u8]) -> Result<(), EngineError> {
        Ok(self.keyspace.delete(key)?)
    }

    fn multi_get(&self, keys: &[Vec<u8>]) -> Result<Seen, EngineError> {
        let mut seen = Seen::default();
        for (key, value) in keys.iter().zip(self.keyspace.multi_get(keys)?) {
            if let Some(value) = value {
                seen.add(key, &value);
            }
        }
        Ok(seen)
    }

    fn scan(
        &self,
        from: &[u8],
        entries: usize,
        each: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<(), EngineError> {
        for entry in self.keyspace.iter().from(from).limit(entries).start()? {
            let (key, value) = entry?;
            each(&key, &value);
        }
        Ok(())
    }

    fn sync(&self) -> Result<(), EngineError> {
        Ok(self.store.sync()?)
    }

    fn settle(&self) -> Result<(), EngineError> {
        self.store.sync()?;
        let begin = Instant::now();
        let mut moved = begin;
        let mut last = self.counters()?.written;
        while moved.elapsed() < REST && begin.elapsed() < REST_LIMIT {
            std::thread::sleep(REST_STEP);
            let now = self.counters()?.written;
            if now != last {
                (last, moved) = (now, Instant::now());
            }
        }
        Ok(())
    }

    fn counters(&self) -> Result<Counters, EngineError> {
        let stats = self.store.stats();
        Ok(Counters {
            written: by_cause(&stats.bytes_written),
            read: by_cause(&stats.bytes_read),
            foreground_reads: stats.foreground_reads,
            objects: stats.objects,
            index_bytes: stats.index_bytes,
            memory_bytes: stats.memory_budget_bytes,
            capacity_bytes: stats.capacity_bytes,
            disk_bytes: stats.disk_bytes,
        })
    }

    fn close(self: Box<Self>) -> Result<(), EngineError> {
        Ok(HelioxEngine::close(*self)?)
    }
}

fn by_cause(bytes: &heliox::BytesByCause) -> ByCause {
    ByCause {
        data: bytes.data,
        gc: bytes.gc,
        checkpoint: bytes.checkpoint,
        metadata: bytes.metadata,
    }
}
