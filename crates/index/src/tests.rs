//! Property tests: random operations over mixed families of keys, compared with a map, and the
//! invariants of every leaf checked on the way.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Mutex;

use heliox_format::ids::{Location, SeqNo};
use proptest::prelude::*;

use crate::code::Coded;
use crate::key::KeyView;
use crate::leaf::{entry_of, Leaf, Room};
use crate::run::{facing, Run};
use crate::slice;
use crate::tree::Probe;
use crate::*;

mod formats;

const SEED: u64 = 7;

/// Keys by location, as the log of the engine has them.
#[derive(Default)]
struct Records {
    keys: Mutex<Vec<Vec<u8>>>,
    reads: AtomicU64,
}

impl Records {
    fn add(&self, key: &[u8]) -> Location {
        let mut keys = self.keys.lock().unwrap();
        keys.push(key.to_vec());
        Location::from_bits(keys.len() as u64 - 1)
    }

    fn key(&self, location: Location) -> Vec<u8> {
        self.keys.lock().unwrap()[location.bits() as usize].clone()
    }
}

impl KeySource for Records {
    fn read_key(&self, location: Location, out: &mut Vec<u8>) -> Result<KeyRead, SourceError> {
        // Now and then a record is said to have moved.
        if self.reads.fetch_add(1, Ordering::Relaxed) % 17 == 3 {
            return Ok(KeyRead::Stale);
        }
        *out = self.key(location);
        Ok(KeyRead::Found)
    }
}

type Map = BTreeMap<Vec<u8>, Entry>;

/// The index, the records, and what they must amount to.
struct World {
    index: Index,
    records: Records,
    map: Map,
}

fn prepared(internal: &[u8]) -> PreparedKey<'_> {
    PreparedKey::from_internal(SEED, internal).unwrap()
}

impl World {
    fn new(fingerprint_bits: u32) -> World {
        let options = IndexOptions {
            seed: SEED,
            fingerprint_bits,
            limit_bytes: u64::MAX,
        };
        World {
            index: Index::new(options).unwrap(),
            records: Records::default(),
            map: Map::new(),
        }
    }

    fn options(&self) -> IndexOptions {
        self.index.options
    }

    fn own(&self, key: &[u8], matches: &[Entry]) -> Option<Entry> {
        matches
            .iter()
            .copied()
            .find(|entry| self.records.key(entry.location) == key)
    }

    fn put(&mut self, key: &[u8], tombstone: bool) {
        let new = Entry {
            location: self.records.add(key),
            tombstone,
        };
        let done = self.index.update(&prepared(key), &self.records, |matches| {
            match self.own(key, matches) {
                Some(held) => (
                    Action::Replace {
                        old: held.location,
                        new,
                    },
                    Some(held),
                ),
                None => (Action::Insert(new), None),
            }
        });
        assert_eq!(done.unwrap(), self.map.insert(key.to_vec(), new));
    }

    fn remove(&mut self, key: &[u8]) {
        let done = self.index.update(&prepared(key), &self.records, |matches| {
            match self.own(key, matches) {
                Some(held) => (Action::Remove { old: held.location }, Some(held)),
                None => (Action::Keep, None),
            }
        });
        assert_eq!(done.unwrap(), self.map.remove(key));
    }

    fn learn(&self, key: &[u8]) {
        let key = prepared(key);
        if let Some(entry) = self.index.lookup(&key).first() {
            let truth = self.records.key(entry.location);
            self.index.learn(&prepared(&truth), entry.location);
        }
    }

    fn check_lookup(&self, key: &[u8]) {
        let matches = self.index.lookup(&prepared(key));
        assert_eq!(
            self.own(key, &matches),
            self.map.get(key).copied(),
            "{key:?}"
        );
        let mut many = Vec::new();
        self.index
            .lookup_many(&[prepared(key), prepared(key)], &mut many);
        assert_eq!((&*many[0], &*many[1]), (&*matches, &*matches));
    }

