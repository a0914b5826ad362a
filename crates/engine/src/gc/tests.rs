//! Collection step by step, with what others do in between put exactly where it hurts.

use std::sync::Arc;

use heliox_format::ids::{KeyspaceId, SeqNo};
use heliox_format::segment::SegmentKind;
use heliox_index::{Action, Entry};
use heliox_log::append::BatchMember;
use heliox_log::segments::SegmentState;
use heliox_media::{Media, MemoryMedia};

use super::*;
use crate::background::{upkeep_step, Step};
use crate::error::ErrorKind;
use crate::keys::StoreKeys;
use crate::keyspace::Keyspace;
use crate::keyspaces::{CHUNKS, OWNERS};
use crate::options::WriteOptions;
use crate::space::Space;
use crate::store::Store;
use crate::tests;
use crate::write::{put, Stored};

fn new_media() -> Arc<dyn Media> {
    tests::memory(66)
}

fn open(media: &Arc<dyn Media>) -> (Store, Keyspace) {
    tests::open(&tests::options(Arc::clone(media)))
}

/// Where the newest record of a key lies.
fn segment_of(core: &Core, keyspace: KeyspaceId, key: &[u8]) -> SegmentId {
    let found = core.index.lookup(&core.prepare(keyspace, key));
    core.log.geometry().segment_at(found[0].location).unwrap()
}

/// Installs a member of a batch in flight; gives its order.
fn install(
    core: &Core,
    ks: &Keyspace,
    pass: &crate::batches::BatchPass<'_>,
    key: &[u8],
    first: Option<SeqNo>,
) -> SeqNo {
    let mut member = NewRecord::new(RecordKind::Put, ks.id(), key, b"new");
    member.batch = Some(first.map_or(BatchMember::First, BatchMember::Of));
    let key = core.prepare(ks.id(), key);
    let (stream, expect) = (Stream::User, Expect::Blind);
    match append_and_install(core, &key, &member, stream, &expect, Some(pass)).unwrap() {
        Installed::Done { appended, .. } => appended.seq,
        _ => panic!("the member was not installed"),
    }
}

/// Ends a batch of two members; gives its commit's order.
fn publish(core: &Core, pass: crate::batches::BatchPass<'_>, first: SeqNo) -> SeqNo {
    let count = 2u64.to_le_bytes();
    let mut record = NewRecord::new(RecordKind::Commit, KeyspaceId(0), &[], &count);
    record.batch = Some(BatchMember::Of(first));
    let commit = core.log.append(Stream::User, &record).unwrap().seq;
    pass.publish(commit);
    commit
}

#[test]
fn a_segment_that_a_batch_emptied_waits_for_the_commit_to_be_durable() {
    let (store, ks) = open(&new_media());
    let core = store.core();
    ks.put("a", "old").unwrap();
    ks.put("b", "old").unwrap();
    let emptied = segment_of(core, ks.id(), b"a");
    core.log.seal_segments();
    store.checkpoint().unwrap();

    let pass = core.batches.enter();
    let first = install(core, &ks, &pass, b"a", None);
    install(core, &ks, &pass, b"b", Some(first));
    core.sync().unwrap();
    assert_eq!(core.log.segment(emptied).live(), 0);
    let early = retire_empty(core).unwrap().retired;
    assert_eq!(early, 0, "the batch was in flight");

    let commit = publish(core, pass, first);
    assert!(core.log.durable_seq() < commit);
    assert_eq!(retire_empty(core).unwrap().retired, 1);
    assert!(
        core.log.durable_seq() >= commit,
        "without its commit the batch never was, and what it displaced is gone"
    );
}

