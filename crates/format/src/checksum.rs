//! The one checksum: CRC-32C, seeded with where the bytes belong.
//!
//! The seed makes a block that was read from, or written to, the wrong place fail its check.

/// What makes a checksum belong to one store and one place in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ChecksumSalt(pub u64);

/// CRC-32C of `data` as the bytes of `address` in the store with this salt.
#[must_use]
pub fn checksum(salt: ChecksumSalt, address: u64, data: &[u8]) -> u32 {
    let mut seed = [0u8; 16];
    seed[..8].copy_from_slice(&salt.0.to_le_bytes());
    seed[8..].copy_from_slice(&address.to_le_bytes());
    crc32c::crc32c_append(crc32c::crc32c(&seed), data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn place_and_store_are_part_of_the_checksum() {
        let here = checksum(ChecksumSalt(1), 4096, b"data");
        assert_ne!(here, checksum(ChecksumSalt(1), 8192, b"data"));
        assert_ne!(here, checksum(ChecksumSalt(2), 4096, b"data"));
        assert_ne!(here, checksum(ChecksumSalt(1), 4096, b"dat!"));
    }
}
