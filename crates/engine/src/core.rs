//! What an open store is made of: plain parts that the flows (write, read, scan, gc, checkpoint,
//! sweep) work on. No logic of its own beyond small questions that several flows ask.

use std::sync::Arc;
use std::time::Duration;

use heliox_format::ids::{Birth, KeyspaceId, Location, SegmentId, SeqNo};
use heliox_format::superblock::Superblock;
use heliox_index::{Index, PreparedKey};
use heliox_log::segments::Segment;
use heliox_log::{Log, LogError};
use heliox_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use heliox_sync::Mutex;

use crate::ahead::Ahead;
use crate::batches::BatchGate;
use crate::cache::RecordCache;
use crate::canary::{is, Canary};
use crate::error::{Error, ErrorKind, Result};
use crate::events::Events;
use crate::findings::{Findings, Mark};
use crate::keyspaces::Keyspaces;
use crate::options::Settings;
use crate::patrol::{Patrol, WINDOW_BYTES};
use crate::pins::Pins;
use crate::ranges::Ranges;
use crate::root::Root;
use crate::signals::Signals;
use crate::snapshots::Snapshots;
use crate::space::Space;
use crate::stats::{Counters, Stats};
use crate::tombstones::{Tombstone, Tombstones};
use crate::vitals::Vitals;

/// What an index entry points to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Head {
    pub(crate) location: Location,
    /// When the index was asked.
    pub(crate) asked: Asked,
}

/// What was so before the index was asked, by which an answer is known to be outdated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Asked {
    /// An order that was given before, or that of the record meant: a segment that began later holds
    /// other records at the location.
    pub(crate) seq: SeqNo,
    /// How often intervals of range deletes had been dropped: one dropped since was swept first, and
    /// the entry with it.
    pub(crate) dropped: u64,
}

impl Asked {
    /// For a place that is known by its record's order, where the index does not matter.
    pub(crate) fn of(seq: SeqNo) -> Asked {
        Asked { seq, dropped: 0 }
    }
}

/// An open store.
pub(crate) struct Core {
    pub(crate) settings: Settings,
    pub(crate) root: Root,
    pub(crate) superblock: Mutex<Superblock>,
    pub(crate) hash_seed: u64,
    pub(crate) log: Log,
    pub(crate) index: Index,
    pub(crate) cache: RecordCache,
    pub(crate) keyspaces: Keyspaces,
    pub(crate) ranges: Ranges,
    pub(crate) snapshots: Snapshots,
    pub(crate) batches: BatchGate,
    pub(crate) space: Space,
    pub(crate) pins: Pins,
    pub(crate) ahead: Ahead,
    pub(crate) signals: Signals,
    pub(crate) counters: Counters,
    /// The newest durable checkpoint covers everything up to this order.
    pub(crate) checkpointed: AtomicU64,
    /// The number, in this run, of that checkpoint's cut.
    pub(crate) checkpointed_cut: AtomicU64,
    /// One checkpoint at a time.
    pub(crate) checkpoint_lock: Mutex<()>,
    /// One collection step at a time.
    pub(crate) gc_lock: Mutex<()>,
    /// Tombstones that wait until they may go.
    pub(crate) tombstones: Tombstones,
    /// Numbers the values that are kept in chunks.
    pub(crate) next_value_id: AtomicU64,
    /// The newest order of the run before.
    pub(crate) recovered: SeqNo,
    /// The first of these numbers that this run gives.
    pub(crate) first_value_id: u64,
    /// The run before did not end in order: large values without a head may be left.
    pub(crate) orphans_due: AtomicBool,
    /// Large values of this run that have chunks and perhaps no head: under way, or failed.
    pub(crate) large_unsure: AtomicU64,
    pub(crate) closed: AtomicBool,
    /// For a writer at the wall: the flow that makes room stands above `admit`.
    pub(crate) make_room: fn(&Core) -> Result<bool>,
    /// When a sync must begin for the sake of `bounded` writes, in milliseconds of the environment.
    pub(crate) sync_due_ms: AtomicU64,
    /// Bytes that the log had written when the newest checkpoint was begun.
    pub(crate) log_bytes_at_checkpoint: AtomicU64,
    /// What was found damaged.
    pub(crate) findings: Findings,
    /// What opening found damaged, in words, and when that was.
    pub(crate) damage_at_open: Vec<String>,
    pub(crate) opened_ms: u64,
    pub(crate) patrol: Patrol,
    pub(crate) events: Arc<Events>,
    pub(crate) vitals: Mutex<Vitals>,
}

/// No acknowledged write waits for a sync.
pub(crate) const NO_SYNC_DUE: u64 = u64::MAX;

