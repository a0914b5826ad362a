//! What an engine has counted since it was opened. Plain data, no threads.

/// Bytes that reached or left media, by cause.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ByCause {
    /// Records of users.
    pub data: u64,
    /// Records moved to reclaim space.
    pub gc: u64,
    /// Images of the index.
    pub checkpoint: u64,
    /// Everything else: labels, superblocks, tables.
    pub metadata: u64,
}

impl ByCause {
    /// All causes together.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.data + self.gc + self.checkpoint + self.metadata
    }

    /// What was added since `earlier`; a counter that went back counts as 0.
    #[must_use]
    pub fn since(&self, earlier: &ByCause) -> ByCause {
        ByCause {
            data: self.data.saturating_sub(earlier.data),
            gc: self.gc.saturating_sub(earlier.gc),
            checkpoint: self.checkpoint.saturating_sub(earlier.checkpoint),
            metadata: self.metadata.saturating_sub(earlier.metadata),
        }
    }
}

/// A reading of an engine's counters and gauges. An engine leaves at 0 what it does not know.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counters {
    /// Bytes written to media since opening.
    pub written: ByCause,
    /// Bytes read from media since opening.
    pub read: ByCause,
    /// Reads of media since opening for which an operation of a user waited.
    pub foreground_reads: u64,
    /// Live objects.
    pub objects: u64,
    /// All memory of the index, in bytes.
    pub index_bytes: u64,
    /// The memory budget, in bytes.
    pub memory_bytes: u64,
    /// What the store may occupy at most, in bytes.
    pub capacity_bytes: u64,
    /// What the store occupies now, in bytes.
    pub disk_bytes: u64,
}

impl Counters {
    /// Reads of media that operations waited for since an earlier reading.
    pub(crate) fn reads_since(&self, earlier: &Counters) -> u64 {
        let reads = self.foreground_reads;
        reads.saturating_sub(earlier.foreground_reads)
    }
}
