//! What a store says about itself: the public figures, and the counters behind them.
//!
//! Invariants: counters only grow, from the moment the store is opened; bytes on media are counted
//! by cause from the first one. [`Stats`] is a look at the moment, not a cut: its figures are read
//! one after the other. Threads: counters are relaxed atomics; those that every operation touches
//! are kept once per group of threads, on cache lines of their own, so that counting does not make
//! threads wait for each other.

use std::cell::Cell;
use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use crate::health::Health;

/// Bytes on media, by what caused them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BytesByCause {
    /// Users' records: written as they come (frames, headers and padding included), read by gets
    /// and scans.
    pub data: u64,
    /// Garbage collection: survivors written, segments read.
    pub gc: u64,
    /// Checkpoints: written while running, read at open.
    pub checkpoint: u64,
    /// Labels and superblocks, and what recovery reads of the tail.
    pub metadata: u64,
    /// The scrub; it reads only.
    pub scrub: u64,
}

impl BytesByCause {
    /// All causes together.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.data + self.gc + self.checkpoint + self.metadata + self.scrub
    }
}

/// What the last open had to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RecoveryStats {
    /// Records after the checkpoint that were replayed.
    pub tail_records: u64,
    /// How long the open took, in milliseconds.
    pub millis: u64,
}

/// The figures of a store at one moment. Counts and bytes run since the store was opened, sizes
/// are as of now.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Keys in all keyspaces; those that expired but were not collected yet are included.
    pub objects: u64,
    /// Bytes of keys and values in writes that were acknowledged.
    pub user_bytes_written: u64,
    /// Bytes written to media.
    pub bytes_written: BytesByCause,
    /// Bytes read from media.
    pub bytes_read: BytesByCause,
    /// Reads of media that an operation waited for.
    pub foreground_reads: u64,
    /// Puts, merges and conditional writes that took effect; members of batches count one each.
    pub puts: u64,
    /// Deletes of single keys.
    pub deletes: u64,
    /// Point reads; each key of a `multi_get` counts one.
    pub gets: u64,
    /// Point reads that found their key.
    pub get_hits: u64,

    /// All memory that index, tail and cache may take together.
    pub memory_budget_bytes: u64,
    /// Memory of the index: leaves, slack, headers and inner nodes.
    pub index_bytes: u64,
    /// Memory of the record cache.
    pub cache_bytes: u64,
    /// Memory of the log's tail.
    pub tail_bytes: u64,
    /// Records read by the index to split or order its leaves.
    pub index_reads: u64,
    /// Reads answered by the record cache.
    pub cache_hits: u64,
    /// Reads that the record cache could not answer.
    pub cache_misses: u64,

    /// What the store takes on media at most.
    pub capacity_bytes: u64,
    /// Bytes of records that are still needed (an estimate: count times mean per segment).
    pub live_bytes: u64,
    /// Segments that are free.
    pub segments_free: u64,
    /// Segments in all.
    pub segments_total: u64,
    /// What the store occupies on media now; 0 of files of a store that is closed.
    pub disk_bytes: u64,

    /// Segments that garbage collection emptied.
    pub gc_segments: u64,
    /// Records that garbage collection moved.
    pub gc_moved_records: u64,
    /// Small records that scans found apart and laid together.
    pub gathered_records: u64,
    /// Records that expired and were dropped.
    pub expired_dropped: u64,
    /// Tombstones that were no longer needed and were dropped.
    pub tombstones_dropped: u64,
    /// Milliseconds that writers were slowed so that garbage collection keeps up, over all writers.
    pub throttle_ms: u64,
    /// Keys that another key's overwrite had displaced and that were found again.
    pub strangers_found: u64,
    /// Of these, how many have their own entry again.
    pub strangers_healed: u64,
    /// Checkpoints finished.
    pub checkpoints: u64,
    /// Damaged structures met while reading, by whomever.
    pub damage_found: u64,
    /// Passes of the scrub that ended.
    pub scrub_passes: u64,
    /// Damaged places that the scrub found.
    pub scrub_findings: u64,
    /// Records that were moved out of segments in which something is damaged.
    pub scrub_moved_records: u64,
    /// Live records that the scrub found lost: neither media nor memory has them.
    pub scrub_lost_records: u64,
    /// How often a writer waited until collection had made room.
    pub room_waits: u64,

    /// What the last open did.
    pub recovery: RecoveryStats,
    /// Whether the store does all its work.
    pub health: Health,
}