#[test]
fn a_range_delete_takes_nothing_from_a_snapshot_that_is_older() {
    let (store, ks) = open(&new_media());
    let core = store.core();
    ks.put("key", "value").unwrap();
    let id = segment_of(core, ks.id(), b"key");
    core.log.seal_segments();
    core.sync().unwrap();
    let records = load(core, id).unwrap().unwrap();
    let survivor = harvest(core, id, &records).live.pop().unwrap();
    // A snapshot and a delete between the question which deletes all see and its use.
    let before = horizon(core);
    let snapshot = store.snapshot().unwrap();
    ks.delete_range("a", "z").unwrap();
    assert!(!drop_if_gone(core, &survivor, before).unwrap());
    assert!(!drop_if_gone(core, &survivor, horizon(core)).unwrap());
    collect(core, id).unwrap();
    let seen = ks.get_at("key", &snapshot).unwrap();
    assert_eq!(seen.as_deref(), Some(&b"value"[..]));
    assert_eq!(ks.get("key").unwrap(), None);

    drop(snapshot);
    let id = segment_of(core, ks.id(), b"key");
    core.log.seal_segments();
    core.sync().unwrap();
    let records = load(core, id).unwrap().unwrap();
    let survivor = harvest(core, id, &records).live.pop().unwrap();
    assert!(drop_if_gone(core, &survivor, horizon(core)).unwrap());
}

/// No room is left to copy to: what a snapshot reads stays where it was, and is not forgotten.
#[test]
fn a_collection_that_finds_no_room_keeps_what_snapshots_read() {
    let (store, ks) = open(&new_media());
    let core = store.core();
    let old = vec![1; 900_000];
    ks.put("key", &old).unwrap();
    let id = segment_of(core, ks.id(), b"key");
    let snapshot = store.snapshot().unwrap();
    core.log.seal_segments();
    ks.put("key", "new").unwrap();
    core.sync().unwrap();
    let records = load(core, id).unwrap().unwrap();
    let harvest = harvest(core, id, &records);
    assert_eq!(harvest.retained.len(), 1);
    let filler = NewRecord::new(RecordKind::Put, ks.id(), b"filler", &old);
    while core.log.append(Stream::Survivor, &filler).is_ok() {
        keep_tail_small(core).unwrap();
    }
    let error = move_out(core, id, harvest).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Full);
    assert!(core.snapshots.has_noted(id), "the version was forgotten");
    let seen = ks.get_at("key", &snapshot).unwrap();
    assert_eq!(seen.as_deref(), Some(&old[..]));
}

/// Entries of the chunks of a large value and of the note that names its owner.
fn chunk_entries(core: &Core, head: large::Head) -> usize {
    let chunks = (0..head.chunks()).map(|n| (CHUNKS, large::chunk_key(head.id, n).to_vec()));
    let note = (OWNERS, head.id.to_be_bytes().to_vec());
    let lives = |(keyspace, key): &(KeyspaceId, Vec<u8>)| {
        let found = core.index.lookup(&core.prepare(*keyspace, key));
        found.iter().any(|e| !e.tombstone)
    };
    chunks.chain([note]).filter(lives).count()
}

/// Writes a large value, its chunks into one segment and its head into another.
fn put_large(core: &Core, ks: &Keyspace, key: &[u8]) -> (large::Head, SegmentId) {
    let value = vec![7; 3 << 20];
    let (bytes, chunks) = large::store(core, ks.id(), key, &value).unwrap();
    core.log.seal_segments();
    let stored = Stored {
        bytes: &bytes,
        chunks,
    };
    put(core, ks.id(), key, stored, &WriteOptions::new()).unwrap();
    let id = segment_of(core, ks.id(), key);
    core.log.seal_segments();
    (large::Head::decode(&bytes).unwrap(), id)
}

/// A close overtakes the put of a large value between its chunks and its head: the next run looks for
/// such, although the close was in order.
#[test]
fn chunks_that_a_close_left_without_a_head_go_in_the_next_run() {
    let media = new_media();
    let (store, ks) = open(&media);
    let value = vec![7; 3 << 20];
    let (bytes, _) = large::store(store.core(), ks.id(), b"key", &value).unwrap();
    let head = large::Head::decode(&bytes).unwrap();
    assert_eq!(chunk_entries(store.core(), head), 4);
    drop(ks);
    store.close().unwrap();
    let (store, _ks) = open(&media);
    assert_eq!(chunk_entries(store.core(), head), 4);
    store.step().unwrap();
    assert_eq!(chunk_entries(store.core(), head), 0);
    store.close().unwrap();
    // That one knows of none.
    let (store, _ks) = open(&media);
    assert!(!store.core().may_leave_orphans());
}

