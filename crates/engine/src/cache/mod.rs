//! The record cache: small records by location, in a hard-bounded number of bytes.
//!
//! A record is named by its [`Location`] and the [`Birth`] of the segment it lies in, so bytes of an
//! earlier life of a segment are never returned for a later one.
//!
//! Shards, each under its own lock and on its own cache lines, are chosen by a hash of that name.
//! A shard (`shard`) holds a table (`table`) over segments of records (`arena`); memory is taken
//! when it is first used and given back in segments and table pages.
//!
//! Invariants: [`RecordCache::used_bytes`] never exceeds [`RecordCache::budget_bytes`]; what a `get`
//! reads is exactly what was inserted last under that name; no call takes more than one lock, but
//! for a change of the number of shards, which takes them all in order.
//!
//! Policy: S3-FIFO with two bits of heat and a ghost for each two records, chosen on zipfian traces
//! (theta 0.99, 800 K keys). Per cent of reads that hit, where 10 % of the keys fit; `simulation`
//! repeats it:
//!
//! | | reads | with scans | half updates | half cold writes | shifting hot set |
//! |---|---|---|---|---|---|
//! | FIFO with one-bit reinsertion | 80.2 | 71.0 | 73.5 | 68.4 | 79.0 |
//! | S3-FIFO without ghosts | 83.3 | 81.0 | 72.2 | 78.0 | 74.0 |
//! | S3-FIFO, an update starts cold | 83.5 | 82.7 | 65.9 | 79.4 | 78.2 |
//! | S3-FIFO (model) | 83.5 | 82.7 | 73.8 | 79.4 | 78.2 |
//! | this cache | 82.4 | 81.8 | 72.9 | 79.3 | 77.7 |
//!
//! So what replaces a record should come through [`RecordCache::insert_successor`]: the location of
//! a key changes with each write, and only the caller knows the one before.

mod arena;
#[cfg(all(test, feature = "shuttle"))]
mod schedules;
mod shard;
#[cfg(test)]
mod simulation;
mod table;
#[cfg(test)]
mod tests;

use arena::{RecordId, CHUNK_BYTES_MAX};
use heliox_format::ids::{Birth, Location};
use heliox_media::Region;
use heliox_sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use heliox_sync::{Mutex, MutexGuard};
use shard::Shard;
use table::RecordHash;

/// Shards of a cache, unless its first budget gives them more than [`SHARD_BYTES_IDEAL`] each.
const SHARDS: usize = 64;
/// Shards of the largest cache.
const SHARDS_MAX: usize = 1024;
/// A shard is no smaller than this: a smaller budget has fewer shards.
const SHARD_BYTES_MIN: u64 = 64 << 10;
/// A quarter of what the addresses of a shard reach.
const SHARD_BYTES_IDEAL: u64 = 32 << 20;
/// The first budget reserves a window of addresses for each so many bytes: enough unless it shrinks
/// to a fraction and grows again.
const WINDOW_SHARE_BYTES: u64 = 8 << 10;

/// On cache lines of its own, so that two threads in two shards do not disturb each other.
#[repr(align(64))]
struct Slot(Mutex<Shard>);

/// What a cache did since it was made, and what it holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct CacheStats {
    /// Gets that found their record.
    pub(crate) hits: u64,
    /// Gets that did not.
    pub(crate) misses: u64,
    /// Records taken; an equal name inserted again in the same length is not counted.
    pub(crate) inserts: u64,
    /// Records dropped to make room; removed and replaced ones are not counted.
    pub(crate) evictions: u64,
    /// Records held now.
    pub(crate) records: u64,
}

/// A cache of records by location; see the module's head. All methods may be called from any
/// thread at any time.
pub(crate) struct RecordCache {
    slots: Box<[Slot]>,
    /// How many of the slots are in use: a power of two, or 0 when the cache is off. Changes only
    /// while all slots are locked.
    active: AtomicUsize,
    budget_bytes: AtomicU64,
    /// Held by a change of budget.
    resize: Mutex<()>,
}

