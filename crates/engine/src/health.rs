//! What a store says about its health, and what a scrub found: plain data, for programs and people.
//!
//! Invariant: every type here tells what, where, what was expected and found, and since when; the
//! types are for programs, what they display for people. Threads: plain data.

use std::fmt;

/// How a store is, without the reasons: the worst that holds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum HealthState {
    /// It does all its work.
    Healthy,
    /// It does all its work, and something wants attention.
    Degraded,
    /// It reads and deletes; new data is refused until there is room.
    Full,
    /// It reads; writes are refused until it is opened again.
    Failed,
    /// It was closed.
    Closed,
}

impl fmt::Display for HealthState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            HealthState::Healthy => "healthy",
            HealthState::Degraded => "degraded",
            HealthState::Full => "full",
            HealthState::Failed => "failed",
            HealthState::Closed => "closed",
        })
    }
}

/// Whether the store does all its work, and why not.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Health {
    /// It does all its work.
    #[default]
    Healthy,
    /// It does all its work, and these want attention.
    Degraded {
        /// What is not as it should be; never empty.
        conditions: Vec<Condition>,
    },
    /// It reads and deletes; new data is refused until there is room.
    Full {
        /// That it is full, and what else is not as it should be.
        conditions: Vec<Condition>,
    },
    /// It reads; writes are refused until the store is opened again.
    Failed {
        /// The first failure.
        cause: String,
        /// When it was noticed, in milliseconds since 1970.
        since_ms: u64,
        /// What else is not as it should be.
        conditions: Vec<Condition>,
    },
    /// It was closed.
    Closed,
}

impl Health {
    /// The state without the reasons.
    #[must_use]
    pub fn state(&self) -> HealthState {
        match self {
            Health::Healthy => HealthState::Healthy,
            Health::Degraded { .. } => HealthState::Degraded,
            Health::Full { .. } => HealthState::Full,
            Health::Failed { .. } => HealthState::Failed,
            Health::Closed => HealthState::Closed,
        }
    }

    /// Everything that is not as it should be, but for the failure of a store that failed.
    #[must_use]
    pub fn conditions(&self) -> &[Condition] {
        match self {
            Health::Degraded { conditions }
            | Health::Full { conditions }
            | Health::Failed { conditions, .. } => conditions,
            Health::Healthy | Health::Closed => &[],
        }
    }
}

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.state().fmt(f)?;
        if let Health::Failed { cause, .. } = self {
            write!(f, ": {cause}")?;
        }
        for (n, condition) in self.conditions().iter().enumerate() {
            f.write_str(if n == 0 { ": " } else { "; " })?;
            condition.fmt(f)?;
        }
        Ok(())
    }
}

/// Something that is not as it should be, and since when.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Condition {
    /// What it is.
    pub kind: ConditionKind,
    /// When it was noticed, in milliseconds since 1970.
    pub since_ms: u64,
}

impl Condition {
    pub(crate) fn new(kind: ConditionKind, since_ms: u64) -> Condition {
        Condition { kind, since_ms }
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kind.fmt(f)
    }
}

/// What is not as it should be.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ConditionKind {
    /// Bytes on media are damaged, and could not be mended: reads of the keys in question say so
    /// until they are written anew or deleted.
    Damage(Finding),
    /// Opening found damage in what it replayed; told until the next open.
    DamageAtOpen {
        /// What, where, expected and found.
        what: String,
    },
    /// More was found damaged than is listed.
    MoreDamage {
        /// How many findings are not listed.
        count: u64,
    },
    /// New data is refused for lack of room.
    Full {
        /// All bytes for records.
        capacity_bytes: u64,
    },
    /// Most of the room is taken by live records: collection works hard, and the end is near.
    NearlyFull {
        /// Bytes of live records (estimated).
        live_bytes: u64,
        /// Bytes that live records can take.
        usable_bytes: u64,
    },
    /// The index has taken nearly all of its share of the memory budget: soon new keys are refused.
    MemoryShort {
        /// Memory of the index.
        index_bytes: u64,
        /// What it may take.
        limit_bytes: u64,
    },
}

impl fmt::Display for ConditionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConditionKind::Damage(finding) => finding.fmt(f),
            ConditionKind::DamageAtOpen { what } => write!(f, "found when opened: {what}"),
            ConditionKind::MoreDamage { count } => write!(f, "{count} more findings"),
            ConditionKind::Full { capacity_bytes } => write!(
                f,
                "all of its {capacity_bytes} bytes are live or reserved: delete data, or copy it to a store of more capacity"
            ),
            ConditionKind::NearlyFull {
                live_bytes,
                usable_bytes,
            } => write!(
                f,
                "nearly full: {live_bytes} of {usable_bytes} usable bytes are live"
            ),
            ConditionKind::MemoryShort {
                index_bytes,
                limit_bytes,
            } => write!(
                f,
                "the index takes {index_bytes} of the {limit_bytes} bytes that it may: raise memory_budget_bytes before new keys are refused"
            ),
        }
    }
}

/// What kind of structure is damaged.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Structure {
    /// Frames of the log: records.
    Records,
    /// The header of a segment; no record is lost with it.
    SegmentHeader,
    /// A part of the newest checkpoint.
    Checkpoint,
    /// A copy of the superblock.
    Superblock,
    /// The label of a volume.
    Label,
}