    /// Reads everything in one direction the way an engine does.
    fn walk(&self, direction: Direction, limit: usize) -> Vec<(Vec<u8>, Entry)> {
        let mut all: Vec<(Vec<u8>, Entry)> = Vec::new();
        let (mut batch, mut at) = (ScanBatch::default(), None::<Vec<u8>>);
        for _ in 0..1_000_000 {
            let from = match (&at, direction) {
                (Some(key), _) => ScanFrom::At(key),
                (None, Direction::Forward) => ScanFrom::Start,
                (None, Direction::Backward) => ScanFrom::End,
            };
            self.index.scan(from, direction, limit, &mut batch);
            let mut groups: BTreeMap<u32, Vec<(Vec<u8>, Entry)>> = BTreeMap::new();
            for scanned in &batch.entries {
                let key = self.records.key(scanned.entry.location);
                groups
                    .entry(scanned.group)
                    .or_default()
                    .push((key, scanned.entry));
            }
            for (_, mut group) in groups {
                group.sort_by(|a, b| a.0.cmp(&b.0));
                if direction == Direction::Backward {
                    group.reverse();
                }
                let after = |key: &Vec<u8>, before: &Vec<u8>| match direction {
                    Direction::Forward => key > before,
                    Direction::Backward => key < before,
                };
                group.retain(|(key, _)| all.last().is_none_or(|(last, _)| after(key, last)));
                all.extend(group);
            }
            at = match std::mem::take(&mut batch.next) {
                Next::More => all.last().map(|(key, _)| key.clone()),
                Next::Leaf(fence) => Some(fence),
                Next::End => return all,
            };
        }
        panic!("a scan does not end");
    }

    fn check(&self) {
        check_leaves(&self.index, &self.records);
        let all: Vec<_> = self.map.clone().into_iter().collect();
        assert_eq!(self.walk(Direction::Forward, 10), all);
        assert_eq!(self.walk(Direction::Forward, 5000), all);
        let mut back = self.walk(Direction::Backward, 10);
        back.reverse();
        assert_eq!(back, all);
        for (key, entry) in self.map.iter().step_by(29) {
            for direction in [Direction::Forward, Direction::Backward] {
                let mut batch = ScanBatch::default();
                self.index.scan(ScanFrom::At(key), direction, 3, &mut batch);
                let mut entries = batch.entries.iter();
                assert!(entries.any(|scanned| scanned.entry == *entry), "{key:?}");
            }
        }
        let mut entries: Vec<u64> = Vec::new();
        self.index
            .for_each_entry(&mut |entry| entries.push(entry.location.bits()));
        entries.sort_unstable();
        let mut expected: Vec<u64> = self.map.values().map(|e| e.location.bits()).collect();
        expected.sort_unstable();
        assert_eq!(entries, expected);
        assert_eq!(self.index.stats().entries, self.map.len() as u64);
        let all = self.map.len() as u64;
        let told = self.index.approximate_count(&[], None);
        assert_eq!((told.count, told.most), (all, all));
        // No range holds more than is said to be possible.
        let keys: Vec<_> = self.map.keys().collect();
        for (n, from) in keys.iter().enumerate().step_by(97) {
            let end = (n + n % 400).min(keys.len() - 1);
            let told = self.index.approximate_count(from, Some(keys[end]));
            let (count, inside) = (told.count, (end - n) as u64);
            assert!(
                count <= told.most && inside <= told.most,
                "{inside}: {told:?}"
            );
        }
    }

    fn image(&self) -> Vec<u8> {
        let (mut cursor, mut image) = (self.index.image_start(), Vec::new());
        while let Some(order) = self
            .index
            .image_next(&mut cursor, &mut image, &mut || SeqNo(5))
            .unwrap()
        {
            assert_eq!(order, SeqNo(5));
        }
        image
    }

    fn reload(&mut self) {
        let image = self.image();
        self.index = load(self.options(), &image).unwrap();
        assert!(self.image() == image, "an image changes when it is loaded");
    }
}

fn load(options: IndexOptions, mut image: &[u8]) -> Result<Index, ImageError> {
    let mut loader = Index::loader(options);
    while !image.is_empty() {
        loader.push(&mut image)?;
    }
    loader.finish()
}

