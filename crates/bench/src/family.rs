//! The key families by name. Plain data, no threads.

use std::fmt;
use std::str::FromStr;

use crate::error::BenchError;

/// What the keys look like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyFamily {
    /// Uniform random bytes.
    Random,
    /// Big-endian numbers that grow with the index, padded with `0` characters.
    Sequential,
    /// The text `user` and decimal digits in random order, as YCSB writes them.
    Ycsb,
    /// Web addresses: a skewed choice of hosts, sections below them, a slug and an id.
    Url,
}

impl KeyFamily {
    /// Every family, in the order in which help lists them.
    pub const ALL: [KeyFamily; 4] = [
        KeyFamily::Random,
        KeyFamily::Sequential,
        KeyFamily::Ycsb,
        KeyFamily::Url,
    ];

    /// The name on the command line and in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            KeyFamily::Random => "random",
            KeyFamily::Sequential => "sequential",
            KeyFamily::Ycsb => "ycsb",
            KeyFamily::Url => "url",
        }
    }

    /// The key size used when none is asked for, in bytes.
    #[must_use]
    pub const fn default_size_bytes(self) -> usize {
        match self {
            KeyFamily::Random | KeyFamily::Sequential => 16,
            KeyFamily::Ycsb => 24,
            KeyFamily::Url => 64,
        }
    }

    /// The smallest key that the family can make, in bytes.
    #[must_use]
    pub const fn min_size_bytes(self) -> usize {
        match self {
            KeyFamily::Random | KeyFamily::Sequential => 1,
            KeyFamily::Ycsb => 5,
            KeyFamily::Url => 32,
        }
    }
}

impl fmt::Display for KeyFamily {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for KeyFamily {
    type Err = BenchError;

    fn from_str(text: &str) -> Result<KeyFamily, BenchError> {
        KeyFamily::ALL
            .into_iter()
            .find(|family| family.name() == text)
            .ok_or_else(|| {
                BenchError::unknown(
                    "key family",
                    text,
                    KeyFamily::ALL.map(KeyFamily::name).as_slice(),
                )
            })
    }
}
