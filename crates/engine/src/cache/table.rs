//! The hash table of one cache shard: identity of a record -> address in the arena.
//!
//! Linear hashing over buckets of ten entries, a cache line each, two candidate buckets per record.
//! It grows and shrinks one bucket at a time, so no call ever pays for a whole rehash, and memory
//! is taken in pages of 64 buckets.
//!
//! An entry is a 26-bit [`Address`] and 22 bits of hash: a tag, and of the choice that put it into
//! its bucket what the bucket's number does not tell in the smallest table. From these follow its
//! place in a table of any size and, since the two choices of a record differ by its tag alone, its
//! other bucket: whatever moves entries looks at no record. The bits also save looking at other
//! records; who owns an address is asked of the record itself.
//!
//! A page also carries its share of the ghost list: 16-bit fingerprints of records lately dropped
//! unread. A wrong fingerprint costs one record a better place than it earned, nothing else.
//!
//! No threads: the shard's lock guards it.

use super::arena::Address;
use heliox_index::prefetch;

/// Entries of a bucket.
const WAYS: usize = 10;
/// Buckets of a page.
const PAGE_BUCKETS: usize = 1 << PAGE_BITS;
const PAGE_BITS: u32 = 6;
/// Ghost groups of a page; with the load limits below, one ghost for each two records.
const PAGE_GHOST_GROUPS: usize = 32;
/// Above this load (records of 1000 places) a bucket is split.
const SPLIT_LOAD_PERMILLE: u64 = 780;
/// Below this load the last bucket is merged away.
const MERGE_LOAD_PERMILLE: u64 = 740;
/// Longest chain of entries moved to make place for one.
const DISPLACED_MAX: u32 = 2;
/// Bits of a choice of bucket.
const CHOICE_BITS: u32 = 20;
/// Most buckets: more than addresses reach records of a few bytes.
const BUCKETS_MAX: usize = 1 << CHOICE_BITS;
const TAG_BITS: u32 = 8;
/// What the allocator adds to an aligned page, and the page's place in the list of pages.
const PAGE_EXTRA_BYTES: u64 = 80 + 16;
/// Bytes that one more page takes.
pub(super) const PAGE_COST_BYTES: u64 = size_of::<Page>() as u64 + PAGE_EXTRA_BYTES;

/// The hash of a record's identity, cut into the parts that the cache uses.
#[derive(Clone, Copy, Debug)]
pub(super) struct RecordHash {
    choice: u32,
    tag: u32,
    ghost_place: u32,
    ghost: u16,
    shard: u16,
}

impl RecordHash {
    /// Spreads 64 bits that name a record.
    pub(super) fn of(identity: u64) -> RecordHash {
        let mut x = identity.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        x = (x ^ (x >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
        x ^= x >> 32;
        RecordHash {
            choice: x as u32 & ((1 << CHOICE_BITS) - 1),
            tag: (x >> 20) as u32 & ((1 << TAG_BITS) - 1),
            ghost_place: (x.wrapping_mul(0xa076_1d64_78bd_642f) >> 32) as u32,
            ghost: (x >> 42) as u16 | 1,
            shard: (x >> 32) as u16 & 0x3ff,
        }
    }

    /// Ten bits to choose a shard by.
    pub(super) fn shard_bits(self) -> usize {
        self.shard.into()
    }

    /// What an entry of this record says in the bucket of either choice.
    fn marks(self) -> [Mark; 2] {
        let mark = Mark::new(self.choice, self.tag);
        [mark, mark.other()]
    }
}

/// One choice of bucket of a record, with its tag.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Mark {
    choice: u32,
    tag: u32,
}

impl Mark {
    fn new(choice: u32, tag: u32) -> Mark {
        Mark { choice, tag }
    }

    /// The mark in the record's other bucket; of that the other is this one.
    fn other(self) -> Mark {
        let apart = (self.tag + 1).wrapping_mul(0x9e37_79b1) >> (32 - CHOICE_BITS);
        Mark::new(self.choice ^ apart, self.tag)
    }

    /// The bits that do not stand beside the address.
    fn side(self) -> u16 {
        (self.choice >> PAGE_BITS << TAG_BITS | self.tag) as u16
    }

