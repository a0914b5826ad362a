//! Two keys with one fingerprint, and collection step by step. In a fresh store no slice tells keys
//! apart, so that each takes the other's entry; later ones do, and then an entry no longer matches
//! the key that lost it.

use std::collections::HashMap;
use std::sync::Arc;

use heliox_format::ids::Birth;
use heliox_index::PreparedKey;
use heliox_media::{Media, MemoryMedia};

use super::*;
use crate::background::upkeep_step;
use crate::keyspace::Keyspace;
use crate::options::Options;
use crate::store::Store;
use crate::{gc, sweep, tests};

/// Where a record lies, and in which life of the segment.
#[derive(Clone, Copy)]
struct Place(Location, Birth);

struct Pair {
    media: Arc<MemoryMedia>,
    store: Store,
    ks: Keyspace,
    a: Vec<u8>,
    b: Vec<u8>,
}

fn options(media: &Arc<MemoryMedia>) -> Options {
    tests::options(Arc::clone(media) as Arc<dyn Media>)
}

/// Two keys whose fingerprints of all 31 bits are equal.
fn two_keys(core: &Core, ks: &Keyspace) -> (Vec<u8>, Vec<u8>) {
    let mut known = HashMap::new();
    for n in 0u32.. {
        let key = format!("key{n}").into_bytes();
        let hash = PreparedKey::hash_of(core.hash_seed, ks.id(), &key);
        if let Some(other) = known.insert(hash >> 32 << 1, key.clone()) {
            return (other, key);
        }
    }
    unreachable!()
}

impl Pair {
    fn new() -> Pair {
        let media = tests::memory(130);
        let store = Store::open("", &options(&media)).unwrap();
        let ks = store.keyspace_or_create("ks").unwrap();
        let (a, b) = two_keys(store.core(), &ks);
        Pair {
            media,
            store,
            ks,
            a,
            b,
        }
    }

    /// The process dies; what was written is there.
    fn crash(mut self) -> Pair {
        self.store.sync().unwrap();
        self.media = Arc::new(MemoryMedia::clone(&self.media));
        std::mem::forget(self.store.clone());
        self.store = Store::open("", &options(&self.media)).unwrap();
        assert!(self.store.damage().is_empty());
        self.ks = self.store.keyspace("ks").unwrap();
        self
    }

    fn core(&self) -> &Core {
        self.store.core()
    }

    /// Writes a key into a segment of its own; gives its place.
    fn put(&self, key: &[u8], value: &str) -> Place {
        self.ks.put(key, value).unwrap();
        self.end_segment(key)
    }

    fn end_segment(&self, key: &[u8]) -> Place {
        self.core().log.seal_segments();
        let key = self.core().prepare(self.ks.id(), key);
        let at = self.core().index.lookup(&key)[0].location;
        Place(at, self.life(at))
    }

    fn get(&self, key: &[u8]) -> Option<String> {
        let value = self.ks.get(key).unwrap();
        value.map(|v| String::from_utf8(v).unwrap())
    }

    fn life(&self, at: Location) -> Birth {
        let id = self.core().log.geometry().segment_at(at).unwrap();
        self.core().log.views().birth(id)
    }

    /// Adds keys until the slices of the two differ.
    fn tell_apart(&self) {
        for n in 0..4000 {
            self.ks
                .put(format!("key{}f", n * 37 % 148_000), "")
                .unwrap();
        }
        let of = |key: &[u8]| {
            self.core()
                .index
                .lookup(&self.core().prepare(self.ks.id(), key))
        };
        assert!(of(&self.a).is_empty(), "the entry still matches both");
        assert_eq!(of(&self.b).len(), 1);
        self.core().log.seal_segments();
    }

    fn checkpoint(&self) {
        self.store.checkpoint().unwrap();
    }

