//! The doors through which fuzzing reaches the decoders of text that only this crate has: each
//! decodes a file's content and gives the text that the same meaning is written as. No part of any
//! interface. No I/O, no threads.

use crate::error::Result;

/// The file `HELIOX`, and `HELIOX.new`.
///
/// # Errors
/// Those of opening a store with such a file.
pub fn store_text(text: &[u8]) -> Result<Vec<u8>> {
    crate::root::rewritten(text)
}

/// The manifest of a backup; the text, and that of a store restored from it.
///
/// # Errors
/// Those of restoring it.
pub fn backup_text(text: &[u8]) -> Result<Vec<u8>> {
    crate::backup::rewritten(text)
}

/// The file that makes a directory a backup set: the salt that it names.
///
/// # Errors
/// Those of opening the set.
pub fn backup_set_text(text: &[u8]) -> Result<u64> {
    crate::backup::lineage(text)
}
