//! A pseudo-random permutation of `0..len` that needs no memory.
//!
//! A balanced Feistel network permutes the next power of four; a result outside of `0..len` is
//! permuted again until it falls inside (cycle walking), which keeps the whole a bijection.
//! Invariant: for a position inside, the walk ends, since it follows a cycle that contains the
//! position itself. No state, no threads.

use crate::mix::{mix2, mix64};

/// Rounds of the network: four are enough for orders that look random.
const ROUNDS: usize = 4;

/// A bijection of `0..len`, drawn by a seed. One step costs four to sixteen mixings of 64 bits.
#[derive(Clone, Debug)]
pub struct Permutation {
    len: u64,
    half_bits: u32,
    keys: [u64; ROUNDS],
}

impl Permutation {
    /// The permutation of `0..len` that `seed` draws.
    #[must_use]
    pub fn new(len: u64, seed: u64) -> Permutation {
        let bits = u64::BITS - len.saturating_sub(1).leading_zeros();
        let half_bits = bits.div_ceil(2).max(1);
        let mut keys = [0; ROUNDS];
        for (round, key) in keys.iter_mut().enumerate() {
            *key = mix2(seed, round as u64);
        }
        Permutation {
            len,
            half_bits,
            keys,
        }
    }

    /// How many positions there are.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// True when there is no position at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Where `position` goes. A position outside wraps around; an empty permutation gives 0.
    #[must_use]
    pub fn at(&self, position: u64) -> u64 {
        if self.len == 0 {
            return 0;
        }
        let mut value = self.network(position % self.len);
        while value >= self.len {
            value = self.network(value);
        }
        value
    }

    fn network(&self, value: u64) -> u64 {
        let mask = (1u64 << self.half_bits) - 1;
        let (mut left, mut right) = (value >> self.half_bits, value & mask);
        for key in self.keys {
            (left, right) = (right, left ^ (mix64(right ^ key) & mask));
        }
        left << self.half_bits | right
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_is_permuted_onto_itself() {
        for len in (0..70).chain([255, 256, 257, 1000, 4097, 100_003]) {
            let permutation = Permutation::new(len, len ^ 77);
            let mut hit = vec![false; usize::try_from(len).unwrap()];
            for position in 0..len {
                let slot = &mut hit[usize::try_from(permutation.at(position)).unwrap()];
                assert!(!*slot, "{len}: two positions reach one place");
                *slot = true;
            }
            assert!(hit.iter().all(|hit| *hit));
        }
    }

    #[test]
    fn the_seed_draws_the_order_and_the_order_is_not_sorted() {
        let order = |seed| -> Vec<u64> {
            let permutation = Permutation::new(1000, seed);
            (0..1000).map(|position| permutation.at(position)).collect()
        };
        assert_eq!(order(1), order(1));
        assert_ne!(order(1), order(2));
        let ascents = order(1).windows(2).filter(|pair| pair[0] < pair[1]).count();
        assert!((400..600).contains(&ascents), "{ascents} ascents of 999");
    }

    #[test]
    fn the_largest_length_works_and_a_position_outside_wraps() {
        let permutation = Permutation::new(u64::MAX, 3);
        assert!(permutation.at(u64::MAX - 1) < u64::MAX);
        let small = Permutation::new(10, 3);
        assert_eq!(small.at(13), small.at(3));
        assert_eq!(Permutation::new(0, 3).at(5), 0);
    }
}