/// One figure, with its unit.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum StatValue {
    /// A number of things.
    Count(u64),
    /// Bytes.
    Bytes(u64),
    /// Milliseconds.
    Millis(u64),
    /// Words.
    Text(String),
}

impl StatValue {
    /// The number, whatever its unit; none for words.
    #[must_use]
    pub fn as_u64(&self) -> Option<u64> {
        match self {
            StatValue::Count(n) | StatValue::Bytes(n) | StatValue::Millis(n) => Some(*n),
            StatValue::Text(_) => None,
        }
    }
}

impl fmt::Display for StatValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StatValue::Count(n) | StatValue::Bytes(n) | StatValue::Millis(n) => n.fmt(f),
            StatValue::Text(text) => f.write_str(text),
        }
    }
}

impl Stats {
    /// Bytes written to media per byte that users wrote; none before the first.
    #[must_use]
    pub fn write_amplification(&self) -> Option<f64> {
        let user = self.user_bytes_written;
        (user > 0).then(|| self.bytes_written.total() as f64 / user as f64)
    }

    /// Every figure by name, in a fixed order, for tables and JSON. Units stand in the names.
    #[must_use]
    pub fn entries(&self) -> Vec<(&'static str, StatValue)> {
        let mut out = Vec::new();
        self.list_work(&mut out);
        self.list_sizes(&mut out);
        self.list_upkeep(&mut out);
        out.push(("health", StatValue::Text(self.health.to_string())));
        out
    }

