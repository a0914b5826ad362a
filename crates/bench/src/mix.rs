//! The one source of pseudo-randomness: a bijective mixing of 64 bits.
//!
//! Invariant: [`mix64`] is a bijection, which the uniqueness of keys rests on. No state, no threads.

/// The finaliser of SplitMix64: a bijection of 64 bits in which every input bit reaches every
/// output bit.
pub(crate) const fn mix64(value: u64) -> u64 {
    let mut x = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// A hash of two numbers; not symmetric.
pub(crate) const fn mix2(a: u64, b: u64) -> u64 {
    mix64(mix64(a) ^ b)
}

/// Maps a hash to `0..bound` without a division; 0 when the bound is 0.
pub(crate) const fn below(hash: u64, bound: u64) -> u64 {
    ((hash as u128 * bound as u128) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn mixing_keeps_inputs_apart() {
        let outputs: HashSet<u64> = (0..100_000).map(mix64).collect();
        assert_eq!(outputs.len(), 100_000);
        assert_ne!(mix2(1, 2), mix2(2, 1));
    }

    #[test]
    fn below_stays_below_and_reaches_everything() {
        let seen: HashSet<u64> = (0..1000).map(|i| below(mix64(i), 10)).collect();
        assert_eq!(seen, (0..10).collect());
        assert_eq!(below(u64::MAX, 0), 0);
        assert_eq!(below(u64::MAX, u64::MAX), u64::MAX - 1);
    }
}