    fn entry(self, address: Address) -> u32 {
        let high = self.choice >> (PAGE_BITS + u16::BITS - TAG_BITS);
        high << Address::BITS | address.bits()
    }

    /// The mark of an entry in the bucket of this number.
    fn of_entry(index: usize, side: u16, entry: u32) -> Mark {
        let low = index as u32 & (PAGE_BUCKETS as u32 - 1);
        let middle = u32::from(side) >> TAG_BITS << PAGE_BITS;
        let high = entry >> Address::BITS << (PAGE_BITS + u16::BITS - TAG_BITS);
        Mark::new(low | middle | high, u32::from(side) & ((1 << TAG_BITS) - 1))
    }
}

const _: () = assert!(CHOICE_BITS - PAGE_BITS + TAG_BITS + Address::BITS == 48);

#[derive(Clone, Copy)]
#[repr(align(64))]
struct Bucket {
    sides: [u16; WAYS],
    /// Zero is free.
    entries: [u32; WAYS],
}

const _: () = assert!(size_of::<Bucket>() == 64);

const EMPTY: Bucket = Bucket {
    sides: [0; WAYS],
    entries: [0; WAYS],
};

impl Bucket {
    fn free_ways(&self) -> usize {
        self.entries.iter().filter(|entry| **entry == 0).count()
    }

    /// Puts an entry into a free way; false if there is none.
    fn put(&mut self, side: u16, entry: u32) -> bool {
        let places = self.entries.iter_mut().zip(&mut self.sides);
        for (place, beside) in places {
            if *place == 0 {
                (*place, *beside) = (entry, side);
                return true;
            }
        }
        false
    }

    /// A bit for each way whose entry may have the mark.
    #[inline]
    fn ways_beside(&self, side: u16) -> u32 {
        let bit = |(way, known): (usize, &u16)| u32::from(*known == side) << way;
        self.sides.iter().enumerate().map(bit).sum()
    }
}

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

    /// Asks the processor for the record's two buckets.
    #[inline]
    pub(super) fn prefetch(&self, hash: RecordHash) {
        for mark in hash.marks() {
            self.bucket(self.bucket_of(mark)).inspect(|b| prefetch(*b));
        }
    }

    /// The address among the record's candidates that `is_it` accepts.
    #[inline]
    pub(super) fn find(
        &self,
        hash: RecordHash,
        mut is_it: impl FnMut(Address) -> bool,
    ) -> Option<Address> {
        let [one, two] = hash.marks();
        // Both buckets at once: two misses of the processor's caches overlap.
        let first = self.bucket(self.bucket_of(one))?;
        let second = self.bucket(self.bucket_of(two))?;
        let mut hits = first.ways_beside(one.side()) | second.ways_beside(two.side()) << WAYS;
        while hits != 0 {
            let way = hits.trailing_zeros() as usize;
            hits &= hits - 1;
            let (bucket, mark) = if way < WAYS {
                (first, one)
            } else {
                (second, two)
            };
            let entry = bucket.entries[way % WAYS];
            let address = Address::from_bits(entry);
            if entry != 0 && entry == mark.entry(address) && is_it(address) {
                return Some(address);
            }
        }
        None
    }

    /// Whether `address` is still what the table knows under this hash.
    pub(super) fn holds(&self, hash: RecordHash, address: Address) -> bool {
        hash.marks().into_iter().any(|mark| {
            self.bucket(self.bucket_of(mark))
                .is_some_and(|bucket| bucket.entries.contains(&mark.entry(address)))
        })
    }

    /// Lets the record at `old` be found at `new`; false if `old` was not known.
    pub(super) fn relocate(&mut self, hash: RecordHash, old: Address, new: Address) -> bool {
        self.exchange(hash, old, |mark| mark.entry(new))
    }

    /// Forgets the record at `address`; false if it was not known.
    pub(super) fn forget(&mut self, hash: RecordHash, address: Address) -> bool {
        let known = self.exchange(hash, address, |_| 0);
        self.entries -= usize::from(known);
        known
    }

