//! Stores without room, with others taking it at the worst moment.

use std::thread;
use std::time::Duration;

use heliox_format::ids::SegmentId;

use super::*;
use crate::health::HealthState;
use crate::tests;

fn options() -> Options {
    tests::options(tests::memory(66))
}

/// Takes free segments until so many are left.
fn take_room(core: &Core, left: u64) -> Vec<SegmentId> {
    let mut taken = Vec::new();
    while core.log.free_segments() > left {
        taken.push(core.log.open_checkpoint_segment().unwrap().0);
    }
    taken
}

fn give_back(core: &Core, taken: &[SegmentId]) {
    taken.iter().for_each(|id| core.discard_and_release(*id));
    core.space.note_garbage();
}

fn batch_of(ks: &Keyspace, keys: &[&str], value: &[u8]) -> Batch {
    let mut batch = Batch::new();
    keys.iter().for_each(|key| batch.put(ks, key, value));
    batch
}

/// A batch that does not fit leaves nothing, and the store alive.
fn assert_refused(store: &Store, ks: &Keyspace, refused: &Result<()>, kind: ErrorKind) {
    let error = refused.as_ref().expect_err("it was not refused");
    assert_eq!(error.kind(), kind, "{error}");
    assert!(store.health().state() < HealthState::Failed);
    assert_eq!(ks.get("a").unwrap().as_deref(), Some(&b"old"[..]));
    assert_eq!(ks.get("b").unwrap(), None);
    let snapshot = store.snapshot().unwrap();
    let old = ks.get_at("a", &snapshot).unwrap();
    assert_eq!(old.as_deref(), Some(&b"old"[..]));
    assert_eq!(ks.iter().start().unwrap().count(), 1);
}

/// The batch is let in while there is room, and waits for its turn; what it then finds is a full
/// store. It must not begin.
#[test]
fn a_batch_whose_room_was_taken_while_it_waited_is_refused_whole() {
    let store = Store::open("", &options()).unwrap();
    let ks = store.create_keyspace("ks").unwrap();
    let core = store.core();
    ks.put("a", "old").unwrap();
    let batch = batch_of(&ks, &["a", "b"], &[1; 1 << 18]);
    // In the zone where writers are slowed, which shows from outside that one was let in.
    let mut taken = take_room(core, core.space.data_floor() + 2);
    let Some(delay) = core
        .space
        .ask(Wish::Data, 1 << 19, core.log.free_segments())
    else {
        panic!("no room at all");
    };
    assert!(delay > Duration::from_millis(1), "{delay:?}");
    let pass = core.batches.enter();
    let refused = thread::scope(|scope| {
        let writer = scope.spawn(|| store.write(&batch));
        while core.counters.throttle_us.get() == 0 {
            thread::yield_now();
        }
        taken.extend(take_room(core, 0));
        drop(pass);
        writer.join().unwrap()
    });
    assert_refused(&store, &ks, &refused, ErrorKind::Full);
    give_back(core, &taken);
    store.write(&batch).unwrap();
    assert_eq!(ks.get("b").unwrap().unwrap().len(), 1 << 18);
}

/// The first member is an overwrite, which always fits; the others are new keys.
#[test]
fn a_batch_that_does_not_fit_the_index_is_refused_whole() {
    let mut settings = options().validate().unwrap();
    settings.index_limit_bytes = 1 << 20;
    let (root, superblock) = Root::open_or_create(Path::new(""), &settings).unwrap();
    let store = Store::start(root, superblock, settings).unwrap();
    let ks = store.create_keyspace("ks").unwrap();
    ks.put("a", "old").unwrap();
    let other = store.create_keyspace("other").unwrap();
    let mut n = 0u32;
    let full = loop {
        match other.put(n.wrapping_mul(0x9e37_79b1).to_be_bytes(), "") {
            Ok(()) => n += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(full.kind(), ErrorKind::OverBudget, "{full}");
    let mut batch = batch_of(&ks, &["a", "b"], b"new");
    for i in 0..20_000u32 {
        batch.put(&other, (!i).to_be_bytes(), "");
    }
    let refused = store.write(&batch);
    assert_refused(&store, &ks, &refused, ErrorKind::OverBudget);
    store.write(&batch_of(&ks, &["a"], b"new")).unwrap();
    assert_eq!(ks.get("a").unwrap().as_deref(), Some(&b"new"[..]));
}

#[test]
fn a_checkpoint_without_room_is_tried_again_and_fails_nothing() {
    let store = Store::open("", &options()).unwrap();
    let ks = store.create_keyspace("ks").unwrap();
    let core = store.core();
    for n in 0..18u32 {
        ks.put(n.to_be_bytes(), vec![1; 1 << 20]).unwrap();
    }
    store.sync().unwrap();
    let before = store.stats().checkpoints;
    let taken = take_room(core, 0);
    // Both what upkeep and what collection want is a checkpoint.
    (0..3).for_each(|_| _ = store.step().unwrap());
    assert_eq!(store.stats().checkpoints, before);
    assert!(core.space.was_stuck());
    assert!(store.health().state() < HealthState::Failed);
    give_back(core, &taken);
    store.checkpoint().unwrap();
    assert_eq!(store.stats().checkpoints, before + 1);
    assert_eq!(ks.get(7u32.to_be_bytes()).unwrap(), Some(vec![1; 1 << 20]));
}

/// Collection that once found nothing, in a store with room, refuses no writer who comes to the wall
/// later, when there is garbage.
#[test]
fn what_collection_found_earlier_refuses_nobody() {
    let store = Store::open("", &options()).unwrap();
    let ks = store.create_keyspace("ks").unwrap();
    let core = store.core();
    ks.put("a", "old").unwrap();
    assert!(!store.step_of(Step::Collect).unwrap());
    for _ in 0..2 {
        store.step_of(Step::Seal).unwrap();
        ks.put("a", "new").unwrap();
    }
    let taken = take_room(core, core.space.data_floor());
    ks.put("b", "new").unwrap();
    give_back(core, &taken);
    assert_eq!(ks.get("a").unwrap().as_deref(), Some(&b"new"[..]));
}
