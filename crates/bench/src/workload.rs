//! The workloads by name, and what kind each is. Plain data, no threads.

use std::fmt;
use std::str::FromStr;

use crate::error::BenchError;

/// What is done to the store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Workload {
    /// Writes each of N keys once, in the order of their indices.
    FillSeq,
    /// Writes each of N keys once, in a pseudo-random order.
    FillRandom,
    /// Writes random keys of the N.
    Overwrite,
    /// Reads random keys of the N.
    ReadRandom,
    /// Reads random keys that lie between the N but are none of them.
    ReadMissing,
    /// Reads random keys while one further thread overwrites.
    ReadWhileWriting,
    /// Each thread reads and overwrites random keys, in a given share.
    ReadRandomWriteRandom,
    /// Positions at a random key and reads the first entry from there.
    SeekRandom,
    /// Positions at a random key and reads a number of entries from there.
    Scan,
}

impl Workload {
    /// Every workload, in the order in which help lists them.
    pub const ALL: [Workload; 9] = [
        Workload::FillSeq,
        Workload::FillRandom,
        Workload::Overwrite,
        Workload::ReadRandom,
        Workload::ReadMissing,
        Workload::ReadWhileWriting,
        Workload::ReadRandomWriteRandom,
        Workload::SeekRandom,
        Workload::Scan,
    ];

    /// The name on the command line and in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Workload::FillSeq => "fillseq",
            Workload::FillRandom => "fillrandom",
            Workload::Overwrite => "overwrite",
            Workload::ReadRandom => "readrandom",
            Workload::ReadMissing => "readmissing",
            Workload::ReadWhileWriting => "readwhilewriting",
            Workload::ReadRandomWriteRandom => "readrandomwriterandom",
            Workload::SeekRandom => "seekrandom",
            Workload::Scan => "scan",
        }
    }

    /// A fill writes each key once, whatever the duration asked for.
    #[must_use]
    pub const fn is_fill(self) -> bool {
        matches!(self, Workload::FillSeq | Workload::FillRandom)
    }

    /// Whether it writes at all.
    #[must_use]
    pub const fn writes(self) -> bool {
        matches!(
            self,
            Workload::FillSeq
                | Workload::FillRandom
                | Workload::Overwrite
                | Workload::ReadWhileWriting
                | Workload::ReadRandomWriteRandom
        )
    }

    /// Whether every read of it should find its key.
    #[must_use]
    pub const fn expects_found(self) -> bool {
        !matches!(self, Workload::ReadMissing) && !self.is_fill()
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Workload {
    type Err = BenchError;

    fn from_str(text: &str) -> Result<Workload, BenchError> {
        Workload::ALL
            .into_iter()
            .find(|workload| workload.name() == text)
            .ok_or_else(|| {
                BenchError::unknown(
                    "workload",
                    text,
                    Workload::ALL.map(Workload::name).as_slice(),
                )
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back_and_others_are_refused_with_the_list() {
        for workload in Workload::ALL {
            assert_eq!(workload.name().parse::<Workload>().unwrap(), workload);
        }
        let message = "fillsec".parse::<Workload>().unwrap_err().to_string();
        assert!(message.contains("fillsec") && message.contains("readrandomwriterandom"));
    }
}