/// The head's segment is empty by then and its sums agree, so nothing else asks for it to be read.
#[test]
fn the_chunks_of_a_large_value_go_with_its_head() {
    for end in ["none", "in order", "in disorder"] {
        let media = new_media();
        let (mut store, mut ks) = open(&media);
        let (head, _) = put_large(store.core(), &ks, b"large");
        assert_eq!(chunk_entries(store.core(), head), 4);
        store.sync().unwrap();
        match end {
            "in order" => store.clone().close().unwrap(),
            "in disorder" => std::mem::forget(store.clone()),
            _ => {}
        }
        if end != "none" {
            (store, ks) = open(&media);
        }
        ks.put("large", "small").unwrap();
        store.checkpoint().unwrap();
        let core = store.core();
        let before = store.stats().live_bytes;
        assert!(retire_empty(core).unwrap().retired > 0);
        assert_eq!(chunk_entries(core, head), 0, "an end {end}");
        assert!(store.stats().live_bytes + (2 << 20) <= before);
        assert_eq!(ks.get("large").unwrap().as_deref(), Some(&b"small"[..]));
    }
}

#[test]
fn a_live_head_is_moved_and_its_chunks_stay() {
    let media = new_media();
    let (store, ks) = open(&media);
    let core = store.core();
    let (head, id) = put_large(core, &ks, b"large");
    core.sync().unwrap();
    collect(core, id).unwrap();
    assert!(!core.log.segment(id).heads, "nobody must read it again");
    let moved_to = segment_of(core, ks.id(), b"large");
    assert_ne!(moved_to, id);
    assert!(core.log.segment(moved_to).heads);
    store.checkpoint().unwrap();
    assert!(retire_empty(core).unwrap().retired > 0);
    assert_eq!(chunk_entries(core, head), 4);
    assert_eq!(ks.get("large").unwrap(), Some(vec![7; 3 << 20]));
}

/// A batch in flight took the head's entry: its chunks may be needed still.
#[test]
fn a_head_under_a_batch_in_flight_is_looked_at_again() {
    let (store, ks) = open(&new_media());
    let core = store.core();
    let (head, id) = put_large(core, &ks, b"large");
    let pass = core.batches.enter();
    let first = install(core, &ks, &pass, b"large", None);
    core.sync().unwrap();
    large::reap(core).unwrap();
    collect(core, id).unwrap();
    assert_eq!(chunk_entries(core, head), 4, "the batch is in flight");
    assert!(core.log.segment(id).heads);
    let count = 1u64.to_le_bytes();
    let mut record = NewRecord::new(RecordKind::Commit, KeyspaceId(0), &[], &count);
    record.batch = Some(BatchMember::Of(first));
    pass.publish(core.log.append(Stream::User, &record).unwrap().seq);
    drop(pass);
    store.checkpoint().unwrap();
    assert!(retire_empty(core).unwrap().retired > 0);
    assert_eq!(chunk_entries(core, head), 0);
}

/// A head that lost its entry to another key may get it back when its segment is collected.
#[test]
fn the_chunks_of_a_head_stay_that_lost_its_entry_to_another_key() {
    for is_own in [false, true] {
        let (store, ks) = open(&new_media());
        let core = store.core();
        let (head, _) = put_large(core, &ks, b"large");
        let key = core.prepare(ks.id(), b"large");
        let at = core.index.lookup(&key)[0].location;
        let remove = |_: &[Entry]| (Action::Remove { old: at }, ());
        core.index
            .update(&key, &StoreKeys { core }, remove)
            .unwrap();
        let mut other = NewRecord::new(RecordKind::Put, ks.id(), b"other", b"");
        other.displaced = Some(at);
        other.key_hash = if is_own { key.hash() } else { key.hash() + 1 };
        core.log.append(Stream::User, &other).unwrap();
        large::reap(core).unwrap();
        assert_eq!(chunk_entries(core, head), if is_own { 0 } else { 4 });
    }
}