/// Every key lies between the fences of its leaf and its entry's slice contains its cell.
fn check_leaves(index: &Index, records: &Records) {
    let mut at = Some(Vec::new());
    let mut extra = 0;
    while let Some(low) = at {
        let tree = index.tree.shared();
        let (cell, fences) = tree.leaf_between(Probe::At(KeyView::from(low.as_slice())));
        assert_eq!(fences.low, low);
        let leaf = cell.lock();
        extra += leaf.extra_bytes();
        let inside = |key: &Vec<u8>| *key >= low && fences.high.as_ref().is_none_or(|h| key < h);
        match &leaf.keyed {
            Some(keyed) => {
                let entries = keyed.entries();
                assert!(entries.is_sorted_by(|a, b| a.key <= b.key));
                for entry in entries {
                    assert!(inside(&entry.key));
                    assert_eq!(records.key(entry.entry.location), entry.key);
                }
            }
            None => {
                for (at, (block, len)) in leaf.blocks(&index.blocks).enumerate() {
                    assert!(at >= leaf.full() || block.slices[..len].is_sorted());
                }
                check_runs(&leaf, index);
                for stored in leaf.stored(&index.blocks) {
                    let key = records.key(entry_of(&stored.rest).location);
                    assert!(inside(&key), "{key:?} is not within {fences:?}");
                    let cell = slice::known(leaf.window.cell(&Coded::of_internal(&key)));
                    assert!(
                        slice::agrees(stored.slice, cell),
                        "{key:?} {:?}",
                        leaf.window
                    );
                }
            }
        }
        at = fences.high.clone();
    }
    let tree = index.tree.shared().bytes();
    let fixed = index.blocks.used() * 512 + index.blocks.overhead_bytes() + tree;
    assert_eq!(
        index.memory_bytes() - std::mem::size_of::<Index>() as u64,
        fixed + extra
    );
}

/// The tie groups of a leaf that reach to `from`, by way of all entries: what a run must contain.
fn all_groups(leaf: &Leaf, index: &Index, from: u16, direction: Direction) -> Vec<Vec<u64>> {
    let mut seen: Vec<(u16, u64)> = leaf
        .stored(&index.blocks)
        .iter()
        .map(|stored| {
            let location = entry_of(&stored.rest).location.bits();
            (facing(stored.slice, direction), location)
        })
        .filter(|(slice, _)| slice::last_cell(*slice) >= from)
        .collect();
    seen.sort_unstable_by_key(|(slice, _)| slice::first_cell(*slice));
    let (mut groups, mut end) = (Vec::<Vec<u64>>::new(), None);
    for (slice, location) in seen {
        match groups.last_mut() {
            Some(group) if end >= Some(slice::first_cell(slice)) => group.push(location),
            _ => groups.push(vec![location]),
        }
        end = end.max(Some(slice::last_cell(slice)));
    }
    groups.iter_mut().for_each(|group| group.sort_unstable());
    groups
}

/// A step from anywhere in a leaf returns its first groups whole, stops at the limit and not
/// before, and says rightly whether there are more.
fn check_runs(leaf: &Leaf, index: &Index) {
    for (number, limit) in [1usize, 2, 7, 50, 400].into_iter().enumerate() {
        let from = mix(leaf.len() as u64 ^ (number as u64) << 32) as u16 >> 1;
        for direction in [Direction::Forward, Direction::Backward] {
            let groups = all_groups(leaf, index, from, direction);
            let mut run = Run::new();
            let more = leaf.read_run(&index.blocks, Some(from), direction, limit, &mut run);
            let mut got: Vec<u64> = run.iter().map(|(_, e)| e.location.bits()).collect();
            let (mut whole, mut rest) = (0, got.len());
            while rest > 0 {
                rest = rest
                    .checked_sub(groups[whole].len())
                    .expect("a group was cut");
                whole += 1;
            }
            let mut expected = groups[..whole].concat();
            expected.sort_unstable();
            got.sort_unstable();
            assert_eq!(got, expected, "{direction:?} from {from} limit {limit}");
            assert_eq!(more, whole < groups.len());
            let beyond = run.iter().filter(|(s, _)| slice::first_cell(*s) > from);
            assert!(!more || beyond.count() >= limit);
            assert!(run.is_sorted_by_key(|(s, _)| slice::first_cell(*s)));
        }
    }
}

