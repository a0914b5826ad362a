//! The handles that several files know. What they hold is the engine's, and as safe with threads.

use std::ffi::CString;

use crate::border::c_string;

/// `heliox_store`.
pub(crate) struct Store {
    pub(crate) store: heliox::Store,
}

/// `heliox_snapshot`.
pub(crate) struct Snapshot {
    pub(crate) snapshot: heliox::Snapshot,
}

/// `heliox_keyspace`.
pub(crate) struct Keyspace {
    pub(crate) keyspace: heliox::Keyspace,
    /// For iterators, which take snapshots.
    pub(crate) store: heliox::Store,
    pub(crate) name: CString,
}

impl Keyspace {
    pub(crate) fn new(keyspace: heliox::Keyspace, store: &heliox::Store) -> Box<Keyspace> {
        Box::new(Keyspace {
            name: c_string(keyspace.name()),
            store: store.clone(),
            keyspace,
        })
    }
}

/// `heliox_batch`.
#[derive(Clone, Default)]
pub(crate) struct Batch(pub(crate) heliox::Batch);

/// What the header says of threads: these are for any number of them at once.
const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<Store>();
    shared::<Snapshot>();
    shared::<Keyspace>();
};
