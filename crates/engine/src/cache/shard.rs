//! One shard of the record cache: admission, eviction and the account of its memory.
//!
//! Segments stand in two queues, first in first out. A new record goes to the small queue, which
//! is kept at a tenth of the memory; when its segment leaves that queue, a record that was read
//! meanwhile moves to the main queue, another is dropped and its ghost remembered. A record whose
//! ghost is remembered starts in the main queue. Leaving the main queue, a record that was read
//! goes round once more with its heat lowered.
//!
//! Invariants: every table entry is the address of a record in an open segment that stands in one
//! queue; `used_bytes` stays at or under the limit (while the limit falls, under the limit before).
//! There is always room for one chunk more than is in use: the survivors of the segment that is
//! being given back go there.
//!
//! No threads: the shard's lock guards it. The longest call gives back `MERCY_ROUNDS` segments and
//! as many as the new record needs.

use super::arena::{
    header_at, segment_cost_bytes, set_heat_at, stored_bytes, Address, Arena, Header, RecordId,
    SegmentBytes, Slot, Windows, CHUNK_BYTES_MAX, HEADER_BYTES, RECORD_BYTES_MAX,
};
use super::table::{RecordHash, Table, PAGE_COST_BYTES};
use std::collections::VecDeque;

/// The small queue is kept at this part of the shard.
const SMALL_QUEUE_DIVISOR: u64 = 10;
/// A record larger than this part of the shard is not taken.
const RECORD_DIVISOR: u64 = 16;
/// A record larger than this part of a chunk has a segment of its own.
const CHUNK_RECORD_DIVISOR: usize = 4;
/// Chunks of a shard, unless the smallest or largest chunk makes them more or fewer.
const CHUNKS: u64 = 32;
const CHUNK_BYTES_MIN: usize = 1 << 10;
/// So many segments may be given back for one chunk before warm records lose their second chance.
const MERCY_ROUNDS: u64 = 8;
/// Segments given back in one step of shrinking.
const SHRINK_STEP_SEGMENTS: usize = 8;
/// Most buckets merged away after one segment is given back.
const MERGES_MAX: usize = 512;

/// What happened in a shard since it was made.
#[derive(Clone, Copy, Default)]
pub(super) struct Counters {
    pub(super) hits: u64,
    pub(super) misses: u64,
    pub(super) inserts: u64,
    pub(super) evictions: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Which {
    Small,
    Main,
}

struct Queue {
    segments: VecDeque<Slot>,
    /// The chunk that takes the next record.
    open: Slot,
    bytes: u64,
}

impl Queue {
    fn new() -> Queue {
        Queue {
            segments: VecDeque::new(),
            open: Slot::NONE,
            bytes: 0,
        }
    }
}

/// See the module's head.
pub(super) struct Shard {
    table: Table,
    arena: Arena,
    small: Queue,
    main: Queue,
    limit_bytes: u64,
    chunk_bytes: usize,
    counters: Counters,
}

impl Shard {
    /// A shard that holds nothing until it is given a limit.
    pub(super) fn new(windows: Windows) -> Shard {
        Shard {
            table: Table::new(),
            arena: Arena::new(windows),
            small: Queue::new(),
            main: Queue::new(),
            limit_bytes: 0,
            chunk_bytes: CHUNK_BYTES_MIN,
            counters: Counters::default(),
        }
    }

    /// Bytes of memory in use, beside the shard's own struct.
    pub(super) fn used_bytes(&self) -> u64 {
        self.table.memory_bytes() + self.arena.memory_bytes()
    }

    /// How many records it holds.
    pub(super) fn records(&self) -> u64 {
        self.table.len() as u64
    }

    pub(super) fn counters(&self) -> Counters {
        self.counters
    }

    /// Drops all records and gives back all memory; the limit and the counters stay.
    pub(super) fn clear(&mut self) {
        self.counters.evictions += self.records();
        self.table = Table::new();
        self.arena.clear();
        self.small = Queue::new();
        self.main = Queue::new();
    }

    /// Sets the limit, which `used_bytes` must not exceed already.
    pub(super) fn set_limit_bytes(&mut self, limit_bytes: u64) {
        let chunk = (limit_bytes / CHUNKS).clamp(CHUNK_BYTES_MIN as u64, CHUNK_BYTES_MAX as u64);
        self.limit_bytes = limit_bytes;
        let grain = if chunk < 4096 { 64 } else { 4096 };
        self.chunk_bytes = chunk as usize / grain * grain;
    }

