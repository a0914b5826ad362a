//! LMDB, a memory-mapped B+ tree that copies pages on write, through `heed`.
//!
//! - Memory: it has no cache of its own; the page cache is its memory. Only a limit on the whole
//!   process (see `limit.rs`) bounds that; without one it has all memory of the machine.
//! - No read-ahead, since most reads are random; a map of eight times the data and 4 GiB, which is
//!   address space, not memory.
//! - Each write is a transaction; there is one writer at a time.
//! - Durability: sync commits durably; none and bounded are `MDB_NOSYNC`, for bounded with a sync
//!   by this program every 100 ms. After a power cut `MDB_NOSYNC` may leave a broken file, which
//!   none of the other engines does.
//! - It has no compression.
#![allow(unsafe_code)]

use heed::types::Bytes;
use heed::{CommitOrAbort, Database, Env, EnvFlags, EnvOpenOptions};
use heliox_bench::{DurabilityMode, Engine, EngineError, Seen};

use super::{bytes, Setup};

/// Address space besides a multiple of the data, in bytes.
const MAP_BYTES_MIN: u64 = 4 << 30;

struct Lmdb {
    env: Env,
    table: Database<'static, Bytes, Bytes>,
}

pub(super) fn open(setup: &Setup) -> Result<Box<dyn Engine>, EngineError> {
    let map_bytes = setup
        .data_bytes
        .saturating_mul(8)
        .saturating_add(MAP_BYTES_MIN);
    let mut options = EnvOpenOptions::new();
    options.map_size(bytes(map_bytes & !0xffff));
    options.max_readers(u32::try_from(setup.threads).unwrap_or(u32::MAX).max(126));
    let mut flags = EnvFlags::NO_READ_AHEAD;
    if setup.durability != DurabilityMode::Sync {
        flags |= EnvFlags::NO_SYNC;
    }
    // SAFETY: of the flags, NO_SYNC gives up durability, not soundness; the directory is this
    // process's own, so nobody changes the mapped file.
    let env = unsafe { options.flags(flags).open(&setup.dir)? };
    let created = env.create_databases_and_commit(env.write_txn()?, |opener, txn| {
        let table = opener.create_database::<Bytes, Bytes>(txn, None);
        table.map(CommitOrAbort::<_, ()>::Commit)
    });
    let table = match created? {
        CommitOrAbort::Commit(table) => table,
        CommitOrAbort::Abort(()) => return Err("LMDB made no table".into()),
    };
    Ok(Box::new(Lmdb { env, table }))
}

impl Engine for Lmdb {
    fn name(&self) -> &str {
        "lmdb"
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), EngineError> {
        let mut txn = self.env.write_txn()?;
        self.table.put(&mut txn, key, value)?;
        Ok(txn.commit()?)
    }

    fn put_batch(&self, entries: &[(Vec<u8>, Vec<u8>)]) -> Result<(), EngineError> {
        let mut txn = self.env.write_txn()?;
        for (key, value) in entries {
            self.table.put(&mut txn, key, value)?;
        }
        Ok(txn.commit()?)
    }

    fn delete(&self, key: &[u8]) -> Result<(), EngineError> {
        let mut txn = self.env.write_txn()?;
        self.table.delete(&mut txn, key)?;
        Ok(txn.commit()?)
    }

    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, EngineError> {
        value.clear();
        let txn = self.env.read_txn()?;
        let found = self.table.get(&txn, key)?;
        value.extend_from_slice(found.unwrap_or_default());
        Ok(found.is_some())
    }

    /// One transaction for all keys.
    fn multi_get(&self, keys: &[Vec<u8>]) -> Result<Seen, EngineError> {
        let mut seen = Seen::default();
        let (txn, mut copy) = (self.env.read_txn()?, Vec::new());
        for key in keys {
            if let Some(value) = self.table.get(&txn, key)? {
                // The other engines hand out values that they own.
                copy.clear();
                copy.extend_from_slice(value);
                seen.add(key, &copy);
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
        let txn = self.env.read_txn()?;
        let range = (std::ops::Bound::Included(from), std::ops::Bound::Unbounded);
        for entry in self.table.range(&txn, &range)?.take(entries) {
            let (key, value) = entry?;
            each(key, value);
        }
        Ok(())
    }

    fn sync(&self) -> Result<(), EngineError> {
        Ok(self.env.force_sync()?)
    }

    fn close(self: Box<Self>) -> Result<(), EngineError> {
        self.sync()
    }
}
