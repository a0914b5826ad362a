//! Small stores in memory, for the tests of flows that go step by step.

use std::sync::Arc;

use heliox_media::{Media, MemoryMedia};

use crate::keyspace::Keyspace;
use crate::options::{Durability, Options};
use crate::store::Store;

/// A device of so many MiB.
pub(crate) fn memory(mib: u64) -> Arc<MemoryMedia> {
    Arc::new(MemoryMedia::new(mib << 20, 512).unwrap())
}

/// Small segments, nothing durable unasked, no threads, and the same hashes in every run.
pub(crate) fn options(media: Arc<dyn Media>) -> Options {
    Options::new()
        .volumes(vec![media])
        .segment_bytes(4 << 20)
        .memory_budget_bytes(32 << 20)
        .durability(Durability::None)
        .hash_seed(7)
        .background(false)
}

/// Opens or creates a store with one keyspace.
pub(crate) fn open(options: &Options) -> (Store, Keyspace) {
    let store = Store::open("", options).unwrap();
    let ks = store.keyspace_or_create("ks").unwrap();
    (store, ks)
}
