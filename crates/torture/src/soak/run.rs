//! What the threads of a run share: the store, the gate, the counts, and what went wrong. Any thread.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError, RwLock};
use std::time::{Instant, SystemTime};

use heliox::Store;

use super::gate::Gate;
use super::SoakPlan;
use crate::failure::{Failure, Result};

/// Most violations that are told in words.
const WORDS_MAX: usize = 20;

macro_rules! kinds {
    ($($kind:ident $name:literal),* $(,)?) => {
        /// What is counted.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[allow(missing_docs)] // the names say it
        pub(crate) enum Kind { $($kind),* }

        /// Names of the counts, in order.
        pub(crate) const KINDS: &[&str] = &[$($name),*];
    };
}

kinds! {
    Put "puts",
    PutTtl "puts_with_ttl",
    Delete "deletes",
    Batch "batches",
    Conditional "conditional_writes",
    RangeDelete "range_deletes",
    RangeDeleteRefused "range_deletes_refused",
    Large "large_values",
    Get "gets",
    ForeignGet "gets_of_other_threads_keys",
    MultiGet "multi_gets",
    Scan "scans",
    ScannedItems "items_scanned",
    Snapshot "snapshots",
    SnapshotTooOld "snapshots_too_old",
    SnapshotRead "reads_at_snapshots",
    HeldIterator "iterators_held",
    Keyspace "keyspaces_dropped",
    Sync "syncs",
    Flush "flushes",
    BadInput "bad_inputs",
    Reopen "reopens",
    Checkpoint "checkpoints_asked_for",
    Backup "backups",
    Restore "restores_verified",
}

/// What the threads of a run share.
pub(crate) struct Run {
    pub(crate) plan: SoakPlan,
    pub(crate) gate: Gate,
    pub(crate) store: RwLock<Option<Store>>,
    begun: Instant,
    /// Milliseconds since 1970 when the run began: expiry goes by that clock.
    epoch_ms: u64,
    counts: Vec<AtomicU64>,
    /// When a write was last acknowledged, and the longest that none was; nanoseconds of the run.
    acknowledged_ns: AtomicU64,
    longest_gap_ns: AtomicU64,
    /// Longest time that the gate was closed.
    pub(crate) longest_closed_ns: AtomicU64,
    stop: AtomicBool,
    violations: Mutex<Vec<String>>,
}

impl Run {
    pub(crate) fn new(plan: SoakPlan) -> Run {
        Run {
            plan,
            gate: Gate::default(),
            store: RwLock::new(None),
            begun: Instant::now(),
            epoch_ms: clock_ms(),
            counts: KINDS.iter().map(|_| AtomicU64::new(0)).collect(),
            acknowledged_ns: AtomicU64::new(0),
            longest_gap_ns: AtomicU64::new(0),
            longest_closed_ns: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            violations: Mutex::default(),
        }
    }

    /// Where the store is.
    pub(crate) fn store_dir(&self) -> PathBuf {
        self.plan.dir.join("store")
    }

    /// Where its backups are.
    pub(crate) fn set_dir(&self) -> PathBuf {
        self.plan.dir.join("backups")
    }

    /// The open store.
    pub(crate) fn store(&self) -> Result<Store> {
        let store = self.store.read().unwrap_or_else(PoisonError::into_inner);
        let none = || Failure::Other("the store is not open".to_owned());
        store.clone().ok_or_else(none)
    }

    /// Milliseconds of the run, by the clock that expiry goes by.
    pub(crate) fn now_ms(&self) -> u32 {
        clock_ms().saturating_sub(self.epoch_ms) as u32
    }

    pub(crate) fn count(&self, kind: Kind, n: u64) {
        if let Some(count) = self.counts.get(kind as usize) {
            count.fetch_add(n, Ordering::Relaxed);
        }
    }

    /// All counts, in the order of [`KINDS`].
    pub(crate) fn counts(&self) -> Vec<u64> {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        self.counts.iter().map(load).collect()
    }

    /// A write was acknowledged now.
    pub(crate) fn acknowledged(&self) {
        let now = self.begun.elapsed().as_nanos() as u64;
        let before = self.acknowledged_ns.swap(now, Ordering::Relaxed);
        let gap = now.saturating_sub(before);
        if gap > self.longest_gap_ns.load(Ordering::Relaxed) {
            self.longest_gap_ns.fetch_max(gap, Ordering::Relaxed);
        }
    }

    /// Writers were held up on purpose until now: that is no gap.
    pub(crate) fn resume(&self) {
        let now = self.begun.elapsed().as_nanos() as u64;
        self.acknowledged_ns.store(now, Ordering::Relaxed);
    }

    /// The measured part begins.
    pub(crate) fn forget_gaps(&self) {
        self.resume();
        self.longest_gap_ns.store(0, Ordering::Relaxed);
    }

    /// Longest time without an acknowledged write, in milliseconds.
    pub(crate) fn longest_gap_ms(&self) -> u64 {
        self.longest_gap_ns.load(Ordering::Relaxed) / 1_000_000
    }

    /// Something does not hold: the run ends.
    pub(crate) fn violation(&self, words: impl Into<String>) {
        let mut violations = self.locked();
        if violations.len() < WORDS_MAX {
            violations.push(words.into());
        }
        self.stop.store(true, Ordering::Relaxed);
    }

    pub(crate) fn violations(&self) -> Vec<String> {
        self.locked().clone()
    }

    /// The run ends.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, Vec<String>> {
        self.violations
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

fn clock_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}
