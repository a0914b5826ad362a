//! Writes that depend on what is there, and range deletes.

use std::sync::Mutex;

use super::*;

/// One of two who insert the same key does, and the other learns it.
#[test]
fn one_of_two_inserts() {
    under_schedules(1000, || {
        let (store, keys) = fresh();
        keys.put("key", value(1)).unwrap();
        keys.delete("key").unwrap();
        run(&store, &[Step::Seal, Step::Checkpoint]);
        let done = Mutex::new(Vec::new());
        let insert = |number: u8| {
            if keys.insert_if_absent("key", value(number)).unwrap() {
                done.lock().unwrap().push(number);
            }
        };
        thread::scope(|scope| {
            scope.spawn(|| insert(2));
            scope.spawn(|| insert(3));
            scope.spawn(|| run(&store, &[Step::Collect, Step::Sweep]));
        });
        assert_eq!(done.into_inner().unwrap(), [get(&keys, "key")]);
    });
}

/// No update is lost, though the record moves and others write beside it.
#[test]
fn no_update_is_lost() {
    under_schedules(1000, || {
        let (store, keys) = fresh();
        keys.put("key", value(1)).unwrap();
        store.sync().unwrap();
        run(&store, &[Step::Seal]);
        let add = || {
            let more = |old: Option<&[u8]>| Some(value(number(old.map(<[u8]>::to_vec)) + 1));
            keys.update("key", more).unwrap();
        };
        thread::scope(|scope| {
            scope.spawn(|| (0..2).for_each(|_| add()));
            scope.spawn(add);
            scope.spawn(|| {
                run(&store, &[Step::Collect]);
                add();
            });
        });
        assert_eq!(get(&keys, "key"), 5);
    });
}

/// What is written after a range delete stays, what was before goes, whenever it is swept.
#[test]
fn a_range_delete_takes_what_came_before_it() {
    under_schedules(1000, || {
        let (store, keys) = fresh();
        for key in ["a", "b"] {
            keys.put(key, value(1)).unwrap();
        }
        thread::scope(|scope| {
            scope.spawn(|| {
                keys.delete_range("a", "c").unwrap();
                assert_eq!(get(&keys, "b"), 0);
                keys.put("a", value(2)).unwrap();
                assert_eq!(get(&keys, "a"), 2);
            });
            scope.spawn(|| {
                let seen = [get(&keys, "a"), get(&keys, "a")];
                let right = [[1, 1], [1, 0], [1, 2], [0, 0], [0, 2], [2, 2]];
                assert!(right.contains(&seen), "{seen:?}");
            });
            scope.spawn(|| {
                run(&store, &[Step::Sweep, Step::Checkpoint, Step::Sweep]);
                run(&store, &[Step::Seal, Step::Collect, Step::Sweep]);
            });
        });
        assert_eq!((get(&keys, "a"), get(&keys, "b")), (2, 0));
    });
}

/// An update whose value a range delete takes away meanwhile is made from nothing, or gone.
#[test]
fn an_update_does_not_bring_back_what_a_range_delete_took() {
    under_schedules(1000, || {
        let (_store, keys) = fresh();
        keys.put("a", value(4)).unwrap();
        thread::scope(|scope| {
            scope.spawn(|| keys.delete_range("a", "b").unwrap());
            scope.spawn(|| {
                let more = |old: Option<&[u8]>| Some(value(old.map_or(1, |old| old[0] + 1)));
                keys.update("a", more).unwrap();
            });
        });
        assert!([0, 1].contains(&get(&keys, "a")));
    });
}