    /// Collects until the segment in which the record at `at` lies is gone.
    fn collect_until_gone(&self, Place(at, birth): Place) {
        for _ in 0..20 {
            if self.life(at) != birth {
                return;
            }
            self.store.sync().unwrap();
            self.checkpoint();
            gc::step(self.core()).unwrap();
        }
        panic!("the segment stays: {:?}", self.store.stats());
    }

    fn sweep(&self) {
        sweep::step(self.store.core()).unwrap();
    }

    fn healed(&self) -> u64 {
        self.store.stats().strangers_healed
    }

    fn settled(&self, at: Place) -> bool {
        self.core().log.is_settled(at.0)
    }

    fn differs(&self, at: Place) -> bool {
        let id = self.core().log.geometry().segment_at(at.0).unwrap();
        let segment = self.core().log.segment(id);
        assert!(!segment.voided);
        segment.displaced_sum != segment.appended_sum
    }

    fn assert_sound(&self) {
        let at = Arc::new(MemoryMedia::clone(&self.media));
        let report = crate::check::run("".as_ref(), &options(&at), &mut |_| ()).unwrap();
        assert_eq!(report.problems, Vec::<String>::new());
    }
}

/// No entry matches the lost key any more, and no chain leads to its record.
#[test]
fn a_record_that_nothing_leads_to_is_found_by_the_sums() {
    for is_crash in [false, true] {
        let mut pair = Pair::new();
        let a1 = pair.put(&pair.a, "a1");
        pair.put(&pair.b, "b1");
        assert_eq!(pair.get(&pair.a).as_deref(), Some("a1"), "through the link");
        pair.tell_apart();
        pair.put(&pair.b, "b2");
        assert_eq!(pair.get(&pair.a), None, "nothing leads to it");
        if is_crash {
            pair = pair.crash();
        }
        assert!(pair.differs(a1));
        pair.collect_until_gone(a1);
        assert_eq!(pair.get(&pair.a).as_deref(), Some("a1"));
        assert_eq!(pair.get(&pair.b).as_deref(), Some("b2"));
        assert_eq!(pair.healed(), 1);
        pair.assert_sound();
        let pair = pair.crash();
        assert_eq!(pair.get(&pair.a).as_deref(), Some("a1"));
    }
}

/// What else died in the segment died rightly: it does not come back with the one that did not.
#[test]
fn only_the_record_that_the_sums_tell_of_is_touched() {
    let pair = Pair::new();
    for n in 0..200 {
        pair.ks.put(format!("gone{n}"), "x").unwrap();
    }
    let a1 = pair.put(&pair.a, "a1");
    pair.put(&pair.b, "b1");
    pair.tell_apart();
    for n in 0..200 {
        pair.ks.delete(format!("gone{n}")).unwrap();
    }
    pair.checkpoint();
    pair.sweep();
    assert_eq!(pair.store.stats().tombstones_dropped, 200);
    pair.collect_until_gone(a1);
    assert_eq!(pair.get(&pair.a).as_deref(), Some("a1"));
    assert_eq!(pair.healed(), 1);
    for n in 0..200 {
        assert_eq!(pair.get(format!("gone{n}").as_bytes()), None);
    }
}

/// tA -> a2 -> b1 -> a1: the tombstone goes, and nothing but the settlement remembers it.
#[test]
fn a_deleted_key_stays_deleted_when_its_tombstone_went_first() {
    for is_crash in [false, true] {
        let mut pair = Pair::new();
        pair.ks.put("stays", "").unwrap();
        let a1 = pair.put(&pair.a, "a1");
        let b1 = pair.put(&pair.b, "b1");
        pair.put(&pair.a, "a2");
        pair.ks.delete(&pair.a).unwrap();
        pair.checkpoint();
        pair.sweep();
        assert_eq!(pair.healed(), 1, "the other key has its entry again");
        assert_eq!(pair.get(&pair.b).as_deref(), Some("b1"));
        // Two entries match: the tombstone waits until they are told apart.
        assert_eq!(pair.store.stats().tombstones_dropped, 0);
        pair.tell_apart_but_for_tombstones();
        assert!(pair.settled(a1) && pair.settled(b1));
        pair.checkpoint();
        pair.sweep();
        assert_eq!(pair.store.stats().tombstones_dropped, 1);
        if is_crash {
            pair.checkpoint();
            pair = pair.crash();
            assert!(
                pair.settled(a1) && pair.settled(b1),
                "not in the checkpoint"
            );
        }
        pair.put(&pair.b, "b2");
        pair.ks.put("stays", "elsewhere").unwrap();
        pair.collect_until_gone(a1);
        assert_eq!(pair.get(&pair.a), None);
        assert_eq!(pair.get(&pair.b).as_deref(), Some("b2"));
        pair.assert_sound();
    }
}