impl fmt::Display for Structure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Structure::Records => "records",
            Structure::SegmentHeader => "segment header",
            Structure::Checkpoint => "checkpoint",
            Structure::Superblock => "superblock copy",
            Structure::Label => "label",
        })
    }
}

/// Where on media something is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub struct Place {
    /// The volume, from 0.
    pub volume: u32,
    /// Bytes from the volume's start.
    pub offset: u64,
    /// How many bytes, as far as that is known.
    pub len_bytes: u64,
    /// The segment, for what lies in one.
    pub segment: Option<u32>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Place {
            volume,
            offset,
            len_bytes,
            segment,
        } = self;
        write!(f, "volume {volume}, offset {offset:#x}, {len_bytes} bytes")?;
        match segment {
            Some(segment) => write!(f, " (segment {segment})"),
            None => Ok(()),
        }
    }
}

/// What was done about damage.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Remedy {
    /// Nothing yet: it waits for room, or for a store that can write.
    None,
    /// A whole copy was written anew, or nothing was lost: all is well again.
    Mended,
    /// What could be read of the segment was moved out of it. Reads of the records that are lost say
    /// that they are damaged.
    Evacuated,
}

impl fmt::Display for Remedy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Remedy::None => "not mended yet",
            Remedy::Mended => "mended",
            Remedy::Evacuated => "the rest of the segment was moved out of it",
        })
    }
}

/// Damage that was found.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Finding {
    /// What is damaged.
    pub structure: Structure,
    /// Where it is.
    pub place: Place,
    /// What was expected and found, in words.
    pub what: String,
    /// When it was found, in milliseconds since 1970.
    pub found_ms: u64,
    /// Live records that began in the damaged bytes when they were found.
    pub live_records: u64,
    /// Of the records whose bytes are damaged, so many were not in memory either: they are lost.
    /// Their keys are lost with their bytes, so that only reads can tell them.
    pub lost_records: u64,
    /// What was done about it.
    pub remedy: Remedy,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}: {}", self.structure, self.place, self.what)?;
        if self.structure == Structure::Records {
            write!(
                f,
                "; {} live records, {} lost",
                self.live_records, self.lost_records
            )?;
        }
        write!(f, "; {}", self.remedy)
    }
}

/// How far a scrub is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScrubProgress {
    /// Bytes verified so far.
    pub done_bytes: u64,
    /// Bytes in use: about what will have been verified at the end.
    pub total_bytes: u64,
}

/// What a pass of the scrub did and found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct ScrubReport {
    /// When it began, in milliseconds since 1970.
    pub started_ms: u64,
    /// When it ended, in milliseconds since 1970.
    pub finished_ms: u64,
    /// Segments that were verified.
    pub segments: u64,
    /// Bytes that were read and verified.
    pub bytes: u64,
    /// Reads that failed or gave damaged bytes once, and whole ones when they were repeated.
    pub unsteady_reads: u64,
    /// The first hundred findings of this pass; those of earlier passes that still stand included.
    pub findings: Vec<Finding>,
    /// How many there are.
    pub finding_count: u64,
    /// Records of damaged segments that were moved elsewhere.
    pub moved_records: u64,
    /// Records that are lost.
    pub lost_records: u64,
}

/// Findings that a report lists.
const REPORT_FINDINGS_MAX: usize = 100;

impl ScrubReport {
    pub(crate) fn add(&mut self, finding: Finding) {
        self.finding_count += 1;
        if self.findings.len() < REPORT_FINDINGS_MAX {
            self.findings.push(finding);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn health_is_told_with_its_reasons() {
        let finding = Finding {
            structure: Structure::Records,
            place: Place {
                volume: 1,
                offset: 0x20_1000,
                len_bytes: 4096,
                segment: Some(3),
            },
            what: "checksum 1 expected, found 2".to_owned(),
            found_ms: 5,
            live_records: 7,
            lost_records: 2,
            remedy: Remedy::Evacuated,
        };
        let damage = Condition::new(ConditionKind::Damage(finding), 5);
        let health = Health::Degraded {
            conditions: vec![damage.clone()],
        };
        let text = health.to_string();
        for part in [
            "degraded: records at volume 1, offset 0x201000",
            "4096 bytes (segment 3)",
            "expected, found 2",
            "7 live records, 2 lost",
            "moved out",
        ] {
            assert!(text.contains(part), "{text} lacks {part}");
        }
        let failed = Health::Failed {
            cause: "disk fell off".to_owned(),
            since_ms: 1,
            conditions: vec![damage],
        };
        assert!(failed
            .to_string()
            .starts_with("failed: disk fell off: records"));
        assert_eq!(failed.conditions().len(), 1);
        assert!(failed.state() > health.state());
        assert_eq!(Health::Healthy.to_string(), "healthy");
    }

    #[test]
    fn a_report_lists_a_hundred_and_counts_all() {
        let finding = Finding {
            structure: Structure::Label,
            place: Place {
                volume: 0,
                offset: 0,
                len_bytes: 4096,
                segment: None,
            },
            what: String::new(),
            found_ms: 0,
            live_records: 0,
            lost_records: 0,
            remedy: Remedy::None,
        };
        let mut report = ScrubReport::default();
        (0..150).for_each(|_| report.add(finding.clone()));
        assert_eq!((report.findings.len(), report.finding_count), (100, 150));
    }
}
