//! Every maximum of the store, and the relations between them, checked when the crate compiles.

/// Orders of records are stored in six bytes, and generations grow more slowly: a larger one is
/// damage, and what comes next after any can be counted.
pub const ORDER_MAX: u64 = (1 << 48) - 1;
/// Births, runs and keyspaces are numbered from 0 and never anew: a larger one is damage, and what
/// comes next after any can be counted.
pub const BIRTH_MAX: u32 = u32::MAX - (1 << 20);
/// The unit of reading and of damage: a frame never crosses a multiple of this.
pub const BLOCK_BYTES: usize = 4096;
/// The smallest sector a device may have; frames are padded to the device's sector.
pub const SECTOR_BYTES_MIN: usize = 512;
/// The largest sector a device may have.
pub const SECTOR_BYTES_MAX: usize = BLOCK_BYTES;
/// Longest key a user may give.
pub const KEY_BYTES_MAX: usize = 65_535;
/// Longest value a user may give.
pub const VALUE_BYTES_MAX: usize = 256 << 20;
/// Longest value kept in one record; a longer one is cut into chunks of this size.
pub const CHUNK_BYTES: usize = 1 << 20;
/// Smallest segment (tests use it; the default is larger).
pub const SEGMENT_BYTES_MIN: u64 = 4 << 20;
/// Largest segment.
pub const SEGMENT_BYTES_MAX: u64 = 64 << 20;
/// Largest store that the formats reach.
pub const STORE_BYTES_MAX: u64 = 64 << 40;
/// Longest name of a keyspace, in bytes of UTF-8.
pub const KEYSPACE_NAME_BYTES_MAX: usize = 255;
/// Most keyspaces alive at one time.
pub const KEYSPACES_MAX: usize = 65_536;
/// Most volumes a store may be striped over.
pub const VOLUMES_MAX: usize = 64;
/// Most range deletes that wait for their sweep at one time.
pub const RANGE_DELETES_MAX: usize = 4096;

const _: () = {
    // The largest record must fit in the smallest segment beside the segment's own header.
    assert!((CHUNK_BYTES + KEY_BYTES_MAX + 2 * BLOCK_BYTES) as u64 * 2 < SEGMENT_BYTES_MIN);
    // A location of 40 bits in units of 64 bytes reaches the largest store.
    assert!((1u64 << crate::ids::Location::BITS) * 64 >= STORE_BYTES_MAX);
    assert!(BLOCK_BYTES.is_multiple_of(SECTOR_BYTES_MIN));
};