    /// One bounded step towards a lower limit; true when it is reached and set.
    pub(super) fn shrink_step(&mut self, target_bytes: u64) -> bool {
        // Whoever comes between two steps must not take what this one gave back.
        let present = self.used_bytes() + self.reserve_bytes();
        self.limit_bytes = self.limit_bytes.min(present.max(target_bytes));
        for step in 0..SHRINK_STEP_SEGMENTS {
            if self.used_bytes() + self.reserve_bytes() <= target_bytes {
                self.set_limit_bytes(target_bytes);
                return true;
            }
            // Every step must get nearer, be all records warm.
            let merciless = step + 1 == SHRINK_STEP_SEGMENTS
                && self.used_bytes() + self.reserve_bytes() >= present;
            if !self.reclaim(merciless) {
                self.clear();
                self.set_limit_bytes(target_bytes);
                return true;
            }
        }
        false
    }

    /// Reads a record, which makes it hotter.
    #[inline]
    pub(super) fn get<R>(
        &mut self,
        id: RecordId,
        hash: RecordHash,
        read: impl FnOnce(&[u8]) -> R,
    ) -> Option<R> {
        let found = self.find(id, hash);
        match found.and_then(|address| self.arena.touch(address)) {
            Some(bytes) => {
                self.counters.hits += 1;
                Some(read(bytes))
            }
            None => {
                self.counters.misses += 1;
                None
            }
        }
    }

    /// Asks for the memory in which a record is looked for.
    #[inline]
    pub(super) fn prefetch_place(&self, hash: RecordHash) {
        self.table.prefetch(hash);
    }

    /// Asks for the record itself, if it seems to be here.
    #[inline]
    pub(super) fn prefetch_record(&self, hash: RecordHash) {
        self.table.find(hash, |address| {
            self.arena.prefetch(address);
            false
        });
    }

    /// Drops a record. Some(heat) if it was here, or if its ghost was (heat 0).
    pub(super) fn remove(&mut self, id: RecordId, hash: RecordHash) -> Option<u32> {
        let Some(address) = self.find(id, hash) else {
            return self.table.take_ghost(hash).then_some(0);
        };
        let heat = self.arena.header(address).map(|header| header.heat);
        self.table.forget(hash, address);
        heat
    }

    /// Takes a record that may be here already.
    pub(super) fn insert(&mut self, id: RecordId, hash: RecordHash, parts: &[&[u8]]) {
        if let Some(old) = self.find(id, hash) {
            let len = parts.iter().map(|part| part.len()).sum();
            if self.arena.overwrite(old, len, parts) {
                return;
            }
            self.table.forget(hash, old);
        }
        let known = self.table.take_ghost(hash).then_some(0);
        self.insert_new(id, hash, parts, known);
    }

    /// Takes a record that was never here; with `known` heat it starts in the main queue.
    pub(super) fn insert_new(
        &mut self,
        id: RecordId,
        hash: RecordHash,
        parts: &[&[u8]],
        known: Option<u32>,
    ) {
        let len = parts
            .iter()
            .fold(0usize, |sum, part| sum.saturating_add(part.len()));
        if len as u64 > self.record_bytes_max() || !self.make_table_room() {
            return;
        }
        let which = if known.is_some() {
            Which::Main
        } else {
            Which::Small
        };
        let header = Header {
            id,
            len,
            heat: known.unwrap_or(0),
        };
        let emptier = self.table.emptier(hash);
        if let Some(address) = self.store(which, header, parts) {
            self.counters.inserts += 1;
            self.counters.evictions += u64::from(!self.table.add(hash, emptier, address));
        }
    }

    pub(super) fn holds(&self, id: RecordId, hash: RecordHash) -> bool {
        self.find(id, hash).is_some()
    }

    #[inline]
    fn find(&self, id: RecordId, hash: RecordHash) -> Option<Address> {
        self.table.find(hash, |address| {
            self.arena
                .header(address)
                .is_some_and(|header| header.id == id)
        })
    }