fn mix(number: u64) -> u64 {
    let mut z = number
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .wrapping_add(0x1234_5678_9abc_def1);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

const FAMILIES: u8 = 9;

/// The key number `id` of a family, with its keyspace.
fn key_of(family: u8, id: u64) -> Vec<u8> {
    let (keyspace, key) = match family {
        0 => (
            1,
            [mix(id).to_be_bytes(), mix(id + 9).to_be_bytes()].concat(),
        ),
        1 => (1, id.to_be_bytes().to_vec()),
        2 => (2, format!("user{}", mix(id) >> 1).into_bytes()),
        3 => (
            2,
            format!(
                "https://www.site{:05}.com/articles/section{}/{:x}",
                mix(id) % 20,
                mix(id + 1) % 4,
                mix(id + 2) >> 24
            )
            .into_bytes(),
        ),
        4 => (3, vec![0; (id % 700) as usize]),
        5 => (3, vec![b'p'; (id % 700) as usize]),
        6 => (mix(id % 97) as u32, (id as u32).to_le_bytes().to_vec()),
        7 => (4, format!("user{id:012}").into_bytes()),
        // As db_bench has them.
        10 => (4, [&id.to_be_bytes()[..], b"000000000000"].concat()),
        _ => {
            let mut key = vec![b'L'; 65_535];
            key[65_000 + (id % 97) as usize] = id as u8;
            (5, key)
        }
    };
    [&u32::to_be_bytes(keyspace)[..], &key].concat()
}

#[derive(Clone, Debug)]
enum Op {
    Put {
        family: u8,
        first: u64,
        count: u64,
        step: u64,
    },
    Remove {
        family: u8,
        first: u64,
        count: u64,
    },
    Learn {
        family: u8,
        first: u64,
        count: u64,
    },
    Reload,
    Check,
}

fn family() -> impl Strategy<Value = u8> {
    prop_oneof![40 => 0..FAMILIES - 1, 1 => Just(FAMILIES - 1)]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        10 => (family(), 0u64..3000, 1u64..1500, prop_oneof![Just(1), Just(1000), Just(u64::MAX)])
            .prop_map(|(family, first, count, step)| Op::Put { family, first, count, step }),
        4 => (family(), 0u64..3000, 1u64..3000)
            .prop_map(|(family, first, count)| Op::Remove { family, first, count }),
        2 => (family(), 0u64..3000, 1u64..1000)
            .prop_map(|(family, first, count)| Op::Learn { family, first, count }),
        1 => Just(Op::Reload),
        1 => Just(Op::Check),
    ]
}

fn bounded(family: u8, count: u64) -> u64 {
    if family == FAMILIES - 1 {
        count.min(40)
    } else {
        count
    }
}

fn apply(world: &mut World, op: Op) {
    match op {
        Op::Put {
            family,
            first,
            count,
            step,
        } => {
            for number in 0..bounded(family, count) {
                let id = (first + 3000).wrapping_add(number.wrapping_mul(step)) & 0xffff_ffff;
                let key = key_of(family, id);
                world.put(&key, number % 7 == 0);
                if number % 16 == 0 {
                    world.check_lookup(&key);
                    world.check_lookup(&key_of(family, id + 1));
                }
            }
        }
        Op::Remove {
            family,
            first,
            count,
        } => {
            for id in first..first + bounded(family, count) {
                world.remove(&key_of(family, id + 3000));
            }
        }
        Op::Learn {
            family,
            first,
            count,
        } => {
            for id in first..first + bounded(family, count) {
                world.learn(&key_of(family, id + 3000));
            }
        }
        Op::Reload => world.reload(),
        Op::Check => world.check(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, max_shrink_iters: 300, ..ProptestConfig::default() })]

    #[test]
    fn the_index_is_a_sorted_map(bits in prop_oneof![Just(31u32), Just(4), Just(0)], ops in prop::collection::vec(op(), 1..20)) {
        let mut world = World::new(bits);
        for op in ops {
            apply(&mut world, op);
        }
        world.check();
        for key in world.map.keys().step_by(13) {
            world.check_lookup(key);
        }
        world.reload();
        world.check();
    }

    #[test]
    fn a_damaged_image_is_refused(at: prop::sample::Index, byte in 1u8..=255, cut in any::<bool>()) {
        let mut world = World::new(31);
        for id in 0..300 {
            world.put(&key_of(2, id), false);
            world.put(&key_of(3, id), true);
        }
        let mut image = world.image();
        let at = at.index(image.len());
        if cut { image.truncate(at) } else { image[at] ^= byte }
        prop_assert!(load(world.options(), &image).is_err());
    }
}

