//! The skewed choices of YCSB: zipfian, scrambled zipfian and latest.
//!
//! All are pure functions of a hash, so that equal seeds draw equal keys on every engine. Nothing
//! is mutable; shared freely between threads.

/// YCSB's skew.
const THETA: f64 = 0.99;
/// YCSB scrambles the ranks of this many items, however many there are.
const SCRAMBLED_ITEMS: u64 = 10_000_000_000;
/// The head of the harmonic sum is added up term by term, the rest is integrated.
const SUMMED_TERMS: u64 = 1000;
const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

/// Ranks from 0 on, rank r with a probability proportional to 1 / (r + 1)^0.99.
///
/// The method is that of Gray et al., "Quickly generating billion-record synthetic databases"
/// (1994), as YCSB has it: exact for the ranks 0 and 1, an approximation for the others.
#[derive(Clone, Copy, Debug)]
pub struct Zipfian {
    items: f64,
    zeta: f64,
    eta: f64,
}

impl Zipfian {
    /// A choice among `items` (at least 1).
    #[must_use]
    pub fn new(items: u64) -> Zipfian {
        let items = items.max(1);
        let zeta = zeta(items);
        let ratio = (2.0 / items as f64).powf(1.0 - THETA);
        let eta = (1.0 - ratio) / (1.0 - zeta_head(2) / zeta);
        Zipfian {
            items: items as f64,
            zeta,
            eta,
        }
    }

    /// The rank that a uniformly distributed hash draws.
    #[must_use]
    pub fn rank(&self, hash: u64) -> u64 {
        let unit = (hash >> 11) as f64 / (1u64 << 53) as f64;
        let point = unit * self.zeta;
        if point < 1.0 || self.items < 2.0 {
            return 0;
        }
        if point < 1.0 + 0.5f64.powf(THETA) {
            return 1;
        }
        let base = self.eta * unit - self.eta + 1.0;
        let rank = self.items * base.powf(1.0 / (1.0 - THETA));
        rank.min(self.items - 1.0) as u64
    }
}

/// A zipfian choice whose popular items lie scattered among all.
#[derive(Clone, Copy, Debug)]
pub struct Scrambled {
    ranks: Zipfian,
    items: u64,
}

impl Scrambled {
    /// A choice among `items` (at least 1).
    #[must_use]
    pub fn new(items: u64) -> Scrambled {
        Scrambled {
            ranks: Zipfian::new(SCRAMBLED_ITEMS),
            items: items.max(1),
        }
    }

    /// The item, below the number of items, that a uniformly distributed hash draws.
    #[must_use]
    pub fn item(&self, hash: u64) -> u64 {
        fnv(self.ranks.rank(hash)) % self.items
    }
}

/// A choice that favours the newest items, by their age in a zipfian way.
///
/// Ages are drawn among as many items as there were at first; YCSB follows the growth, which
/// changes the probabilities by less than the growth itself.
#[derive(Clone, Copy, Debug)]
pub struct Latest {
    ages: Zipfian,
}

impl Latest {
    /// A choice among `items` at first (at least 1).
    #[must_use]
    pub fn new(items: u64) -> Latest {
        Latest {
            ages: Zipfian::new(items),
        }
    }

    /// The item that a uniformly distributed hash draws when `count` items are there.
    #[must_use]
    pub fn item(&self, hash: u64, count: u64) -> u64 {
        let newest = count.saturating_sub(1);
        newest.saturating_sub(self.ages.rank(hash))
    }
}

/// The sum of 1 / i^0.99 for i from 1 to `items`.
fn zeta(items: u64) -> f64 {
    if items <= SUMMED_TERMS {
        return zeta_head(items);
    }
    // Euler and Maclaurin, with two corrections: exact to more digits than are used.
    let (first, last) = (SUMMED_TERMS as f64, items as f64);
    let integral = (last.powf(1.0 - THETA) - first.powf(1.0 - THETA)) / (1.0 - THETA);
    let ends = (last.powf(-THETA) - first.powf(-THETA)) / 2.0;
    let slopes = THETA * (first.powf(-THETA - 1.0) - last.powf(-THETA - 1.0)) / 12.0;
    zeta_head(SUMMED_TERMS) + integral + ends + slopes
}

fn zeta_head(terms: u64) -> f64 {
    (1..=terms).map(|i| (i as f64).powf(-THETA)).sum()
}

/// YCSB's hash: FNV of 64 bits over the bytes of a number, the sign left out.
fn fnv(number: u64) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(FNV_PRIME);
    let hash = number.to_le_bytes().into_iter().fold(FNV_OFFSET, step);
    (hash as i64).unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mix::mix64;

    const DRAWS: u64 = 1_000_000;

    #[test]
    fn the_sum_is_that_which_ycsb_gives_and_that_of_all_terms() {
        // The constant ZETAN of YCSB's ScrambledZipfianGenerator.
        assert!((zeta(SCRAMBLED_ITEMS) - 26.469_028_201_783_02).abs() < 1e-6);
        for items in [1, 2, 1000, 1001, 123_456] {
            assert!((zeta(items) - zeta_head(items)).abs() < 1e-9, "{items}");
        }
    }

    #[test]
    fn ranks_are_drawn_as_often_as_the_law_says() {
        for items in [10u64, 1000, 1_000_000] {
            let zipfian = Zipfian::new(items);
            let mut counts = vec![0u64; items as usize];
            for draw in 0..DRAWS {
                counts[zipfian.rank(mix64(draw)) as usize] += 1;
            }
            let mut until = 0.0;
            for rank in 0..items.min(1000) {
                until += 1.0 / ((rank + 1) as f64).powf(THETA) / zeta(items);
                let drawn: u64 = counts[..=rank as usize].iter().sum();
                let share = drawn as f64 / DRAWS as f64;
                // The method's own error is largest behind the first two ranks.
                let allowed = if rank < 2 { 0.002 } else { 0.03 };
                assert!(
                    (share - until).abs() < allowed,
                    "{items}, up to rank {rank}: {share} instead of {until}"
                );
            }
        }
    }

    #[test]
    fn scrambling_keeps_the_weight_of_the_first_and_scatters_the_items() {
        let scrambled = Scrambled::new(1000);
        let mut counts = vec![0u64; 1000];
        for draw in 0..DRAWS {
            counts[scrambled.item(mix64(draw)) as usize] += 1;
        }
        let hottest = counts.iter().max().copied().unwrap() as f64 / DRAWS as f64;
        let expected = 1.0 / zeta(SCRAMBLED_ITEMS);
        assert!((expected..expected + 0.02).contains(&hottest), "{hottest}");
        assert_eq!(
            fnv(0) % 1000,
            counts
                .iter()
                .position(|count| *count as f64 / DRAWS as f64 == hottest)
                .unwrap() as u64
        );
        assert!(counts.iter().all(|count| *count > 0));
    }

    #[test]
    fn the_latest_are_the_newest_whatever_was_added() {
        let latest = Latest::new(1000);
        for count in [1u64, 1000, 1200] {
            let newest = (0..10_000).filter(|draw| latest.item(mix64(*draw), count) == count - 1);
            let newest = newest.count() as f64 / 10_000.0;
            let expected = if count == 1 { 1.0 } else { 1.0 / zeta(1000) };
            assert!((newest - expected).abs() < 0.02, "{count}: {newest}");
            assert!((0..10_000).all(|draw| latest.item(mix64(draw), count) < count));
        }
    }
}
