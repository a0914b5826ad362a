//! The structs of the header that may grow, field for field.
//!
//! Invariants: each is `repr(C)`, begins with its size, and all zero bytes are a value of it, so that
//! what a caller with an older header does not know reads as zero. Fields are only ever added at the end.
//! Plain data.

use crate::border::{Growing, Shown, Slice};
use crate::handles::Snapshot;

/// `heliox_iterator_options`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct IteratorOptions<'a> {
    pub(crate) struct_size: usize,
    pub(crate) from: Slice<'a>,
    pub(crate) to: Slice<'a>,
    pub(crate) prefix: Slice<'a>,
    pub(crate) snapshot: Option<&'a Snapshot>,
    pub(crate) limit: u64,
    pub(crate) keys_only: bool,
}

// SAFETY: as the invariants at the head of this file: null pointers, zeros, false.
unsafe impl Growing for IteratorOptions<'_> {}

/// `heliox_finding`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Finding<'a> {
    pub(crate) struct_size: usize,
    pub(crate) structure: Structure,
    pub(crate) remedy: Remedy,
    pub(crate) volume: u32,
    pub(crate) segment: u32,
    pub(crate) offset: u64,
    pub(crate) len_bytes: u64,
    pub(crate) found_ms: u64,
    pub(crate) live_records: u64,
    pub(crate) lost_records: u64,
    pub(crate) what: Shown<'a>,
    pub(crate) text: Shown<'a>,
}

/// `heliox_structure`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) enum Structure {
    Other = 0,
    Records = 1,
    SegmentHeader = 2,
    Checkpoint = 3,
    Superblock = 4,
    Label = 5,
}

/// `heliox_remedy`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) enum Remedy {
    None = 0,
    Mended = 1,
    Evacuated = 2,
}

/// `heliox_health`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) enum Health {
    Healthy = 0,
    Degraded = 1,
    Full = 2,
    Failed = 3,
    Closed = 4,
}

/// `heliox_condition`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Condition<'a> {
    pub(crate) struct_size: usize,
    pub(crate) kind: ConditionKind,
    pub(crate) since_ms: u64,
    pub(crate) found: u64,
    pub(crate) limit: u64,
    pub(crate) finding: Option<&'a Finding<'a>>,
    pub(crate) text: Shown<'a>,
}

/// `heliox_condition_kind`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) enum ConditionKind {
    Other = 0,
    Damage = 1,
    DamageAtOpen = 2,
    MoreDamage = 3,
    Full = 4,
    NearlyFull = 5,
    MemoryShort = 6,
    Failed = 7,
}

/// `heliox_scrub_report`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct ScrubReport {
    pub(crate) struct_size: usize,
    pub(crate) started_ms: u64,
    pub(crate) finished_ms: u64,
    pub(crate) segments: u64,
    pub(crate) bytes: u64,
    pub(crate) unsteady_reads: u64,
    pub(crate) finding_count: u64,
    pub(crate) moved_records: u64,
    pub(crate) lost_records: u64,
}

// SAFETY: as above.
unsafe impl Growing for ScrubReport {}

/// `heliox_event`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Event<'a> {
    pub(crate) struct_size: usize,
    pub(crate) kind: EventKind,
    pub(crate) from: Health,
    pub(crate) to: Health,
    pub(crate) number: u64,
    pub(crate) at_ms: u64,
    pub(crate) amount: u64,
    pub(crate) finding: Option<&'a Finding<'a>>,
    pub(crate) scrub: Option<&'a ScrubReport>,
    pub(crate) name: Shown<'a>,
    pub(crate) text: Shown<'a>,
}

/// `heliox_event_kind`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) enum EventKind {
    Other = 0,
    HealthChanged = 1,
    DamageFound = 2,
    ScrubStarted = 3,
    ScrubFinished = 4,
    CheckpointWritten = 5,
    StallBegan = 6,
    StallEnded = 7,
    BackgroundError = 8,
    StrangersHealed = 9,
    EventsDropped = 10,
}

/// `heliox_check_report`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct CheckReport {
    pub(crate) struct_size: usize,
    pub(crate) records: u64,
    pub(crate) entries: u64,
    pub(crate) segments: u64,
    pub(crate) bytes: u64,
    pub(crate) strangers: u64,
    pub(crate) problem_count: u64,
}

// SAFETY: as above.
unsafe impl Growing for CheckReport {}

/// `heliox_key_change`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct KeyChange {
    pub(crate) struct_size: usize,
    pub(crate) data_keys: u64,
    pub(crate) added: bool,
}

// SAFETY: as above.
unsafe impl Growing for KeyChange {}

/// `heliox_backup_report`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct BackupReport {
    pub(crate) struct_size: usize,
    pub(crate) number: u64,
    pub(crate) segments: u64,
    pub(crate) bytes: u64,
    pub(crate) copied_segments: u64,
    pub(crate) copied_bytes: u64,
    pub(crate) shared_bytes: u64,
    pub(crate) removed: u64,
}

// SAFETY: as above.
unsafe impl Growing for BackupReport {}

/// `heliox_backup_info`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct BackupInfo<'a> {
    pub(crate) struct_size: usize,
    pub(crate) number: u64,
    pub(crate) created_ms: u64,
    pub(crate) segments: u64,
    pub(crate) bytes: u64,
    pub(crate) damage: Shown<'a>,
}

/// `heliox_restore_report`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct RestoreReport {
    pub(crate) struct_size: usize,
    pub(crate) number: u64,
    pub(crate) created_ms: u64,
    pub(crate) segments: u64,
    pub(crate) bytes: u64,
    pub(crate) capacity_bytes: u64,
}

// SAFETY: as above.
unsafe impl Growing for RestoreReport {}

/// `heliox_verify_report`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct VerifyReport {
    pub(crate) struct_size: usize,
    pub(crate) backups: u64,
    pub(crate) files: u64,
    pub(crate) bytes: u64,
    pub(crate) records: u64,
    pub(crate) problem_count: u64,
}

// SAFETY: as above.
unsafe impl Growing for VerifyReport {}