/// Fills one family and checks all of it; returns key reads per insert.
fn fill(family: u8, count: u64, order: impl Fn(u64) -> u64) -> f64 {
    let mut world = World::new(31);
    for number in 0..count {
        world.put(&key_of(family, order(number)), false);
    }
    world.check();
    world.index.stats().key_reads as f64 / count as f64
}

#[test]
fn every_family_fills_in_every_order() {
    for family in 0..FAMILIES - 1 {
        let count = 30_000;
        let reads = fill(family, count, |number| number);
        assert!(reads < 4.0, "family {family} ascending: {reads} reads");
        let reads = fill(family, count, |number| count - number);
        assert!(reads < 4.0, "family {family} descending: {reads} reads");
        let reads = fill(family, count, |number| mix(number) % 1_000_000);
        assert!(reads < 4.0, "family {family} shuffled: {reads} reads");
    }
}

#[test]
fn huge_keys_and_the_empty_key_are_ordinary() {
    let mut world = World::new(31);
    world.put(&[0, 0, 0, 0], false);
    for id in 0..200 {
        world.put(&key_of(FAMILIES - 1, id), false);
    }
    world.check();
    world.check_lookup(&[0, 0, 0, 0]);
}

#[test]
fn removal_gives_blocks_back() {
    let mut world = World::new(31);
    for id in 0..20_000 {
        world.put(&key_of(0, id), false);
    }
    for id in 0..20_000 {
        world.remove(&key_of(0, id));
    }
    world.check();
    let (stats, used) = (world.index.stats(), world.index.memory_bytes());
    assert_eq!((stats.entries, stats.blocks), (0, 0));
    for id in 0..20_000 {
        world.put(&key_of(0, id), false);
    }
    world.check();
    assert!(world.index.memory_bytes() < used + used / 4);
}

#[test]
fn a_limit_refuses_growth_and_nothing_else() {
    let mut world = World::new(31);
    for id in 0..3000 {
        world.put(&key_of(0, id), false);
    }
    world.index.set_limit_bytes(world.index.memory_bytes());
    let mut refused = None;
    for id in 3000..9000 {
        let key = key_of(0, id);
        let location = world.records.add(&key);
        let insert = |_: &[Entry]| {
            (
                Action::Insert(Entry {
                    location,
                    tombstone: false,
                }),
                (),
            )
        };
        match world.index.update(&prepared(&key), &world.records, insert) {
            Ok(()) => drop(world.map.insert(
                key,
                Entry {
                    location,
                    tombstone: false,
                },
            )),
            Err(error) => refused = Some((error, key)),
        }
    }
    let (error, key) = refused.unwrap();
    assert!(matches!(error, IndexError::OverBudget { needed, limit } if needed > limit));
    world.check_lookup(&key);
    for id in 0..3000 {
        world.put(&key_of(0, id), true);
    }
    world.check();
}

#[test]
fn the_decision_is_made_once_and_bad_actions_change_nothing() {
    let mut world = World::new(31);
    world.put(&key_of(0, 1), false);
    let (key, mut calls) = (key_of(0, 1), 0);
    let none = Entry {
        location: Location::NONE,
        tombstone: false,
    };
    for action in [
        Action::Remove {
            old: Location::from_bits(99),
        },
        Action::Insert(none),
    ] {
        let done = world.index.update(&prepared(&key), &world.records, |_| {
            calls += 1;
            (action, ())
        });
        assert!(matches!(done, Err(IndexError::Internal(_))));
    }
    assert_eq!(calls, 2);
    world.check();
}

