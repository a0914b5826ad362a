//! The engines that this program was built with, by name, and how each is opened.
//!
//! One file an engine; its head explains the configuration. Threads: an engine is shared by all
//! workers.

use std::path::PathBuf;

use heliox_bench::{DurabilityMode, Engine, EngineError};

#[cfg(feature = "bf-tree")]
mod bf_tree;
#[cfg(feature = "fjall")]
mod fjall;
mod heliox;
#[cfg(feature = "lmdb")]
mod lmdb;
#[cfg(feature = "redb")]
mod redb;
#[cfg(feature = "rocksdb")]
mod rocksdb;
#[cfg(feature = "sled")]
mod sled;

/// What every engine is opened with.
#[derive(Clone, Debug)]
pub struct Setup {
    /// An empty directory of its own.
    pub dir: PathBuf,
    /// When each write is durable.
    pub durability: DurabilityMode,
    /// The memory that the engine may use, in bytes.
    pub memory_bytes: u64,
    /// Bytes of keys and values that it is going to hold.
    pub data_bytes: u64,
    /// How full these make a store of a fixed size, in percent, if that was asked for.
    pub full_percent: Option<u64>,
    /// The size of a key, in bytes.
    pub key_bytes: usize,
    /// The size of a value, in bytes.
    pub value_bytes: usize,
    /// Threads that call it at the same time, at most.
    pub threads: usize,
}

type Open = fn(&Setup) -> Result<Box<dyn Engine>, EngineError>;

/// An engine that can be measured.
#[derive(Clone, Copy)]
pub struct Kind {
    /// Its name on the command line and in reports.
    pub name: &'static str,
    /// Opens an empty store of it.
    pub open: Open,
}

impl std::fmt::Debug for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// The engines of this program, in the order of its tables.
pub const BUILT_IN: &[Kind] = &[
    Kind {
        name: "heliox",
        open: heliox::open,
    },
    #[cfg(feature = "rocksdb")]
    Kind {
        name: "rocksdb",
        open: rocksdb::open,
    },
    #[cfg(feature = "rocksdb")]
    Kind {
        name: "rocksdb-blob",
        open: rocksdb::open_blob,
    },
    #[cfg(feature = "lmdb")]
    Kind {
        name: "lmdb",
        open: lmdb::open,
    },
    #[cfg(feature = "redb")]
    Kind {
        name: "redb",
        open: redb::open,
    },
    #[cfg(feature = "fjall")]
    Kind {
        name: "fjall",
        open: fjall::open,
    },
    #[cfg(feature = "sled")]
    Kind {
        name: "sled",
        open: sled::open,
    },
    #[cfg(feature = "bf-tree")]
    Kind {
        name: "bf-tree",
        open: bf_tree::open,
    },
];

/// The engine of a name.
///
/// # Errors
/// There is none; says which there are, and how others are built in.
pub fn find(name: &str) -> Result<Kind, String> {
    let found = BUILT_IN.iter().find(|kind| kind.name == name).copied();
    found.ok_or_else(|| {
        let known: Vec<_> = BUILT_IN.iter().map(|kind| kind.name).collect();
        format!(
            "no engine {name:?} in this program: it has {}; others are built in by \
             `--features rocksdb,lmdb,redb,fjall,sled,bf-tree`",
            known.join(", ")
        )
    })
}

/// A size in bytes as the libraries take it.
#[cfg(any(
    feature = "rocksdb",
    feature = "lmdb",
    feature = "redb",
    feature = "sled",
    feature = "bf-tree"
))]
fn bytes(size: u64) -> usize {
    usize::try_from(size).unwrap_or(usize::MAX)
}

/// What one write buffer of a log-structured merge tree gets of the memory: a sixteenth, within
/// what those who make them advise. There are two.
#[cfg(any(feature = "rocksdb", feature = "fjall"))]
fn write_buffer_bytes(setup: &Setup) -> u64 {
    (setup.memory_bytes / 16).clamp(4 << 20, 64 << 20)
}

/// What the block cache of a log-structured merge tree gets: the rest.
#[cfg(any(feature = "rocksdb", feature = "fjall"))]
fn block_cache_bytes(setup: &Setup) -> u64 {
    setup
        .memory_bytes
        .saturating_sub(2 * write_buffer_bytes(setup))
}