    fn record_bytes_max(&self) -> u64 {
        let part = (self.limit_bytes / RECORD_DIVISOR).saturating_sub(HEADER_BYTES as u64);
        part.min(RECORD_BYTES_MAX as u64)
    }

    fn reserve_bytes(&self) -> u64 {
        segment_cost_bytes(self.chunk_bytes)
    }

    fn queue(&mut self, which: Which) -> &mut Queue {
        match which {
            Which::Small => &mut self.small,
            Which::Main => &mut self.main,
        }
    }

    /// Appends a record to a queue, giving back old segments when it needs a new one.
    fn store(&mut self, which: Which, header: Header, parts: &[&[u8]]) -> Option<Address> {
        let stored = stored_bytes(header.len);
        if stored > self.chunk_bytes / CHUNK_RECORD_DIVISOR {
            if !self.make_room(segment_cost_bytes(stored)) {
                return None;
            }
            let slot = self.open_segment(which, stored)?;
            return self.arena.append(slot, header, parts);
        }
        let open = self.queue(which).open;
        if let Some(address) = self.arena.append(open, header, parts) {
            return Some(address);
        }
        if !self.make_room(segment_cost_bytes(self.chunk_bytes)) {
            return None;
        }
        // Survivors may have opened a chunk of this queue just now.
        let open = self.queue(which).open;
        if let Some(address) = self.arena.append(open, header, parts) {
            return Some(address);
        }
        let slot = self.open_segment(which, self.chunk_bytes)?;
        self.queue(which).open = slot;
        self.arena.append(slot, header, parts)
    }

    /// Opens a segment at the end of a queue if the limit allows it.
    fn open_segment(&mut self, which: Which, capacity: usize) -> Option<Slot> {
        if self.used_bytes() + segment_cost_bytes(capacity) > self.limit_bytes {
            return None;
        }
        let slot = self.arena.open(capacity)?;
        self.enqueue(which, slot);
        Some(slot)
    }

    fn enqueue(&mut self, which: Which, slot: Slot) {
        let bytes = self.arena.cost_bytes(slot);
        let queue = self.queue(which);
        queue.segments.push_back(slot);
        queue.bytes += bytes;
    }

    /// Gives back segments until `cost_bytes` and the reserve fit.
    fn make_room(&mut self, cost_bytes: u64) -> bool {
        let needed = cost_bytes + self.reserve_bytes();
        if needed > self.limit_bytes {
            return false;
        }
        let mercy = MERCY_ROUNDS + cost_bytes / self.chunk_bytes as u64;
        let mut rounds = 0;
        while self.used_bytes() + needed > self.limit_bytes || self.arena.slots_left() < 2 {
            rounds += 1;
            if !self.reclaim(rounds > mercy) {
                return false;
            }
        }
        true
    }

    /// Grows the table until it can take one more record.
    fn make_table_room(&mut self) -> bool {
        while self.table.wants_split() {
            if self.table.split_takes_page() && !self.make_room(PAGE_COST_BYTES) {
                return false;
            }
            // Giving back segments may have shrunk the table to where it needs a page again.
            let used_bytes = self.used_bytes();
            if self.table.split_takes_page() && used_bytes + PAGE_COST_BYTES > self.limit_bytes {
                return false;
            }
            self.table.split();
        }
        true
    }

    /// Gives back the oldest segment of the queue whose turn it is, after moving its warm records
    /// to the end of the main queue. False if there is none.
    fn reclaim(&mut self, merciless: bool) -> bool {
        let small_is_due = self.small.bytes * SMALL_QUEUE_DIVISOR > self.limit_bytes;
        let which = if self.main.segments.is_empty() || small_is_due {
            Which::Small
        } else {
            Which::Main
        };
        let Some(slot) = self.queue(which).segments.pop_front() else {
            return false;
        };
        let freed = self.arena.cost_bytes(slot);
        let queue = self.queue(which);
        queue.bytes -= freed;
        if queue.open == slot {
            queue.open = Slot::NONE;
        }
        let bytes = self.arena.take_out(slot);
        match self.keep_whole(which, slot, bytes, merciless) {
            None => {}
            Some(bytes) => {
                self.settle_all(which, slot, &bytes, merciless);
                self.arena.close(slot, bytes);
            }
        }
        self.merge_table();
        true
    }

