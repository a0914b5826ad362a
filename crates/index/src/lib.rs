//! The sorted in-memory index of Heliox.
#![deny(unsafe_code)]

mod api;
mod blocks;
mod code;
mod error;
mod image;
mod index;
mod key;
mod keyed_leaf;
mod leaf;
mod plan;
mod scan;
mod simd;
mod slice;
mod sync;
mod tree;

#[cfg(test)]
mod tests;

pub use api::*;
pub use error::*;
pub use image::{ImageCursor, IndexLoader};
pub use index::Index;
pub use key::{PreparedKey, KEYSPACE_BYTES};
