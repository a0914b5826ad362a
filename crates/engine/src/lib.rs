//! Heliox: a flash-native key-value storage engine.
//!
//! It is a library that an application embeds: sorted keyspaces of arbitrary bytes, atomic batches,
//! snapshots, ordered iteration, range deletes, time to live. It keeps a sorted index of about
//! twelve bytes per object in memory and everything else in a log on flash that is written once.
//!
//! It is not a server, not a SQL database, and not a cache in front of one; it stores what fits the
//! index in memory, on one machine, for one process at a time.
//!
//! ```
//! use heliox::{Options, Store};
//! # fn main() -> Result<(), heliox::Error> {
//! # let dir = tempfile::tempdir().unwrap();
//! # let path = dir.path().join("store");
//! let options = Options::new().capacity_bytes(256 << 20);
//! let store = Store::open(&path, &options)?;
//! let fruit = store.keyspace_or_create("fruit")?;
//! fruit.put("apple", "red")?;
//! fruit.put("banana", "yellow")?;
//! assert_eq!(fruit.get("apple")?, Some(b"red".to_vec()));
//! for item in fruit.iter().prefix("b").start()? {
//!     let (key, value) = item?;
//!     assert_eq!((&key[..], &value[..]), (&b"banana"[..], &b"yellow"[..]));
//! }
//! store.close()?;
//! # Ok(())
//! # }
//! ```
//!
//! Read next: `ARCHITECTURE.md` for the flows, `FORMAT.md` for the bytes on media and why a crash
//! loses nothing that was promised.
#![forbid(unsafe_code)]

mod admit;
mod ahead;
mod approximate;
mod background;
mod backup;
mod batch;
mod batches;
mod cache;
#[doc(hidden)]
pub mod canary;
mod check;
mod checkpoint;
mod commit;
mod core;
mod encryption;
mod environment;
mod error;
mod evacuate;
mod events;
mod findings;
mod gather;
mod gc;
mod health;
#[doc(hidden)]
pub mod hostile;
mod installs;
mod keys;
mod keyspace;
mod keyspaces;
mod large;
mod leaves;
mod load;
mod multi_get;
mod options;
mod patrol;
mod pins;
mod range_delete;
mod ranges;
mod read;
mod reap;
mod recover;
mod room;
mod root;
mod scan;
#[cfg(all(test, feature = "shuttle"))]
mod schedules;
mod scrub;
mod signals;
mod snapshot;
mod snapshots;
mod space;
mod stats;
mod store;
mod strangers;
mod sweep;
mod tail;
#[cfg(test)]
mod tests;
mod tombstones;
mod vitals;
mod watch;
mod write;

#[doc(hidden)]
pub use background::Step;
pub use backup::{
    BackupInfo, BackupOptions, BackupProgress, BackupReport, RestoreReport, VerifyReport,
};
pub use batch::Batch;
pub use check::{CheckProgress, CheckReport};
pub use encryption::KeySource;
#[doc(hidden)]
pub use environment::Simulation;
pub use error::{Error, ErrorKind, Result};
pub use events::{Event, EventKind};
pub use health::{
    Condition, ConditionKind, Finding, Health, HealthState, Place, Remedy, ScrubProgress,
    ScrubReport, Structure,
};
pub use heliox_media::{IoMode, Media};
pub use keyspace::{Approximate, Iter, IterOptions, Keyspace};
pub use options::{Durability, MergeOperator, Options, WriteOptions};
pub use snapshot::Snapshot;
pub use stats::{BytesByCause, RecoveryStats, StatValue, Stats};
pub use store::{KeyChange, Store};

/// The example of the README is a test.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