#[test]
fn an_error_of_the_source_is_passed_on() {
    struct Broken;
    impl KeySource for Broken {
        fn read_key(&self, _: Location, _: &mut Vec<u8>) -> Result<KeyRead, SourceError> {
            Err(SourceError("broken".into()))
        }
    }
    let index = Index::new(IndexOptions {
        seed: SEED,
        ..IndexOptions::default()
    })
    .unwrap();
    let failed = (0..10_000).find_map(|id| {
        let key = key_of(3, id);
        let entry = Entry {
            location: Location::from_bits(id),
            tombstone: false,
        };
        index
            .update(&prepared(&key), &Broken, |_| (Action::Insert(entry), ()))
            .err()
    });
    assert!(matches!(failed, Some(IndexError::Source(_))));
}

/// The entries of a leaf that know the least of their keys, in bits lost.
fn most_lost(index: &Index) -> u32 {
    let mut lost = 0;
    index.for_each_leaf(&mut |leaf| {
        let slices = leaf.stored(&index.blocks).into_iter();
        lost = slices.fold(lost, |lost, stored| {
            lost.max(slice::lost_bits(stored.slice))
        });
    });
    lost
}

/// An entry that knows next to nothing ties its leaf together. Everything must still be found, and
/// the next split must read that entry and leave no leaf poisoned.
#[test]
fn an_unknown_entry_does_not_poison_the_leaves_that_follow() {
    for lost in [12, 15] {
        let mut world = World::new(31);
        for id in 0..1000 {
            world.put(&key_of(0, id), false);
        }
        let key = forget(&world, lost);
        assert_eq!(most_lost(&world.index), lost);
        world.check();
        world.check_lookup(&key);
        for id in 1000..3000 {
            world.put(&key_of(0, id), false);
        }
        assert!(world.index.stats().splits > 0);
        assert!(most_lost(&world.index) < 9, "{}", most_lost(&world.index));
        world.check();
        world.check_lookup(&key);
    }
}

/// Makes an entry amid the only leaf know `lost` bits less, and returns its key.
fn forget(world: &World, lost: u32) -> Vec<u8> {
    let index = &world.index;
    let mut tree = index.tree.exclusive();
    let leaf = tree.leaf_mut(Probe::Last);
    let cell = |key: &[u8]| leaf.window.cell(prepared(key).code());
    let (key, entry) = world
        .map
        .iter()
        .find(|(key, _)| (0x3000..0x5000).contains(&cell(key)))
        .unwrap();
    let cell = cell(key);
    let fingerprint = (prepared(key).hash() >> 32) as u32 & 0x7fff_ffff;
    let (position, _) = leaf.find(&index.blocks, slice::known(cell), fingerprint)[0];
    leaf.remove(&index.blocks, position);
    let rest = crate::leaf::rest_of(fingerprint, *entry);
    let run = (1u16 << lost) - 1;
    let slice = slice::covering(cell & !run, cell | run);
    assert!(leaf.insert(&index.blocks, crate::leaf::Stored { slice, rest }));
    key.clone()
}

/// Full blocks of equal slices, and a tail of slices equal to theirs, just below and just above:
/// merging moves each entry once and ends.
#[test]
fn full_blocks_of_equal_slices_take_more_of_them() {
    let blocks = crate::blocks::Blocks::new();
    let mut leaf = Leaf::new();
    let stored = |number: u64, slice: u16| {
        let entry = Entry {
            location: Location::from_bits(number),
            tombstone: false,
        };
        crate::leaf::Stored {
            slice,
            rest: crate::leaf::rest_of(number as u32, entry),
        }
    };
    let mut expected = Vec::new();
    for number in 0..1000u64 {
        let slice = match number {
            0..300 => 0x4001,
            _ => [0x4001, 0x3fff, 0x4003, 1, 0xffff][(number % 5) as usize],
        };
        if leaf.room() == Room::Block {
            leaf.add_block(&blocks).unwrap();
        }
        leaf.wants_reslice = false;
        assert!(leaf.insert(&blocks, stored(number, slice)));
        expected.push((slice, number));
    }
    let all = leaf.stored(&blocks);
    let sorted = leaf.full() * 46;
    assert!(sorted > 900);
    assert!(all[..sorted].is_sorted_by_key(|stored| stored.slice));
    let mut got: Vec<(u16, u64)> = all
        .iter()
        .map(|stored| (stored.slice, entry_of(&stored.rest).location.bits()))
        .collect();
    got.sort_unstable();
    expected.sort_unstable();
    assert_eq!(got, expected);
    for (slice, number) in expected {
        assert_eq!(leaf.find(&blocks, slice, number as u32).len(), 1);
    }
}

