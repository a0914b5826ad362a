//! The arithmetic of a segment's sums: which record lost its entry to another key, told by two
//! numbers.
//!
//! Each segment sums `hash(key) * weight(location)` over its own records, and over what displaced
//! them: the displacing key's hash times the weight of the location displaced. Where every record
//! was displaced by its own key, the sums agree. Where one record of key v was displaced by key d,
//! they differ by `(hash(v) - hash(d)) * weight(location of v)`. A weight is odd, so it has an
//! inverse: undone for the right location, the difference is that of two hashes which agree in the
//! fingerprint; for any other location it is a random number.

use heliox_format::ids::{Location, SeqNo};

/// Where the fingerprint lies in a hash: it begins at this bit.
const FINGERPRINT_FROM_BIT: u32 = 32;

/// What a hash is multiplied by in the sums of a segment: an odd number that looks random.
#[must_use]
#[inline]
pub fn weight(location: Location) -> u64 {
    // The finalizer of SplitMix64: two multiplications, which no append waits for.
    let mut x = location.bits().wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (x ^ (x >> 31)) | 1
}

/// The number that undoes a multiplication by an odd one.
fn inverse(odd: u64) -> u64 {
    // Right in the lowest three bits; each step doubles them.
    let mut inverse = odd;
    for _ in 0..5 {
        inverse = inverse.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(inverse)));
    }
    inverse
}

/// By how much the sums differ if a record at `location` was displaced by another key.
#[must_use]
pub fn difference(location: Location, own_hash: u64, displacing_hash: u64) -> u64 {
    own_hash
        .wrapping_sub(displacing_hash)
        .wrapping_mul(weight(location))
}

/// True if the difference of a segment's sums is what one wrong displacement of the record at
/// `location` makes, with fingerprints of so many bits. Of other records one in
/// 2^(bits - 1) looks the same.
#[must_use]
pub fn is_told(difference: u64, location: Location, fingerprint_bits: u32) -> bool {
    let hashes = difference.wrapping_mul(inverse(weight(location)));
    // The bits below the fingerprint differ by less than 2^32 either way; above it anything goes.
    let above = 64u32.saturating_sub(FINGERPRINT_FROM_BIT + fingerprint_bits);
    let signed = (hashes << above) as i64;
    u128::from(signed.unsigned_abs()) < 1u128 << (FINGERPRINT_FROM_BIT + above)
}

/// Says that the record at a location lost its entry to another key, and that nothing more is to be
/// done about it: its key has an entry of its own again, or needs none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settlement {
    /// Where the record lies.
    pub location: Location,
    /// Its order: tells the life of the segment that is meant.
    pub seq: SeqNo,
    /// What the sum of the displacing keys lacks; 0 where that is not known.
    pub difference: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_weight_is_odd_and_has_an_inverse() {
        for n in 0..10_000u64 {
            let weight = weight(Location::from_bits(n * 1031));
            assert_eq!(weight & 1, 1);
            assert_eq!(weight.wrapping_mul(inverse(weight)), 1);
        }
    }

    /// Hashes that agree in the fingerprint and differ elsewhere, with and without a borrow.
    #[test]
    fn the_right_location_is_told_and_hardly_another() {
        let fingerprint = 0x5a5a_5a5a_u64 << 32;
        for (own, other) in [
            (fingerprint | 7, fingerprint | 9),
            (fingerprint | 0xffff_ffff, fingerprint),
            (1 << 63 | fingerprint, fingerprint | 0xffff_ffff),
            (fingerprint, 1 << 63 | fingerprint | 1),
        ] {
            let at = Location::from_bits(123_456);
            let difference = difference(at, own, other);
            for bits in [1, 6, 20, 31] {
                assert!(is_told(difference, at, bits), "{bits} bits");
            }
            let others = (0..100_000).map(|n| Location::from_bits(n * 64 + 1));
            let told = |bits| {
                others
                    .clone()
                    .filter(|l| is_told(difference, *l, bits))
                    .count()
            };
            assert!(told(31) <= 1, "{}", told(31));
            assert!((20..400).contains(&told(10)), "{}", told(10));
        }
        let at = Location::from_bits(5);
        assert!(!is_told(difference(at, 1 << 40, 0), at, 31));
    }
}
