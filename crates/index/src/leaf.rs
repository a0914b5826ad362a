//! The leaf: up to 32 sorted blocks, completely full, and one unsorted tail block for new entries.
//!
//! Fixed blocks do not fragment, and an insert appends to the tail; a full tail is merged into the
//! sorted blocks once in 46 inserts. A removed entry leaves a hole (an entry with no location),
//! and 46 holes are squeezed out at once.
//!
//! Invariants: the sorted blocks hold `full * 46` entries ordered by slice as a number; block
//! `full` is the tail with `tail` entries in any order; `firsts[b]` is the first slice of sorted
//! block `b`, zero for block 0 and `u16::MAX` beyond; no slice is zero; no slice has lost more
//! than `lost_max` bits; with `keyed` set there are no blocks. Threads: a leaf is reached under
//! its own lock, or with the whole tree held exclusively.

use heliox_format::ids::Location;
use smallvec::SmallVec;

use crate::api::Entry;
use crate::blocks::{Block, BlockRef, Blocks, NoMemory, BLOCK_BYTES, BLOCK_ENTRIES, REST_BYTES};
use crate::code::Coded;
use crate::error::{ImageError, IndexError};
use crate::keyed_leaf::KeyedLeaf;
use crate::simd;
use crate::slice::{self, Window, NO_WINDOW, SHIFT_MAX};
use crate::ties::{in_groups, mostly_tied};

/// First slices that are searched at once.
const FIRSTS: usize = 32;
/// Most sorted blocks of a leaf, as many as `FIRSTS` at most. More save memory and cost ties: 24
/// have three quarters of the ties and 0.25 bytes an entry more.
pub(crate) const FULL_MAX: usize = 32;
/// Fewest sorted blocks at which a leaf is split.
const FULL_MIN: usize = FULL_MAX - 7;
const _: () = assert!(FULL_MAX <= FIRSTS);
/// Entries of the sorted blocks of the fullest leaf.
pub(crate) const FULL_ENTRIES: usize = FULL_MAX * BLOCK_ENTRIES;
/// Most blocks of a leaf.
pub(crate) const LEAF_BLOCKS: usize = FULL_MAX + 1;
/// Holes that are borne before a leaf is squeezed.
const HOLES_MAX: u8 = BLOCK_ENTRIES as u8;
/// Slots of a full leaf that only keys which have a match may take.
const SPARE_SLOTS: usize = 1;
/// The tombstone's bit beside the fingerprint.
const TOMBSTONE: u32 = 1 << 31;

/// An entry without its slice: fingerprint and tombstone bit (4 bytes), location (5), both
/// little-endian.
pub(crate) type Rest = [u8; REST_BYTES];

/// What a hole holds.
const HOLE: Rest = [0xff; REST_BYTES];

pub(crate) fn rest_of(fingerprint: u32, entry: Entry) -> Rest {
    let flag = if entry.tombstone { TOMBSTONE } else { 0 };
    let low = u64::from(fingerprint | flag) | entry.location.bits() << 32;
    let mut rest = [0; REST_BYTES];
    rest[..8].copy_from_slice(&low.to_le_bytes());
    rest[8] = (entry.location.bits() >> 32) as u8;
    rest
}

#[inline]
fn fingerprint_word(rest: &Rest) -> u32 {
    u32::from_le_bytes([rest[0], rest[1], rest[2], rest[3]])
}

#[inline]
pub(crate) fn fingerprint_of(rest: &Rest) -> u32 {
    fingerprint_word(rest) & !TOMBSTONE
}

#[inline]
pub(crate) fn entry_of(rest: &Rest) -> Entry {
    let bits = u64::from_le_bytes([rest[4], rest[5], rest[6], rest[7], rest[8], 0, 0, 0]);
    Entry {
        location: Location::from_bits(bits),
        tombstone: fingerprint_word(rest) & TOMBSTONE != 0,
    }
}

/// Whether this is an entry and not a hole.
pub(crate) fn is_live(rest: &Rest) -> bool {
    entry_of(rest).location.is_some()
}