    /// Moves a segment of one warm record to the main queue as it is; otherwise returns its bytes.
    fn keep_whole(
        &mut self,
        from: Which,
        slot: Slot,
        mut bytes: SegmentBytes,
        merciless: bool,
    ) -> Option<SegmentBytes> {
        let Some(header) = header_at(&bytes, 0) else {
            return Some(bytes);
        };
        let alone = stored_bytes(header.len) == bytes.capacity();
        let known = self.table.holds(header.id.hash(), Address::at(slot, 0));
        if !alone || !known || header.heat == 0 || merciless {
            return Some(bytes);
        }
        set_heat_at(&mut bytes, 0, cooled(from, header.heat));
        self.arena.put_back(slot, bytes);
        self.enqueue(Which::Main, slot);
        None
    }

    fn settle_all(&mut self, from: Which, slot: Slot, bytes: &[u8], merciless: bool) {
        let mut offset = 0;
        while let Some(header) = header_at(bytes, offset) {
            let start = offset + HEADER_BYTES;
            let body = bytes.get(start..start + header.len).unwrap_or_default();
            let old = Address::at(slot, offset);
            offset += stored_bytes(header.len);
            let hash = header.id.hash();
            if !self.table.holds(hash, old) {
                continue;
            }
            if header.heat > 0 && !merciless {
                let header = Header {
                    heat: cooled(from, header.heat),
                    ..header
                };
                if let Some(new) = self.store_survivor(header, body) {
                    self.table.relocate(hash, old, new);
                    continue;
                }
            }
            self.table.forget(hash, old);
            self.counters.evictions += 1;
            if from == Which::Small {
                self.table.remember_ghost(hash);
            }
        }
    }

    /// Appends to the main queue without giving anything back: out of the reserve.
    fn store_survivor(&mut self, header: Header, body: &[u8]) -> Option<Address> {
        if let Some(address) = self.arena.append(self.main.open, header, &[body]) {
            return Some(address);
        }
        let capacity = self.chunk_bytes.max(stored_bytes(header.len));
        let slot = self.open_segment(Which::Main, capacity)?;
        self.main.open = slot;
        self.arena.append(slot, header, &[body])
    }

    fn merge_table(&mut self) {
        for _ in 0..MERGES_MAX {
            if !self.table.wants_merge() {
                break;
            }
            self.counters.evictions += self.table.merge() as u64;
        }
    }
}

/// The heat of a record after it leaves a queue for the main queue.
fn cooled(from: Which, heat: u32) -> u32 {
    match from {
        Which::Small => 0,
        Which::Main => heat.saturating_sub(1),
    }
}

#[cfg(test)]
impl Shard {
    /// Checks every invariant that can be seen from inside.
    pub(super) fn check(&self) {
        assert!(self.used_bytes() <= self.limit_bytes);
        let mut live = 0;
        let mut held = 0;
        for queue in [&self.small, &self.main] {
            let mut bytes = 0;
            for slot in &queue.segments {
                bytes += self.arena.cost_bytes(*slot);
                live += self.live_in(*slot);
            }
            assert_eq!(bytes, queue.bytes, "bytes of a queue");
            held += bytes;
        }
        assert_eq!(live, self.table.len(), "records reached through the queues");
        assert_eq!(held, self.arena.held_bytes(), "bytes of the arena");
        let queues = self.small.segments.capacity() + self.main.segments.capacity();
        let lists = (queues * size_of::<Slot>()) as u64;
        let counted = self.table.counted_bytes() + self.arena.counted_bytes() + lists;
        // A list begins with room for a few.
        assert!(
            counted <= self.used_bytes() + 128,
            "{counted} of {}",
            self.used_bytes()
        );
    }

    fn live_in(&self, slot: Slot) -> usize {
        let mut live = 0;
        let mut offset = 0;
        while let Some(header) = self
            .arena
            .segment_len(slot)
            .filter(|len| offset < *len)
            .and_then(|_| self.arena.header(Address::at(slot, offset)))
        {
            live += usize::from(
                self.table
                    .holds(header.id.hash(), Address::at(slot, offset)),
            );
            offset += stored_bytes(header.len);
            // A segment of its own may be longer than offsets reach; it holds one record.
            if offset >= CHUNK_BYTES_MAX {
                break;
            }
        }
        live
    }
}
