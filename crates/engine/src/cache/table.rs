//! The hash table of one cache shard: identity of a record -> address in the arena.
//!
//! Linear hashing over buckets of eight 32-bit entries, two candidate buckets per record. It grows
//! and shrinks one bucket at a time, so no call ever pays for a whole rehash, and memory is taken
//! in pages of 128 buckets. An entry is a 6-bit tag and a 26-bit [`Address`]; the tag only saves
//! looking at other records, who owns an address is asked of the record itself.
//!
//! A page also carries its share of the ghost list: 16-bit fingerprints of records lately dropped
//! unread. A wrong fingerprint costs one record a better place than it earned, nothing else.
//!
//! No threads: the shard's lock guards it.

use super::arena::Address;

/// Entries of a bucket: half a cache line.
const WAYS: usize = 8;
/// Buckets of a page.
const PAGE_BUCKETS: usize = 128;
/// Ghost groups of a page; with the load limits below, one ghost for each two records.
const PAGE_GHOST_GROUPS: usize = 50;
/// Above this load (records of 1000 places) a bucket is split.
const SPLIT_LOAD_PERMILLE: u64 = 820;
/// Below this load the last bucket is merged away.
const MERGE_LOAD_PERMILLE: u64 = 780;
/// Longest chain of entries moved to make place for one; each step reads up to eight headers.
const DISPLACED_MAX: u32 = 2;
/// What the allocator adds to an aligned page, and the page's place in the list of pages.
const PAGE_EXTRA_BYTES: u64 = 48 + 16;
/// Bytes that one more page takes.
pub(super) const PAGE_COST_BYTES: u64 = size_of::<Page>() as u64 + PAGE_EXTRA_BYTES;

/// The hash of a record's identity, cut into the parts that the cache uses.
#[derive(Clone, Copy, Debug)]
pub(super) struct RecordHash {
    first: u32,
    second: u32,
    tag: u32,
    ghost: u16,
    shard: u16,
}

