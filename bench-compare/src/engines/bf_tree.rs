//! Bf-Tree, a B+ tree whose inner nodes and hot parts of leaves stay in memory, in Rust.
//!
//! - Memory: its circular buffer, the largest power of two within the memory given; inner nodes
//!   come on top.
//! - Direct I/O for its pages. Leaf pages are 4 KiB where two records and more fit, else larger,
//!   up to 32 KiB.
//! - Durability: none is without write-ahead log. Its log makes each write wait until it was
//!   written (by a thread, every millisecond), which it does for bounded and for sync; whether it
//!   is then on media is up to the system: the library syncs nothing. It has no batches: a batch is
//!   written one by one. It cannot report an error of the disk: it panics.
//! - A tree is opened empty: what is in its file is not read again as it is used here, so that a
//!   workload that opens the store again fails.
//! - It has no compression.

use std::sync::Arc;

use bf_tree::{
    BfTree, Config, LeafInsertResult, LeafReadResult, ScanReturnField, StorageBackend, WalConfig,
};
use heliox_bench::{DurabilityMode, Engine, EngineError};

use super::{bytes, Setup};

const PAGE_BYTES_MIN: usize = 4096;
const PAGE_BYTES_MAX: usize = 32 << 10;
/// The log's buffer; its default of 1 GiB is more than the memory of many a run.
const LOG_BUFFER_BYTES: usize = 1 << 20;

struct Bf {
    tree: BfTree,
    record_bytes: usize,
}

pub(super) fn open(setup: &Setup) -> Result<Box<dyn Engine>, EngineError> {
    let record_bytes = setup.key_bytes + setup.value_bytes;
    let pages = std::iter::successors(Some(PAGE_BYTES_MIN), |size| Some(size * 2));
    let page = pages
        .take_while(|size| *size <= PAGE_BYTES_MAX)
        .find(|size| size / 3 > record_bytes + setup.key_bytes)
        .unwrap_or(PAGE_BYTES_MAX);
    let buffer = setup.memory_bytes.max(2);
    let mut config = Config::new(setup.dir.join("bf-tree"), bytes(1 << buffer.ilog2()));
    config.storage_backend(StorageBackend::StdDirect);
    config.leaf_page_size(page);
    config.cb_min_record_size(record_bytes.min(16).max(page / 4096));
    config.cb_max_record_size(record_bytes.max(32));
    config.cb_max_key_len(setup.key_bytes);
    config.max_fence_len(setup.key_bytes * 2);
    if setup.durability != DurabilityMode::None {
        let mut log = WalConfig::new(setup.dir.join("bf-tree-log"));
        log.segment_size(LOG_BUFFER_BYTES);
        config.enable_write_ahead_log(Arc::new(log));
    }
    let tree = BfTree::with_config(config, None).map_err(|error| format!("{error:?}"))?;
    Ok(Box::new(Bf { tree, record_bytes }))
}

impl Engine for Bf {
    fn name(&self) -> &str {
        "bf-tree"
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), EngineError> {
        match self.tree.insert(key, value) {
            LeafInsertResult::Success => Ok(()),
            LeafInsertResult::InvalidKV(reason) => Err(reason.into()),
        }
    }

    fn put_batch(&self, entries: &[(Vec<u8>, Vec<u8>)]) -> Result<(), EngineError> {
        entries
            .iter()
            .try_for_each(|(key, value)| self.put(key, value))
    }

    fn delete(&self, key: &[u8]) -> Result<(), EngineError> {
        self.tree.delete(key);
        Ok(())
    }

    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, EngineError> {
        value.resize(self.record_bytes, 0);
        match self.tree.read(key, value) {
            LeafReadResult::Found(size) => {
                value.truncate(size as usize);
                Ok(true)
            }
            LeafReadResult::NotFound | LeafReadResult::Deleted => {
                value.clear();
                Ok(false)
            }
            LeafReadResult::InvalidKey => Err("Bf-Tree says that the key is invalid".into()),
        }
    }

    fn scan(
        &self,
        from: &[u8],
        entries: usize,
        each: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<(), EngineError> {
        let mut record = vec![0; self.record_bytes];
        let scan = self
            .tree
            .scan_with_count(from, entries, ScanReturnField::KeyAndValue);
        let mut scan = scan.map_err(|error| format!("{error:?}"))?;
        while let Some((key, value)) = scan.next(&mut record) {
            let (front, back) = record.split_at(key);
            each(front, back.get(..value).unwrap_or_default());
        }
        Ok(())
    }

    fn sync(&self) -> Result<(), EngineError> {
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<(), EngineError> {
        Ok(())
    }
}
