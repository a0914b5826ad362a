//! The operations of the index: lookups, the one write primitive, splits.
//!
//! Locks, in order: the tree's shape (shared for all but splits), then one leaf. `decide` runs
//! under both, so whatever it locks comes after them and it must not call the index. Keys are read
//! with neither held; a split plans anew after reading, under the exclusive lock, so nothing that
//! changed meanwhile can be missed.

use std::collections::{BTreeSet, HashSet};

use heliox_format::ids::{KeyspaceId, Location};
use heliox_sync::atomic::{AtomicU64, Ordering};
use smallvec::SmallVec;

use crate::api::{
    Action, Entry, IndexOptions, IndexStats, KeyRead, KeySource, Matches, FINGERPRINT_BITS_MAX,
};
use crate::blocks::{Blocks, BLOCK_BYTES};
use crate::error::IndexError;
use crate::key::{KeyView, PreparedKey};
use crate::leaf::{entry_of, fingerprint_of, is_live, rest_of, Found, Leaf, Room, Stored};
use crate::plan::{plan, Content, Keys, Plan};
use crate::slice::{self, NO_WINDOW};
use crate::sync::ShardedLock;
use crate::tree::{LeafCell, Probe, Tree};

/// Keys whose cache misses are overlapped in `lookup_many`.
const LOOKUP_BATCH: usize = 16;
/// Splits are tried this often before the index is declared inconsistent: each try that fails has
/// read keys or lost to another thread.
const TRIES_MAX: usize = 10_000;
/// Blocks that a split of slices may need beyond those that the leaf has.
const SPLIT_BLOCKS: usize = 3;

/// The sorted index. See the head of the crate.
pub struct Index {
    pub(crate) tree: ShardedLock<Tree>,
    pub(crate) blocks: Blocks,
    pub(crate) options: IndexOptions,
    limit_bytes: AtomicU64,
    tree_bytes: AtomicU64,
    /// Full keys and prefixes of leaves.
    extra_bytes: AtomicU64,
    splits: AtomicU64,
    key_reads: AtomicU64,
}

/// What a split came to.
enum Step {
    Done,
    Read(Vec<Wanted>),
}

/// An entry whose key a split needs.
struct Wanted {
    location: Location,
    fingerprint: u32,
}

impl Index {
    /// An empty index.
    ///
    /// # Errors
    /// `Internal` if the options ask for a fingerprint wider than there is room for.
    pub fn new(options: IndexOptions) -> Result<Index, IndexError> {
        if options.fingerprint_bits > FINGERPRINT_BITS_MAX {
            return Err(IndexError::Internal(
                "an entry has room for a fingerprint of 31 bits",
            ));
        }
        Ok(Index::of_parts(options, Tree::new(), Blocks::new()))
    }

    pub(crate) fn of_parts(options: IndexOptions, tree: Tree, blocks: Blocks) -> Index {
        let mut extra = 0;
        tree.for_each(&mut |cell| extra += cell.lock().extra_bytes());
        Index {
            tree_bytes: AtomicU64::new(tree.bytes()),
            tree: ShardedLock::new(tree),
            blocks,
            options,
            limit_bytes: AtomicU64::new(options.limit_bytes),
            extra_bytes: AtomicU64::new(extra),
            splits: AtomicU64::new(0),
            key_reads: AtomicU64::new(0),
        }
    }

