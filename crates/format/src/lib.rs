//! The bytes of a Heliox store: ids, limits and the codec of everything that reaches media.
//!
//! No I/O, no threads, no clock. The byte tables are in `FORMAT.md`; each module's head names its
//! section there. All integers are little-endian.
#![forbid(unsafe_code)]

pub mod bytes;
pub mod checkpoint;
pub mod checksum;
pub mod error;
pub mod frame;
pub mod ids;
pub mod label;
pub mod limits;
pub mod record;
pub mod sealed;
pub mod segment;
pub mod superblock;
