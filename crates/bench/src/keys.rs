//! Keys as a pure function of a family, a size, a seed and an index.
//!
//! Invariants:
//! - every key has exactly the size asked for;
//! - index `i` is present under code `2i` and missing under code `2i + 1`, and the way from a code
//!   to a key is injective: keys are unique, and a missing key is never equal to a present one;
//! - both come from one distribution, so missing keys lie between the present ones.
//!
//! A generator is immutable and shared freely between threads.

use crate::error::BenchError;
use crate::family::KeyFamily;
use crate::mix::{mix2, mix64};
use crate::permutation::Permutation;
use crate::url;

/// Decimal digits that hold any number of 64 bits.
const DIGITS_U64: usize = 20;
/// What a YCSB key begins with.
const YCSB_PREFIX: &[u8] = b"user";

/// Makes keys. Cheap to clone; one key costs 10 to 100 ns and no memory.
#[derive(Clone, Debug)]
pub struct KeyGen {
    family: KeyFamily,
    size_bytes: usize,
    seed: u64,
    spread: Spread,
}

impl KeyGen {
    /// A generator of keys of `size_bytes`.
    ///
    /// # Errors
    /// The size is smaller than the family needs or larger than a store takes.
    pub fn new(family: KeyFamily, size_bytes: usize, seed: u64) -> Result<KeyGen, BenchError> {
        let (min, max) = (family.min_size_bytes(), KEY_BYTES_MAX);
        if !(min..=max).contains(&size_bytes) {
            let expected = format!("{min} to {max} bytes for {family} keys");
            return Err(BenchError::out_of_range("--key-size", size_bytes, expected));
        }
        let spread = Spread::new(family, size_bytes, seed);
        Ok(KeyGen {
            family,
            size_bytes,
            seed,
            spread,
        })
    }

    /// The family.
    #[must_use]
    pub fn family(&self) -> KeyFamily {
        self.family
    }

    /// The size of every key, in bytes.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        self.size_bytes
    }

    /// How many indices have a key of their own, present and missing.
    #[must_use]
    pub fn index_limit(&self) -> u64 {
        self.spread.codes() / 2
    }

    /// Puts the key of `index` into `out`.
    pub fn key(&self, index: u64, out: &mut Vec<u8>) {
        self.write(index, index.wrapping_mul(2), out);
    }

    /// Puts a key into `out` that no index below [`KeyGen::index_limit`] has, from the same
    /// distribution.
    pub fn missing_key(&self, index: u64, out: &mut Vec<u8>) {
        self.write(index, index.wrapping_mul(2).wrapping_add(1), out);
    }

    fn write(&self, index: u64, code: u64, out: &mut Vec<u8>) {
        out.clear();
        let id = self.spread.at(code);
        match self.family {
            KeyFamily::Random => self.write_random(id, out),
            KeyFamily::Sequential => self.write_sequential(id, out),
            KeyFamily::Ycsb => self.write_ycsb(id, out),
            KeyFamily::Url => url::write(mix2(self.seed, index), id, self.size_bytes, out),
        }
    }

    fn write_random(&self, id: u64, out: &mut Vec<u8>) {
        write_low_bytes(id, self.size_bytes.min(8), out);
        let mut noise = id;
        while out.len() < self.size_bytes {
            noise = mix2(noise, self.seed);
            let take = (self.size_bytes - out.len()).min(8);
            out.extend(noise.to_le_bytes().into_iter().take(take));
        }
    }

    fn write_sequential(&self, id: u64, out: &mut Vec<u8>) {
        write_low_bytes(id, self.size_bytes.min(8), out);
        out.resize(self.size_bytes, b'0');
    }

    fn write_ycsb(&self, id: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(YCSB_PREFIX);
        let digits = (self.size_bytes - YCSB_PREFIX.len()).min(DIGITS_U64);
        write_decimal(id, digits, out);
        let mut noise = id;
        while out.len() < self.size_bytes {
            noise = mix2(noise, self.seed);
            out.push(b'0' + (noise % 10) as u8);
        }
    }
}

/// Longest key a store takes, in bytes.
const KEY_BYTES_MAX: usize = 65_535;

/// The injective way from a code to the number that a key carries.
#[derive(Clone, Debug)]
enum Spread {
    /// The number is the code, below a bound.
    Plain { codes: u64 },
    /// All 64 bits, mixed.
    Whole { seed: u64 },
    /// A smaller domain, permuted.
    Within(Permutation),
}

impl Spread {
    fn new(family: KeyFamily, size_bytes: usize, seed: u64) -> Spread {
        let codes = match family {
            KeyFamily::Random | KeyFamily::Sequential => power(256, size_bytes),
            KeyFamily::Ycsb => power(10, size_bytes - YCSB_PREFIX.len()),
            KeyFamily::Url => None,
        };
        match (family, codes) {
            (KeyFamily::Sequential, codes) => Spread::Plain {
                codes: codes.unwrap_or(u64::MAX),
            },
            (_, Some(codes)) => Spread::Within(Permutation::new(codes, seed)),
            (_, None) => Spread::Whole { seed },
        }
    }

    fn codes(&self) -> u64 {
        match self {
            Spread::Plain { codes } => *codes,
            Spread::Whole { .. } => u64::MAX,
            Spread::Within(permutation) => permutation.len(),
        }
    }

