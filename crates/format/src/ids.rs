//! The identifiers that every layer shares, as newtypes so that none can be taken for another.
//!
//! They live at the bottom of the dependency graph on purpose: an id kept with its owner is how
//! import cycles begin.

use std::fmt;

use crate::checksum::ChecksumSalt;

/// A record's place in the one global order of a store, given when the record is appended.
///
/// Orders are consecutive over all appenders: recovery stops at the first one that is missing.
/// Zero is never given to a record; it stands for "before everything".
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct SeqNo(pub u64);

impl SeqNo {
    /// Before every record.
    pub const ZERO: SeqNo = SeqNo(0);
    /// After every record.
    pub const MAX: SeqNo = SeqNo(u64::MAX);

    /// The order right after this one.
    #[must_use]
    pub fn next(self) -> SeqNo {
        SeqNo(self.0 + 1)
    }
}

impl fmt::Display for SeqNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A keyspace. Ids are never reused within a store.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct KeyspaceId(pub u32);

/// The number of a segment in the store's address space: address = number x segment size.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SegmentId(pub u32);

/// Which life of a segment: grows by one over the whole store each time a segment is opened.
///
/// Two generations of one segment never share a birth, so a stale [`Location`] is recognised.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Birth(pub u32);

/// Which run of the store wrote a frame: grows by one at each open that goes on to write.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Incarnation(pub u32);

/// A class of media. One class exists today; the formats carry the number from the first day.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct MediaClass(pub u8);

/// Where a record starts: its address in the store divided by the store's location unit.
///
/// 40 bits are stored. [`Location::NONE`] (all ones) names no record.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Location(u64);

impl Location {
    /// How many bits a location has wherever it is stored.
    pub const BITS: u32 = 40;
    /// How many bytes a stored location has.
    pub const BYTES: usize = 5;
    /// The location that names no record.
    pub const NONE: Location = Location((1 << Location::BITS) - 1);

    /// A location from its 40 bits; higher bits are dropped.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Location {
        Location(bits & ((1 << Location::BITS) - 1))
    }

    /// The 40 bits.
    #[must_use]
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// False for [`Location::NONE`].
    #[must_use]
    pub const fn is_some(self) -> bool {
        self.0 != Location::NONE.0
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// The identity of a store, drawn at random when it is created and written on each of its devices.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct StoreUuid(pub [u8; 16]);

impl StoreUuid {
    /// What every checksum of the store is salted with: the first half.
    #[must_use]
    pub fn salt(&self) -> ChecksumSalt {
        let mut low = [0u8; 8];
        low.copy_from_slice(&self.0[..8]);
        ChecksumSalt(u64::from_le_bytes(low))
    }
}

impl fmt::Display for StoreUuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_keeps_forty_bits_and_none_is_all_ones() {
        assert_eq!(Location::from_bits(u64::MAX), Location::NONE);
        assert!(!Location::NONE.is_some());
        assert_eq!(Location::from_bits(1 << 40 | 7).bits(), 7);
        assert!(Location::from_bits(7).is_some());
    }

    #[test]
    fn a_uuid_prints_as_hexadecimal() {
        assert_eq!(StoreUuid([0xab; 16]).to_string(), "ab".repeat(16));
    }
}