/// Keys that grow, or that shrink, fill leaf after leaf whole and are never read again, also where the
/// first leaf held keys of another keyspace and became one of full keys; writing them again splits
/// nothing.
#[test]
fn growing_keys_fill_leaves_whole_and_read_next_to_nothing() {
    for (family, others) in [(1, 0), (7, 0), (1, 5), (7, 5), (10, 50)] {
        for grows in [true, false] {
            let what = format!("family {family} {grows}, {others} others");
            let mut world = World::new(31);
            for id in 0..others {
                let keyspace = if grows { 0u32 } else { 9 };
                let key = format!("other{id}");
                world.put(&[&keyspace.to_be_bytes(), key.as_bytes()].concat(), false);
            }
            for number in 0..100_000 {
                let id = if grows { number } else { 999_999 - number };
                world.put(&key_of(family, id), false);
            }
            let stats = world.index.stats();
            let reads = stats.key_reads as f64 / 100_000.0;
            assert!(reads < 0.04, "{what}: {reads} reads");
            let filled = stats.entries / stats.leaves;
            assert!(filled > 1000, "{what}: {filled} a leaf");
            assert!(stats.keyed_leaves <= 2, "{what}: {}", stats.keyed_leaves);
            for number in 0..1000 {
                let id = number * 97;
                let id = if grows { id } else { 999_999 - id };
                world.put(&key_of(family, id), false);
            }
            assert_eq!(world.index.stats().splits, stats.splits, "{what}");
            world.check();
        }
    }
}

/// Writers on keys of their own, readers and walks beside them, then everything is compared.
#[test]
fn threads_agree_with_a_map() {
    let world = World::new(31);
    let (index, records) = (&world.index, &world.records);
    let threads = 4u64;
    let maps: Vec<Map> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|thread| scope.spawn(move || write_some(index, records, thread, threads)))
            .collect();
        scope.spawn(move || {
            for _ in 0..20 {
                let (mut cursor, mut image) = (index.image_start(), Vec::new());
                while index
                    .image_next(&mut cursor, &mut image, &mut || SeqNo(1))
                    .unwrap()
                    .is_some()
                {}
                load(index.options, &image).unwrap();
            }
        });
        workers
            .into_iter()
            .map(|worker| worker.join().unwrap())
            .collect()
    });
    let map = maps.into_iter().flatten().collect();
    World { map, ..world }.check();
}

fn write_some(index: &Index, records: &Records, thread: u64, threads: u64) -> Map {
    let mut map = Map::new();
    for round in 0..40_000u64 {
        let id = mix(round * threads + thread) % 12_000 * threads + thread;
        let key = key_of([0, 2, 3, 7][(id % 16 / 4) as usize], id);
        let own = |matches: &[Entry]| {
            matches
                .iter()
                .copied()
                .find(|entry| records.key(entry.location) == key)
        };
        let held = own(&index.lookup(&prepared(&key)));
        assert_eq!(held, map.get(&key).copied());
        let new = Entry {
            location: records.add(&key),
            tombstone: round % 2 == 0,
        };
        let action = |matches: &[Entry]| match own(matches) {
            None => (Action::Insert(new), ()),
            Some(held) if round % 5 == 0 => (Action::Remove { old: held.location }, ()),
            Some(held) => (
                Action::Replace {
                    old: held.location,
                    new,
                },
                (),
            ),
        };
        index.update(&prepared(&key), records, action).unwrap();
        if held.is_some() && round % 5 == 0 {
            map.remove(&key);
        } else {
            map.insert(key, new);
        }
    }
    map
}