/// An entry as it is stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Stored {
    pub(crate) slice: u16,
    pub(crate) rest: Rest,
}

/// Where in a leaf of blocks an entry is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Position {
    block: u8,
    slot: u8,
}

/// What a search found.
pub(crate) type Found = SmallVec<[(Position, Entry); 2]>;

/// Whether a leaf has room for one more entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Room {
    /// The next insert succeeds.
    Ready,
    /// The tail wants a block, or to be merged and then a block.
    Block,
    /// The leaf must be split.
    Split,
}

pub(crate) struct Leaf {
    pub(crate) window: Window,
    pub(crate) keyed: Option<Box<KeyedLeaf>>,
    firsts: [u16; FIRSTS],
    blocks: [Option<BlockRef>; LEAF_BLOCKS],
    full: u8,
    tail: u8,
    holes: u8,
    lost_max: u8,
    /// Most entries are in large tie groups: the window should be cut anew from the keys.
    pub(crate) wants_reslice: bool,
}

impl Leaf {
    pub(crate) fn new() -> Leaf {
        Leaf {
            window: NO_WINDOW,
            keyed: None,
            firsts: NO_FIRSTS,
            blocks: [const { None }; LEAF_BLOCKS],
            full: 0,
            tail: 0,
            holes: 0,
            lost_max: 0,
            wants_reslice: false,
        }
    }

    /// Entries, in either format.
    pub(crate) fn len(&self) -> usize {
        match &self.keyed {
            Some(keyed) => keyed.len(),
            None => self.slots() - usize::from(self.holes),
        }
    }

    /// Sorted blocks.
    pub(crate) fn full(&self) -> usize {
        usize::from(self.full)
    }

    /// Entries and holes.
    pub(crate) fn slots(&self) -> usize {
        usize::from(self.full) * BLOCK_ENTRIES + usize::from(self.tail)
    }

    /// Memory beside the header and the blocks.
    pub(crate) fn extra_bytes(&self) -> u64 {
        let keyed = self.keyed.as_ref().map_or(0, |keyed| keyed.bytes());
        let prefix = self
            .window
            .prefix
            .as_ref()
            .map_or(0, |_| std::mem::size_of::<Coded>() + 16);
        (keyed + prefix) as u64
    }

    pub(crate) fn block_count(&self) -> usize {
        self.blocks.iter().flatten().count()
    }

