//! The sorted in-memory index of Heliox.
#![deny(unsafe_code)]

mod api;
mod error;
mod key;
mod model;

pub use api::*;
pub use error::*;
pub use key::*;
pub use model::{ImageCursor, Index, IndexLoader};
