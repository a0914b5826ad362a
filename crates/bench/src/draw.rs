//! Which of the keys an operation takes: the distributions by name, and the draw itself.
//!
//! A draw is a pure function of a hash, so that equal seeds draw equal keys on every engine. Nothing
//! is mutable; shared freely between threads.

use std::fmt;
use std::str::FromStr;

use crate::distribution::{Latest, Scrambled};
use crate::error::BenchError;
use crate::mix::{below, mix64};

/// Of the keys, the share that is hot (YCSB's `hotspotdatafraction`), in percent.
const HOT_KEYS_PERCENT: u64 = 20;
/// Of the draws, the share that goes to them (YCSB's `hotspotopnfraction`), in percent.
const HOT_DRAWS_PERCENT: u64 = 80;
/// Standard deviations from the middle of the keys to either end, as cassandra-stress has it.
const DEVIATIONS: f64 = 3.0;

/// How often each key is drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Distribution {
    /// All alike.
    Uniform,
    /// Zipfian with exponent 0.99, the popular keys scattered among all.
    Zipfian,
    /// Zipfian by age: the newest key most often.
    Latest,
    /// Four of five draws go to the first fifth of the keys, evenly within it and beside it.
    Hotspot,
    /// Normal around the middle key, with a sixth of the number of keys as standard deviation;
    /// what falls outside of the keys (one draw in 370) is drawn again.
    Gaussian,
}

impl Distribution {
    /// Every distribution, in the order in which help lists them.
    pub const ALL: [Distribution; 5] = [
        Distribution::Uniform,
        Distribution::Zipfian,
        Distribution::Latest,
        Distribution::Hotspot,
        Distribution::Gaussian,
    ];

    /// The name on the command line and in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Distribution::Uniform => "uniform",
            Distribution::Zipfian => "zipfian",
            Distribution::Latest => "latest",
            Distribution::Hotspot => "hotspot",
            Distribution::Gaussian => "gaussian",
        }
    }
}

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Distribution {
    type Err = BenchError;

    fn from_str(text: &str) -> Result<Distribution, BenchError> {
        let found = Distribution::ALL.into_iter().find(|one| one.name() == text);
        found.ok_or_else(|| {
            let known = Distribution::ALL.map(Distribution::name);
            BenchError::unknown("distribution", text, known.as_slice())
        })
    }
}

/// Draws keys.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Draw {
    /// For all workloads, whatever is their own.
    asked: Option<Distribution>,
    items: u64,
    scrambled: Scrambled,
    latest: Latest,
}

impl Draw {
    /// Draws among `items` keys (at least 1); `asked` stands for what workloads have of their own.
    pub(crate) fn new(items: u64, asked: Option<Distribution>) -> Draw {
        Draw {
            asked,
            items: items.max(1),
            scrambled: Scrambled::new(items),
            latest: Latest::new(items),
        }
    }

    /// The key that a uniformly distributed hash draws, in a workload whose own distribution is
    /// `own`, when `count` keys are there; only `latest` knows of more than the first ones.
    pub(crate) fn item(&self, own: Distribution, hash: u64, count: u64) -> u64 {
        match self.asked.unwrap_or(own) {
            Distribution::Uniform => below(hash, self.items),
            Distribution::Zipfian => self.scrambled.item(hash),
            Distribution::Latest => self.latest.item(hash, count),
            Distribution::Hotspot => hotspot(hash, self.items),
            Distribution::Gaussian => gaussian(hash, self.items),
        }
    }
}

/// YCSB's `HotspotIntegerGenerator`.
fn hotspot(hash: u64, items: u64) -> u64 {
    let hot = (items as u128 * u128::from(HOT_KEYS_PERCENT) / 100) as u64;
    let within = mix64(hash);
    // Of fewer than five keys none is hot.
    if hot > 0 && below(hash, 100) < HOT_DRAWS_PERCENT {
        below(within, hot)
    } else {
        hot + below(within, items - hot)
    }
}