#[test]
fn a_head_that_is_overwritten_while_it_is_moved_is_looked_at_again() {
    let (store, ks) = open(&new_media());
    let core = store.core();
    let (head, id) = put_large(core, &ks, b"large");
    core.sync().unwrap();
    let records = load(core, id).unwrap().unwrap();
    let harvest = harvest(core, id, &records);
    ks.put("large", "small").unwrap();
    move_out(core, id, harvest).unwrap();
    assert_eq!(
        chunk_entries(core, head),
        4,
        "it was alive when it was read"
    );
    store.checkpoint().unwrap();
    assert!(retire_empty(core).unwrap().retired > 0);
    assert_eq!(chunk_entries(core, head), 0);
}

/// A store without large values must not pay for them, after an open in order or not.
#[test]
fn an_empty_segment_without_heads_is_not_read() {
    for is_closed in [false, true] {
        let media = new_media();
        let (store, ks) = open(&media);
        ks.put("key", "old").unwrap();
        store.core().log.seal_segments();
        ks.put("key", "new").unwrap();
        store.core().log.seal_segments();
        store.sync().unwrap();
        if is_closed {
            store.close().unwrap();
        } else {
            std::mem::forget(store);
        }
        let (store, _ks) = open(&media);
        store.checkpoint().unwrap();
        assert!(retire_empty(store.core()).unwrap().retired > 0);
        assert_eq!(store.core().counters.gc_bytes_read.get(), 0);
    }
}

/// What was read of a segment's earlier life must not pass for its content.
/// Of an emptied segment only what snapshots read is read, from where it lies, be it an original or a copy;
/// what is damaged stays where it is.
#[test]
fn the_few_versions_that_snapshots_read_are_read_alone() {
    for is_damaged in [false, true] {
        let (store, ks) = open(&new_media());
        let core = store.core();
        (0..100).for_each(|n| ks.put(format!("other{n}"), "value").unwrap());
        ks.put("key", "old").unwrap();
        let place = place_of(core, &ks, b"key");
        let emptied = segment_of(core, ks.id(), b"key");
        core.log.seal_segments();
        (0..100).for_each(|n| ks.put(format!("other{n}"), "").unwrap());
        let snapshot = store.snapshot().unwrap();
        ks.put("key", "new").unwrap();
        core.log.seal_segments();
        store.checkpoint().unwrap();
        if is_damaged {
            damage(core, place);
        }
        let read = core.counters.gc_bytes_read.get();
        let retired = retire_empty(core).unwrap().retired;
        if is_damaged {
            assert_eq!(retired, 0);
            assert!(core.snapshots.has_noted(emptied), "it was forgotten");
            continue;
        }
        assert_eq!(retired, 1);
        assert_eq!(
            core.counters.gc_bytes_read.get(),
            read,
            "all of it was read"
        );
        let seen = || ks.get_at("key", &snapshot).unwrap();
        assert_eq!(seen().as_deref(), Some(&b"old"[..]));
        // The copy lies among others, too: its segment goes the same way.
        let copies = core
            .snapshots
            .copies_at(Location::from_bits(0)..Location::from_bits((1 << 40) - 1));
        assert_eq!((copies.len(), copies[0].1.location), (1, place));
        let id = core.log.geometry().segment_at(copies[0].0).unwrap();
        core.log.seal_segments();
        store.checkpoint().unwrap();
        let harvest = harvest_versions(core, id, &core.log.segment(id));
        assert!(harvest.is_none(), "one of one record is not few");
        collect(core, id).unwrap();
        assert_eq!(seen().as_deref(), Some(&b"old"[..]));
    }
}