impl Core {
    pub(crate) fn prepare<'k>(&self, keyspace: KeyspaceId, key: &'k [u8]) -> PreparedKey<'k> {
        PreparedKey::new(self.hash_seed, keyspace, key)
    }

    pub(crate) fn checkpointed(&self) -> SeqNo {
        SeqNo(self.checkpointed.load(Ordering::Acquire))
    }

    /// Milliseconds since 1970, as expiry counts them.
    pub(crate) fn now_ms(&self) -> u64 {
        self.settings.environment.now_ms()
    }

    pub(crate) fn check_open(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) {
            return Err(Error::closed());
        }
        Ok(())
    }

    /// As [`Core::check_open`], for what may change the store.
    pub(crate) fn check_writable(&self) -> Result<()> {
        self.check_open()?;
        match self.settings.read_only {
            true => Err(Error::read_only()),
            false => Ok(()),
        }
    }

    /// True if chunks of large values may lie in the log that have no head, and no sweep has looked.
    pub(crate) fn may_leave_orphans(&self) -> bool {
        self.large_unsure.load(Ordering::Acquire) > 0 || self.orphans_due.load(Ordering::Acquire)
    }

    /// Makes everything so far durable.
    pub(crate) fn sync(&self) -> Result<()> {
        if self.settings.read_only {
            return Ok(());
        }
        // What is acknowledged from here on may miss this sync and owes one of its own.
        self.sync_due_ms.store(NO_SYNC_DUE, Ordering::SeqCst);
        Ok(self.log.sync()?)
    }

    /// Fails the store for good, for a reason that is not the device's. What was acknowledged is made durable
    /// first, if the device still can: nobody comes later who would.
    pub(crate) fn fail(&self, error: LogError) -> LogError {
        // The reason is told, not that it could not be synced either.
        let _ = self.sync();
        self.log.fail(error)
    }

    /// Notes that a write is acknowledged now that must be durable within `ms`. True if an earlier
    /// one has waited for so long that nothing more may be acknowledged before a sync.
    pub(crate) fn owe_sync(&self, ms: u64) -> bool {
        let now = self.settings.environment.elapsed().as_millis() as u64;
        // A sync begins at half the bound, so that it can end within it.
        let before = self.sync_due_ms.fetch_min(now + ms / 2, Ordering::SeqCst);
        if before > now + ms / 2 {
            self.signals.flush.ring();
        }
        before != NO_SYNC_DUE && now >= before + ms / 2
    }

    /// How long until a sync must begin; none if no acknowledged write waits for one.
    pub(crate) fn sync_due_in(&self) -> Option<Duration> {
        let due = self.sync_due_ms.load(Ordering::SeqCst);
        let now = self.settings.environment.elapsed().as_millis() as u64;
        (due != NO_SYNC_DUE).then(|| Duration::from_millis(due.saturating_sub(now)))
    }

    /// Bytes that the log has written since the store was opened.
    pub(crate) fn log_bytes(&self) -> u64 {
        let counters = self.log.counters();
        counters.user_bytes_written.load(Ordering::Relaxed)
            + counters.survivor_bytes_written.load(Ordering::Relaxed)
    }

    pub(crate) fn log_bytes_since_checkpoint(&self) -> u64 {
        let before = self.log_bytes_at_checkpoint.load(Ordering::Relaxed);
        self.log_bytes().saturating_sub(before)
    }

    /// Bytes on media per record, as a mean over the log's segments.
    pub(crate) fn mean_record_bytes(&self) -> u64 {
        let (bytes, records) = self.log.with_table(|table| {
            table.iter().fold((0, 0), |(b, r), (_, s)| {
                (b + s.used_bytes, r + u64::from(s.records))
            })
        });
        bytes / records.max(1)
    }

    /// Divides the budget: the tail has its share, the index takes what it needs, snapshots what
    /// they hold, the log its notes of heads and expiries, tombstones their line, the scrub a buffer; the cache gets the rest.
    pub(crate) fn divide_memory(&self) {
        let budget = self.settings.memory_budget_bytes;
        let taken = self
            .log
            .tail_memory_bytes()
            .max(self.settings.tail_limit_bytes)
            + self.root.sealing_memory_bytes()
            + self.index.memory_bytes()
            + self.snapshots.bytes()
            + self.log.notes_memory_bytes()
            + self.tombstones.memory_bytes()
            + WINDOW_BYTES as u64;
        // Growth until the next division, and what a collection step holds: a segment, the next
        // one, and what it knows of their records.
        let margin = budget / 32 + self.log.geometry().segment_bytes * 5 / 2;
        self.cache
            .set_budget_bytes(budget.saturating_sub(taken + margin));
    }

    /// Notes damage that collection met, and leaves the segment to the scrub, which moves out of it
    /// what can still be read.
    pub(crate) fn note_damage(&self, id: SegmentId, birth: Birth, what: &str) {
        self.findings.quarantine(birth);
        self.counters.damage_found.add(1);
        self.findings.say(what);
        self.patrol.suspect(id, birth);
    }

    /// Notes damage that a read of a record met; the scrub looks at its segment next.
    pub(crate) fn note_damaged_read(&self, location: Location, error: &LogError) {
        let LogError::Damaged(what) = error else {
            return;
        };
        let Some(id) = self.log.geometry().segment_at(location) else {
            return;
        };
        let birth = self.log.views().birth(id);
        let mark = Mark {
            segment: Some((id, birth)),
            address: what.address,
        };
        if birth.0 != 0 && self.findings.note_read(mark, &error.to_string()) {
            self.counters.damage_found.add(1);
            self.patrol.suspect(id, birth);
            self.signals.watch.ring();
        }
    }

    /// True if the error says that something cannot be read: background work passes it over, and
    /// whoever reads it is told.
    pub(crate) fn is_unreadable(&self, error: &Error) -> bool {
        matches!(error.kind(), ErrorKind::Damaged | ErrorKind::Io) && self.log.failure().is_none()
    }

    /// Bytes of records that are still needed, estimated. Looks at every segment.
    pub(crate) fn live_bytes(&self) -> u64 {
        let live = |(_, s): (SegmentId, &Segment)| s.live_bytes();
        self.log.with_table(|table| table.iter().map(live).sum())
    }

    /// To be taken before the index is asked.
    pub(crate) fn asked(&self) -> Asked {
        Asked {
            seq: self.log.last_seq(),
            dropped: self.ranges.dropped(),
        }
    }

    /// Puts the tombstones that the index holds in line for their sweep.
    pub(crate) fn find_tombstones(&self) {
        let seq = self.log.last_seq();
        let mut tombstones = Vec::new();
        self.index.for_each_entry(&mut |entry| {
            if entry.tombstone {
                let location = entry.location;
                tombstones.push(Tombstone { seq, location });
            }
        });
        self.tombstones.add(tombstones);
    }

    /// The store's figures now.
    pub(crate) fn stats(&self) -> Stats {
        let mut stats = Stats::default();
        self.counters.fill(&mut stats);
        let log = self.log.counters();
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let cache = self.cache.stats();
        stats.objects = self.index.entries();
        stats.bytes_written.data = load(&log.user_bytes_written);
        stats.bytes_written.gc = load(&log.survivor_bytes_written);
        stats.bytes_read.data = load(&log.record_bytes_read);
        stats.foreground_reads = self.counters.foreground_reads.get();
        stats.memory_budget_bytes = self.settings.memory_budget_bytes;
        stats.index_bytes = self.index.memory_bytes();
        stats.cache_bytes = self.cache.used_bytes();
        stats.tail_bytes = self.log.tail_memory_bytes() + self.root.sealing_memory_bytes();
        stats.index_reads = self.index.key_reads();
        stats.cache_hits = cache.hits;
        stats.cache_misses = cache.misses;
        let geometry = self.log.geometry();
        stats.capacity_bytes = self.root.capacity_bytes();
        stats.segments_total = u64::from(geometry.segments);
        stats.segments_free = self.log.free_segments();
        stats.live_bytes = self.live_bytes();
        stats.disk_bytes = self.root.disk_bytes().unwrap_or(0);
        stats
    }

    /// Writes both superblock copies; a failure is for good.
    pub(crate) fn write_superblock(&self, superblock: &Superblock) -> Result<()> {
        match self.root.write_superblock(superblock) {
            Ok(bytes) => {
                self.counters.metadata_bytes_written.add(bytes);
                Ok(())
            }
            Err(error) => {
                self.log.fail(LogError::Failed(error.to_string()));
                Err(error)
            }
        }
    }

    /// Ends a segment's life, gives its bytes back to the device, and makes it free; once it was
    /// copied, if a backup needs it still.
    pub(crate) fn discard_and_release(&self, id: SegmentId) {
        self.log.retire(id);
        if !self.pins.hold(id) {
            self.give_back(id);
        }
    }

    /// A backup has copied the segment, or needs it no more.
    pub(crate) fn unpin(&self, id: SegmentId) {
        if self.pins.take_off(id) {
            self.give_back(id);
            // Collection may have found nothing to do only because this one was held.
            self.space.note_garbage();
        }
    }

    fn give_back(&self, id: SegmentId) {
        let geometry = self.log.geometry();
        // Segments that are used again at once keep their blocks: allocating them anew costs more
        // than it gives. A hint only: a device that refuses it loses nothing but efficiency.
        let is_ample = self.log.free_segments() > 2 * self.space.gc_goal();
        if is_ample || is(Canary::CheckpointErased) {
            let _ = self
                .log
                .media()
                .discard(geometry.start(id), geometry.segment_bytes);
        }
        self.log.release(id);
        self.signals.room.ring();
    }

    /// True if no room comes back to a writer who waits: snapshots would give way, and what a backup
    /// holds comes back, also where collection found nothing because it began before that was held.
    pub(crate) fn is_full_for_good(&self) -> bool {
        !self.snapshots.hold_any() && self.pins.held() == 0
    }

    /// What a writer is told for whom there is no room.
    pub(crate) fn full(&self) -> Error {
        let geometry = self.log.geometry();
        let capacity = geometry.segment_bytes * u64::from(geometry.segments);
        let mut words = format!("all of its {capacity} bytes are live or reserved");
        let held = self.pins.held();
        if held > 0 {
            words += &format!(
                ", or one of {held} segments that a backup is still copying: wait until it has ended"
            );
        }
        Error::full(words)
    }

    /// Fails the store for good because an invariant of ours does not hold.
    pub(crate) fn fail_internal(&self, what: &'static str) -> Error {
        self.log.fail(LogError::Internal(what)).into()
    }
}