/// By Box and Muller.
fn gaussian(hash: u64, items: u64) -> u64 {
    let middle = items as f64 / 2.0;
    let (mut one, mut other) = (hash, mix64(hash));
    loop {
        // Never 0, of which there is no logarithm.
        let radius = (-2.0 * (1.0 - unit(one)).ln()).sqrt();
        let deviation = radius * (std::f64::consts::TAU * unit(other)).cos();
        let item = middle + deviation * middle / DEVIATIONS;
        if (0.0..items as f64).contains(&item) {
            return item as u64;
        }
        (one, other) = (mix64(other), mix64(mix64(other)));
    }
}

/// From 0 on, below 1.
fn unit(hash: u64) -> f64 {
    (hash >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWS: u64 = 200_000;
    const ITEMS: u64 = 1000;

    /// How often each of the keys is drawn, as shares.
    fn shares(distribution: Distribution) -> Vec<f64> {
        let draw = Draw::new(ITEMS, Some(distribution));
        let mut shares = vec![0.0; ITEMS as usize];
        for number in 0..DRAWS {
            let own = Distribution::Uniform;
            shares[draw.item(own, mix64(number), ITEMS) as usize] += 1.0 / DRAWS as f64;
        }
        shares
    }

    /// The share of the draws that fell on keys from one share of all to another.
    fn between(shares: &[f64], from: f64, to: f64) -> f64 {
        let place = |share: f64| (share * ITEMS as f64).round() as usize;
        shares[place(from)..place(to)].iter().sum()
    }

    fn close(found: f64, expected: f64) {
        assert!(
            (found - expected).abs() < 0.006,
            "{found} instead of {expected}"
        );
    }

    #[test]
    fn an_even_draw_is_even() {
        let shares = shares(Distribution::Uniform);
        for tenth in 0..10 {
            let from = f64::from(tenth) / 10.0;
            close(between(&shares, from, from + 0.1), 0.1);
        }
    }

    #[test]
    fn four_of_five_draws_go_evenly_to_the_first_fifth() {
        let shares = shares(Distribution::Hotspot);
        close(between(&shares, 0.0, 0.2), 0.8);
        close(between(&shares, 0.0, 0.1), 0.4);
        close(between(&shares, 0.2, 0.6), 0.1);
        close(between(&shares, 0.9, 1.0), 0.025);
        for items in 1..6 {
            assert!((0..1000).all(|number| hotspot(mix64(number), items) < items));
        }
    }

    #[test]
    fn a_gaussian_has_its_middle_and_its_deviation() {
        let shares = shares(Distribution::Gaussian);
        // Within 1, 2 and 3 standard deviations, where all is within 3.
        close(between(&shares, 1.0 / 3.0, 2.0 / 3.0), 0.6827 / 0.9973);
        close(between(&shares, 1.0 / 6.0, 5.0 / 6.0), 0.9545 / 0.9973);
        close(between(&shares, 0.0, 0.5), 0.5);
        close(between(&shares, 0.5, 2.0 / 3.0), 0.3413 / 0.9973);
        assert!((0..1000).all(|number| gaussian(mix64(number), 1) == 0));
        assert!(shares[0] < 0.001 && shares[999] < 0.001, "no key is hot");
    }

    #[test]
    fn the_others_are_those_of_ycsb() {
        let latest = shares(Distribution::Latest);
        assert!(latest.windows(2).skip(990).all(|two| two[0] < two[1]));
        let zipfian = shares(Distribution::Zipfian);
        let scrambled = Scrambled::new(ITEMS);
        let hottest = zipfian.iter().copied().fold(0.0, f64::max);
        close(hottest, zipfian[scrambled.item(0) as usize]);
    }

    #[test]
    fn what_is_asked_for_stands_for_what_a_workload_has() {
        let own = Distribution::Latest;
        let none = Draw::new(ITEMS, None);
        assert_eq!(none.item(own, 0, 2000), 1999);
        let asked = Draw::new(ITEMS, Some(Distribution::Uniform));
        assert_eq!(asked.item(own, 0, 2000), 0);
    }

    #[test]
    fn names_are_read_back_and_others_are_refused_with_the_list() {
        for one in Distribution::ALL {
            assert_eq!(one.name().parse::<Distribution>().unwrap(), one);
        }
        let message = "normal".parse::<Distribution>().unwrap_err().to_string();
        assert!(message.contains("normal") && message.contains("gaussian"));
    }
}
