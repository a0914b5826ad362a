//! sled, a lock-free tree over an object store, in Rust; the 1.0 alpha.
//!
//! - Memory: its cache is the memory given. It reads and writes through the page cache, which only
//!   a limit on the whole process bounds (see `limit.rs`).
//! - Compression cannot be turned off: zstd at its fastest level.
//! - Durability: none flushes at the end only; bounded flushes every 100 ms by its own thread;
//!   sync flushes after each write.
//! - A handle belongs to one thread: each thread clones its own, as the library wants it.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use heliox_bench::{DurabilityMode, Engine, EngineError};

use super::{bytes, Setup};

/// Entries of a leaf; the library's default.
const FANOUT: usize = 1024;

type Db = sled::Db<FANOUT>;

thread_local! {
    /// This thread's handle, and the number of the store that it is of.
    static MINE: RefCell<Option<(u64, Db)>> = const { RefCell::new(None) };
}

/// Stores opened by this process so far.
static OPENED: AtomicU64 = AtomicU64::new(0);

struct Sled {
    number: u64,
    first: Mutex<Db>,
    sync: bool,
}

pub(super) fn open(setup: &Setup) -> Result<Box<dyn Engine>, EngineError> {
    let config = sled::Config::new()
        .path(setup.dir.join("sled"))
        .cache_capacity_bytes(bytes(setup.memory_bytes))
        .zstd_compression_level(-7)
        .flush_every_ms((setup.durability == DurabilityMode::Bounded).then_some(100));
    Ok(Box::new(Sled {
        number: OPENED.fetch_add(1, Ordering::Relaxed),
        first: Mutex::new(config.open()?),
        sync: setup.durability == DurabilityMode::Sync,
    }))
}

impl Sled {
    /// Calls with the handle of this thread.
    fn with<R>(&self, call: impl FnOnce(&Db) -> R) -> R {
        MINE.with_borrow_mut(|mine| {
            let kept = mine.take().filter(|(number, _)| *number == self.number);
            let (_, db) = mine.insert(kept.unwrap_or_else(|| {
                let first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
                (self.number, first.clone())
            }));
            call(db)
        })
    }

    fn written(&self) -> Result<(), EngineError> {
        if self.sync {
            self.sync()?;
        }
        Ok(())
    }
}

impl Engine for Sled {
    fn name(&self) -> &str {
        "sled"
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), EngineError> {
        self.with(|db| db.insert(key, value))?;
        self.written()
    }

    fn put_batch(&self, entries: &[(Vec<u8>, Vec<u8>)]) -> Result<(), EngineError> {
        let mut batch = sled::Batch::default();
        for (key, value) in entries {
            batch.insert(key.as_slice(), value.as_slice());
        }
        self.with(|db| db.apply_batch(batch))?;
        self.written()
    }

    fn delete(&self, key: &[u8]) -> Result<(), EngineError> {
        self.with(|db| db.remove(key))?;
        self.written()
    }

    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, EngineError> {
        value.clear();
        let found = self.with(|db| db.get(key))?;
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
        self.with(|db| {
            for entry in db.range(from..).take(entries) {
                let (key, value) = entry?;
                each(&key, &value);
            }
            Ok(())
        })
    }

    fn sync(&self) -> Result<(), EngineError> {
        self.with(|db| db.flush())?;
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<(), EngineError> {
        self.sync()?;
        MINE.take();
        Ok(())
    }
}