    fn at(&self, code: u64) -> u64 {
        match self {
            Spread::Plain { .. } => code,
            Spread::Whole { seed } => mix64(mix64(code ^ seed).wrapping_add(*seed)),
            Spread::Within(permutation) => permutation.at(code),
        }
    }
}

/// `base` to the power of `exponent`; `None` when 64 bits do not hold it.
fn power(base: u64, exponent: usize) -> Option<u64> {
    u32::try_from(exponent)
        .ok()
        .and_then(|exponent| base.checked_pow(exponent))
}

/// The `count` lowest bytes of `number`, the highest of them first.
fn write_low_bytes(number: u64, count: usize, out: &mut Vec<u8>) {
    out.extend(number.to_be_bytes().into_iter().skip(8 - count));
}

/// `number` in exactly `digits` decimal digits; higher digits are dropped.
fn write_decimal(number: u64, digits: usize, out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + digits, b'0');
    let mut rest = number;
    for digit in out.iter_mut().skip(start).rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeSet, HashSet};

    fn made(generator: &KeyGen, index: u64, missing: bool) -> Vec<u8> {
        let mut key = b"left over".to_vec();
        if missing {
            generator.missing_key(index, &mut key);
        } else {
            generator.key(index, &mut key);
        }
        key
    }

    fn each_family_and_size() -> impl Iterator<Item = (KeyFamily, usize)> {
        KeyFamily::ALL.into_iter().flat_map(|family| {
            let min = family.min_size_bytes();
            [min, min + 1, min + 3, 16, 24, 25, 40, 64, 300]
                .into_iter()
                .filter(move |size| *size >= min)
                .map(move |size| (family, size))
        })
    }

    #[test]
    fn keys_are_unique_exact_in_size_and_apart_from_missing_ones() {
        for (family, size) in each_family_and_size() {
            let generator = KeyGen::new(family, size, 42).unwrap();
            let count = generator.index_limit().min(20_000);
            assert!(count > 0);
            let mut seen = HashSet::new();
            for index in 0..count {
                for missing in [false, true] {
                    let key = made(&generator, index, missing);
                    assert_eq!(key.len(), size, "{family}");
                    assert!(
                        seen.insert(key),
                        "{family} of {size}: {index} {missing} repeats"
                    );
                }
            }
        }
    }

    #[test]
    fn a_key_depends_on_index_and_seed_alone() {
        for (family, size) in each_family_and_size() {
            let one = KeyGen::new(family, size, 7).unwrap();
            let two = KeyGen::new(family, size, 7).unwrap();
            let mut backwards: Vec<_> = (0..100).rev().map(|i| made(&one, i, false)).collect();
            backwards.reverse();
            let forwards: Vec<_> = (0..100).map(|i| made(&two, i, false)).collect();
            assert_eq!(forwards, backwards);
            let other = KeyGen::new(family, size, 8).unwrap();
            if family != KeyFamily::Sequential && size > 8 {
                assert_ne!(
                    forwards,
                    (0..100).map(|i| made(&other, i, false)).collect::<Vec<_>>()
                );
            }
        }
    }

    #[test]
    fn missing_keys_lie_between_the_present_ones() {
        for (family, size) in each_family_and_size().filter(|(_, size)| *size >= 16) {
            let generator = KeyGen::new(family, size, 3).unwrap();
            let present: BTreeSet<_> = (0..2000).map(|i| made(&generator, i, false)).collect();
            let inside = (0..2000)
                .map(|i| made(&generator, i, true))
                .filter(|key| present.range(key.clone()..).next().is_some())
                .count();
            let ranks: HashSet<_> = (0..2000)
                .map(|i| present.range(..made(&generator, i, true)).count())
                .collect();
            assert!(
                inside > 1900,
                "{family} of {size}: {inside} of 2000 inside the range"
            );
            assert!(
                ranks.len() > 500,
                "{family} of {size}: only {} gaps hit",
                ranks.len()
            );
        }
    }

    #[test]
    fn families_look_like_their_names() {
        let text = |family, size, index| {
            let generator = KeyGen::new(family, size, 1).unwrap();
            String::from_utf8(made(&generator, index, false)).unwrap()
        };
        let ycsb = text(KeyFamily::Ycsb, 24, 5);
        assert!(
            ycsb.strip_prefix("user")
                .unwrap()
                .bytes()
                .all(|b| b.is_ascii_digit()),
            "{ycsb}"
        );
        let url = text(KeyFamily::Url, 64, 5);
        assert!(
            url.starts_with("https://") && !url.contains(char::is_whitespace),
            "{url}"
        );
        let sequential = KeyGen::new(KeyFamily::Sequential, 16, 1).unwrap();
        let keys: Vec<_> = (0..1000).map(|i| made(&sequential, i, false)).collect();
        assert!(keys.is_sorted());
    }

    #[test]
    fn sizes_outside_are_refused() {
        for family in KeyFamily::ALL {
            assert!(KeyGen::new(family, family.min_size_bytes() - 1, 0).is_err());
            assert!(KeyGen::new(family, 65_536, 0).is_err());
            assert!(KeyGen::new(family, 65_535, 0).is_ok());
        }
        assert_eq!(
            KeyGen::new(KeyFamily::Random, 2, 0).unwrap().index_limit(),
            32_768
        );
        assert_eq!(
            KeyGen::new(KeyFamily::Ycsb, 6, 0).unwrap().index_limit(),
            50
        );
    }
}