    /// The blocks that hold entries: the sorted ones, then the tail if it holds any.
    pub(crate) fn blocks<'a>(
        &'a self,
        blocks: &'a Blocks,
    ) -> impl Iterator<Item = (&'a Block, usize)> {
        let (full, tail) = (usize::from(self.full), usize::from(self.tail));
        let used = full + usize::from(tail > 0);
        self.blocks
            .iter()
            .take(used)
            .flatten()
            .enumerate()
            .map(move |(at, block)| {
                (
                    blocks.get(block),
                    if at < full { BLOCK_ENTRIES } else { tail },
                )
            })
    }

    /// All entries in the order of their slices. Holes are left out.
    pub(crate) fn stored(&self, blocks: &Blocks) -> Vec<Stored> {
        let mut all = Vec::with_capacity(self.slots());
        for (block, len) in self.blocks(blocks) {
            let pairs = block.slices.iter().zip(&block.rests).take(len);
            all.extend(
                pairs
                    .filter(|(_, rest)| is_live(rest))
                    .map(|(&slice, &rest)| Stored { slice, rest }),
            );
        }
        // The tail alone is out of order; the stable sort finds that out and merges it.
        all.sort_by_key(|stored| stored.slice);
        all
    }

    /// Cuts the first window of an empty leaf for the keyspace of its first key.
    pub(crate) fn open_window(&mut self, code: &Coded) {
        if self.slots() == 0 && self.window.shift == SHIFT_MAX && self.window.prefix.is_none() {
            let offset = 8 * crate::api::KEYSPACE_BYTES;
            self.window = Window {
                prefix: Some(Box::new(code.truncated(offset))),
                base: 0,
                offset: offset as u16,
                shift: SHIFT_MAX,
            };
        }
    }

    /// The low bits of a slice that some entry may not know. Slices that differ in others are not
    /// of one tie group.
    #[inline]
    pub(crate) fn tie_mask(&self) -> u16 {
        ((2u32 << self.lost_max) - 1) as u16
    }

    /// Range of slices, as numbers, that an entry agreeing with `key` can have.
    #[inline]
    fn bounds(&self, key: u16) -> (u16, u16) {
        let mask = self.tie_mask();
        (key & !mask, key | mask)
    }

    /// The sorted block in which the slices not below `slice` start, or that before it.
    #[inline]
    pub(crate) fn block_below(&self, slice: u16) -> usize {
        simd::firsts_below(&self.firsts, slice.max(1)).saturating_sub(1)
    }

    /// A sorted block.
    pub(crate) fn sorted_block<'a>(&'a self, blocks: &'a Blocks, at: usize) -> Option<&'a Block> {
        let place = self.blocks.get(at).filter(|_| at < self.full())?;
        place.as_ref().map(|block| blocks.get(block))
    }

    /// The tail and the number of its entries, if it holds any.
    pub(crate) fn tail_block<'a>(&'a self, blocks: &'a Blocks) -> Option<(&'a Block, usize)> {
        let place = self.blocks.get(self.full()).filter(|_| self.tail > 0)?;
        place
            .as_ref()
            .map(|block| (blocks.get(block), usize::from(self.tail)))
    }

    /// Asks for the cache lines that a search for `key` will touch first.
    #[inline]
    pub(crate) fn prefetch(&self, blocks: &Blocks, key: u16) {
        if self.full > 0 {
            let at = self.block_below(self.bounds(key).0);
            if let Some(Some(block)) = self.blocks.get(at) {
                let block = blocks.get(block);
                simd::prefetch(&block.slices[0]);
                simd::prefetch(&block.slices[32]);
                let first = u32::from(self.firsts[at]);
                let end = self
                    .firsts
                    .get(at + 1)
                    .map_or(0x1_0000, |next| u32::from(*next) + 1);
                let within = u32::from(key).saturating_sub(first) * BLOCK_ENTRIES as u32;
                let guess = (within / (end - first).max(1)).min(BLOCK_ENTRIES as u32 - 1) as usize;
                simd::prefetch(&block.rests[guess.saturating_sub(3)]);
                simd::prefetch(&block.rests[(guess + 3).min(BLOCK_ENTRIES - 1)]);
            }
        }
        if let (true, Some(Some(block))) = (self.tail > 0, self.blocks.get(self.full())) {
            let block = blocks.get(block);
            simd::prefetch(&block.slices[0]);
            simd::prefetch(&block.slices[32]);
        }
    }

    /// Asks for the cache line that an insert will write.
    #[inline]
    pub(crate) fn prefetch_insert(&self, blocks: &Blocks) {
        if let Some(Some(block)) = self.blocks.get(self.full()) {
            let slot = usize::from(self.tail).min(BLOCK_ENTRIES - 1);
            simd::prefetch(&blocks.get(block).rests[slot]);
        }
    }

    /// All live entries that agree with the known slice `key`, with their places.
    #[inline]
    fn agreeing(&self, blocks: &Blocks, key: u16, mut visit: impl FnMut(Position, &Rest)) {
        let full = self.full();
        if full > 0 {
            let (low, high) = self.bounds(key);
            let mut at = self.block_below(low);
            let mut from = None;
            'blocks: while let (true, Some(Some(block))) = (at < full, self.blocks.get(at)) {
                let block = blocks.get(block);
                let start = from.unwrap_or_else(|| simd::slices_below(&block.slices, low));
                let pairs = block
                    .slices
                    .iter()
                    .zip(&block.rests)
                    .enumerate()
                    .skip(start);
                for (slot, (&entry, rest)) in pairs {
                    if entry > high {
                        break 'blocks;
                    }
                    if slice::agrees(entry, key) {
                        visit(
                            Position {
                                block: at as u8,
                                slot: slot as u8,
                            },
                            rest,
                        );
                    }
                }
                from = Some(0);
                at += 1;
            }
        }
        if let (true, Some(Some(block))) = (self.tail > 0, self.blocks.get(full)) {
            let block = blocks.get(block);
            let mut mask = simd::agreeing(&block.slices, key) & ((1 << self.tail) - 1);
            while mask != 0 {
                let slot = mask.trailing_zeros() as u8;
                visit(
                    Position {
                        block: self.full,
                        slot,
                    },
                    &block.rests[usize::from(slot)],
                );
                mask &= mask - 1;
            }
        }
    }

    /// The entries that agree with the slice and have the fingerprint.
    #[inline]
    pub(crate) fn find(&self, blocks: &Blocks, key: u16, fingerprint: u32) -> Found {
        let mut found = Found::new();
        self.agreeing(blocks, key, |position, rest| {
            if fingerprint_of(rest) == fingerprint && is_live(rest) {
                found.push((position, entry_of(rest)));
            }
        });
        found
    }

    /// How many entries agree with the slice, whatever their fingerprint.
    pub(crate) fn candidates(&self, blocks: &Blocks, key: u16) -> usize {
        let mut count = 0;
        self.agreeing(blocks, key, |_, rest| count += usize::from(is_live(rest)));
        count
    }

    pub(crate) fn room(&self) -> Room {
        if self.wants_reslice {
            return Room::Split;
        }
        if let Some(keyed) = &self.keyed {
            return if keyed.wants_split() {
                Room::Split
            } else {
                Room::Ready
            };
        }
        let tail = usize::from(self.tail);
        match self.blocks.get(self.full()) {
            Some(Some(_)) if self.full() >= FULL_MIN && tail + SPARE_SLOTS >= BLOCK_ENTRIES => {
                match self.full() >= self.full_max() {
                    true => Room::Split,
                    false if tail < BLOCK_ENTRIES => Room::Ready,
                    false => Room::Block,
                }
            }
            Some(Some(_)) if tail < BLOCK_ENTRIES => Room::Ready,
            _ => Room::Block,
        }
    }

    /// The sorted blocks at which this leaf is split: different from leaf to leaf, lest all leaves
    /// that uniform keys fill alike are split at one time.
    fn full_max(&self) -> usize {
        let place = self.window.base ^ u64::from(self.window.offset);
        let mixed = place.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        FULL_MIN + ((mixed * (FULL_MAX - FULL_MIN + 1) as u64) >> 32) as usize
    }

    /// Whether a key that the leaf holds may be written although the leaf should be split: its
    /// entry is most likely replaced, and if not there is a slot for another one. So overwrites do
    /// not split leaves that were filled whole.
    pub(crate) fn has_spare(&self) -> bool {
        let in_tail = matches!(self.blocks.get(self.full()), Some(Some(_)))
            && usize::from(self.tail) < BLOCK_ENTRIES;
        self.keyed.is_some() || in_tail
    }

    /// Makes room where one block suffices for it.
    pub(crate) fn add_block(&mut self, blocks: &Blocks) -> Result<(), NoMemory> {
        let block = blocks.alloc()?;
        if usize::from(self.tail) == BLOCK_ENTRIES {
            self.merge_tail(blocks);
        }
        match self.blocks.get_mut(usize::from(self.full)) {
            Some(place @ None) => *place = Some(block),
            _ => blocks.free(block),
        }
        Ok(())
    }

    /// Appends an entry. False if there was no room, which `room` would have told.
    pub(crate) fn insert(&mut self, blocks: &Blocks, stored: Stored) -> bool {
        let slot = usize::from(self.tail);
        match self.blocks.get_mut(usize::from(self.full)) {
            Some(Some(block)) if slot < BLOCK_ENTRIES => {
                let block = blocks.get_mut(block);
                block.slices[slot] = stored.slice;
                block.rests[slot] = stored.rest;
            }
            _ => return false,
        }
        self.tail += 1;
        self.lost_max = self.lost_max.max(slice::lost_bits(stored.slice) as u8);
        true
    }

    /// Puts other content at a position and tells the entry's place anew, if it can.
    pub(crate) fn replace(&mut self, blocks: &Blocks, at: Position, new: Stored) {
        let in_tail = at.block == self.full;
        let (place, slot) = (usize::from(at.block), usize::from(at.slot));
        let low = self.firsts.get(place).copied().unwrap_or(0);
        let high = self.firsts.get(place + 1).copied().unwrap_or(u16::MAX);
        let Some(Some(block)) = self.blocks.get_mut(place) else {
            return;
        };
        let block = blocks.get_mut(block);
        block.rests[slot] = new.rest;
        if in_tail {
            block.slices[slot] = new.slice;
        } else if block.slices[slot] != new.slice && (low..=high).contains(&new.slice) {
            move_within(block, slot, new.slice);
            if place > 0 {
                self.firsts[place] = block.slices[0];
            }
        }
    }

    /// Takes an entry away.
    pub(crate) fn remove(&mut self, blocks: &Blocks, at: Position) {
        let last = usize::from(self.tail).wrapping_sub(1);
        let (in_tail, slot) = (at.block == self.full, usize::from(at.slot));
        let Some(Some(block)) = self.blocks.get_mut(usize::from(at.block)) else {
            return;
        };
        let block = blocks.get_mut(block);
        if in_tail {
            block.slices[slot] = block.slices[last];
            block.rests[slot] = block.rests[last];
            self.tail -= 1;
        } else {
            block.rests[slot] = HOLE;
            self.holes += 1;
        }
        if self.len() == 0 {
            self.clear(blocks);
        } else if self.holes >= HOLES_MAX {
            let stored = self.stored(blocks);
            self.fill(blocks, stored);
        }
    }

    /// Gives all blocks back. The window stays.
    pub(crate) fn clear(&mut self, blocks: &Blocks) {
        self.fill(blocks, Vec::new());
    }

    /// Makes `stored` the content; the blocks needed beyond those held must be reserved. True if
    /// there were enough.
    pub(crate) fn fill(&mut self, blocks: &Blocks, mut stored: Vec<Stored>) -> bool {
        if !stored.is_sorted_by_key(|stored| stored.slice) {
            stored.sort_unstable_by_key(|stored| stored.slice);
        }
        let needed = stored.len().div_ceil(BLOCK_ENTRIES);
        self.firsts = NO_FIRSTS;
        for (at, place) in self.blocks.iter_mut().enumerate() {
            if at >= needed {
                place
                    .take()
                    .into_iter()
                    .for_each(|block| blocks.free(block));
                continue;
            }
            if place.is_none() {
                *place = blocks.alloc().ok();
            }
            let part = &stored[at * BLOCK_ENTRIES..stored.len().min((at + 1) * BLOCK_ENTRIES)];
            let Some(block) = place else { return false };
            let block = blocks.get_mut(block);
            for (slot, stored) in part.iter().enumerate() {
                block.slices[slot] = stored.slice;
                block.rests[slot] = stored.rest;
            }
            if let (true, Some(first)) = (part.len() == BLOCK_ENTRIES, self.firsts.get_mut(at)) {
                *first = if at > 0 { part[0].slice } else { 0 };
            }
        }
        self.full = (stored.len() / BLOCK_ENTRIES).min(FULL_MAX) as u8;
        self.tail = (stored.len() - self.full() * BLOCK_ENTRIES) as u8;
        self.holes = 0;
        let lost = stored
            .iter()
            .map(|stored| slice::lost_bits(stored.slice))
            .max();
        self.lost_max = lost.unwrap_or(0) as u8;
        self.wants_reslice = false;
        needed <= LEAF_BLOCKS
    }

    /// The slice of the last sorted entry, 0 if there is none.
    fn last_sorted(&self, blocks: &Blocks) -> u16 {
        match self
            .full()
            .checked_sub(1)
            .and_then(|at| self.blocks.get(at))
        {
            Some(Some(block)) => blocks.get(block).slices[BLOCK_ENTRIES - 1],
            _ => 0,
        }
    }

    /// Gives the blocks of a leaf back that is not to be used.
    pub(crate) fn release(self, blocks: &Blocks) {
        self.blocks
            .into_iter()
            .flatten()
            .for_each(|block| blocks.free(block));
    }

    /// Appends a block from an image: a sorted one, which must be full, or the tail.
    pub(crate) fn load_block(
        &mut self,
        blocks: &Blocks,
        slices: &[[u8; 2]],
        rests: &[Rest],
        sorted: bool,
    ) -> Result<(), ImageError> {
        let at = self.full();
        let before = self.last_sorted(blocks);
        let Some(place @ None) = self.blocks.get_mut(at) else {
            return Err(ImageError::Damaged("a leaf of too many blocks"));
        };
        let no_memory = |_| IndexError::OverBudget {
            needed: BLOCK_BYTES as u64,
            limit: 0,
        };
        let block = blocks.get_mut(place.insert(blocks.alloc().map_err(no_memory)?));
        for (to, from) in block.slices.iter_mut().zip(slices) {
            *to = u16::from_le_bytes(*from);
        }
        let len = slices.len().min(BLOCK_ENTRIES);
        block.rests[..len].copy_from_slice(&rests[..len]);
        let held = &block.slices[..len];
        if held.contains(&0) {
            return Err(ImageError::Damaged("an entry without a slice"));
        }
        let lost = held
            .iter()
            .map(|slice| slice::lost_bits(*slice) as u8)
            .max();
        self.lost_max = self.lost_max.max(lost.unwrap_or(0));
        let holes = block.rests[..len]
            .iter()
            .filter(|rest| !is_live(rest))
            .count();
        if !sorted {
            self.tail = len as u8;
            return if holes == 0 {
                Ok(())
            } else {
                Err(ImageError::Damaged("a hole in the tail"))
            };
        }
        let follows = before <= held[0];
        if !held.is_sorted() || !follows || len < BLOCK_ENTRIES {
            return Err(ImageError::Damaged("slices out of order"));
        }
        self.holes = self.holes.saturating_add(holes as u8);
        if let (true, Some(first)) = (at > 0, self.firsts.get_mut(at)) {
            *first = held[0];
        }
        self.full += 1;
        Ok(())
    }

    /// Merges the full tail into the sorted blocks: from the end, run by run, in place.
    fn merge_tail(&mut self, blocks: &Blocks) {
        let full = self.full();
        let Some(Some(tail)) = self.blocks.get(full) else {
            return;
        };
        // Nearly all of it will move; what it waits for overlaps with sorting the tail.
        for block in self.blocks.iter().take(full + 1).flatten() {
            simd::prefetch_all(blocks.get(block));
        }
        let mut new = tail_sorted(blocks.get(tail));
        let mut end = full * BLOCK_ENTRIES;
        for (left, stored) in new.iter_mut().enumerate().rev() {
            let start = self.rank(blocks, stored.slice, end);
            self.shift_run(blocks, start, end, left + 1);
            self.put(blocks, start + left, *stored);
            end = start;
        }
        self.full += 1;
        self.tail = 0;
        for at in (end / BLOCK_ENTRIES).max(1)..=full {
            if let (Some(Some(block)), Some(first)) = (self.blocks.get(at), self.firsts.get_mut(at))
            {
                *first = blocks.get(block).slices[0];
            }
        }
        if self.full.is_power_of_two() && self.full() < FULL_MAX {
            self.wants_reslice = self.mostly_tied(blocks);
        }
    }

    /// How many of the first `end` sorted entries have a smaller slice; those after `end` do not.
    fn rank(&self, blocks: &Blocks, slice: u16, end: usize) -> usize {
        if end == 0 {
            return 0;
        }
        let at = simd::firsts_below(&self.firsts, slice).saturating_sub(1);
        match self.blocks.get(at) {
            Some(Some(block)) => {
                let below = simd::slices_below(&blocks.get(block).slices, slice);
                (at * BLOCK_ENTRIES + below).min(end)
            }
            _ => end,
        }
    }

    fn put(&mut self, blocks: &Blocks, index: usize, stored: Stored) {
        if let Some(Some(block)) = self.blocks.get_mut(index / BLOCK_ENTRIES) {
            let block = blocks.get_mut(block);
            block.slices[index % BLOCK_ENTRIES] = stored.slice;
            block.rests[index % BLOCK_ENTRIES] = stored.rest;
        }
    }

    /// Moves the entries `start..end` up by `by` places, which is at most a block.
    fn shift_run(&mut self, blocks: &Blocks, start: usize, end: usize, by: usize) {
        let (mut from, mut to) = (end, end + by);
        while from > start {
            // The longest piece that lies within one block on either side.
            let piece = (from - start)
                .min((from - 1) % BLOCK_ENTRIES + 1)
                .min((to - 1) % BLOCK_ENTRIES + 1);
            (from, to) = (from - piece, to - piece);
            let (source, target) = (from / BLOCK_ENTRIES, to / BLOCK_ENTRIES);
            let (at, onto) = (from % BLOCK_ENTRIES, to % BLOCK_ENTRIES);
            let (low, high) = self.blocks.split_at_mut(target);
            let Some(Some(target_block)) = high.first_mut() else {
                return;
            };
            let target_block = blocks.get_mut(target_block);
            if source == target {
                target_block.slices.copy_within(at..at + piece, onto);
                target_block.rests.copy_within(at..at + piece, onto);
            } else if let Some(Some(source_block)) = low.get(source) {
                let source_block = blocks.get(source_block);
                target_block.slices[onto..onto + piece]
                    .copy_from_slice(&source_block.slices[at..at + piece]);
                target_block.rests[onto..onto + piece]
                    .copy_from_slice(&source_block.rests[at..at + piece]);
            }
        }
    }

    fn mostly_tied(&self, blocks: &Blocks) -> bool {
        let slices: Vec<u16> = self
            .stored(blocks)
            .iter()
            .map(|stored| stored.slice)
            .collect();
        mostly_tied(slices)
    }

    /// Entries that share a tie group with another.
    pub(crate) fn tied(&self, blocks: &Blocks) -> usize {
        let slices = self
            .stored(blocks)
            .iter()
            .map(|stored| stored.slice)
            .collect();
        in_groups(slices, 2)
    }
}