impl Pair {
    /// As `tell_apart`, where both keys have entries.
    fn tell_apart_but_for_tombstones(&self) {
        for n in 0..4000 {
            self.ks
                .put(format!("key{}f", n * 37 % 148_000), "")
                .unwrap();
        }
        self.core().log.seal_segments();
    }

    /// Writes a1, b1, b2 and the tombstone of A, and lets b1 go before that if `is_broken`.
    fn delete_over_other(&self, is_broken: bool) -> (Place, Place) {
        self.ks.put("stays", "").unwrap();
        let a1 = self.put(&self.a, "a1");
        let b1 = self.put(&self.b, "b1");
        let b2 = self.put(&self.b, "b2");
        if is_broken {
            self.collect_until_gone(b1);
        }
        self.ks.delete(&self.a).unwrap();
        self.end_segment(&self.a);
        self.checkpoint();
        self.sweep();
        (a1, b2)
    }
}

/// tA -> b2, and the rest of the chain may be gone: a version of the tombstone's key may lie hidden
/// anywhere, so it is kept until every segment that could hold one is gone.
#[test]
fn a_tombstone_that_took_another_keys_entry_is_kept_while_it_may_be_needed() {
    for is_broken in [false, true] {
        let mut pair = Pair::new();
        let (a1, b2) = pair.delete_over_other(is_broken);
        assert_eq!(pair.get(&pair.b).as_deref(), Some("b2"));
        assert_eq!((pair.healed(), pair.get(&pair.a)), (1, None));
        assert!(pair.settled(b2));
        assert_eq!(pair.settled(a1), !is_broken, "as far as the chain leads");
        pair.tell_apart_but_for_tombstones();
        for _ in 0..3 {
            pair.sweep();
        }
        assert_eq!(pair.store.stats().tombstones_dropped, 0);
        // Nothing is entered or healed twice, nor by the next run.
        pair.checkpoint();
        pair = pair.crash();
        pair.sweep();
        assert_eq!(pair.healed(), 0);
        assert!(!pair.differs(b2), "it was settled twice");
        // Nor is it forgotten when what told so is gone, and the tombstone was moved.
        pair.put(&pair.b, "b3");
        pair.collect_until_gone(b2);
        pair.checkpoint();
        pair = pair.crash();
        pair.checkpoint();
        pair.sweep();
        assert_eq!(pair.store.stats().tombstones_dropped, 0);
        pair.ks.put("stays", "elsewhere").unwrap();
        pair.collect_until_gone(a1);
        assert_eq!(pair.get(&pair.a), None);
        assert_eq!(pair.get(&pair.b).as_deref(), Some("b3"));
        assert_eq!(pair.healed(), 0);
        pair.rewrite_everything();
        pair.checkpoint();
        pair.sweep();
        assert_eq!(
            pair.store.stats().tombstones_dropped,
            1,
            "it is kept for ever"
        );
        assert_eq!(pair.get(&pair.a), None);
        pair.assert_sound();
    }
}