/// Where collection empties segments faster than checkpoints come, one is asked for before writers wait.
#[test]
fn emptied_segments_that_are_worth_a_checkpoint_get_one() {
    let (store, ks) = open(&(tests::memory(600) as Arc<dyn Media>));
    let core = store.core();
    core.space.expect_checkpoint(4 << 20);
    // So many wait when one is asked for.
    let asked_at = |space: &Space| (1..).find(|n| space.ask_checkpoint(*n));
    let geometry = core.log.geometry();
    let twin = Space::new(geometry.segments.into(), geometry.segment_bytes);
    twin.expect_checkpoint(4 << 20);
    let worth = asked_at(&twin).unwrap();
    assert!(worth > 1, "{worth}");
    store.checkpoint().unwrap();
    let before = core.checkpointed_cut.load(Ordering::Acquire);
    for n in 0..worth {
        assert!(!core.space.wants_checkpoint(), "{n} of {worth}");
        ks.put("key", "value").unwrap();
        core.log.seal_segments();
        ks.put("key", "value").unwrap();
        core.space.expect_checkpoint(4 << 20);
        step(core).unwrap();
    }
    assert!(core.space.wants_checkpoint());
    upkeep_step(store.core()).unwrap();
    assert!(core.checkpointed_cut.load(Ordering::Acquire) > before);
    assert!(!core.space.wants_checkpoint());
    assert_eq!(retire_empty(core).unwrap().retired as u64, worth);
}

#[test]
fn what_was_read_ahead_serves_its_segment_in_that_life_alone() {
    let (store, ks) = open(&new_media());
    let core = store.core();
    let mut segments = Vec::new();
    for n in 0..2 {
        ks.put([n], "v").unwrap();
        segments.push(segment_of(core, ks.id(), &[n]));
        core.log.seal_segments();
    }
    core.sync().unwrap();
    let (one, other) = (segments[0], segments[1]);
    let (first, second) = (core.log.segment(one), core.log.segment(other));
    let read_of = |id, segment: &Segment| core.ahead.take(&core.log, id, segment).unwrap().birth();
    core.ahead.read(&core.log, one, &first);
    assert_eq!(core.ahead.peek(), Some(one));
    assert_eq!(read_of(other, &second), second.birth);
    // The bytes below are gone from the device, but not from what was read before.
    core.ahead.read(&core.log, one, &first);
    let geometry = core.log.geometry();
    let place = (geometry.start(one), geometry.segment_bytes);
    core.log.media().discard(place.0, place.1).unwrap();
    assert_eq!(read_of(one, &first), first.birth);
    core.ahead.read(&core.log, other, &second);
    let later = Segment {
        birth: heliox_format::ids::Birth(second.birth.0 + 1),
        ..second
    };
    core.log
        .media()
        .discard(geometry.start(other), geometry.segment_bytes)
        .unwrap();
    assert!(core.ahead.take(&core.log, other, &later).is_err());
}

/// A world in which nothing moves by itself.
struct Still;

impl crate::environment::Simulation for Still {
    fn elapsed(&self) -> std::time::Duration {
        std::time::Duration::ZERO
    }

    fn now_ms(&self) -> u64 {
        1
    }

    fn sleep(&self, _: std::time::Duration) {}

    fn fill_random(&self, bytes: &mut [u8]) {
        bytes.fill(7);
    }

    fn breathe(&self) {}
}

/// A checkpoint that frees nothing must not keep the others from being collected: the store would
/// call itself full.
#[test]
fn a_victim_is_collected_when_room_is_tight_and_a_checkpoint_frees_nothing() {
    let options = tests::options(new_media()).simulation(Arc::new(Still));
    let (store, ks) = tests::open(&options);
    let core = store.core();
    let mut n = 0;
    while core.log.free_segments() > core.space.data_floor() {
        ks.put(format!("k{n}"), "old").unwrap();
        core.sync().unwrap();
        core.log.seal_segments();
        n += 1;
    }
    ks.delete("k0").unwrap();
    core.sync().unwrap();
    assert!(retire_empty(core).unwrap().for_checkpoint > 0);
    // Somebody else writes a checkpoint, and in a simulation nobody waits for that.
    let other = core.checkpoint_lock.lock();
    assert!(step(core).unwrap());
    drop(other);
    assert!(core.counters.gc_moved_records.get() > 0);
}

