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
    /// Writes each of N keys once, in a pseudo-random order, many in an atomic batch.
    FillBatch,
    /// Writes random keys of the N.
    Overwrite,
    /// Adds numbers to the values of random keys of the N, by the engine's merge operator.
    MergeRandom,
    /// Reads random keys of the N.
    ReadRandom,
    /// Reads random keys of the N, many in one call.
    MultiReadRandom,
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
    /// Reads all entries in key order, each thread from the first to the last.
    ReadSeq,
    /// Deletes random keys of the N.
    DeleteRandom,
    /// Closes the store and opens it again, with an empty page cache.
    Reopen,
    /// Kills the process that has the store open, and opens it in another, with an empty page cache.
    ReopenKilled,
    /// Half reads, half updates, zipfian.
    YcsbA,
    /// 95 % reads, 5 % updates, zipfian.
    YcsbB,
    /// Reads alone, zipfian.
    YcsbC,
    /// 95 % reads of what is newest, 5 % inserts.
    YcsbD,
    /// 95 % scans of 1 to 100 entries, zipfian, 5 % inserts.
    YcsbE,
    /// Half reads, half reads each followed by a write, zipfian.
    YcsbF,
}

impl Workload {
    /// Every workload, in the order in which help lists them.
    pub const ALL: [Workload; 22] = [
        Workload::FillSeq,
        Workload::FillRandom,
        Workload::FillBatch,
        Workload::Overwrite,
        Workload::MergeRandom,
        Workload::ReadRandom,
        Workload::MultiReadRandom,
        Workload::ReadMissing,
        Workload::ReadWhileWriting,
        Workload::ReadRandomWriteRandom,
        Workload::SeekRandom,
        Workload::Scan,
        Workload::ReadSeq,
        Workload::DeleteRandom,
        Workload::Reopen,
        Workload::ReopenKilled,
        Workload::YcsbA,
        Workload::YcsbB,
        Workload::YcsbC,
        Workload::YcsbD,
        Workload::YcsbE,
        Workload::YcsbF,
    ];

    /// The name on the command line and in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Workload::FillSeq => "fillseq",
            Workload::FillRandom => "fillrandom",
            Workload::FillBatch => "fillbatch",
            Workload::Overwrite => "overwrite",
            Workload::MergeRandom => "mergerandom",
            Workload::ReadRandom => "readrandom",
            Workload::MultiReadRandom => "multireadrandom",
            Workload::ReadMissing => "readmissing",
            Workload::ReadWhileWriting => "readwhilewriting",
            Workload::ReadRandomWriteRandom => "readrandomwriterandom",
            Workload::SeekRandom => "seekrandom",
            Workload::Scan => "scan",
            Workload::ReadSeq => "readseq",
            Workload::DeleteRandom => "deleterandom",
            Workload::Reopen => "reopen",
            Workload::ReopenKilled => "reopen-killed",
            Workload::YcsbA => "ycsb-a",
            Workload::YcsbB => "ycsb-b",
            Workload::YcsbC => "ycsb-c",
            Workload::YcsbD => "ycsb-d",
            Workload::YcsbE => "ycsb-e",
            Workload::YcsbF => "ycsb-f",
        }
    }

    /// A fill writes each key once, whatever the duration asked for.
    #[must_use]
    pub const fn is_fill(self) -> bool {
        matches!(
            self,
            Workload::FillSeq | Workload::FillRandom | Workload::FillBatch
        )
    }

    /// Opens the store again, which whoever owns the engine does: see [`crate::Reopening`].
    #[must_use]
    pub const fn is_reopen(self) -> bool {
        matches!(self, Workload::Reopen | Workload::ReopenKilled)
    }

    /// Whether it does all of its work whatever duration, rate or limit are asked for.
    #[must_use]
    pub const fn is_whole(self) -> bool {
        self.is_fill() || self.is_reopen() || matches!(self, Workload::ReadSeq)
    }

    /// Whether it adds keys beyond the N.
    #[must_use]
    pub const fn inserts(self) -> bool {
        matches!(self, Workload::YcsbD | Workload::YcsbE)
    }

    /// One of the workloads of YCSB.
    #[must_use]
    pub const fn is_ycsb(self) -> bool {
        matches!(
            self,
            Workload::YcsbA
                | Workload::YcsbB
                | Workload::YcsbC
                | Workload::YcsbD
                | Workload::YcsbE
                | Workload::YcsbF
        )
    }

    /// Whether it draws keys, by a distribution.
    #[must_use]
    pub const fn draws(self) -> bool {
        !self.is_whole()
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
        // db_bench has this name for a fill in random order that writes every key once.
        if text == "filluniquerandom" {
            return Ok(Workload::FillRandom);
        }
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
        let unique = "filluniquerandom".parse::<Workload>().unwrap();
        assert_eq!(unique, Workload::FillRandom);
        let message = "fillsec".parse::<Workload>().unwrap_err().to_string();
        assert!(message.contains("fillsec") && message.contains("readrandomwriterandom"));
    }
}
