//! The plain types that callers exchange with the index. Data only; no threads, no invariants
//! beyond those stated at each type.

use std::ops::Deref;

use heliox_format::ids::Location;
use smallvec::SmallVec;

use crate::error::SourceError;

/// How an index is set up. Fixed for its life, but for the limit.
#[derive(Clone, Copy, Debug)]
pub struct IndexOptions {
    /// The secret of the store: keys the hash that fingerprints are taken from. Images are only
    /// of use with the seed they were made with.
    pub seed: u64,
    /// Width of the fingerprint, 0 to 31 bits. Default 31; tests weaken it so that different
    /// keys agree.
    pub fingerprint_bits: u32,
    /// Most memory that the index may grow to, in bytes. Default: no limit.
    pub limit_bytes: u64,
}

impl Default for IndexOptions {
    fn default() -> IndexOptions {
        IndexOptions {
            seed: 0,
            fingerprint_bits: FINGERPRINT_BITS_MAX,
            limit_bytes: u64::MAX,
        }
    }
}

/// Bytes that the keyspace id takes at the front of an internal key.
pub const KEYSPACE_BYTES: usize = 4;

/// The widest fingerprint that an entry has room for.
pub const FINGERPRINT_BITS_MAX: u32 = 31;

/// What the index says of a key: where its newest record is, and whether that is a tombstone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Where the record starts.
    pub location: Location,
    /// The record says that the key is deleted.
    pub tombstone: bool,
}

/// The entries that may belong to a key; normally none or one. Reads as a slice.
#[derive(Clone, Default, Debug)]
pub struct Matches(pub(crate) SmallVec<[Entry; 2]>);

impl Deref for Matches {
    type Target = [Entry];
    fn deref(&self) -> &[Entry] {
        &self.0
    }
}

/// What became of a read of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyRead {
    /// The buffer holds the internal key.
    Found,
    /// The location no longer holds a record: look at the entry again.
    Stale,
    /// The record can never be read again: its entry is dropped.
    Lost,
}

/// Reads full keys for the index, from the records themselves. Never called under an index lock.
pub trait KeySource {
    /// Replaces the content of `out` by the internal key (keyspace id, 4 bytes big-endian, then
    /// the key) of the record at `location`.
    ///
    /// # Errors
    /// Whatever the read failed with; the operation that needed the key fails with it.
    fn read_key(&self, location: Location, out: &mut Vec<u8>) -> Result<KeyRead, SourceError>;

    /// Reads several keys as `read_key` does. Calls `each` once for each location, in any order,
    /// with its number, what became of it and, if it was found, the key. The default reads one by
    /// one; a source that can have many reads under way at once should.
    ///
    /// # Errors
    /// As `read_key`.
    fn read_keys(
        &self,
        locations: &[Location],
        each: &mut dyn FnMut(usize, KeyRead, &[u8]),
    ) -> Result<(), SourceError> {
        let mut key = Vec::new();
        for (number, location) in locations.iter().enumerate() {
            let read = self.read_key(*location, &mut key)?;
            each(number, read, &key);
        }
        Ok(())
    }

    /// True if a location that holds another record than its entry means will not come right by
    /// itself, so that the entry is dropped: in replay, where the record that takes the entry's
    /// place is still to come. Else the entry was moved meanwhile, and is looked at again.
    fn is_stale_for_good(&self) -> bool {
        false
    }

    /// Told of each location whose entry is given up, before it is dropped.
    fn give_up(&self, location: Location) {
        let _ = location;
    }
}

/// What a write decides to do with a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// Change nothing.
    Keep,
    /// Add an entry.
    Insert(Entry),
    /// Put `new` in the place of the match that holds `old`.
    Replace {
        /// The location of one of the matches.
        old: Location,
        /// What stands there from now on.
        new: Entry,
    },
    /// Take away the match that holds `old`.
    Remove {
        /// The location of one of the matches.
        old: Location,
    },
}

/// Where a scan starts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ScanFrom<'k> {
    /// Before the smallest key.
    Start,
    /// After the largest key.
    End,
    /// At this internal key, which is included in either direction.
    At(&'k [u8]),
    /// Backward only: from the largest key before this internal key, which is excluded. This is
    /// how a backward scan goes on after [`Next::Leaf`]; forward it reads as [`ScanFrom::At`].
    Before(&'k [u8]),
}

/// The order in which a scan returns keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// Ascending.
    Forward,
    /// Descending.
    Backward,
}

/// One entry of a scan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScanEntry {
    /// The entry.
    pub entry: Entry,
    /// Entries with one number are a tie group: their order among each other is not known. All
    /// keys of a group come before all keys of the groups with higher numbers, in the direction
    /// of the scan.
    pub group: u32,
}

/// How a scan goes on.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Next {
    /// The leaf holds more: continue from the furthest key verified.
    More,
    /// The leaf is exhausted: continue at this fence (inclusive forward, exclusive backward).
    Leaf(Vec<u8>),
    /// There is nothing more in this direction.
    #[default]
    End,
}

/// One step of a scan.
#[derive(Clone, Default, Debug)]
pub struct ScanBatch {
    /// The entries, in order by group.
    pub entries: Vec<ScanEntry>,
    /// How to go on.
    pub next: Next,
}

/// How many entries a range holds, roughly.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ApproximateCount {
    /// Exact but for ties at either end.
    pub count: u64,
    /// With all ties at either end: not more.
    pub most: u64,
}

/// Counters and sizes of an index. Sums over the whole index; cheap except where noted.
#[derive(Clone, Copy, Default, Debug)]
#[non_exhaustive]
pub struct IndexStats {
    /// Entries, tombstones included.
    pub entries: u64,
    /// Leaves of both formats.
    pub leaves: u64,
    /// Leaves that hold full keys.
    pub keyed_leaves: u64,
    /// Blocks in use by leaves.
    pub blocks: u64,
    /// Blocks that were used once and wait to be used again.
    pub free_blocks: u64,
    /// Inner nodes.
    pub inner_nodes: u64,
    /// Splits since the index was made.
    pub splits: u64,
    /// Keys read by splits and conversions since the index was made.
    pub key_reads: u64,
    /// Entries whose order to a neighbour is not known without reading (visits every leaf).
    pub tied_entries: u64,
    /// All memory, as `memory_bytes` gives it.
    pub memory_bytes: u64,
}
