//! What a decoder says about bytes that are not what they should be.

use std::fmt;

/// What is wrong with bytes whose tag does not fit: 1 of 1 was expected, 0 found.
pub const TAG_FIELD: &str = "tags that fit";
/// What is wrong with bytes of a data key that the store does not have, or of none where it must.
pub const KEY_FIELD: &str = "data key";

/// Bytes on media that do not decode: which structure, where, what was expected and found.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct DecodeError {
    /// The structure that was being decoded ("frame", "superblock", ...).
    pub structure: &'static str,
    /// Its byte address in the store or the volume, as the caller knows it.
    pub address: u64,
    /// Which part of it was wrong.
    pub field: &'static str,
    /// What a sound structure has there.
    pub expected: u64,
    /// What was found.
    pub found: u64,
}

impl DecodeError {
    /// A decode error at `address`.
    #[must_use]
    pub fn new(
        structure: &'static str,
        address: u64,
        field: &'static str,
        expected: u64,
        found: u64,
    ) -> DecodeError {
        DecodeError {
            structure,
            address,
            field,
            expected,
            found,
        }
    }

    /// True if the bytes are whole and cannot be decrypted: no torn write leaves that.
    #[must_use]
    pub fn is_locked(&self) -> bool {
        self.field == TAG_FIELD || self.field == KEY_FIELD
    }

    /// True if the bytes are whole but of a format version that this program does not know.
    #[must_use]
    pub fn is_version(&self) -> bool {
        self.field == "version"
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "damaged {} at address {:#x}: {} expected {:#x}, found {:#x}",
            self.structure, self.address, self.field, self.expected, self.found
        )
    }
}

impl std::error::Error for DecodeError {}
