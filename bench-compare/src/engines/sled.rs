//! sled, a lock-free tree over an object store, in Rust; the 1.0 alpha.
//!
//! - Memory: its cache is the memory given. It reads and writes through the page cache, which only
//!   a limit on the whole process bounds (see `limit.rs`).
//! - Compression cannot be turned off: zstd at its fastest level.
//! - Durability: none flushes at the end only; bounded flushes every 100 ms by its own thread;
//!   sync flushes after each write.

use heliox_bench::{DurabilityMode, Engine, EngineError};

use super::{bytes, Setup};

/// Entries of a leaf; the library's default.
const FANOUT: usize = 1024;

struct Sled {
    db: sled::Db<FANOUT>,
    sync: bool,
}

pub(super) fn open(setup: &Setup) -> Result<Box<dyn Engine>, EngineError> {
    let config = sled::Config::new()
        .path(setup.dir.join("sled"))
        .cache_capacity_bytes(bytes(setup.memory_bytes))
        .zstd_compression_level(-7)
        .flush_every_ms((setup.durability == DurabilityMode::Bounded).then_some(100));
    Ok(Box::new(Sled {
        db: config.open()?,
        sync: setup.durability == DurabilityMode::Sync,
    }))
}

impl Sled {
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
        self.db.insert(key, value)?;
        self.written()
    }

    fn put_batch(&self, entries: &[(Vec<u8>, Vec<u8>)]) -> Result<(), EngineError> {
        let mut batch = sled::Batch::default();
        for (key, value) in entries {
            batch.insert(key.as_slice(), value.as_slice());
        }
        self.db.apply_batch(batch)?;
        self.written()
    }

    fn delete(&self, key: &[u8]) -> Result<(), EngineError> {
        self.db.remove(key)?;
        self.written()
    }

    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, EngineError> {
        value.clear();
        let found = self.db.get(key)?;
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
        for entry in self.db.range(from..).take(entries) {
            let (key, value) = entry?;
            each(&key, &value);
        }
        Ok(())
    }

    fn sync(&self) -> Result<(), EngineError> {
        self.db.flush()?;
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<(), EngineError> {
        self.sync()
    }
}