impl RecordCache {
    /// A cache of at most `budget_bytes` of memory, tables and locks included.
    ///
    /// Under 64 KiB the cache is off: it holds nothing, and its locks (16 KiB) are not counted.
    /// A shard reaches 128 MiB: a cache begun with 2 GiB or less never uses more than 8 GiB.
    #[must_use]
    pub(crate) fn new(budget_bytes: u64) -> RecordCache {
        let wanted = usize::try_from(budget_bytes / SHARD_BYTES_IDEAL).unwrap_or(SHARDS_MAX);
        let shards = wanted.clamp(SHARDS, SHARDS_MAX).next_power_of_two();
        let windows = usize::try_from(budget_bytes / WINDOW_SHARE_BYTES).unwrap_or(0);
        let windows = Region::reserve(windows, CHUNK_BYTES_MAX);
        let cache = RecordCache {
            slots: (0..shards)
                .map(|_| Slot(Mutex::new(Shard::new(windows.clone()))))
                .collect(),
            active: AtomicUsize::new(0),
            budget_bytes: AtomicU64::new(0),
            resize: Mutex::new(()),
        };
        cache.set_budget_bytes(budget_bytes);
        cache
    }

    /// Hands the record's bytes to `read`, if they are here.
    ///
    /// `read` runs under the shard's lock: it must only copy, and must not call the cache.
    #[inline]
    pub(crate) fn get<R>(
        &self,
        location: Location,
        birth: Birth,
        read: impl FnOnce(&[u8]) -> R,
    ) -> Option<R> {
        let id = RecordId::new(location, birth);
        let hash = id.hash();
        self.lock_shard(hash)?.get(id, hash, read)
    }

    /// Asks the processor for all that a `get` of each of these records will touch, so that the misses
    /// of its caches overlap. For some dozens at a time, just before; only a hint.
    pub(crate) fn expect_reads(&self, records: impl Iterator<Item = (Location, Birth)> + Clone) {
        self.expect_inserts(records.clone());
        for hash in records.map(|(location, birth)| RecordId::new(location, birth).hash()) {
            self.lock_shard(hash).inspect(|s| s.prefetch_record(hash));
        }
    }

    /// The same for what is about to be inserted.
    pub(crate) fn expect_inserts(&self, records: impl Iterator<Item = (Location, Birth)>) {
        for hash in records.map(|(location, birth)| RecordId::new(location, birth).hash()) {
            self.lock_shard(hash).inspect(|s| s.prefetch_place(hash));
        }
    }

    /// Offers a record, the concatenation of `parts`. It replaces what has the same name.
    ///
    /// A record over a sixteenth of a shard (or 4 MiB) is not taken; what has its name is dropped.
    /// May drop other records: a few dozen KiB of them at a time.
    pub(crate) fn insert(&self, location: Location, birth: Birth, parts: &[&[u8]]) {
        let id = RecordId::new(location, birth);
        let hash = id.hash();
        if let Some(mut shard) = self.lock_shard(hash) {
            shard.insert(id, hash, parts);
        }
    }

    /// Like [`RecordCache::insert`] for a record that was never offered before: what is here is not
    /// searched for it.
    pub(crate) fn insert_new(&self, location: Location, birth: Birth, parts: &[&[u8]]) {
        let id = RecordId::new(location, birth);
        let hash = id.hash();
        if let Some(mut shard) = self.lock_shard(hash) {
            shard.insert_new(id, hash, parts, None);
        }
    }

    /// Like [`RecordCache::insert_new`] for a record that takes the place of `old`: the next version
    /// of the same key, or the same record moved.
    ///
    /// `old` is dropped, and its standing passes to the new record. Without this a key that is
    /// written often starts cold after every write.
    pub(crate) fn insert_successor(
        &self,
        old: (Location, Birth),
        location: Location,
        birth: Birth,
        parts: &[&[u8]],
    ) {
        let old = RecordId::new(old.0, old.1);
        let id = RecordId::new(location, birth);
        let known = self
            .lock_shard(old.hash())
            .and_then(|mut shard| shard.remove(old, old.hash()));
        let hash = id.hash();
        if let Some(mut shard) = self.lock_shard(hash) {
            shard.insert_new(id, hash, parts, known);
        }
    }

    /// True if the record is here; no sign that it is wanted.
    pub(crate) fn holds(&self, location: Location, birth: Birth) -> bool {
        let id = RecordId::new(location, birth);
        let hash = id.hash();
        self.lock_shard(hash)
            .is_some_and(|shard| shard.holds(id, hash))
    }