    /// The emptier one of the two buckets of a record, for [`Table::add`]. Asked early: the misses
    /// of the processor's caches overlap with what is done between.
    #[inline]
    pub(super) fn emptier(&self, hash: RecordHash) -> Mark {
        let [mark, other] = hash.marks();
        let (first, second) = (self.bucket_of(mark), self.bucket_of(other));
        if self.free_ways(second) > self.free_ways(first) {
            other
        } else {
            mark
        }
    }

    /// Adds a record that the table does not know. False if another record was forgotten for it.
    pub(super) fn add(&mut self, hash: RecordHash, emptier: Mark, address: Address) -> bool {
        let mark = emptier;
        if self.place(mark, address) {
            self.entries += 1;
            return true;
        }
        let way = usize::from(hash.ghost >> 1) % WAYS;
        let index = self.bucket_of(mark);
        if let Some(bucket) = self.bucket_mut(index) {
            bucket.entries[way] = mark.entry(address);
            bucket.sides[way] = mark.side();
        }
        false
    }

    /// True when another record would load the table beyond its limit.
    pub(super) fn wants_split(&self) -> bool {
        self.buckets < BUCKETS_MAX
            && (self.entries as u64 + 1) * 1000 > (self.buckets * WAYS) as u64 * SPLIT_LOAD_PERMILLE
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

    /// Adds one bucket (the first time, a page of them).
    pub(super) fn split(&mut self) {
        if self.split_takes_page() {
            if self.pages.len() == self.pages.capacity() {
                self.pages.reserve_exact((self.pages.len() / 4).max(4));
            }
            self.pages.push(Box::new(Page {
                buckets: [EMPTY; PAGE_BUCKETS],
                ghosts: [[0; 8]; PAGE_GHOST_GROUPS],
            }));
        }
        if self.buckets == 0 {
            self.buckets = PAGE_BUCKETS;
            return;
        }
        let round = self.round();
        let (old, new) = (self.buckets - round, self.buckets);
        self.buckets += 1;
        let Some(bucket) = self.bucket_mut(old) else {
            return;
        };
        let mut moved = EMPTY;
        for way in 0..WAYS {
            let (side, entry) = (bucket.sides[way], bucket.entries[way]);
            if Mark::of_entry(old, side, entry).choice as usize & round != 0 && entry != 0 {
                (moved.sides[way], moved.entries[way]) = (side, entry);
                bucket.entries[way] = 0;
            }
        }
        if let Some(bucket) = self.bucket_mut(new) {
            *bucket = moved;
        }
    }

    /// Removes the last bucket. Returns how many records were forgotten for want of a place.
    pub(super) fn merge(&mut self) -> usize {
        if self.buckets <= PAGE_BUCKETS {
            return 0;
        }
        let last = self.buckets - 1;
        let moved = self.bucket(last).copied().unwrap_or(EMPTY);
        if let Some(bucket) = self.bucket_mut(last) {
            *bucket = EMPTY;
        }
        self.buckets = last;
        if self.buckets.is_multiple_of(PAGE_BUCKETS) {
            self.pages.pop();
            if self.pages.capacity() > 2 * self.pages.len() + 8 {
                self.pages.shrink_to_fit();
            }
        }
        let mut forgotten = 0;
        for (side, entry) in moved.sides.into_iter().zip(moved.entries) {
            let mark = Mark::of_entry(last, side, entry);
            let placed = entry == 0 || self.place(mark, Address::from_bits(entry));
            forgotten += usize::from(!placed);
        }
        self.entries -= forgotten;
        forgotten
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
        let page = linear_index(hash.ghost_place, self.pages.len());
        let group = hash.choice as usize % PAGE_GHOST_GROUPS;
        self.pages.get_mut(page)?.ghosts.get_mut(group)
    }

    /// Buckets when the present round of splits began.
    fn round(&self) -> usize {
        self.buckets.next_power_of_two() >> usize::from(!self.buckets.is_power_of_two())
    }

    /// Whether a bucket was split in this round, or came of a split.
    fn is_split(&self, index: usize) -> bool {
        let round = self.round();
        index >= round || index < self.buckets - round
    }

    #[inline]
    fn bucket_of(&self, mark: Mark) -> usize {
        linear_index(mark.choice, self.buckets)
    }

    #[inline]
    fn bucket(&self, index: usize) -> Option<&Bucket> {
        let page = self.pages.get(index / PAGE_BUCKETS)?;
        Some(&page.buckets[index % PAGE_BUCKETS])
    }

    #[inline]
    fn bucket_mut(&mut self, index: usize) -> Option<&mut Bucket> {
        let page = self.pages.get_mut(index / PAGE_BUCKETS)?;
        Some(&mut page.buckets[index % PAGE_BUCKETS])
    }

    fn exchange(&mut self, hash: RecordHash, old: Address, new: impl Fn(Mark) -> u32) -> bool {
        for mark in hash.marks() {
            let index = self.bucket_of(mark);
            let known = mark.entry(old);
            let place = self
                .bucket_mut(index)
                .and_then(|bucket| bucket.entries.iter_mut().find(|entry| **entry == known));
            if let Some(place) = place {
                *place = new(mark);
                return true;
            }
        }
        false
    }

    /// Puts an entry into one of its two buckets; if both are full, moves an entry of theirs to its
    /// other bucket.
    fn place(&mut self, mark: Mark, address: Address) -> bool {
        let other = mark.other();
        self.put_free(mark, address)
            || self.put_free(other, address)
            || self.put_displacing(mark, address, 1)
            || self.put_displacing(other, address, 1)
            || self.put_displacing(mark, address, DISPLACED_MAX)
    }

    fn free_ways(&self, index: usize) -> usize {
        self.bucket(index).map_or(0, Bucket::free_ways)
    }

    fn put_free(&mut self, mark: Mark, address: Address) -> bool {
        let index = self.bucket_of(mark);
        self.bucket_mut(index)
            .is_some_and(|bucket| bucket.put(mark.side(), mark.entry(address)))
    }

    /// Moves an entry of a full bucket to its other bucket, where it may displace in turn.
    fn put_displacing(&mut self, mark: Mark, address: Address, displaced_max: u32) -> bool {
        let index = self.bucket_of(mark);
        let Some(bucket) = self.bucket(index).copied() else {
            return false;
        };
        // Those that may move to a bucket that was split in this round first: it has room.
        for (half, way) in (0..2 * WAYS).map(|at| (at / WAYS, at % WAYS)) {
            let (side, entry) = (bucket.sides[way], bucket.entries[way]);
            let other = Mark::of_entry(index, side, entry).other();
            let onto = self.bucket_of(other);
            // What moves away and comes back would take the place that it is to leave.
            if onto == index || self.is_split(onto) != (half == 0) {
                continue;
            }
            let moved = Address::from_bits(entry);
            if self.put_free(other, moved)
                || displaced_max > 1 && self.put_displacing(other, moved, displaced_max - 1)
            {
                if let Some(bucket) = self.bucket_mut(index) {
                    bucket.entries[way] = mark.entry(address);
                    bucket.sides[way] = mark.side();
                }
                return true;
            }
        }
        false
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
        while table.wants_split() {
            table.split();
        }
        let address = Address::from_bits(name);
        let hash = hash_of(address);
        let emptier = table.emptier(hash);
        usize::from(!table.add(hash, emptier, address))
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
                    forgotten += table.merge();
                }
            }
            assert_eq!((table.len(), table.pages.len()), (0, 1));
        }
        assert!(forgotten < 30, "{forgotten} of 288,000");
    }

    #[test]
    fn an_entry_tells_its_mark_in_tables_of_any_size() {
        for name in 0..10_000u64 {
            let hash = RecordHash::of(name * 0x1_0001);
            let address = Address::from_bits(name as u32 * 6700);
            for mark in hash.marks() {
                assert_eq!(mark.other().other(), mark);
                for len in [
                    PAGE_BUCKETS,
                    65,
                    128,
                    129,
                    200,
                    1000,
                    5000,
                    BUCKETS_MAX - 1,
                    BUCKETS_MAX,
                ] {
                    let index = linear_index(mark.choice, len);
                    let told = Mark::of_entry(index, mark.side(), mark.entry(address));
                    assert_eq!(told, mark);
                }
            }
        }
    }

    #[test]
    fn a_ghost_is_known_once() {
        let mut table = Table::new();
        table.split();
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