impl RecordHash {
    /// Spreads 64 bits that name a record.
    pub(super) fn of(identity: u64) -> RecordHash {
        let mut x = identity.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        x = (x ^ (x >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
        x ^= x >> 32;
        let y = x.wrapping_mul(0xa076_1d64_78bd_642f);
        RecordHash {
            first: x as u32,
            second: (y >> 32) as u32,
            tag: (x >> 58) as u32,
            ghost: (x >> 42) as u16 | 1,
            shard: (x >> 32) as u16 & 0x3ff,
        }
    }

    /// Ten bits to choose a shard by.
    pub(super) fn shard_bits(self) -> usize {
        self.shard.into()
    }

    fn entry(self, address: Address) -> u32 {
        self.tag << Address::BITS | address.bits()
    }
}

#[derive(Clone, Copy)]
#[repr(align(32))]
struct Bucket([u32; WAYS]);

struct Page {
    buckets: [Bucket; PAGE_BUCKETS],
    ghosts: [[u16; 8]; PAGE_GHOST_GROUPS],
}

/// See the module's head.
pub(super) struct Table {
    pages: Vec<Box<Page>>,
    buckets: usize,
    entries: usize,
}

impl Table {
    /// An empty table; takes no memory until the first page.
    pub(super) fn new() -> Table {
        Table {
            pages: Vec::new(),
            buckets: 0,
            entries: 0,
        }
    }

    /// How many records it knows.
    pub(super) fn len(&self) -> usize {
        self.entries
    }

    /// Bytes that the table holds.
    pub(super) fn memory_bytes(&self) -> u64 {
        self.pages.len() as u64 * PAGE_COST_BYTES
    }

    /// The address among the record's candidates that `is_it` accepts.
    #[inline]
    pub(super) fn find(
        &self,
        hash: RecordHash,
        mut is_it: impl FnMut(Address) -> bool,
    ) -> Option<Address> {
        // Both buckets at once: two misses of the processor's caches overlap.
        let first = self.bucket(self.bucket_of(hash.first))?;
        let second = self.bucket(self.bucket_of(hash.second))?;
        let mut hits = matching_ways(first, hash.tag) | matching_ways(second, hash.tag) << WAYS;
        while hits != 0 {
            let way = hits.trailing_zeros() as usize;
            hits &= hits - 1;
            let ways = if way < WAYS { first } else { second };
            let address = Address::from_bits(ways[way % WAYS]);
            if is_it(address) {
                return Some(address);
            }
        }
        None
    }

    /// Whether `address` is still what the table knows under this hash.
    pub(super) fn holds(&self, hash: RecordHash, address: Address) -> bool {
        let entry = hash.entry(address);
        [hash.first, hash.second].into_iter().any(|choice| {
            self.bucket(self.bucket_of(choice))
                .is_some_and(|ways| ways.contains(&entry))
        })
    }

    /// Lets the record at `old` be found at `new`; false if `old` was not known.
    pub(super) fn relocate(&mut self, hash: RecordHash, old: Address, new: Address) -> bool {
        self.exchange(hash, hash.entry(old), hash.entry(new))
    }

    /// Forgets the record at `address`; false if it was not known.
    pub(super) fn forget(&mut self, hash: RecordHash, address: Address) -> bool {
        let known = self.exchange(hash, hash.entry(address), 0);
        self.entries -= usize::from(known);
        known
    }

    /// Adds a record that the table does not know. False if another record was forgotten for it.
    pub(super) fn add(
        &mut self,
        hash: RecordHash,
        address: Address,
        hash_of: impl Fn(Address) -> RecordHash,
    ) -> bool {
        let entry = hash.entry(address);
        if self.place(hash, entry, &hash_of) {
            self.entries += 1;
            return true;
        }
        let way = usize::from(hash.ghost >> 1) % WAYS;
        let index = self.bucket_of(hash.first);
        if let Some(ways) = self.bucket_mut(index) {
            ways[way] = entry;
        }
        false
    }

    /// True when another record would load the table beyond its limit.
    pub(super) fn wants_split(&self) -> bool {
        (self.entries as u64 + 1) * 1000 > (self.buckets * WAYS) as u64 * SPLIT_LOAD_PERMILLE
    }

    /// True when the next split needs one more page of memory.
    pub(super) fn split_takes_page(&self) -> bool {
        self.buckets.is_multiple_of(PAGE_BUCKETS)
    }

    /// True when the table could do with fewer buckets.
    pub(super) fn wants_merge(&self) -> bool {
        self.buckets > PAGE_BUCKETS
            && (self.entries as u64) * 1000 < (self.buckets * WAYS) as u64 * MERGE_LOAD_PERMILLE
    }

    /// Adds one bucket (the first time, a page of them). Returns how many records were forgotten
    /// for want of a place.
    pub(super) fn split(&mut self, hash_of: impl Fn(Address) -> RecordHash) -> usize {
        if self.split_takes_page() {
            if self.pages.len() == self.pages.capacity() {
                self.pages.reserve_exact((self.pages.len() / 4).max(4));
            }
            self.pages.push(Box::new(Page {
                buckets: [Bucket([0; WAYS]); PAGE_BUCKETS],
                ghosts: [[0; 8]; PAGE_GHOST_GROUPS],
            }));
        }
        if self.buckets == 0 {
            self.buckets = PAGE_BUCKETS;
            return 0;
        }
        let round =
            self.buckets.next_power_of_two() >> usize::from(!self.buckets.is_power_of_two());
        let moved = self.take_bucket(self.buckets - round);
        self.buckets += 1;
        self.put_back(moved, hash_of)
    }

    /// Removes the last bucket. Returns how many records were forgotten for want of a place.
    pub(super) fn merge(&mut self, hash_of: impl Fn(Address) -> RecordHash) -> usize {
        if self.buckets <= PAGE_BUCKETS {
            return 0;
        }
        let moved = self.take_bucket(self.buckets - 1);
        self.buckets -= 1;
        if self.buckets.is_multiple_of(PAGE_BUCKETS) {
            self.pages.pop();
            if self.pages.capacity() > 2 * self.pages.len() + 8 {
                self.pages.shrink_to_fit();
            }
        }
        self.put_back(moved, hash_of)
    }

    /// Remembers a record that is dropped.
    pub(super) fn remember_ghost(&mut self, hash: RecordHash) {
        if let Some(group) = self.ghost_group(hash) {
            group.rotate_right(1);
            group[0] = hash.ghost;
        }
    }

    /// True, once, if the record is remembered as dropped.
    pub(super) fn take_ghost(&mut self, hash: RecordHash) -> bool {
        let place = self
            .ghost_group(hash)
            .and_then(|group| group.iter_mut().find(|known| **known == hash.ghost));
        match place {
            Some(known) => {
                *known = 0;
                true
            }
            None => false,
        }
    }

    fn ghost_group(&mut self, hash: RecordHash) -> Option<&mut [u16; 8]> {
        let page = linear_index(hash.second, self.pages.len());
        let group = hash.first as usize % PAGE_GHOST_GROUPS;
        self.pages.get_mut(page)?.ghosts.get_mut(group)
    }

    #[inline]
    fn bucket_of(&self, choice: u32) -> usize {
        linear_index(choice, self.buckets)
    }

    #[inline]
    fn bucket(&self, index: usize) -> Option<&[u32; WAYS]> {
        let page = self.pages.get(index / PAGE_BUCKETS)?;
        Some(&page.buckets[index % PAGE_BUCKETS].0)
    }

    fn bucket_mut(&mut self, index: usize) -> Option<&mut [u32; WAYS]> {
        let page = self.pages.get_mut(index / PAGE_BUCKETS)?;
        Some(&mut page.buckets[index % PAGE_BUCKETS].0)
    }

    fn exchange(&mut self, hash: RecordHash, old: u32, new: u32) -> bool {
        for choice in [hash.first, hash.second] {
            let index = self.bucket_of(choice);
            let place = self
                .bucket_mut(index)
                .and_then(|ways| ways.iter_mut().find(|entry| **entry == old));
            if let Some(place) = place {
                *place = new;
                return true;
            }
        }
        false
    }

    /// Puts an entry into the emptier one of its two buckets; if both are full, moves an entry of
    /// theirs to its other bucket.
    fn place(
        &mut self,
        hash: RecordHash,
        entry: u32,
        hash_of: &impl Fn(Address) -> RecordHash,
    ) -> bool {
        let (first, second) = (self.bucket_of(hash.first), self.bucket_of(hash.second));
        let chosen = if self.free_ways(second) > self.free_ways(first) {
            second
        } else {
            first
        };
        self.put_free(chosen, entry)
            || self.put_displacing(first, entry, hash_of, 1)
            || self.put_displacing(second, entry, hash_of, 1)
            || self.put_displacing(first, entry, hash_of, DISPLACED_MAX)
    }

    fn free_ways(&self, index: usize) -> usize {
        self.bucket(index)
            .map_or(0, |ways| ways.iter().filter(|entry| **entry == 0).count())
    }

    fn put_free(&mut self, index: usize, entry: u32) -> bool {
        let free = self
            .bucket_mut(index)
            .and_then(|ways| ways.iter_mut().find(|known| **known == 0));
        match free {
            Some(place) => {
                *place = entry;
                true
            }
            None => false,
        }
    }

    /// Moves an entry of a full bucket to its other bucket, where it may displace in turn.
    fn put_displacing(
        &mut self,
        index: usize,
        entry: u32,
        hash_of: &impl Fn(Address) -> RecordHash,
        displaced_max: u32,
    ) -> bool {
        let Some(ways) = self.bucket(index).copied() else {
            return false;
        };
        for (way, moved) in ways.into_iter().enumerate() {
            let hash = hash_of(Address::from_bits(moved));
            let (first, second) = (self.bucket_of(hash.first), self.bucket_of(hash.second));
            let other = if first == index { second } else { first };
            if self.put_free(other, moved)
                || displaced_max > 1
                    && self.put_displacing(other, moved, hash_of, displaced_max - 1)
            {
                if let Some(ways) = self.bucket_mut(index) {
                    ways[way] = entry;
                }
                return true;
            }
        }
        false
    }

    fn take_bucket(&mut self, index: usize) -> [u32; WAYS] {
        self.bucket_mut(index)
            .map_or([0; WAYS], |ways| std::mem::replace(ways, [0; WAYS]))
    }

    fn put_back(&mut self, moved: [u32; WAYS], hash_of: impl Fn(Address) -> RecordHash) -> usize {
        let mut forgotten = 0;
        for entry in moved.into_iter().filter(|entry| *entry != 0) {
            if !self.place(hash_of(Address::from_bits(entry)), entry, &hash_of) {
                forgotten += 1;
            }
        }
        self.entries -= forgotten;
        forgotten
    }
}

/// Where linear hashing over `len` places (any number) puts a hash.
#[inline]
fn linear_index(hash: u32, len: usize) -> usize {
    let mask = len.next_power_of_two().wrapping_sub(1);
    let index = hash as usize & mask;
    if index < len {
        index
    } else {
        index & (mask >> 1)
    }
}

/// A bit for each way that is in use and has the tag.
#[inline]
fn matching_ways(ways: &[u32; WAYS], tag: u32) -> u32 {
    let mut hits = 0;
    for (way, entry) in ways.iter().enumerate() {
        hits |= u32::from(entry >> Address::BITS == tag && *entry != 0) << way;
    }
    hits
}

#[cfg(test)]
impl Table {
    /// What the table's collections say that they hold.
    pub(super) fn counted_bytes(&self) -> u64 {
        let pages = self.pages.len() * size_of::<Page>();
        (pages + self.pages.capacity() * size_of::<Box<Page>>()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash_of(address: Address) -> RecordHash {
        RecordHash::of(u64::from(address.bits()))
    }

    fn knows(table: &Table, name: u32) -> bool {
        let address = Address::from_bits(name);
        table.find(hash_of(address), |found| found == address) == Some(address)
    }

    /// Adds a name; how many names were forgotten for it.
    fn add(table: &mut Table, name: u32) -> usize {
        let mut forgotten = 0;
        while table.wants_split() {
            forgotten += table.split(hash_of);
        }
        let address = Address::from_bits(name);
        forgotten + usize::from(!table.add(hash_of(address), address, hash_of))
    }

    #[test]
    fn hardly_a_record_is_forgotten_while_the_table_grows_turns_over_and_shrinks() {
        let mut table = Table::new();
        let mut forgotten = 0;
        for live in [3_000, 9_000, 20_000, 40_000] {
            let before = forgotten;
            for name in 1..=live * 4 {
                forgotten += add(&mut table, name);
                if name > live {
                    let oldest = Address::from_bits(name - live);
                    table.forget(hash_of(oldest), oldest);
                }
            }
            println!("{live}: {}", forgotten - before);
            let known = (live * 3 + 1..=live * 4)
                .filter(|name| knows(&table, *name))
                .count();
            assert_eq!(known, table.len());
            for name in live * 3 + 1..=live * 4 {
                let address = Address::from_bits(name);
                assert_eq!(table.holds(hash_of(address), address), knows(&table, name));
                table.forget(hash_of(address), address);
                while table.wants_merge() {
                    forgotten += table.merge(hash_of);
                }
            }
            assert_eq!((table.len(), table.pages.len()), (0, 1));
        }
        assert!(forgotten < 30, "{forgotten} of 288,000");
    }

    #[test]
    fn a_ghost_is_known_once() {
        let mut table = Table::new();
        table.split(hash_of);
        let hash = RecordHash::of(7);
        assert!(!table.take_ghost(hash));
        table.remember_ghost(hash);
        assert!(table.take_ghost(hash));
        assert!(!table.take_ghost(hash));
    }

    #[test]
    fn every_length_is_indexed_within_bounds_and_a_split_moves_only_one_bucket() {
        for len in 1..70usize {
            for hash in (0..5000u32).map(|at| at.wrapping_mul(0x9e37_79b9)) {
                let (now, next) = (linear_index(hash, len), linear_index(hash, len + 1));
                assert!(now < len);
                assert!(next == now || next == len);
            }
        }
    }
}