    #[cfg(test)]
    pub(crate) fn remove(&self, location: Location, birth: Birth) {
        let id = RecordId::new(location, birth);
        let hash = id.hash();
        if let Some(mut shard) = self.lock_shard(hash) {
            shard.remove(id, hash);
        }
    }

    /// Changes the budget; on return no more than it is in use.
    ///
    /// Shrinking drops records a few segments at a time, with the shard's lock released between.
    /// Under 4 MiB the budget also decides the number of shards, and to change that empties the
    /// cache.
    pub(crate) fn set_budget_bytes(&self, budget_bytes: u64) {
        let _alone = self.resize.lock();
        let grows = budget_bytes >= self.budget_bytes.load(Ordering::Relaxed);
        if grows {
            self.budget_bytes.store(budget_bytes, Ordering::Relaxed);
        }
        let active = self.active_for(budget_bytes);
        if active == self.active.load(Ordering::Relaxed) {
            self.resize_shards(active, self.share_bytes(budget_bytes, active));
        } else {
            self.restart(active, self.share_bytes(budget_bytes, active));
        }
        self.budget_bytes.store(budget_bytes, Ordering::Relaxed);
    }

    /// Bytes of memory in use. Locks each shard in turn.
    #[must_use]
    pub(crate) fn used_bytes(&self) -> u64 {
        let mut used_bytes = 0;
        for slot in &self.slots {
            used_bytes += slot.0.lock().used_bytes();
        }
        match self.active.load(Ordering::Relaxed) {
            0 => used_bytes,
            _ => used_bytes + self.fixed_bytes(),
        }
    }

    /// The budget; while it is being lowered, still the old one.
    #[must_use]
    pub(crate) fn budget_bytes(&self) -> u64 {
        self.budget_bytes.load(Ordering::Relaxed)
    }

    /// What the cache did and holds. Locks each shard in turn.
    #[must_use]
    pub(crate) fn stats(&self) -> CacheStats {
        let mut stats = CacheStats::default();
        for slot in &self.slots {
            let shard = slot.0.lock();
            let counters = shard.counters();
            stats.hits += counters.hits;
            stats.misses += counters.misses;
            stats.inserts += counters.inserts;
            stats.evictions += counters.evictions;
            stats.records += shard.records();
        }
        stats
    }

    /// The locked shard of a record; none when the cache is off.
    #[inline]
    fn lock_shard(&self, hash: RecordHash) -> Option<MutexGuard<'_, Shard>> {
        loop {
            let active = self.active.load(Ordering::Relaxed);
            let index = hash.shard_bits() & active.checked_sub(1)?;
            let shard = self.slots.get(index)?.0.lock();
            // Under the lock the number is stable; before, it may have changed.
            if self.active.load(Ordering::Relaxed) == active {
                return Some(shard);
            }
        }
    }

    fn fixed_bytes(&self) -> u64 {
        size_of_val(&*self.slots) as u64
    }

    fn active_for(&self, budget_bytes: u64) -> usize {
        let fit = usize::try_from(budget_bytes / SHARD_BYTES_MIN).unwrap_or(usize::MAX);
        match fit.checked_ilog2() {
            None => 0,
            Some(log) => (1 << log).min(self.slots.len()),
        }
    }

    fn share_bytes(&self, budget_bytes: u64, active: usize) -> u64 {
        let shared = budget_bytes.saturating_sub(self.fixed_bytes());
        shared.checked_div(active as u64).unwrap_or(0)
    }

    fn resize_shards(&self, active: usize, share_bytes: u64) {
        for slot in self.slots.iter().take(active) {
            // Each step is short and takes the lock anew.
            while !slot.0.lock().shrink_step(share_bytes) {}
        }
    }

    /// Changes the number of shards, which means to begin empty.
    fn restart(&self, active: usize, share_bytes: u64) {
        let mut shards: Vec<_> = self.slots.iter().map(|slot| slot.0.lock()).collect();
        for (index, shard) in shards.iter_mut().enumerate() {
            shard.clear();
            shard.set_limit_bytes(if index < active { share_bytes } else { 0 });
        }
        self.active.store(active, Ordering::Relaxed);
    }
}
