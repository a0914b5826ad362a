//! The cache under schedules that a test decides: readers, writers and changes of the budget.

use heliox_sync::{explore, thread, Plan};

use super::*;

/// Records so large that a few of them fill a shard.
const LEN: usize = 3 << 10;
const NAMES: u64 = 40;

fn insert(cache: &RecordCache, name: u64) {
    cache.insert(at(name), Birth(1), &[&[name as u8; LEN]]);
}

fn at(name: u64) -> Location {
    Location::from_bits(name)
}

/// A record is whole and of its name, or not there.
fn look(cache: &RecordCache, name: u64) -> bool {
    let found = cache.get(at(name), Birth(1), <[u8]>::to_vec);
    found.is_some_and(|bytes| {
        assert_eq!(bytes, [name as u8; LEN]);
        true
    })
}

fn under_schedules(schedules: u64, test: impl Fn() + Send + Sync + 'static) {
    let patient = true;
    explore(Plan { schedules, patient }, move |_| test());
}

/// Whatever is dropped or begun anew, a read gives whole records of the name it asked for, and no
/// more memory is used than the last budget allows.
#[test]
fn reads_are_whole_while_the_budget_changes() {
    under_schedules(600, || {
        let cache = RecordCache::new(160 << 10);
        (0..NAMES).for_each(|name| insert(&cache, name));
        thread::scope(|scope| {
            scope.spawn(|| {
                for name in 30..50 {
                    insert(&cache, name);
                    look(&cache, name);
                }
            });
            scope.spawn(|| (0..NAMES).filter(|name| look(&cache, *name)).count());
            scope.spawn(|| {
                for budget in [70 << 10, 0, 160 << 10, 300 << 10, 100 << 10] {
                    cache.set_budget_bytes(budget);
                    assert!(cache.used_bytes() <= budget);
                }
            });
        });
        cache.slots.iter().for_each(|slot| slot.0.lock().check());
        assert!(cache.used_bytes() <= 100 << 10);
    });
}

/// Of two who put a successor in the place of the same record, and a third who reads, nobody sees
/// bytes of another name; what was replaced is gone.
#[test]
fn a_successor_takes_the_place_of_one() {
    under_schedules(3000, || {
        let cache = RecordCache::new(1 << 20);
        insert(&cache, 1);
        let succeed = |name: u64| {
            cache.insert_successor((at(1), Birth(1)), at(name), Birth(1), &[&[name as u8; LEN]]);
            assert!(look(&cache, name) && !look(&cache, 1));
        };
        thread::scope(|scope| {
            scope.spawn(|| succeed(2));
            scope.spawn(|| (1..4).filter(|name| look(&cache, *name)).count());
            scope.spawn(|| succeed(3));
        });
        assert!(look(&cache, 2) && look(&cache, 3) && !look(&cache, 1));
        assert_eq!(cache.stats().records, 2);
    });
}
