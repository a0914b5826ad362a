//! RocksDB, tuned as its wiki advises for flash; also with values in blob files.
//!
//! - Memory: two write buffers, the rest is the block cache, which holds index and filter blocks
//!   too (those of high priority), so that it bounds them: a HyperClockCache, which RocksDB recommends
//!   over its LRU cache. Values in blob files have an LRU cache.
//! - Bloom filters of 10 bits a key, format version 6, blocks of 16 KiB, cached L0 pinned, and
//!   dynamic level sizes ("Setup Options and Basic Tuning").
//! - Direct I/O for reads, flushes and compaction: no second copy in the page cache.
//! - Parallelism: as many background threads as processors.
//! - Compression off, as for every engine that allows it.
//! - Durability: none is without write-ahead log; bounded has the log, of which writes stay in
//!   RocksDB's buffer (`manual_wal_flush`) until this program has it written and synced, every 100 ms;
//!   sync has the log synced by each write. So a killed process loses what is not synced, as Heliox
//!   does, and no put pays for a system call of its own.
//! - What flushes and compactions still have to do when a workload ends is waited for.
//! - `rocksdb-blob` is the same with all values from 64 bytes on in blob files and their garbage
//!   collection on, and a third of the cache for values ("BlobDB").

use heliox_bench::{add_number, DurabilityMode, Engine, EngineError, Seen};
use rocksdb::{
    BlockBasedOptions, Cache, DBCompressionType, Direction, IteratorMode, MergeOperands, Options,
    WaitForCompactOptions, WriteBatch, WriteOptions, DB, DEFAULT_COLUMN_FAMILY_NAME,
};

use super::{block_cache_bytes, bytes, write_buffer_bytes, Setup};

/// Smaller values stay in the tree.
const BLOB_BYTES_MIN: u64 = 64;
/// Compactions that take longer than this are not waited for.
const REST_LIMIT_MICROS: u64 = 300_000_000;

struct RocksDb {
    name: &'static str,
    db: DB,
    write: WriteOptions,
    log: bool,
}

pub(super) fn open(setup: &Setup) -> Result<Box<dyn Engine>, EngineError> {
    let cache = Cache::new_hyper_clock_cache(bytes(block_cache_bytes(setup)), 0);
    let options = options(setup, &cache);
    start("rocksdb", setup, &options)
}

pub(super) fn open_blob(setup: &Setup) -> Result<Box<dyn Engine>, EngineError> {
    let whole = block_cache_bytes(setup);
    let cache = Cache::new_hyper_clock_cache(bytes(whole - whole / 3), 0);
    let mut options = options(setup, &cache);
    options.set_enable_blob_files(true);
    options.set_min_blob_size(BLOB_BYTES_MIN);
    options.set_enable_blob_gc(true);
    options.set_blob_compression_type(DBCompressionType::None);
    options.set_blob_cache(&Cache::new_lru_cache(bytes(whole / 3)));
    start("rocksdb-blob", setup, &options)
}

fn options(setup: &Setup, cache: &Cache) -> Options {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut table = BlockBasedOptions::default();
    table.set_block_cache(cache);
    table.set_block_size(16 << 10);
    table.set_bloom_filter(10.0, false);
    table.set_format_version(6);
    table.set_cache_index_and_filter_blocks(true);
    table.set_cache_index_and_filter_blocks_with_high_priority(true);
    table.set_pin_l0_filter_and_index_blocks_in_cache(true);
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_block_based_table_factory(&table);
    options.set_write_buffer_size(bytes(write_buffer_bytes(setup)));
    options.set_max_write_buffer_number(2);
    options.increase_parallelism(i32::try_from(cores).unwrap_or(i32::MAX));
    options.set_use_direct_reads(true);
    options.set_use_direct_io_for_flush_and_compaction(true);
    options.set_level_compaction_dynamic_level_bytes(true);
    options.set_bytes_per_sync(1 << 20);
    options.set_manual_wal_flush(setup.durability == DurabilityMode::Bounded);
    options.set_compression_type(DBCompressionType::None);
    options.set_merge_operator_associative("uint64add", merge);
    options
}

/// Of a value, or of the first of several operands, and the operands behind it.
fn merge(_: &[u8], base: Option<&[u8]>, operands: &MergeOperands) -> Option<Vec<u8>> {
    let mut operands = operands.iter();
    let first = match base {
        Some(value) => value,
        None => operands.next()?,
    };
    let add = |sum: Vec<u8>, operand: &[u8]| add_number(Some(&sum), operand);
    Some(operands.fold(first.to_vec(), add))
}

fn start(
    name: &'static str,
    setup: &Setup,
    options: &Options,
) -> Result<Box<dyn Engine>, EngineError> {
    let log = setup.durability != DurabilityMode::None;
    let mut write = WriteOptions::default();
    write.disable_wal(!log);
    write.set_sync(setup.durability == DurabilityMode::Sync);
    Ok(Box::new(RocksDb {
        name,
        // By name: a handle of the default family is only kept of the families that are named.
        db: DB::open_cf_with_opts(
            options,
            &setup.dir,
            [(DEFAULT_COLUMN_FAMILY_NAME, options.clone())],
        )?,
        write,
        log,
    }))
}

impl Engine for RocksDb {
    fn name(&self) -> &str {
        self.name
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), EngineError> {
        Ok(self.db.put_opt(key, value, &self.write)?)
    }

    fn put_batch(&self, entries: &[(Vec<u8>, Vec<u8>)]) -> Result<(), EngineError> {
        let mut batch = WriteBatch::default();
        for (key, value) in entries {
            batch.put(key, value);
        }
        Ok(self.db.write_opt(batch, &self.write)?)
    }

    fn merge(&self, key: &[u8], operand: &[u8]) -> Result<(), EngineError> {
        Ok(self.db.merge_opt(key, operand, &self.write)?)
    }

    fn delete(&self, key: &[u8]) -> Result<(), EngineError> {
        Ok(self.db.delete_opt(key, &self.write)?)
    }

    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, EngineError> {
        value.clear();
        let found = self.db.get_pinned(key)?;
        if let Some(found) = &found {
            value.extend_from_slice(found);
        }
        Ok(found.is_some())
    }

    fn multi_get(&self, keys: &[Vec<u8>]) -> Result<Seen, EngineError> {
        let family = self.db.cf_handle(DEFAULT_COLUMN_FAMILY_NAME);
        let family = family.ok_or("RocksDB has no default column family")?;
        let values = self.db.batched_multi_get_cf(&family, keys, false);
        let mut seen = Seen::default();
        for (key, value) in keys.iter().zip(values) {
            if let Some(value) = value? {
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
        let mode = IteratorMode::From(from, Direction::Forward);
        for entry in self.db.iterator(mode).take(entries) {
            let (key, value) = entry?;
            each(&key, &value);
        }
        Ok(())
    }

    fn sync(&self) -> Result<(), EngineError> {
        if self.log {
            return Ok(self.db.flush_wal(true)?);
        }
        Ok(self.db.flush()?)
    }

    fn settle(&self) -> Result<(), EngineError> {
        self.sync()?;
        let mut rest = WaitForCompactOptions::default();
        rest.set_timeout(REST_LIMIT_MICROS);
        Ok(self.db.wait_for_compact(&rest)?)
    }

    fn close(self: Box<Self>) -> Result<(), EngineError> {
        if self.log {
            self.db.flush_wal(true)?;
        }
        self.db.cancel_all_background_work(true);
        Ok(())
    }
}
