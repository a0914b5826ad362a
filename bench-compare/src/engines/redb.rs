//! redb, a copy-on-write B+ tree in one file, in Rust.
//!
//! - Memory: its cache is the memory given. It reads and writes through the page cache, which only
//!   a limit on the whole process bounds (see `limit.rs`).
//! - Each write is a transaction; there is one writer at a time.
//! - Durability: sync is `Durability::Immediate`. None and bounded are `Durability::None`; since
//!   pages become free by durable commits alone, bounded has one every 100 ms by this program, and
//!   none after each 10,000 commits.
//! - It has no compression.

use std::sync::atomic::{AtomicU64, Ordering};

use heliox_bench::{DurabilityMode, Engine, EngineError, Seen};
use redb::{
    Builder, Database, Durability, ReadableDatabase, Table, TableDefinition, WriteTransaction,
};

use super::{bytes, Setup};

const TABLE: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("bench");
/// Without durability, one commit of so many is durable.
const COMMITS_PER_SYNC: u64 = 10_000;

struct Redb {
    db: Database,
    durability: DurabilityMode,
    commits: AtomicU64,
}

pub(super) fn open(setup: &Setup) -> Result<Box<dyn Engine>, EngineError> {
    let mut builder = Builder::new();
    builder.set_cache_size(bytes(setup.memory_bytes));
    let engine = Redb {
        db: builder.create(setup.dir.join("redb"))?,
        durability: setup.durability,
        commits: AtomicU64::new(0),
    };
    // Makes the table, so that reads find one.
    engine.write(|_| Ok(()))?;
    Ok(Box::new(engine))
}

type Open<'t> = Table<'t, &'static [u8], &'static [u8]>;

impl Redb {
    fn write(
        &self,
        work: impl FnOnce(&mut Open<'_>) -> Result<(), EngineError>,
    ) -> Result<(), EngineError> {
        let mut txn: WriteTransaction = self.db.begin_write()?;
        let number = self.commits.fetch_add(1, Ordering::Relaxed);
        let durable = match self.durability {
            DurabilityMode::Sync => true,
            DurabilityMode::Bounded => false,
            DurabilityMode::None => number.is_multiple_of(COMMITS_PER_SYNC),
        };
        txn.set_durability(if durable {
            Durability::Immediate
        } else {
            Durability::None
        })?;
        work(&mut txn.open_table(TABLE)?)?;
        Ok(txn.commit()?)
    }
}

impl Engine for Redb {
    fn name(&self) -> &str {
        "redb"
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), EngineError> {
        self.write(|table| {
            table.insert(key, value)?;
            Ok(())
        })
    }

    fn put_batch(&self, entries: &[(Vec<u8>, Vec<u8>)]) -> Result<(), EngineError> {
        self.write(|table| {
            for (key, value) in entries {
                table.insert(key.as_slice(), value.as_slice())?;
            }
            Ok(())
        })
    }

    fn delete(&self, key: &[u8]) -> Result<(), EngineError> {
        self.write(|table| {
            table.remove(key)?;
            Ok(())
        })
    }

    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, EngineError> {
        value.clear();
        let table = self.db.begin_read()?.open_table(TABLE)?;
        let found = table.get(key)?;
        if let Some(found) = &found {
            value.extend_from_slice(found.value());
        }
        Ok(found.is_some())
    }

    /// One transaction for all keys.
    fn multi_get(&self, keys: &[Vec<u8>]) -> Result<Seen, EngineError> {
        let mut seen = Seen::default();
        let table = self.db.begin_read()?.open_table(TABLE)?;
        for key in keys {
            if let Some(value) = table.get(key.as_slice())? {
                seen.add(key, value.value());
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
        let table = self.db.begin_read()?.open_table(TABLE)?;
        for entry in table.range(from..)?.take(entries) {
            let (key, value) = entry?;
            each(key.value(), value.value());
        }
        Ok(())
    }

    fn sync(&self) -> Result<(), EngineError> {
        let mut txn = self.db.begin_write()?;
        txn.set_durability(Durability::Immediate)?;
        Ok(txn.commit()?)
    }

    fn close(self: Box<Self>) -> Result<(), EngineError> {
        self.sync()?;
        Ok(self.db.close()?)
    }
}