const NO_FIRSTS: [u16; FIRSTS] = {
    let mut firsts = [u16::MAX; FIRSTS];
    firsts[0] = 0;
    firsts
};

fn tail_sorted(block: &Block) -> [Stored; BLOCK_ENTRIES] {
    let mut order: [u32; BLOCK_ENTRIES] =
        std::array::from_fn(|at| u32::from(block.slices[at]) << 8 | at as u32);
    order.sort_unstable();
    order.map(|word| {
        let at = (word & 0xff) as usize;
        Stored {
            slice: block.slices[at],
            rest: block.rests[at],
        }
    })
}

/// Gives the entry in `slot` another slice and moves it to where that keeps the block sorted.
fn move_within(block: &mut Block, slot: usize, slice: u16) {
    let below = block
        .slices
        .iter()
        .enumerate()
        .filter(|(at, other)| *at != slot && **other < slice)
        .count();
    let (low, high) = (slot.min(below), slot.max(below) + 1);
    if below > slot {
        block.slices[low..high].rotate_left(1);
        block.rests[low..high].rotate_left(1);
    } else {
        block.slices[low..high].rotate_right(1);
        block.rests[low..high].rotate_right(1);
    }
    block.slices[below] = slice;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Leaves of uniform keys differ in their windows' bases, and so in when they are split.
    #[test]
    fn leaves_are_not_all_split_at_one_size() {
        let mut leaf = Leaf::new();
        let mut sizes = [0; FULL_MAX + 1];
        for place in 0..1000u64 {
            leaf.window.base = place << 40;
            sizes[leaf.full_max()] += 1;
        }
        assert!(
            sizes[FULL_MIN..].iter().all(|count| *count > 60),
            "{sizes:?}"
        );
        assert_eq!(sizes[..FULL_MIN].iter().sum::<u32>(), 0);
    }
}