impl Pair {
    /// Until no segment is left that began before now.
    fn rewrite_everything(&self) {
        let now = self.core().log.last_seq();
        for _ in 0..60 {
            for n in 0..4000 {
                self.ks
                    .put(format!("key{}f", n * 37 % 148_000), "")
                    .unwrap();
            }
            self.ks.put("stays", "again").unwrap();
            self.ks.put(&self.b, "b3").unwrap();
            self.core().log.seal_segments();
            self.store.sync().unwrap();
            self.checkpoint();
            while gc::step(self.core()).unwrap() && oldest_segment(self.core()) <= now {}
            self.sweep();
            if oldest_segment(self.core()) > now {
                return;
            }
        }
        panic!("old segments are left");
    }
}

/// A crash forgets what was settled since the checkpoint by an entry that was seen, and not what a record
/// settled; the tombstone is there again, and so is the other key's new entry.
#[test]
fn what_a_crash_forgets_is_settled_again_and_once() {
    let pair = Pair::new();
    pair.checkpoint();
    let (a1, b2) = pair.delete_over_other(false);
    assert!(pair.settled(a1) && pair.settled(b2));
    let pair = pair.crash();
    assert!(!pair.settled(a1), "no checkpoint was taken since");
    assert!(pair.settled(b2), "the record that healed it says so");
    assert_eq!(pair.get(&pair.b).as_deref(), Some("b2"));
    pair.checkpoint();
    pair.sweep();
    assert!(pair.settled(a1) && pair.settled(b2));
    assert_eq!(pair.healed(), 0);
    assert!(!pair.differs(b2), "settled, and nothing of it is live");
    assert_eq!(pair.get(&pair.a), None);
}

/// A conditional write reads the hidden version, and takes its place: it must not come back when
/// that went too, nor when a crash came between.
#[test]
fn a_hidden_version_that_was_replaced_by_reading_stays_dead() {
    for (is_taken, crashes) in [(false, false), (true, false), (false, true), (true, true)] {
        let mut pair = Pair::new();
        pair.checkpoint();
        pair.ks.put("stays", "").unwrap();
        let a1 = pair.put(&pair.a, "a1");
        pair.put(&pair.b, "b1");
        if is_taken {
            assert_eq!(pair.ks.take(&pair.a).unwrap().as_deref(), Some(&b"a1"[..]));
        } else {
            assert!(pair.ks.replace_if_present(&pair.a, "a2").unwrap());
            pair.ks.delete(&pair.a).unwrap();
        }
        if crashes {
            pair = pair.crash();
        }
        assert!(pair.settled(a1));
        pair.tell_apart_but_for_tombstones();
        pair.checkpoint();
        pair.sweep();
        assert_eq!(pair.store.stats().tombstones_dropped, 1);
        pair.ks.put("stays", "elsewhere").unwrap();
        pair.collect_until_gone(a1);
        assert_eq!(pair.get(&pair.a), None);
        assert_eq!(pair.get(&pair.b).as_deref(), Some("b1"));
    }
}

impl Pair {
    /// Until the sweep of all range deletes is through, and they are forgotten.
    fn sweep_ranges(&self) {
        for _ in 0..5 {
            self.store.sync().unwrap();
            self.sweep();
            self.checkpoint();
            upkeep_step(self.store.core()).unwrap();
        }
        assert_eq!(self.core().ranges.len(), 0);
    }
}

/// a1 lies below b1. Of b, nothing is deleted, or what is written after, or all.
#[test]
fn what_a_range_took_away_below_another_keys_entry_stays_away() {
    for (takes_other, other) in [(false, Some("b1")), (true, Some("b2")), (true, None)] {
        let pair = Pair::new();
        pair.ks.put("stays", "").unwrap();
        let a1 = pair.put(&pair.a, "a1");
        pair.put(&pair.b, "b1");
        assert_eq!(pair.get(&pair.a).as_deref(), Some("a1"), "through the link");
        let after = [&pair.a[..], b"-"].concat();
        pair.ks.delete_range(&pair.a, after).unwrap();
        if takes_other {
            pair.ks.delete_range("key", "kez").unwrap();
        }
        if other == Some("b2") {
            pair.put(&pair.b, "b2");
        }
        pair.sweep_ranges();
        assert_eq!(pair.get(&pair.a), None, "by the chain of {other:?}");
        assert!(pair.settled(a1));
        let pair = pair.crash();
        pair.tell_apart_but_for_tombstones();
        pair.ks.put("stays", "elsewhere").unwrap();
        pair.collect_until_gone(a1);
        assert_eq!(pair.get(&pair.a), None, "by the sums");
        assert_eq!(pair.get(&pair.b).as_deref(), other);
        pair.assert_sound();
    }
}

