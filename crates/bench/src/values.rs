//! Values as a pure function of a seed, an index and a version; about half compressible.
//!
//! A pool of blocks, half noise and half one letter, is made once; a value is a window of it with
//! its first bytes stamped, so that no two versions of a value are alike. A generator is immutable
//! and shared freely between threads.

use crate::mix::{below, mix2, mix64};

/// How far windows start apart, in bytes: larger than what a compressor remembers.
const POOL_SLACK_BYTES: usize = 1 << 20;
/// Half of a block is noise, half one letter.
const BLOCK_BYTES: usize = 64;
/// How many bytes at the front of a value tell it from every other.
const STAMP_BYTES: usize = 8;

/// Makes values of one size. Making one costs a copy.
#[derive(Clone, Debug)]
pub struct ValueGen {
    pool: Vec<u8>,
    size_bytes: usize,
    seed: u64,
}

impl ValueGen {
    /// A generator of values of `size_bytes`; holds that and 1 MiB of memory.
    #[must_use]
    pub fn new(size_bytes: usize, seed: u64) -> ValueGen {
        let pool_bytes = size_bytes + POOL_SLACK_BYTES;
        let mut pool = Vec::with_capacity(pool_bytes + BLOCK_BYTES);
        let mut noise = mix64(seed);
        while pool.len() < pool_bytes {
            for _ in 0..BLOCK_BYTES / 2 / 8 {
                noise = mix64(noise);
                pool.extend_from_slice(&noise.to_le_bytes());
            }
            pool.resize(pool.len() + BLOCK_BYTES / 2, b'a' + (noise % 26) as u8);
        }
        ValueGen {
            pool,
            size_bytes,
            seed,
        }
    }

    /// The size of every value, in bytes.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        self.size_bytes
    }

    /// Puts the value of `index` in its `version` into `out`.
    pub fn value(&self, index: u64, version: u64, out: &mut Vec<u8>) {
        let stamp = mix2(self.seed ^ index, version);
        let start = below(mix64(stamp), POOL_SLACK_BYTES as u64) as usize;
        out.clear();
        out.extend(
            stamp
                .to_le_bytes()
                .into_iter()
                .take(self.size_bytes.min(STAMP_BYTES)),
        );
        let rest = self.size_bytes - out.len();
        if let Some(window) = self.pool.get(start..start + rest) {
            out.extend_from_slice(window);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(generator: &ValueGen, index: u64, version: u64) -> Vec<u8> {
        let mut value = b"left over".to_vec();
        generator.value(index, version, &mut value);
        value
    }

    #[test]
    fn values_are_pure_exact_in_size_and_differ() {
        for size in [0, 1, 7, 8, 9, 100, 4096, 3 << 20] {
            let generator = ValueGen::new(size, 1);
            assert_eq!(made(&generator, 5, 0).len(), size);
            assert_eq!(made(&generator, 5, 0), made(&ValueGen::new(size, 1), 5, 0));
            if size >= 7 {
                assert_ne!(made(&generator, 5, 0), made(&generator, 5, 1));
                assert_ne!(made(&generator, 5, 0), made(&generator, 6, 0));
                assert_ne!(made(&generator, 5, 0), made(&ValueGen::new(size, 2), 5, 0));
            }
        }
    }

    #[test]
    fn about_half_of_a_value_is_redundant() {
        let value = made(&ValueGen::new(64 << 10, 9), 1, 1);
        let repeats = value.windows(2).filter(|pair| pair[0] == pair[1]).count();
        let share = repeats as f64 / value.len() as f64;
        assert!(
            (0.45..0.55).contains(&share),
            "{share} of the bytes repeat the byte before"
        );
    }
}
