//! The log: records appended in one global order into segments over media, and found again by
//! their [`Location`](heliox_format::ids::Location).
//!
//! - [`append`]: one mutex gives location and order and does the accounting; no I/O under it.
//! - [`flush`]: frozen chunks are written, and synced for whoever waits (group commit).
//! - [`read`]: one record or many by location, from the unflushed tail or from media, verified.
//! - [`scan`]: all records of a segment in order; the only place that knows torn tails.
//! - [`sealed`], [`cipher`]: media that encrypt what is written and decrypt what is read.
//! - [`segments`]: states and accounting of all segments.
//! - [`sums`]: the arithmetic that tells a record which lost its entry to another key.
//! - [`verify`]: whether what lies in a segment is what was written there, piece by piece.
//!
//! # Invariants
//! 1. Orders are consecutive over both streams; an order is given only to a record that is in the
//!    tail when the lock is released.
//! 2. No sector is written twice within a segment's generation: a flush ends its frame at a
//!    sector border, and the next frame starts there.
//! 3. A flush never cuts a record: it takes the lock, and appends happen whole under it.
//! 4. After the first failed write or sync nothing is acknowledged any more; reads go on.
#![forbid(unsafe_code)]

pub mod append;
mod chunk;
pub mod cipher;
pub mod error;
pub mod expiries;
pub mod flush;
pub mod geometry;
pub mod heads;
pub mod log;
mod prepare;
pub mod read;
pub mod scan;
#[cfg(all(test, feature = "shuttle"))]
mod schedules;
pub mod sealed;
pub mod segments;
pub mod sums;
pub mod verify;

pub use error::LogError;
pub use log::{Log, LogOptions, Stream};
