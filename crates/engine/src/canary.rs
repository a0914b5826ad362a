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
