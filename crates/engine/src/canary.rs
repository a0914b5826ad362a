//! Defects planted on purpose, to prove that the simulation finds such defects.
//!
//! Invariant: without the feature `canary`, which nothing turns on by default, `is` is a constant
//! false and the compiler leaves no trace of any of them. Threads: one canary for the whole process.

/// One planted defect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)] // the words are in NAMES
#[repr(u8)]
pub enum Canary {
    TombstoneTooEarly = 1,
    CheckpointErased,
    SyncSkipped,
    CommitIgnored,
    RangeDeleteForgotten,
    RetiredBeforeDurable,
    LinkForgotten,
    SnapshotNotNoted,
    SuperblockFirst,
    NoCut,
    MoveForgetsVersion,
    ExpiryForgotten,
    OneVolumeSynced,
    ReadErrorIgnored,
    DamageUntold,
    ExactUnread,
    RangeDeleteTooEarly,
}

/// All of them, with their names and what each does.
pub const NAMES: &[(Canary, &str, &str)] = &[
    (
        Canary::TombstoneTooEarly,
        "tombstone-too-early",
        "a sweep drops tombstones that a snapshot or the newest checkpoint still needs",
    ),
    (
        Canary::CheckpointErased,
        "checkpoint-erased",
        "the old checkpoint is erased before the superblock names the new one",
    ),
    (
        Canary::SyncSkipped,
        "sync-skipped",
        "a write under `sync` is acknowledged without one",
    ),
    (
        Canary::CommitIgnored,
        "commit-ignored",
        "replay installs members of a batch without its commit record",
    ),
    (
        Canary::RangeDeleteForgotten,
        "range-delete-forgotten",
        "a checkpoint leaves range deletes out",
    ),
    (
        Canary::RetiredBeforeDurable,
        "retired-before-durable",
        "collection erases a segment whose survivors are not durable yet",
    ),
    (
        Canary::LinkForgotten,
        "link-forgotten",
        "a record does not say what it displaced",
    ),
    (
        Canary::SnapshotNotNoted,
        "snapshot-not-noted",
        "a version that a snapshot reads is not noted when it is displaced",
    ),
    (
        Canary::SuperblockFirst,
        "superblock-first",
        "the superblock names a checkpoint before the log is synced up to it",
    ),
    (
        Canary::NoCut,
        "no-cut",
        "replay goes on beyond the first missing order",
    ),
    (
        Canary::MoveForgetsVersion,
        "move-forgets-version",
        "collection gives a moved record a new version",
    ),
    (
        Canary::ExpiryForgotten,
        "expiry-forgotten",
        "collection moves a record without its expiry",
    ),
    (
        Canary::OneVolumeSynced,
        "one-volume-synced",
        "of several volumes only the first is synced",
    ),
    (
        Canary::ReadErrorIgnored,
        "read-error-ignored",
        "recovery takes a segment that it cannot read for the end of the log",
    ),
    (
        Canary::DamageUntold,
        "damage-untold",
        "recovery does not tell of durable records that are missing",
    ),
    (
        Canary::ExactUnread,
        "exact-unread",
        "in exact mode a write takes an entry without reading whose it is",
    ),
    (
        Canary::RangeDeleteTooEarly,
        "range-delete-too-early",
        "a checkpoint drops range deletes that were not swept yet",
    ),
];

#[cfg(feature = "canary")]
static SET: std::sync::atomic::AtomicU8 = std::sync::atomic::AtomicU8::new(0);

/// Chooses the canary of this process; none lets the store be as it should.
#[cfg(feature = "canary")]
pub fn set(canary: Option<Canary>) {
    SET.store(
        canary.map_or(0, |c| c as u8),
        std::sync::atomic::Ordering::SeqCst,
    );
}

/// True if this defect is planted.
#[cfg(feature = "canary")]
pub(crate) fn is(canary: Canary) -> bool {
    SET.load(std::sync::atomic::Ordering::Relaxed) == canary as u8
}

/// True if this defect is planted.
#[cfg(not(feature = "canary"))]
pub(crate) const fn is(_: Canary) -> bool {
    false
}

/// Volumes of which only the first is synced.
#[cfg(feature = "canary")]
pub(crate) struct OneVolumeSynced(pub(crate) std::sync::Arc<heliox_media::StripedMedia>);

#[cfg(feature = "canary")]
impl heliox_media::Media for OneVolumeSynced {
    fn geometry(&self) -> heliox_media::Geometry {
        self.0.geometry()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), heliox_media::MediaError> {
        self.0.read_at(offset, buf)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), heliox_media::MediaError> {
        self.0.write_at(offset, data)
    }

    fn sync(&self) -> Result<(), heliox_media::MediaError> {
        self.0.volume(0).map_or(Ok(()), heliox_media::Media::sync)
    }

    fn discard(&self, offset: u64, len_bytes: u64) -> Result<(), heliox_media::MediaError> {
        self.0.discard(offset, len_bytes)
    }

    fn describe(&self) -> String {
        self.0.describe()
    }

    fn failure(&self) -> Option<heliox_media::MediaError> {
        self.0.failure()
    }

    fn io_kind(&self) -> heliox_media::IoKind {
        self.0.io_kind()
    }
}