/// They are in no sum; beside one whose entry went without a record, the check took that one's for
/// lost.
#[test]
fn members_of_a_batch_that_was_cut_off_do_not_upset_the_check() {
    let media = tests::memory(66);
    let (store, ks) = open(&(Arc::clone(&media) as Arc<dyn Media>));
    let core = store.core();
    ks.put("gone", "old").unwrap();
    let pass = core.batches.enter();
    let first = install(core, &ks, &pass, b"a", None);
    install(core, &ks, &pass, b"b", Some(first));
    core.sync().unwrap();
    let crashed: Arc<dyn Media> = Arc::new(media.as_ref().clone());
    publish(core, pass, first);
    let (store, ks) = open(&crashed);
    assert_eq!(ks.get("a").unwrap(), None);
    ks.delete_range("g", "h").unwrap();
    for _ in 0..4 {
        store.step_of(Step::Sweep).unwrap();
        ks.put("later", "x").unwrap();
        store.checkpoint().unwrap();
    }
    // Nothing tells of it any more.
    assert_eq!(store.core().ranges.len(), 0);
    store.close().unwrap();
    let report = Store::check("", &tests::options(crashed), &mut |_| {}).unwrap();
    assert_eq!(report.problems, Vec::<String>::new());
    assert!(report.records >= 4, "{report:?}");
}

// ---- what must not fail the store, or refuse a writer ----

/// Overwrites a sector with zeros, under everything that the store keeps in memory.
fn damage(core: &Core, at: Location) {
    let sector = 512;
    let address = core.log.geometry().address(at) / sector * sector;
    let zeros = heliox_media::AlignedBuf::new(sector as usize).unwrap();
    core.log.media().write_at(address, &zeros).unwrap();
    core.cache.set_budget_bytes(0);
}

fn place_of(core: &Core, ks: &Keyspace, key: &[u8]) -> Location {
    core.index.lookup(&core.prepare(ks.id(), key))[0].location
}

#[test]
fn damage_where_a_large_value_was_overwritten_costs_what_lies_there() {
    let (store, ks) = open(&new_media());
    let core = store.core();
    let (head, _) = put_large(core, &ks, b"large");
    ks.put("large", "small").unwrap();
    core.log.seal_segments();
    core.sync().unwrap();
    damage(core, place_of(core, &ks, b"large"));
    let lost = ks.get("large").unwrap_err();
    assert_eq!(lost.kind(), ErrorKind::Damaged);
    upkeep_step(core).unwrap();
    assert_eq!(chunk_entries(core, head), 4, "whose they are is not known");
    store.checkpoint().unwrap();
    step(core).unwrap();
    ks.put("other", "value").unwrap();
}

#[test]
fn damage_under_a_sweep_costs_what_lies_there() {
    for is_range in [false, true] {
        let (store, ks) = open(&new_media());
        let core = store.core();
        for key in ["a", "b"] {
            ks.put(key, "value").unwrap();
            core.log.seal_segments();
        }
        match is_range {
            false => ks.delete("a").unwrap(),
            true => ks.delete_range("a", "z").unwrap(),
        }
        core.log.seal_segments();
        store.checkpoint().unwrap();
        damage(core, place_of(core, &ks, b"a"));
        upkeep_step(core).unwrap();
        ks.delete_range("b", "c").unwrap();
        upkeep_step(core).unwrap();
        assert!(core.index.lookup(&core.prepare(ks.id(), b"b")).is_empty());
    }
}

#[test]
fn damage_below_one_tombstone_leaves_the_others_of_its_batch_alone() {
    let (store, ks) = open(&new_media());
    let core = store.core();
    let keys = ["a", "b", "c"];
    for key in keys {
        ks.put(key, "value").unwrap();
        core.log.seal_segments();
    }
    let value = place_of(core, &ks, b"b");
    keys.iter().for_each(|key| ks.delete(key).unwrap());
    core.log.seal_segments();
    store.checkpoint().unwrap();
    damage(core, value);
    upkeep_step(core).unwrap();
    let left = keys.map(|key| {
        core.index
            .lookup(&core.prepare(ks.id(), key.as_bytes()))
            .len()
    });
    assert_eq!(left, [0, 1, 0]);
}

