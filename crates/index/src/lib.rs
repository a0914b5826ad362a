//! The sorted in-memory index of Heliox: about 12 bytes an object, full keys only on media.
//!
//! The index maps internal keys (keyspace id, then the user's key) to locations of records, in key
//! order. It keeps no keys: an entry is an order slice of 15 bits, a fingerprint of 31, a tombstone
//! bit and a location of 40. Slices place entries relative to each other ([`Index::scan`]);
//! fingerprints tell keys of one place apart ([`Index::lookup`]). Where slices do not suffice,
//! entries form tie groups, whose order the caller settles by reading records. Leaves whose keys
//! defeat slices (URLs, paths) keep front-coded full keys instead; what splits from one goes back
//! to slices where these tell its keys apart.
//!
//! A match may belong to a stranger: a different key with the same place and fingerprint. The
//! caller finds out when it reads the record; a lookup returns all candidates.
//!
//! # Concurrency
//! All methods of [`Index`] take `&self` and may be called from any thread. Locks, in order: the
//! tree's shape (shared; exclusively for splits), then one leaf at a time. Callbacks that get
//! entries (`decide` of [`Index::update`], `at` of [`Index::image_next`], the visitor of
//! [`Index::for_each_entry`]) run under both: what they lock comes after, and they must not call
//! the index. A [`KeySource`] is never called under a lock. Updates of one key are atomic and
//! totally ordered; a scan step sees one leaf at one moment.
//!
//! # Reading order
//! `code` (order-preserving key code), `slice` (what an entry knows of its key), `ties`, `leaf`,
//! `tree`, `plan` (splits), `run` (ordered reading within a leaf), then `index`. Unsafe code is in `blocks`, `simd` and `sync` alone.
#![deny(unsafe_code)]

mod api;
mod blocks;
mod code;
mod error;
mod fences;
mod image;
mod index;
mod key;
mod keyed_leaf;
mod leaf;
mod plan;
mod run;
mod scan;
#[cfg(all(test, feature = "shuttle"))]
mod schedules;
mod simd;
mod slice;
mod sync;
mod ties;
mod tree;

#[cfg(test)]
mod tests;

pub use api::*;
pub use error::*;
pub use image::{ImageCursor, IndexLoader};
pub use index::Index;
pub use key::PreparedKey;
pub use simd::prefetch;