    fn list_work(&self, out: &mut Vec<(&'static str, StatValue)>) {
        use StatValue::{Bytes, Count};
        out.extend([
            ("objects", Count(self.objects)),
            ("puts", Count(self.puts)),
            ("deletes", Count(self.deletes)),
            ("gets", Count(self.gets)),
            ("get_hits", Count(self.get_hits)),
            ("user_bytes_written", Bytes(self.user_bytes_written)),
            ("bytes_written", Bytes(self.bytes_written.total())),
            ("bytes_written_data", Bytes(self.bytes_written.data)),
            ("bytes_written_gc", Bytes(self.bytes_written.gc)),
            (
                "bytes_written_checkpoint",
                Bytes(self.bytes_written.checkpoint),
            ),
            ("bytes_written_metadata", Bytes(self.bytes_written.metadata)),
            ("bytes_read", Bytes(self.bytes_read.total())),
            ("bytes_read_data", Bytes(self.bytes_read.data)),
            ("bytes_read_gc", Bytes(self.bytes_read.gc)),
            ("bytes_read_checkpoint", Bytes(self.bytes_read.checkpoint)),
            ("bytes_read_metadata", Bytes(self.bytes_read.metadata)),
            ("bytes_read_scrub", Bytes(self.bytes_read.scrub)),
            ("foreground_reads", Count(self.foreground_reads)),
        ]);
    }

    fn list_sizes(&self, out: &mut Vec<(&'static str, StatValue)>) {
        use StatValue::{Bytes, Count};
        out.extend([
            ("memory_budget_bytes", Bytes(self.memory_budget_bytes)),
            ("index_bytes", Bytes(self.index_bytes)),
            ("cache_bytes", Bytes(self.cache_bytes)),
            ("tail_bytes", Bytes(self.tail_bytes)),
            ("index_reads", Count(self.index_reads)),
            ("cache_hits", Count(self.cache_hits)),
            ("cache_misses", Count(self.cache_misses)),
            ("capacity_bytes", Bytes(self.capacity_bytes)),
            ("live_bytes", Bytes(self.live_bytes)),
            ("segments_free", Count(self.segments_free)),
            ("segments_total", Count(self.segments_total)),
            ("disk_bytes", Bytes(self.disk_bytes)),
        ]);
    }

    fn list_upkeep(&self, out: &mut Vec<(&'static str, StatValue)>) {
        use StatValue::{Count, Millis};
        out.extend([
            ("gc_segments", Count(self.gc_segments)),
            ("gc_moved_records", Count(self.gc_moved_records)),
            ("gathered_records", Count(self.gathered_records)),
            ("expired_dropped", Count(self.expired_dropped)),
            ("tombstones_dropped", Count(self.tombstones_dropped)),
            ("throttle_ms", Millis(self.throttle_ms)),
            ("strangers_found", Count(self.strangers_found)),
            ("strangers_healed", Count(self.strangers_healed)),
            ("checkpoints", Count(self.checkpoints)),
            ("damage_found", Count(self.damage_found)),
            ("scrub_passes", Count(self.scrub_passes)),
            ("scrub_findings", Count(self.scrub_findings)),
            ("scrub_moved_records", Count(self.scrub_moved_records)),
            ("scrub_lost_records", Count(self.scrub_lost_records)),
            ("room_waits", Count(self.room_waits)),
            ("recovery_tail_records", Count(self.recovery.tail_records)),
            ("recovery_ms", Millis(self.recovery.millis)),
        ]);
    }
}

/// A number that only grows.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, n: u64) {
        self.0.fetch_add(n, Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// Groups of threads that count apart.
const SLOTS: usize = 16;

/// What every operation counts; one per group of threads, on cache lines that nobody else writes
/// (128 bytes: processors fetch lines in pairs).
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct OperationCounters {
    pub(crate) user_bytes_written: Counter,
    pub(crate) puts: Counter,
    pub(crate) deletes: Counter,
    pub(crate) gets: Counter,
    pub(crate) get_hits: Counter,
}

/// All counters of an open store. What the log, the index and the cache count themselves is added
/// where [`Stats`] is put together.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    operations: [OperationCounters; SLOTS],
    /// User bytes of earlier runs.
    pub(crate) user_bytes_before: Counter,
    pub(crate) foreground_reads: Counter,
    pub(crate) checkpoint_bytes_written: Counter,
    pub(crate) metadata_bytes_written: Counter,
    pub(crate) gc_bytes_read: Counter,
    pub(crate) checkpoint_bytes_read: Counter,
    /// Labels, superblocks and the log's tail, at open.
    pub(crate) recovery_bytes_read: Counter,
    pub(crate) gc_segments: Counter,
    pub(crate) gc_moved_records: Counter,
    pub(crate) gathered_records: Counter,
    pub(crate) expired_dropped: Counter,
    pub(crate) tombstones_dropped: Counter,
    /// Microseconds, since one write is slowed by less than a millisecond.
    pub(crate) throttle_us: Counter,
    pub(crate) strangers_found: Counter,
    pub(crate) strangers_healed: Counter,
    pub(crate) checkpoints: Counter,
    pub(crate) damage_found: Counter,
    pub(crate) scrub_passes: Counter,
    pub(crate) scrub_bytes_read: Counter,
    pub(crate) scrub_findings: Counter,
    pub(crate) scrub_moved_records: Counter,
    pub(crate) scrub_lost_records: Counter,
    pub(crate) room_waits: Counter,
    pub(crate) index_reads: Counter,
    pub(crate) recovery_tail_records: Counter,
    pub(crate) recovery_millis: Counter,
}

impl Counters {
    /// The counters of the calling thread's group.
    pub(crate) fn operations(&self) -> &OperationCounters {
        &self.operations[slot()]
    }

    /// What users have written, over all threads.
    pub(crate) fn operations_total_user_bytes(&self) -> u64 {
        self.sum(|o| &o.user_bytes_written)
    }

    fn sum(&self, pick: fn(&OperationCounters) -> &Counter) -> u64 {
        self.operations.iter().map(|slot| pick(slot).get()).sum()
    }

    /// Bytes of keys and values that users wrote, over all runs of the store.
    pub(crate) fn user_bytes_written(&self) -> u64 {
        self.operations
            .iter()
            .map(|slot| slot.user_bytes_written.get())
            .sum()
    }

    /// Puts what is counted here into `stats`, and leaves the rest of it alone.
    pub(crate) fn fill(&self, stats: &mut Stats) {
        stats.user_bytes_written = self.operations_total_user_bytes();
        stats.puts = self.sum(|o| &o.puts);
        stats.deletes = self.sum(|o| &o.deletes);
        stats.gets = self.sum(|o| &o.gets);
        stats.get_hits = self.sum(|o| &o.get_hits);
        stats.foreground_reads = self.foreground_reads.get();
        stats.bytes_written.checkpoint = self.checkpoint_bytes_written.get();
        stats.bytes_written.metadata = self.metadata_bytes_written.get();
        stats.bytes_read.gc = self.gc_bytes_read.get();
        stats.bytes_read.checkpoint = self.checkpoint_bytes_read.get();
        stats.bytes_read.metadata = self.recovery_bytes_read.get();
        stats.bytes_read.scrub = self.scrub_bytes_read.get();
        stats.gc_segments = self.gc_segments.get();
        stats.gc_moved_records = self.gc_moved_records.get();
        stats.gathered_records = self.gathered_records.get();
        stats.expired_dropped = self.expired_dropped.get();
        stats.tombstones_dropped = self.tombstones_dropped.get();
        stats.throttle_ms = self.throttle_us.get() / 1000;
        stats.strangers_found = self.strangers_found.get();
        stats.strangers_healed = self.strangers_healed.get();
        stats.checkpoints = self.checkpoints.get();
        stats.damage_found = self.damage_found.get();
        stats.scrub_passes = self.scrub_passes.get();
        stats.scrub_findings = self.scrub_findings.get();
        stats.scrub_moved_records = self.scrub_moved_records.get();
        stats.scrub_lost_records = self.scrub_lost_records.get();
        stats.room_waits = self.room_waits.get();
        stats.index_reads = self.index_reads.get();
        stats.recovery.tail_records = self.recovery_tail_records.get();
        stats.recovery.millis = self.recovery_millis.get();
    }
}

/// The group of the calling thread: threads are dealt out in the order of their first operation.
fn slot() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static SLOT: Cell<usize> = const { Cell::new(usize::MAX) };
    }
    // `try_with`: a counter may be touched while the thread's own storage is being torn down.
    SLOT.try_with(|slot| {
        if slot.get() == usize::MAX {
            slot.set(NEXT.fetch_add(1, Relaxed) % SLOTS);
        }
        slot.get()
    })
    .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn counts_of_all_threads_are_added_up() {
        let counters = Counters::default();
        std::thread::scope(|scope| {
            for _ in 0..2 * SLOTS + 1 {
                scope.spawn(|| {
                    counters.operations().puts.add(1);
                    counters.operations().user_bytes_written.add(10);
                });
            }
        });
        counters.gc_bytes_read.add(7);
        counters.throttle_us.add(2500);
        let mut stats = Stats {
            objects: 5,
            ..Stats::default()
        };
        counters.fill(&mut stats);
        assert_eq!(stats.puts, 2 * SLOTS as u64 + 1);
        assert_eq!(stats.user_bytes_written, 10 * stats.puts);
        assert_eq!(stats.bytes_read.gc, 7);
        assert_eq!(stats.throttle_ms, 2);
        assert_eq!(stats.objects, 5, "what is counted elsewhere is left alone");
    }

    #[test]
    fn two_threads_count_on_lines_of_their_own() {
        let counters = Counters::default();
        let address = || std::ptr::from_ref(counters.operations()) as usize;
        let own = address();
        assert_eq!(own, address(), "a thread stays in its group");
        let others: HashSet<usize> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..SLOTS).map(|_| scope.spawn(address)).collect();
            threads.into_iter().map(|t| t.join().unwrap()).collect()
        });
        assert!(others.len() > 1);
        assert!(others.iter().all(|other| other % 128 == 0));
    }

    #[test]
    fn every_figure_has_one_name_and_its_value() {
        let stats = Stats {
            user_bytes_written: 100,
            bytes_written: BytesByCause {
                data: 110,
                gc: 5,
                checkpoint: 3,
                metadata: 2,
                scrub: 0,
            },
            health: Health::Failed {
                cause: "disk fell off".to_owned(),
                since_ms: 1,
                conditions: Vec::new(),
            },
            ..Stats::default()
        };
        let entries = stats.entries();
        let names: HashSet<_> = entries.iter().map(|(name, _)| *name).collect();
        assert_eq!(names.len(), entries.len());
        let value = |name| entries.iter().find(|(n, _)| *n == name).unwrap().1.clone();
        assert_eq!(value("bytes_written"), StatValue::Bytes(120));
        assert_eq!(value("bytes_written_gc").as_u64(), Some(5));
        assert_eq!(value("health").to_string(), "failed: disk fell off");
        assert_eq!(stats.write_amplification(), Some(1.2));
        assert_eq!(Stats::default().write_amplification(), None);
    }
}
