//! The index under schedules that a test decides: writers that split leaves beside readers, scans
//! and copies of leaves.

use std::collections::BTreeSet;
use std::sync::Mutex;

use heliox_format::ids::{Location, SeqNo};
use heliox_sync::{explore, thread, Plan};

use crate::*;

const SEED: u64 = 7;

/// Keys by location.
#[derive(Default)]
struct Records(Mutex<Vec<Vec<u8>>>);

impl Records {
    fn add(&self, key: &[u8]) -> Location {
        let mut keys = self.0.lock().unwrap();
        keys.push(key.to_vec());
        Location::from_bits(keys.len() as u64 - 1)
    }

    fn key(&self, location: Location) -> Vec<u8> {
        self.0.lock().unwrap()[location.bits() as usize].clone()
    }
}

impl KeySource for Records {
    fn read_key(&self, location: Location, out: &mut Vec<u8>) -> Result<KeyRead, SourceError> {
        thread::yield_now();
        *out = self.key(location);
        Ok(KeyRead::Found)
    }
}

struct World {
    index: Index,
    records: Records,
}

/// Long equal beginnings, so that slices are cut anew as the keys grow apart.
fn key_of(number: u64) -> Vec<u8> {
    let group = number % 7;
    format!("\0\0\0\x01a long beginning {group} of {:05}", number / 7).into_bytes()
}

fn prepared(key: &[u8]) -> PreparedKey<'_> {
    PreparedKey::from_internal(SEED, key).unwrap()
}

impl World {
    /// An index of so many even numbers; the odd ones come later, between them.
    fn of(count: u64) -> World {
        let options = IndexOptions {
            seed: SEED,
            ..IndexOptions::default()
        };
        let world = World {
            index: Index::new(options).unwrap(),
            records: Records::default(),
        };
        (0..count).for_each(|number| world.put(number * 2));
        world
    }

    fn own(&self, key: &[u8], matches: &[Entry]) -> Option<Entry> {
        let is_own = |entry: &&Entry| self.records.key(entry.location) == key;
        matches.iter().find(is_own).copied()
    }

    fn put(&self, number: u64) {
        let key = key_of(number);
        let new = Entry {
            location: self.records.add(&key),
            tombstone: false,
        };
        let decide = |matches: &[Entry]| match self.own(&key, matches) {
            Some(held) => (
                Action::Replace {
                    old: held.location,
                    new,
                },
                (),
            ),
            None => (Action::Insert(new), ()),
        };
        self.index
            .update(&prepared(&key), &self.records, decide)
            .unwrap();
    }

    fn remove(&self, number: u64) {
        let key = key_of(number);
        let decide = |matches: &[Entry]| match self.own(&key, matches) {
            Some(held) => (Action::Remove { old: held.location }, ()),
            None => (Action::Keep, ()),
        };
        self.index
            .update(&prepared(&key), &self.records, decide)
            .unwrap();
    }

    fn holds(&self, number: u64) -> bool {
        let key = key_of(number);
        let matches = self.index.lookup(&prepared(&key));
        self.own(&key, &matches).is_some()
    }

    /// All keys, in the way the engine scans: from leaf to leaf.
    fn scan(&self) -> BTreeSet<Vec<u8>> {
        let mut keys = BTreeSet::new();
        let (mut batch, mut from) = (ScanBatch::default(), Vec::new());
        loop {
            let at = ScanFrom::At(&from);
            let at = if from.is_empty() { ScanFrom::Start } else { at };
            self.index.scan(at, Direction::Forward, 5000, &mut batch);
            let found = batch.entries.iter().map(|e| e.entry.location);
            keys.extend(found.map(|location| self.records.key(location)));
            match std::mem::take(&mut batch.next) {
                Next::Leaf(fence) => from = fence,
                Next::End => return keys,
                Next::More => from = keys.last().unwrap().clone(),
            }
        }
    }

    /// All keys of a copy that is made leaf by leaf, as a checkpoint does.
    fn copy(&self) -> BTreeSet<Vec<u8>> {
        let (mut cursor, mut image) = (self.index.image_start(), Vec::new());
        let order = &mut || SeqNo(1);
        while self
            .index
            .image_next(&mut cursor, &mut image, order)
            .unwrap()
            .is_some()
        {}
        let mut loader = Index::loader(self.index.options);
        let mut rest = &image[..];
        while !rest.is_empty() {
            loader.push(&mut rest).unwrap();
        }
        let mut keys = BTreeSet::new();
        let copy = loader.finish().unwrap();
        copy.for_each_entry(&mut |entry| {
            let is_new = keys.insert(self.records.key(entry.location));
            assert!(is_new, "a key twice in one copy");
        });
        keys
    }
}

/// How many entries there are shortly before a leaf is split.
fn entries_before_a_split() -> u64 {
    let world = World::of(0);
    let splits = |number: &u64| {
        world.put(number * 2);
        world.index.stats().splits > 0
    };
    (0..10_000).find(splits).unwrap() - 8
}

/// While leaves split, each key that was there is found by everybody, in one place.
#[test]
fn splits_hide_and_double_nothing() {
    let plan = Plan {
        schedules: 120,
        patient: true,
    };
    explore(plan, |number| {
        let full = entries_before_a_split();
        let world = World::of(full);
        let splits = world.index.stats().splits;
        let old: BTreeSet<Vec<u8>> = (0..full).map(|n| key_of(n * 2)).collect();
        let write = |from: u64| {
            for n in from..from + 12 {
                world.put(n * 46 + 1);
                assert!(world.holds(n * 46 + 1));
            }
        };
        thread::scope(|scope| {
            scope.spawn(|| write(0));
            scope.spawn(|| write(12));
            scope.spawn(|| {
                for n in 0..8 {
                    let known = (number * 8 + n) * 2 % (full * 2);
                    assert!(world.holds(known));
                }
                assert!(world.copy().is_superset(&old));
            });
            scope.spawn(|| assert!(world.scan().is_superset(&old)));
        });
        assert!(world.index.stats().splits > splits, "nothing was split");
        assert_eq!(world.index.stats().entries, full + 24);
        assert_eq!(world.scan().len() as u64, full + 24);
    });
}

/// Keys that come and go beside one that stays, in one leaf.
#[test]
fn changes_of_one_leaf_do_not_disturb_one_another() {
    let plan = Plan {
        schedules: 3000,
        patient: true,
    };
    explore(plan, |_| {
        let world = World {
            index: Index::new(IndexOptions::default()).unwrap(),
            records: Records::default(),
        };
        world.put(1);
        thread::scope(|scope| {
            scope.spawn(|| {
                world.put(2);
                world.remove(2);
                world.put(1);
            });
            scope.spawn(|| {
                world.put(3);
                world.put(2);
                assert!(world.holds(3));
            });
            scope.spawn(|| {
                for _ in 0..2 {
                    assert!(world.holds(1));
                    let seen = world.scan();
                    assert!(seen.contains(&key_of(1)) && seen.len() <= 3);
                }
            });
        });
        assert!(world.holds(1) && world.holds(3) && !world.holds(4));
    });
}