/// Collection takes a tombstone away exactly where a sweep would; else it moves it.
#[test]
fn a_tombstone_that_nobody_needs_is_not_moved() {
    for (is_covered, is_seen) in [(true, false), (false, false), (true, true)] {
        let media = Arc::new(MemoryMedia::clone(&tests::memory(66)));
        let (store, ks) = open(&(Arc::clone(&media) as Arc<dyn Media>));
        let core = store.core();
        ks.put("key", "value").unwrap();
        core.log.seal_segments();
        let snapshot = is_seen.then(|| store.snapshot().unwrap());
        if !is_covered {
            store.checkpoint().unwrap();
        }
        ks.delete("key").unwrap();
        let tombstone = place_of(core, &ks, b"key");
        core.log.seal_segments();
        if is_covered {
            store.checkpoint().unwrap();
        }
        core.sync().unwrap();
        let id = core.log.geometry().segment_at(tombstone).unwrap();
        collect(core, id).unwrap();
        let is_gone = is_covered && !is_seen;
        assert_eq!(store.stats().tombstones_dropped, u64::from(is_gone));
        assert_eq!(core.counters.gc_moved_records.get(), u64::from(!is_gone));
        assert_eq!(core.log.segment(id).live(), 0);
        // The removal is nowhere in the log: its segment waits for a checkpoint that has it.
        let birth = core.log.views().birth(id);
        retire_empty(core).unwrap();
        let is_retired = core.log.views().birth(id) != birth;
        assert_eq!(is_retired, is_covered && is_seen);
        core.sync().unwrap();
        let crashed = Arc::new(MemoryMedia::clone(&media)) as Arc<dyn Media>;
        assert_eq!(open(&crashed).1.get("key").unwrap(), None);
        store.checkpoint().unwrap();
        retire_empty(core).unwrap();
        assert_ne!(core.log.views().birth(id), birth);
        drop(snapshot);
        let crashed = Arc::new(MemoryMedia::clone(&media)) as Arc<dyn Media>;
        assert_eq!(open(&crashed).1.get("key").unwrap(), None);
    }
}

#[test]
fn no_room_for_what_deletes_a_dead_large_value_is_waited_for() {
    let (store, ks) = open(&new_media());
    let core = store.core();
    let (head, _) = put_large(core, &ks, b"large");
    ks.put("large", "small").unwrap();
    core.log.seal_segments();
    core.sync().unwrap();
    let taken: Vec<_> = std::iter::from_fn(|| core.log.open_checkpoint_segment().ok()).collect();
    upkeep_step(core).unwrap();
    assert_eq!(chunk_entries(core, head), 4);
    for (id, _) in taken {
        core.discard_and_release(id);
    }
    upkeep_step(core).unwrap();
    assert_eq!(chunk_entries(core, head), 0);
}

/// Time that passes when somebody waits, and what is done the first time.
#[derive(Default)]
struct Passing(
    std::sync::Mutex<std::time::Duration>,
    std::sync::Mutex<Option<Box<dyn FnOnce() + Send>>>,
);

impl crate::environment::Simulation for Passing {
    fn elapsed(&self) -> std::time::Duration {
        *self.0.lock().unwrap()
    }

    fn now_ms(&self) -> u64 {
        self.elapsed().as_millis() as u64
    }

    fn sleep(&self, time: std::time::Duration) {
        *self.0.lock().unwrap() += time;
        let first = self.1.lock().unwrap().take();
        if let Some(first) = first {
            first();
        }
    }

    fn fill_random(&self, bytes: &mut [u8]) {
        bytes.fill(7);
    }

    fn breathe(&self) {}
}