/// A snapshot reads b1 through b2, so the way to a1 stays, and with it the range.
#[test]
fn a_range_is_not_forgotten_while_a_snapshot_needs_the_chain() {
    let pair = Pair::new();
    pair.put(&pair.a, "a1");
    pair.put(&pair.b, "b1");
    let after = [&pair.a[..], b"-"].concat();
    pair.ks.delete_range(&pair.a, after).unwrap();
    let snapshot = pair.store.snapshot().unwrap();
    pair.put(&pair.b, "b2");
    pair.store.sync().unwrap();
    for _ in 0..3 {
        pair.sweep();
        pair.checkpoint();
        upkeep_step(pair.store.core()).unwrap();
    }
    assert_eq!(pair.core().ranges.len(), 1);
    let read = pair.ks.get_at(&pair.b, &snapshot).unwrap();
    assert_eq!(read.as_deref(), Some(&b"b1"[..]));
    assert_eq!(pair.ks.get_at(&pair.a, &snapshot).unwrap(), None);
    drop(snapshot);
    pair.sweep_ranges();
    assert_eq!(pair.get(&pair.a), None);
    assert_eq!(pair.get(&pair.b).as_deref(), Some("b2"));
}

/// The chunks of a large value are needed as long as its head may get an entry again.
#[test]
fn a_large_value_whose_head_lost_its_entry_keeps_its_chunks() {
    let pair = Pair::new();
    let large = vec![7; 2 << 20];
    pair.ks.put(&pair.a, &large).unwrap();
    let head = pair.end_segment(&pair.a);
    pair.put(&pair.b, "b1");
    pair.tell_apart();
    assert_eq!(pair.ks.get(&pair.a).unwrap(), None);
    pair.collect_until_gone(head);
    assert!(pair.ks.get(&pair.a).unwrap() == Some(large));
    assert_eq!(pair.healed(), 1);
}

/// An entry that expires is no displacement by another key, and its segment is not read for it.
#[test]
fn an_entry_that_went_without_a_record_leaves_the_sums_even() {
    let pair = Pair::new();
    let a1 = pair.put(&pair.a, "a1");
    pair.ks.delete(&pair.a).unwrap();
    let tombstone = pair.end_segment(&pair.a);
    pair.checkpoint();
    pair.sweep();
    assert_eq!(pair.store.stats().tombstones_dropped, 1);
    assert!(!pair.differs(tombstone) && !pair.differs(a1));
    let read = pair.core().counters.gc_bytes_read.get();
    pair.collect_until_gone(tombstone);
    assert_eq!(pair.core().counters.gc_bytes_read.get(), read);
    pair.assert_sound();
}

/// The only copy of a record that was healed may not be durable yet when its sums agree again.
#[test]
fn a_segment_waits_until_what_stands_in_for_its_stranger_is_durable() {
    let pair = Pair::new();
    let a1 = pair.put(&pair.a, "a1");
    pair.put(&pair.b, "b1");
    pair.tell_apart();
    pair.checkpoint();
    let id = pair.core().log.geometry().segment_at(a1.0).unwrap();
    assert!(heal_segment(pair.core(), id).unwrap());
    assert!(!pair.differs(a1));
    let healed = pair.core().log.last_seq();
    assert!(pair.core().log.durable_seq() < healed);
    pair.collect_until_gone(a1);
    assert!(pair.core().log.durable_seq() >= healed);
}