    /// Makes a key ready with this index's own seed.
    #[must_use]
    pub fn prepare<'k>(&self, keyspace: KeyspaceId, key: &'k [u8]) -> PreparedKey<'k> {
        PreparedKey::new(self.options.seed, keyspace, key)
    }

    #[inline]
    fn fingerprint(&self, key: &PreparedKey<'_>) -> u32 {
        key.fingerprint(self.options.fingerprint_bits)
    }

    /// All entries whose known bits agree with the key and whose fingerprint is equal; normally
    /// none or one. Costs about two cache misses.
    #[must_use]
    pub fn lookup(&self, key: &PreparedKey<'_>) -> Matches {
        let tree = self.tree.shared();
        let cell = tree.leaf(Probe::At(key.view()));
        cell.prefetch();
        let leaf = cell.lock();
        self.matches(&leaf, key)
    }

    fn matches(&self, leaf: &Leaf, key: &PreparedKey<'_>) -> Matches {
        if let Some(keyed) = &leaf.keyed {
            return Matches(keyed.find(key.view()));
        }
        let found = self.find(leaf, key);
        Matches(found.iter().map(|(_, entry)| *entry).collect())
    }

    #[inline]
    fn find(&self, leaf: &Leaf, key: &PreparedKey<'_>) -> Found {
        let slice = slice::known(leaf.window.cell(key.code()));
        leaf.prefetch(&self.blocks, slice);
        leaf.find(&self.blocks, slice, self.fingerprint(key))
    }

    /// `lookup` for several keys; `out` gets one answer for each, in order. Cache misses of up to
    /// 16 keys overlap, which makes it several times faster than one by one.
    pub fn lookup_many(&self, keys: &[PreparedKey<'_>], out: &mut Vec<Matches>) {
        out.clear();
        out.reserve(keys.len());
        for batch in keys.chunks(LOOKUP_BATCH) {
            let tree = self.tree.shared();
            let cells = self.ask_for(&tree, batch);
            for (cell, key) in cells.iter().zip(batch) {
                let leaf = cell.lock();
                out.push(match &leaf.keyed {
                    Some(keyed) => Matches(keyed.find(key.view())),
                    None => {
                        let slice = slice::known(leaf.window.cell(key.code()));
                        let found = leaf.find(&self.blocks, slice, self.fingerprint(key));
                        Matches(found.iter().map(|(_, entry)| *entry).collect())
                    }
                });
            }
        }
    }

    /// Asks for the memory that writes of these keys will touch, so that its misses overlap: called
    /// for some 16 keys at a time, just before they are written. Only a hint.
    pub fn expect_updates(&self, keys: &[PreparedKey<'_>]) {
        let tree = self.tree.shared();
        for cell in self.ask_for(&tree, keys) {
            cell.lock().prefetch_insert(&self.blocks);
        }
    }

    /// Finds the leaves of some keys and asks for the cache lines that a search in them touches.
    fn ask_for<'t>(
        &self,
        tree: &'t Tree,
        keys: &[PreparedKey<'_>],
    ) -> SmallVec<[&'t LeafCell; LOOKUP_BATCH]> {
        let mut cells = SmallVec::<[&LeafCell; LOOKUP_BATCH]>::new();
        for key in keys {
            let cell = tree.leaf(Probe::At(key.view()));
            cell.prefetch();
            cells.push(cell);
        }
        for (cell, key) in cells.iter().zip(keys) {
            let leaf = cell.lock();
            leaf.prefetch(&self.blocks, slice::known(leaf.window.cell(key.code())));
        }
        cells
    }

    /// How many records a seek to this key would have to look at: the entries that may stand at
    /// its place. For measurements.
    #[must_use]
    pub fn seek_candidates(&self, key: &PreparedKey<'_>) -> usize {
        let tree = self.tree.shared();
        let leaf = tree.leaf(Probe::At(key.view())).lock();
        match &leaf.keyed {
            Some(keyed) => keyed.find(key.view()).len(),
            None => leaf.candidates(&self.blocks, slice::known(leaf.window.cell(key.code()))),
        }
    }

    /// The one write primitive: finds the key's entries, lets `decide` choose what to do, does it.
    ///
    /// Room for one more entry is made first; splits may read keys through `source`, with no lock
    /// held. Then `decide` runs exactly once, under the leaf's lock. It must not call the index.
    ///
    /// # Errors
    /// `OverBudget` if room would take more memory than the limit and the key has no match (a key
    /// that has one may exceed the limit a little, so that deletes go on), and `Source` if a key
    /// could not be read: `decide` was not called. `Internal` if the action names an entry that is
    /// not among the matches, or a location of none: nothing was changed.
    pub fn update<R>(
        &self,
        key: &PreparedKey<'_>,
        source: &dyn KeySource,
        decide: impl FnOnce(&[Entry]) -> (Action, R),
    ) -> Result<R, IndexError> {
        for _ in 0..TRIES_MAX {
            {
                let tree = self.tree.shared();
                let cell = tree.leaf(Probe::At(key.view()));
                cell.prefetch();
                let mut leaf = cell.lock();
                let room = leaf.room();
                if room == Room::Block {
                    self.check_budget(&leaf, key, BLOCK_BYTES)?;
                    leaf.add_block(&self.blocks)
                        .map_err(|_| self.over_budget(BLOCK_BYTES))?;
                }
                if leaf.room() == Room::Ready || self.may_overwrite(&leaf, key) {
                    return self.change(&mut leaf, key, decide);
                }
            }
            self.split(key, source)?;
        }
        Err(IndexError::Internal("a leaf found no room"))
    }

    /// Whether the write is most likely an overwrite, for which no room is needed.
    fn may_overwrite(&self, leaf: &Leaf, key: &PreparedKey<'_>) -> bool {
        leaf.has_spare() && !self.matches(leaf, key).is_empty()
    }

    fn over_budget(&self, more: usize) -> IndexError {
        let needed = self.memory_bytes() + more as u64;
        IndexError::OverBudget {
            needed,
            limit: self.limit_bytes.load(Ordering::Relaxed),
        }
    }

    fn check_budget(
        &self,
        leaf: &Leaf,
        key: &PreparedKey<'_>,
        more: usize,
    ) -> Result<(), IndexError> {
        let limit = self.limit_bytes.load(Ordering::Relaxed);
        if limit == u64::MAX || self.memory_bytes() + more as u64 <= limit {
            return Ok(());
        }
        if self.blocks.free_count() as usize * BLOCK_BYTES >= more
            || !self.matches(leaf, key).is_empty()
        {
            return Ok(());
        }
        Err(self.over_budget(more))
    }

    /// Lets `decide` choose and does what it chose; the leaf has room.
    fn change<R>(
        &self,
        leaf: &mut Leaf,
        key: &PreparedKey<'_>,
        decide: impl FnOnce(&[Entry]) -> (Action, R),
    ) -> Result<R, IndexError> {
        if leaf.keyed.is_some() {
            return self.change_keyed(leaf, key, decide);
        }
        if leaf.len() == 0 {
            let before = leaf.extra_bytes();
            leaf.open_window(key.code());
            self.note_extra(before, leaf.extra_bytes());
        }
        leaf.prefetch_insert(&self.blocks);
        let found = self.find(leaf, key);
        let matches: SmallVec<[Entry; 2]> = found.iter().map(|(_, entry)| *entry).collect();
        let (action, answer) = decide(&matches);
        let stored = |entry| Stored {
            slice: slice::known(leaf.window.cell(key.code())),
            rest: rest_of(self.fingerprint(key), entry),
        };
        check_new(action)?;
        match action {
            Action::Keep => {}
            Action::Insert(entry) => {
                let stored = stored(entry);
                if !leaf.insert(&self.blocks, stored) {
                    return Err(IndexError::Internal("a leaf lost its room"));
                }
            }
            Action::Replace { old, new } => {
                let stored = stored(new);
                leaf.replace(&self.blocks, position(&found, old)?, stored);
            }
            Action::Remove { old } => leaf.remove(&self.blocks, position(&found, old)?),
        }
        Ok(answer)
    }

    fn change_keyed<R>(
        &self,
        leaf: &mut Leaf,
        key: &PreparedKey<'_>,
        decide: impl FnOnce(&[Entry]) -> (Action, R),
    ) -> Result<R, IndexError> {
        let before = leaf.extra_bytes();
        let Some(keyed) = &mut leaf.keyed else {
            return Err(IndexError::Internal("a leaf changed its format"));
        };
        let matches = keyed.find(key.view());
        if matches.is_empty() {
            // A new key needs its own bytes; the budget is checked before the decision.
            let limit = self.limit_bytes.load(Ordering::Relaxed);
            let more = key.key().len() + 64;
            if limit != u64::MAX && self.memory_bytes() + more as u64 > limit {
                return Err(self.over_budget(more));
            }
        }
        let (action, answer) = decide(&matches);
        check_new(action)?;
        if !keyed.apply(&key.internal(), action) {
            return Err(IndexError::Internal("no match holds this location"));
        }
        if keyed.len() == 0 {
            leaf.keyed = None;
            leaf.window = NO_WINDOW;
        }
        self.note_extra(before, leaf.extra_bytes());
        Ok(answer)
    }

    /// Two's complement: the sum over leaves is exact whatever the order of the changes.
    fn note_extra(&self, before: u64, after: u64) {
        if before != after {
            self.extra_bytes
                .fetch_add(after.wrapping_sub(before), Ordering::Relaxed);
        }
    }

    /// Tells the entry that holds `location`, if it still does, its place by its now known key.
    /// Costs a lookup; later searches and scans meet fewer ties.
    pub fn learn(&self, key: &PreparedKey<'_>, location: Location) {
        let tree = self.tree.shared();
        let mut leaf = tree.leaf(Probe::At(key.view())).lock();
        if leaf.keyed.is_some() || leaf.len() == 0 {
            return;
        }
        let found = self.find(&leaf, key);
        if let Some(&(position, entry)) = found.iter().find(|(_, entry)| entry.location == location)
        {
            let slice = slice::known(leaf.window.cell(key.code()));
            let rest = rest_of(self.fingerprint(key), entry);
            leaf.replace(&self.blocks, position, Stored { slice, rest });
        }
    }

    /// Makes room where the leaf of `key` has none: plans, reads what the plan lacks, plans again.
    fn split(&self, key: &PreparedKey<'_>, source: &dyn KeySource) -> Result<(), IndexError> {
        let (mut keys, mut lost) = (Keys::new(), HashSet::new());
        for _ in 0..TRIES_MAX {
            let missing = match self.try_split(key, &keys, &lost)? {
                Step::Done => return Ok(()),
                Step::Read(missing) => missing,
            };
            self.key_reads
                .fetch_add(missing.len() as u64, Ordering::Relaxed);
            let locations: Vec<Location> = missing.iter().map(|wanted| wanted.location).collect();
            source.read_keys(&locations, &mut |number, read, key| {
                let Some(wanted) = missing.get(number) else {
                    return;
                };
                // A location may hold another record by now; its key must not pass for the entry's.
                if read == KeyRead::Found && self.is_of(key, wanted.fingerprint) {
                    keys.insert(wanted.location, key.to_vec());
                } else if read == KeyRead::Lost || source.is_stale_for_good() {
                    source.give_up(wanted.location);
                    lost.insert(wanted.location);
                }
            })?;
        }
        Err(IndexError::Internal("the keys of a leaf could not be read"))
    }

    fn is_of(&self, internal: &[u8], fingerprint: u32) -> bool {
        let prepared = PreparedKey::from_internal(self.options.seed, internal);
        prepared.is_some_and(|key| self.fingerprint(&key) == fingerprint)
    }

    /// Drops the entries whose keys can never be known.
    fn drop_lost(&self, leaf: &mut Leaf, lost: &HashSet<Location>) {
        if lost.is_empty() || leaf.keyed.is_some() {
            return;
        }
        let mut stored = leaf.stored(&self.blocks);
        let before = stored.len();
        stored.retain(|stored| !lost.contains(&entry_of(&stored.rest).location));
        if stored.len() < before {
            // Fewer entries never need more blocks.
            leaf.fill(&self.blocks, stored);
        }
    }

    fn try_split(
        &self,
        key: &PreparedKey<'_>,
        keys: &Keys,
        lost: &HashSet<Location>,
    ) -> Result<Step, IndexError> {
        let mut tree = self.tree.exclusive();
        let probe = Probe::At(key.view());
        let (cell, fences) = tree.leaf_between(probe);
        let (planned, held) = {
            let mut leaf = cell.lock();
            self.drop_lost(&mut leaf, lost);
            if leaf.room() != Room::Split {
                return Ok(Step::Done);
            }
            self.check_budget(&leaf, key, SPLIT_BLOCKS * BLOCK_BYTES)?;
            let planned = plan(&leaf, &self.blocks, &fences, &self.options, key, keys);
            (planned, leaf.block_count())
        };
        if let Plan::Read(missing) = planned {
            let leaf = tree.leaf(probe).lock();
            return Ok(Step::Read(self.wanted(&leaf, &missing)));
        }
        // A leaf of full keys has no blocks, but gives back more bytes than its slices take, or
        // about as many: the limit was checked for what a split of slices may need.
        let more = planned.blocks().saturating_sub(held).max(SPLIT_BLOCKS);
        let reserved = self.blocks.reserve(more);
        reserved.map_err(|_| self.over_budget(more * BLOCK_BYTES))?;
        self.install(&mut tree, probe, planned)?;
        self.splits.fetch_add(1, Ordering::Relaxed);
        self.tree_bytes.store(tree.bytes(), Ordering::Relaxed);
        Ok(Step::Done)
    }

    /// The entries at these locations, with what tells their keys from others.
    fn wanted(&self, leaf: &Leaf, missing: &[Location]) -> Vec<Wanted> {
        let missing: BTreeSet<&Location> = missing.iter().collect();
        let wanted = leaf.stored(&self.blocks).into_iter().map(|stored| Wanted {
            location: entry_of(&stored.rest).location,
            fingerprint: fingerprint_of(&stored.rest),
        });
        wanted
            .filter(|wanted| missing.contains(&wanted.location))
            .collect()
    }

    fn install(&self, tree: &mut Tree, probe: Probe<'_>, plan: Plan) -> Result<(), IndexError> {
        let leaf = tree.leaf_mut(probe);
        let before = leaf.extra_bytes();
        let mut new = Leaf::new();
        let (ok, separator) = match plan {
            Plan::Read(_) => (true, None),
            Plan::Recut(content) => (self.set(leaf, content), None),
            Plan::Split {
                separator,
                left,
                right,
            } => {
                // The left part gives back the blocks that the right part takes.
                let ok = self.set(leaf, left) && self.set(&mut new, right);
                (ok, Some(separator))
            }
            Plan::Append {
                separator,
                left,
                window,
            } => {
                new.window = window;
                (
                    left.is_none_or(|left| self.set(leaf, left)),
                    Some(separator),
                )
            }
            Plan::Prepend { separator, window } => {
                std::mem::swap(leaf, &mut new);
                leaf.window = window;
                (true, Some(separator))
            }
        };
        self.note_extra(before, leaf.extra_bytes() + new.extra_bytes());
        if let Some(separator) = separator {
            tree.insert(separator, new);
        }
        let lost = IndexError::Internal("a split ran out of the blocks it had reserved");
        if ok {
            Ok(())
        } else {
            Err(lost)
        }
    }

    fn set(&self, leaf: &mut Leaf, content: Content) -> bool {
        match content {
            Content::Slices(window, stored) => {
                leaf.window = window;
                leaf.keyed = None;
                leaf.fill(&self.blocks, stored)
            }
            Content::Keys(keyed) => {
                leaf.clear(&self.blocks);
                leaf.window = NO_WINDOW;
                leaf.keyed = Some(Box::new(keyed));
                true
            }
        }
    }

    /// Visits all entries, leaf by leaf under the leaf's lock; `f` must not call the index.
    pub fn for_each_entry(&self, f: &mut dyn FnMut(Entry)) {
        self.for_each_leaf(&mut |leaf| match &leaf.keyed {
            Some(keyed) => keyed.visit(|_, entry| f(entry)),
            None => {
                for (block, len) in leaf.blocks(&self.blocks) {
                    let live = block.rests.iter().take(len).filter(|rest| is_live(rest));
                    live.for_each(|rest| f(entry_of(rest)));
                }
            }
        });
    }

    /// Visits all leaves, letting splits in between them.
    pub(crate) fn for_each_leaf(&self, f: &mut dyn FnMut(&Leaf)) {
        let mut at = Some(Vec::new());
        while let Some(low) = at {
            let tree = self.tree.shared();
            let (cell, fences) = tree.leaf_between(Probe::At(KeyView::from(low.as_slice())));
            f(&cell.lock());
            at = fences.high;
        }
    }

    /// All memory of the index, in bytes: blocks in use or free, headers, inner nodes, separators,
    /// full keys. Cheap.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        self.blocks.used() * BLOCK_BYTES as u64
            + self.blocks.overhead_bytes()
            + self.tree_bytes.load(Ordering::Relaxed)
            + self.extra_bytes.load(Ordering::Relaxed)
            + std::mem::size_of::<Index>() as u64
    }

    /// Entries, those of tombstones included. Visits every leaf, but none of its entries.
    #[must_use]
    pub fn entries(&self) -> u64 {
        let mut entries = 0;
        self.for_each_leaf(&mut |leaf| entries += leaf.len() as u64);
        entries
    }

    /// Records read since the index was made, to split or order its leaves.
    #[must_use]
    pub fn key_reads(&self) -> u64 {
        self.key_reads.load(Ordering::Relaxed)
    }

    /// Sets the limit, in bytes. Growth beyond it is refused from now on; nothing shrinks.
    pub fn set_limit_bytes(&self, limit: u64) {
        self.limit_bytes.store(limit, Ordering::Relaxed);
    }

    /// Counters and sizes. Visits every leaf, and every entry.
    #[must_use]
    pub fn stats(&self) -> IndexStats {
        let mut stats = IndexStats::default();
        self.for_each_leaf(&mut |leaf| {
            stats.entries += leaf.len() as u64;
            stats.leaves += 1;
            stats.keyed_leaves += u64::from(leaf.keyed.is_some());
            stats.blocks += leaf.block_count() as u64;
            stats.tied_entries += leaf.tied(&self.blocks) as u64;
        });
        stats.inner_nodes = self.tree.shared().inners() as u64;
        stats.free_blocks = self.blocks.free_count();
        stats.splits = self.splits.load(Ordering::Relaxed);
        stats.key_reads = self.key_reads();
        stats.memory_bytes = self.memory_bytes();
        stats
    }
}

/// An entry must have a location: one without marks a hole.
fn check_new(action: Action) -> Result<(), IndexError> {
    match action {
        Action::Insert(entry) | Action::Replace { new: entry, .. } if !entry.location.is_some() => {
            Err(IndexError::Internal("an entry needs a location"))
        }
        _ => Ok(()),
    }
}

fn position(found: &Found, old: Location) -> Result<crate::leaf::Position, IndexError> {
    let holder = found.iter().find(|(_, entry)| entry.location == old);
    holder
        .map(|(position, _)| *position)
        .ok_or(IndexError::Internal("no match holds this location"))
}