/// A store at the wall, and what a backup holds of it.
fn full_but_for_a_backup(clock: &Arc<Passing>) -> (Store, Keyspace, Vec<SegmentId>) {
    let options = tests::options(new_media()).simulation(Arc::clone(clock) as Arc<_>);
    let (store, ks) = tests::open(&options);
    let core = store.core();
    store.checkpoint().unwrap();
    let pinned = core.log.with_table(|table| {
        let checkpoints = table
            .iter()
            .filter(|(_, s)| s.kind == SegmentKind::Checkpoint);
        let used = checkpoints.filter(|(_, s)| s.state != SegmentState::Free);
        used.map(|(id, _)| id).collect::<Vec<_>>()
    });
    core.pins.set(pinned.clone());
    store.checkpoint().unwrap();
    for n in 0.. {
        if core.log.free_segments() <= core.space.data_floor() {
            break;
        }
        ks.put(format!("k{n}"), "old").unwrap();
        core.log.seal_segments();
    }
    (store, ks, pinned)
}

/// Not that the store is full: nobody can know any more.
#[test]
fn a_writer_that_waits_for_room_hears_that_the_store_was_closed() {
    let clock = Arc::new(Passing::default());
    let (store, ks, _) = full_but_for_a_backup(&clock);
    *clock.1.lock().unwrap() = Some(Box::new(move || store.close().unwrap()));
    let refused = ks.put("more", "new").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Closed);
}

/// A step of collection that began before a checkpoint was written does not know that what it
/// replaced waits for a backup.
#[test]
fn a_writer_waits_for_what_a_backup_holds_whatever_collection_found_before() {
    let clock = Arc::new(Passing::default());
    let (store, ks, pinned) = full_but_for_a_backup(&clock);
    let core = store.core();
    for is_held in [true, false] {
        assert_eq!(core.pins.held() > 0, is_held);
        let begun = crate::environment::Simulation::elapsed(&*clock);
        core.space.begin_look(begun);
        core.space.end_look(true);
        let refused = ks.put("more", "new").unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Full);
        let waited = crate::environment::Simulation::elapsed(&*clock) - begun;
        assert_eq!(waited > std::time::Duration::from_secs(20), is_held);
        for id in pinned.iter().filter(|_| is_held) {
            core.pins.take_off(*id);
        }
    }
}

/// Whatever part of it the index has no memory for.
#[test]
fn a_large_value_that_is_over_the_budget_leaves_no_chunks() {
    for before in 0..4 {
        let (store, ks) = tests::open(&tests::options(tests::memory(260)));
        let core = store.core();
        for n in 0..before {
            ks.put(format!("small{n}"), "value").unwrap();
        }
        let first = core.next_value_id.load(Ordering::Relaxed);
        core.index.set_limit_bytes(core.index.memory_bytes());
        let mut taken = 0;
        let refused = loop {
            match ks.put(format!("large{taken}"), vec![7; 1200 << 10]) {
                Ok(()) => taken += 1,
                Err(error) => break error,
            }
        };
        assert_eq!(refused.kind(), ErrorKind::OverBudget, "{refused}");
        let ids = first..core.next_value_id.load(Ordering::Relaxed);
        let len_bytes = 1200 << 10;
        let left = ids.map(|id| chunk_entries(core, large::Head { id, len_bytes }));
        assert_eq!(left.sum::<usize>(), 3 * taken);
    }
}

#[test]
fn range_deletes_that_cannot_be_swept_do_not_cost_a_checkpoint_each() {
    let clock = Arc::new(Passing::default());
    let options = tests::options(new_media()).simulation(Arc::clone(&clock) as Arc<_>);
    let (store, ks) = tests::open(&options);
    let core = store.core();
    ks.put("a", "value").unwrap();
    core.log.seal_segments();
    core.sync().unwrap();
    damage(core, place_of(core, &ks, b"a"));
    for _ in 0..heliox_format::limits::RANGE_DELETES_MAX {
        ks.delete_range("a", "b").unwrap();
    }
    let before = core.counters.checkpoints.get();
    let refused = ks.delete_range("a", "b").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Full);
    assert_eq!(core.counters.checkpoints.get(), before);
}
