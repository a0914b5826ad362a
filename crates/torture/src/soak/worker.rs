//! One thread of the load: draws operations, does them, and holds every answer against what its
//! part of the store must hold. Its own thread only.

use heliox::{Batch, Durability, Error, ErrorKind, Iter, Keyspace, Snapshot, Store, WriteOptions};
use heliox_media::Random;

use super::model::{Expected, Part, Zipf, KEYSPACES};
use super::run::{Kind, Run};
use super::value::{key, parse_key, Stamp, VALUE_BYTES_MIN};
use crate::failure::{Failure, Result};
use crate::worker::delete_range;

/// The keyspace of values above 1 MiB, and how many each of a few threads has.
const LARGE: &str = "large";
const LARGE_SLOTS: u64 = 3;
const LARGE_THREADS: u16 = 2;
const LARGE_BYTES_MIN: u64 = 1 << 20;
const LARGE_BYTES_MAX: u64 = 3 << 20;
/// Most snapshots, and iterators, that a thread holds at a time.
const HELD_MAX: usize = 3;
/// Longest that it holds one, in operations.
const HELD_OPERATIONS_MAX: u64 = 100_000;
/// Keys of which a held snapshot knows what they were.
const SNAPSHOT_KEYS: u64 = 32;
/// Members of a batch, keys of a `multi_get`, items of a scan, keys of a range delete, at most.
const BATCH_MAX: u64 = 16;
const MULTI_GET_MAX: u64 = 32;
const SCAN_MAX: u64 = 300;
const RANGE_MAX: u64 = 120;
/// Keys of a keyspace that is dropped soon.
const PASSING_KEYS: u32 = 500;
/// Longest that a value lives which expires, in milliseconds.
const TTL_MS_MAX: u64 = 30_000;
/// Of so many puts, one waits until it is durable.
const SYNC_PUT_ONE_IN: u64 = 64;

/// What a thread needs of the open store; let go of before it is closed.
struct Lane {
    store: Store,
    keyspaces: [Keyspace; 2],
    large: Keyspace,
    snapshots: Vec<HeldSnapshot>,
    iterators: Vec<(Iter, u64)>,
}

struct HeldSnapshot {
    snapshot: Snapshot,
    until: u64,
    keys: Vec<(usize, u32, Expected)>,
}

impl Lane {
    fn open(run: &Run) -> Result<Lane> {
        let store = run.store()?;
        let make = |name: &str| {
            store
                .keyspace_or_create(name)
                .map_err(Failure::store("keyspace"))
        };
        let [first, second] = KEYSPACES;
        Ok(Lane {
            keyspaces: [make(first)?, make(second)?],
            large: make(LARGE)?,
            store,
            snapshots: Vec::new(),
            iterators: Vec::new(),
        })
    }

    fn at(&self, keyspace: usize) -> &Keyspace {
        let [first, second] = &self.keyspaces;
        if keyspace == 0 {
            first
        } else {
            second
        }
    }
}

/// One thread of the load.
pub(crate) struct Worker<'a> {
    run: &'a Run,
    thread: u16,
    random: Random,
    zipf: Zipf,
    part: Part,
    /// The versions of its large values; 0 for none.
    large: Vec<(u32, u32)>,
    operations: u64,
}

impl<'a> Worker<'a> {
    pub(crate) fn new(run: &'a Run, thread: u16) -> Worker<'a> {
        let slots = run.plan.slots();
        let large = if thread < LARGE_THREADS {
            LARGE_SLOTS
        } else {
            0
        };
        Worker {
            run,
            thread,
            random: Random::new(run.plan.seed ^ u64::from(thread) << 32),
            zipf: Zipf::new(slots),
            part: Part::new(thread, slots),
            large: vec![(0, 0); large as usize],
            operations: 0,
        }
    }

    /// Puts values until the part is as full as it is to be.
    pub(crate) fn fill(&mut self) -> Result<()> {
        let lane = Lane::open(self.run)?;
        while !self.is_full() && !self.run.is_stopped() {
            let (keyspace, slot) = self.uniform();
            if !self.part.has(keyspace, slot) {
                self.put(&lane, keyspace, slot)?;
            }
        }
        Ok(())
    }

    /// Works until the run ends.
    pub(crate) fn work(&mut self) -> Result<()> {
        let run = self.run;
        let mut lane = Lane::open(run)?;
        while !run.is_stopped() {
            if run.gate.is_closing() {
                drop(lane);
                run.gate.park();
                lane = Lane::open(run)?;
                self.look_around(&lane)?;
                continue;
            }
            self.operations += 1;
            self.operate(&mut lane)?;
            self.let_go(&mut lane)?;
        }
        Ok(())
    }

    /// Everything that this thread ever wrote, by one scan of each keyspace.
    pub(crate) fn verify_all(&mut self) -> Result<()> {
        let lane = Lane::open(self.run)?;
        if self.run.plan.plants("wrong-model") {
            self.part.falsify();
        }
        for keyspace in 0..KEYSPACES.len() {
            self.scan(&lane, keyspace, 0, false, u64::MAX)?;
        }
        (0..self.large.len()).try_for_each(|slot| self.read_large(&lane, slot))
    }

    fn is_full(&self) -> bool {
        self.part.live_bytes() >= self.run.plan.part_bytes()
    }

    fn uniform(&mut self) -> (usize, u32) {
        let slots = u64::from(self.part.slots());
        (
            self.random.below(2) as usize,
            self.random.below(slots) as u32,
        )
    }

    /// A key: one in two is hot.
    fn any(&mut self) -> (usize, u32) {
        if self.random.below(2) == 0 {
            return self.uniform();
        }
        let slot = self.zipf.draw(&mut self.random);
        (self.random.below(2) as usize, slot)
    }

    /// A key that never expires.
    fn lasting(&mut self) -> (usize, u32) {
        loop {
            let (keyspace, slot) = self.any();
            if !Part::expires(keyspace, slot) {
                return (keyspace, slot);
            }
        }
    }

    /// Mostly small values, a few of many blocks.
    fn bytes(&mut self) -> u32 {
        let above = match self.random.below(100) {
            0 => self.random.below(32_000),
            1..=14 => self.random.below(3_000),
            _ => self.random.below(400),
        };
        VALUE_BYTES_MIN + above as u32
    }

    fn operate(&mut self, lane: &mut Lane) -> Result<()> {
        match self.random.below(20_000) {
            0 => self.passing_keyspace(lane),
            1..=19 => self.make_durable(lane),
            20..=39 => self.bad_input(lane),
            40..=44 => self.large_value(lane),
            45..=119 => self.snapshot(lane),
            120..=149 => self.hold_iterator(lane),
            150..=169 => self.range_delete(lane),
            170..=399 => self.any_scan(lane),
            400..=999 => self.batch(lane),
            1_000..=1_799 => self.multi_get(lane),
            1_800..=2_999 => self.conditional(lane),
            3_000..=3_999 => self.foreign(lane),
            4_000..=10_999 => self.get(lane),
            11_000..=12_199 => self.any_delete(lane),
            _ => self.any_put(lane),
        }
    }

    fn wrote(&self, kind: Kind) {
        self.run.count(kind, 1);
        self.run.acknowledged();
    }

    fn wrong(&self, what: &str, keyspace: usize, slot: u32, detail: String) -> Failure {
        let name = KEYSPACES.get(keyspace).unwrap_or(&LARGE);
        Failure::Violation(format!(
            "{what} of key {} in {name}, operation {} of thread {}: {detail}",
            String::from_utf8_lossy(&key(self.thread, slot)),
            self.operations,
            self.thread
        ))
    }

    fn expect(
        &self,
        what: &str,
        (keyspace, slot): (usize, u32),
        begun: u32,
        found: Option<&[u8]>,
    ) -> Result<()> {
        let expected = self.part.expected(keyspace, slot, begun, self.run.now_ms());
        if expected.allows(found) {
            return Ok(());
        }
        let detail = format!("expected {expected:?}, found {}", show(found));
        Err(self.wrong(what, keyspace, slot, detail))
    }

    // ---- single keys ----

    fn any_put(&mut self, lane: &Lane) -> Result<()> {
        let (keyspace, slot) = self.any();
        // What is new waits until there is room for it.
        if self.is_full() && !self.part.has(keyspace, slot) {
            let place = self.present();
            return self.delete(lane, place);
        }
        self.put(lane, keyspace, slot)
    }

    /// A key with a value, if one is found soon.
    fn present(&mut self) -> (usize, u32) {
        let mut place = self.uniform();
        for _ in 0..20 {
            if self.part.has(place.0, place.1) {
                break;
            }
            place = self.uniform();
        }
        place
    }

    fn put(&mut self, lane: &Lane, keyspace: usize, slot: u32) -> Result<()> {
        let bytes = self.bytes();
        let stamp = self.part.next(keyspace, slot, bytes);
        let mut options = WriteOptions::new();
        let mut expiry = None;
        let begun = self.run.now_ms();
        if Part::expires(keyspace, slot) {
            let ttl_ms = 1 + self.random.below(TTL_MS_MAX);
            options = options.ttl_ms(ttl_ms);
            expiry = Some(ttl_ms as u32);
        } else if self.random.below(SYNC_PUT_ONE_IN) == 0 {
            options = options.durability(Durability::Sync);
        }
        lane.at(keyspace)
            .put_with(key(self.thread, slot), stamp.value(), &options)
            .map_err(Failure::store("put"))?;
        let ended = self.run.now_ms();
        let moments = |ttl_ms: u32| (begun + ttl_ms, ended + ttl_ms + 1);
        self.part.wrote(&stamp, expiry.map(moments));
        self.wrote(if expiry.is_some() {
            Kind::PutTtl
        } else {
            Kind::Put
        });
        Ok(())
    }

    fn any_delete(&mut self, lane: &Lane) -> Result<()> {
        let place = self.any();
        self.delete(lane, place)
    }

    fn delete(&mut self, lane: &Lane, (keyspace, slot): (usize, u32)) -> Result<()> {
        lane.at(keyspace)
            .delete(key(self.thread, slot))
            .map_err(Failure::store("delete"))?;
        self.part.deleted(keyspace, slot);
        self.wrote(Kind::Delete);
        Ok(())
    }

    fn get(&mut self, lane: &Lane) -> Result<()> {
        let (keyspace, slot) = self.any();
        self.get_one(lane, keyspace, slot)
    }

    fn get_one(&mut self, lane: &Lane, keyspace: usize, slot: u32) -> Result<()> {
        let begun = self.run.now_ms();
        let found = lane
            .at(keyspace)
            .get(key(self.thread, slot))
            .map_err(Failure::store("get"))?;
        self.run.count(Kind::Get, 1);
        self.expect("get", (keyspace, slot), begun, found.as_deref())
    }

    /// After the store was opened anew.
    fn look_around(&mut self, lane: &Lane) -> Result<()> {
        for _ in 0..500 {
            let (keyspace, slot) = self.uniform();
            self.get_one(lane, keyspace, slot)?;
        }
        (0..self.large.len()).try_for_each(|slot| self.read_large(lane, slot))
    }

    /// Of another thread's key it is known only that its value is whole, and its own.
    fn foreign(&mut self, lane: &Lane) -> Result<()> {
        let thread = self.random.below(u64::from(self.run.plan.threads)) as u16;
        let (keyspace, slot) = self.any();
        let found = lane
            .at(keyspace)
            .get(key(thread, slot))
            .map_err(Failure::store("get"))?;
        self.run.count(Kind::ForeignGet, 1);
        match found {
            Some(value) => self.is_own(keyspace, &key(thread, slot), &value).map(drop),
            None => Ok(()),
        }
    }

    /// Any key's value is whole, and that key's.
    fn is_own(&self, keyspace: usize, key: &[u8], value: &[u8]) -> Result<(u16, u32)> {
        let place = parse_key(key);
        let told = Stamp::of(value).map(|s| (s.thread, s.slot, usize::from(s.keyspace)));
        match (place, told) {
            (Some((thread, slot)), Some(told)) if told == (thread, slot, keyspace) => {
                Ok((thread, slot))
            }
            _ => Err(Failure::Violation(format!(
                "key {} in keyspace {keyspace}: found {}",
                String::from_utf8_lossy(key),
                show(Some(value))
            ))),
        }
    }

    fn multi_get(&mut self, lane: &Lane) -> Result<()> {
        let keyspace = self.random.below(2) as usize;
        let slots: Vec<u32> = (0..1 + self.random.below(MULTI_GET_MAX))
            .map(|_| self.any().1)
            .collect();
        let keys: Vec<Vec<u8>> = slots.iter().map(|slot| key(self.thread, *slot)).collect();
        let begun = self.run.now_ms();
        let found = lane
            .at(keyspace)
            .multi_get(&keys)
            .map_err(Failure::store("multi_get"))?;
        self.run.count(Kind::MultiGet, 1);
        if found.len() != slots.len() {
            let words = format!("multi_get of {} keys gave {}", slots.len(), found.len());
            return Err(Failure::Violation(words));
        }
        for (slot, found) in slots.iter().zip(&found) {
            self.expect("multi_get", (keyspace, *slot), begun, found.as_deref())?;
        }
        Ok(())
    }

    fn conditional(&mut self, lane: &Lane) -> Result<()> {
        let (keyspace, slot) = self.lasting();
        let (had, bytes) = (self.part.has(keyspace, slot), self.bytes());
        let stamp = self.part.next(keyspace, slot, bytes);
        let (at, name) = (lane.at(keyspace), key(self.thread, slot));
        let choice = self
            .random
            .below(if self.is_full() && !had { 3 } else { 4 });
        let begun = self.run.now_ms();
        let failed = Failure::store("a conditional write");
        let (wrote, right) = match choice {
            0 => {
                let done = at.replace_if_present(name, stamp.value()).map_err(failed)?;
                (done, done == had)
            }
            1 => {
                let found = at.take(name).map_err(failed)?;
                self.expect("take", (keyspace, slot), begun, found.as_deref())?;
                self.part.deleted(keyspace, slot);
                (false, true)
            }
            2 => {
                let mut seen = None;
                at.update(name, |old| {
                    seen = old.map(<[u8]>::to_vec);
                    old.map(|_| stamp.value())
                })
                .map_err(failed)?;
                self.expect("update", (keyspace, slot), begun, seen.as_deref())?;
                (had, true)
            }
            _ => {
                let done = at.insert_if_absent(name, stamp.value()).map_err(failed)?;
                (done, done != had)
            }
        };
        if !right {
            let detail = format!("it had a value: {had}; written: {wrote}");
            return Err(self.wrong("conditional write", keyspace, slot, detail));
        }
        if wrote {
            self.part.wrote(&stamp, None);
        }
        self.wrote(Kind::Conditional);
        Ok(())
    }

    // ---- many keys ----

    fn batch(&mut self, lane: &Lane) -> Result<()> {
        let mut batch = Batch::new();
        let mut members: Vec<(usize, u32, Option<Stamp>)> = Vec::new();
        for _ in 0..2 + self.random.below(BATCH_MAX - 1) {
            let (keyspace, slot) = self.lasting();
            if members.iter().any(|(k, s, _)| (*k, *s) == (keyspace, slot)) {
                continue;
            }
            let (name, bytes) = (key(self.thread, slot), self.bytes());
            let full = self.is_full() && !self.part.has(keyspace, slot);
            if full || self.random.below(8) == 0 {
                batch.delete(lane.at(keyspace), name);
                members.push((keyspace, slot, None));
            } else {
                let stamp = self.part.next(keyspace, slot, bytes);
                batch.put(lane.at(keyspace), name, stamp.value());
                members.push((keyspace, slot, Some(stamp)));
            }
        }
        lane.store
            .write(&batch)
            .map_err(Failure::store("a batch"))?;
        for (keyspace, slot, stamp) in members {
            match stamp {
                Some(stamp) => self.part.wrote(&stamp, None),
                None => self.part.deleted(keyspace, slot),
            }
        }
        self.wrote(Kind::Batch);
        Ok(())
    }

    fn range_delete(&mut self, lane: &Lane) -> Result<()> {
        let (keyspace, from) = self.uniform();
        let to = from + 1 + self.random.below(RANGE_MAX) as u32;
        let (first, end) = (key(self.thread, from), key(self.thread, to));
        if self.is_refused(delete_range(lane.at(keyspace), &first, &end))? {
            return Ok(());
        }
        for slot in from..to.min(self.part.slots()) {
            self.part.deleted(keyspace, slot);
        }
        self.wrote(Kind::RangeDelete);
        Ok(())
    }

    /// True if a range delete found no room: thousands wait until they were swept and no snapshot is
    /// older, and that one may be refused then is promised.
    fn is_refused(&self, outcome: heliox::Result<()>) -> Result<bool> {
        match outcome {
            Err(error) if error.kind() == ErrorKind::Full => {
                self.run.count(Kind::RangeDeleteRefused, 1);
                Ok(true)
            }
            other => other
                .map(|()| false)
                .map_err(Failure::store("a range delete")),
        }
    }

    fn any_scan(&mut self, lane: &Lane) -> Result<()> {
        let (keyspace, slot) = self.any();
        let (backward, items) = (self.random.below(2) == 0, 1 + self.random.below(SCAN_MAX));
        self.scan(lane, keyspace, slot, backward, items)
    }

    /// Reads this thread's keys in order from `slot` on, and lets the iterator go after so many.
    fn scan(
        &self,
        lane: &Lane,
        keyspace: usize,
        slot: u32,
        backward: bool,
        items_max: u64,
    ) -> Result<()> {
        let slots = self.part.slots();
        let begun = self.run.now_ms();
        let options = lane
            .at(keyspace)
            .iter()
            .prefix(format!("{:02}:", self.thread));
        let options = if backward {
            options.to(key(self.thread, slot + 1)).reverse()
        } else {
            options.from(key(self.thread, slot))
        };
        let mut order: Box<dyn Iterator<Item = u32>> = if backward {
            Box::new((0..=slot).rev())
        } else {
            Box::new(slot..slots)
        };
        let mut seen = 0;
        for item in options.start().map_err(Failure::store("a scan"))? {
            let (name, value) = match item {
                Ok(item) => item,
                Err(error) => return self.unless_too_old(&error),
            };
            let (_, found) = self.is_own(keyspace, &name, &value)?;
            // What was passed over has no value; what is not in the order ahead is out of it.
            loop {
                let Some(next) = order.next() else {
                    let detail = "a scan gave it twice or out of order".to_owned();
                    return Err(self.wrong("scan", keyspace, found, detail));
                };
                let there = (next == found).then_some(&value[..]);
                self.expect("scan", (keyspace, next), begun, there)?;
                if there.is_some() {
                    break;
                }
            }
            seen += 1;
            if seen == items_max {
                break;
            }
        }
        if seen < items_max {
            order.try_for_each(|slot| self.expect("scan", (keyspace, slot), begun, None))?;
        }
        self.run.count(Kind::Scan, 1);
        self.run.count(Kind::ScannedItems, seen);
        Ok(())
    }

    // ---- what is held ----

    fn snapshot(&mut self, lane: &mut Lane) -> Result<()> {
        if lane.snapshots.len() >= HELD_MAX {
            return Ok(());
        }
        let snapshot = lane.store.snapshot().map_err(Failure::store("snapshot"))?;
        let keys = (0..SNAPSHOT_KEYS).map(|_| {
            let (keyspace, slot) = self.lasting();
            (keyspace, slot, self.part.expected(keyspace, slot, 0, 0))
        });
        let keys = keys.collect();
        lane.snapshots.push(HeldSnapshot {
            snapshot,
            until: self.operations + self.span(),
            keys,
        });
        self.run.count(Kind::Snapshot, 1);
        Ok(())
    }

    /// How long something is held: mostly for a moment, now and then for very long.
    fn span(&mut self) -> u64 {
        let magnitude = self.random.below(4);
        self.random.below(HELD_OPERATIONS_MAX >> (3 * magnitude))
    }

    fn hold_iterator(&mut self, lane: &mut Lane) -> Result<()> {
        if lane.iterators.len() >= HELD_MAX {
            return Ok(());
        }
        let (keyspace, slot) = self.any();
        let start = lane
            .at(keyspace)
            .iter()
            .from(key(self.thread, slot))
            .start();
        let mut iter = start.map_err(Failure::store("an iterator"))?;
        self.advance(&mut iter, 5)?;
        let until = self.operations + self.span();
        lane.iterators.push((iter, until));
        self.run.count(Kind::HeldIterator, 1);
        Ok(())
    }

    /// Items of an iterator that is held: whole, and in order, over all threads' keys.
    fn advance(&self, iter: &mut Iter, items: usize) -> Result<()> {
        let mut last = Vec::new();
        for item in iter.take(items) {
            let (name, value) = match item {
                Ok(item) => item,
                Err(error) => return self.unless_too_old(&error),
            };
            let stamp = Stamp::of(&value).map_or(0, |stamp| stamp.keyspace);
            self.is_own(usize::from(stamp), &name, &value)?;
            if name <= last {
                return Err(Failure::Violation(format!(
                    "an iterator gave {} after {}",
                    String::from_utf8_lossy(&name),
                    String::from_utf8_lossy(&last)
                )));
            }
            last = name;
        }
        Ok(())
    }

    fn unless_too_old(&self, error: &Error) -> Result<()> {
        if error.kind() != ErrorKind::SnapshotTooOld {
            return Err(Failure::Store("a read at a snapshot", error.clone()));
        }
        self.run.count(Kind::SnapshotTooOld, 1);
        Ok(())
    }

    /// Looks at snapshots and iterators once more, and drops them when their time has come.
    fn let_go(&mut self, lane: &mut Lane) -> Result<()> {
        let now = self.operations;
        if let Some(at) = lane.snapshots.iter().position(|s| s.until <= now) {
            let held = lane.snapshots.swap_remove(at);
            self.look_back(lane, &held)?;
        }
        if let Some(at) = lane.iterators.iter().position(|(_, until)| *until <= now) {
            let (mut iter, _) = lane.iterators.swap_remove(at);
            self.advance(&mut iter, 20)?;
        }
        Ok(())
    }

    fn look_back(&self, lane: &Lane, held: &HeldSnapshot) -> Result<()> {
        for (keyspace, slot, expected) in &held.keys {
            let found = lane
                .at(*keyspace)
                .get_at(key(self.thread, *slot), &held.snapshot);
            let found = match found {
                Ok(found) => found,
                Err(error) => return self.unless_too_old(&error),
            };
            self.run.count(Kind::SnapshotRead, 1);
            if !expected.allows(found.as_deref()) {
                let detail = format!("expected {expected:?}, found {}", show(found.as_deref()));
                return Err(self.wrong("get at a snapshot", *keyspace, *slot, detail));
            }
        }
        Ok(())
    }

    // ---- what comes seldom ----

    fn large_value(&mut self, lane: &Lane) -> Result<()> {
        if self.large.is_empty() {
            return self.get(lane);
        }
        let slot = self.random.below(self.large.len() as u64) as usize;
        self.read_large(lane, slot)?;
        let bytes = LARGE_BYTES_MIN + self.random.below(LARGE_BYTES_MAX - LARGE_BYTES_MIN);
        let stamp = self.large_stamp(slot, 1, bytes as u32);
        let name = key(self.thread, slot as u32);
        let bytes = if self.random.below(5) == 0 {
            lane.large.delete(name).map_err(Failure::store("delete"))?;
            0
        } else {
            let put = lane.large.put(name, stamp.value());
            put.map_err(Failure::store("put"))?;
            stamp.bytes
        };
        if let Some(place) = self.large.get_mut(slot) {
            *place = (stamp.version, bytes);
        }
        self.wrote(Kind::Large);
        Ok(())
    }

    fn large_stamp(&self, slot: usize, more: u32, bytes: u32) -> Stamp {
        let (version, _) = self.large.get(slot).copied().unwrap_or_default();
        Stamp {
            thread: self.thread,
            keyspace: KEYSPACES.len() as u16,
            slot: slot as u32,
            version: version + more,
            bytes,
        }
    }

    fn read_large(&self, lane: &Lane, slot: usize) -> Result<()> {
        let (_, bytes) = self.large.get(slot).copied().unwrap_or_default();
        let expected = match bytes {
            0 => Expected::Absent,
            bytes => Expected::Present(self.large_stamp(slot, 0, bytes)),
        };
        let found = lane
            .large
            .get(key(self.thread, slot as u32))
            .map_err(Failure::store("get"))?;
        if expected.allows(found.as_deref()) {
            return Ok(());
        }
        let detail = format!("expected {expected:?}, found {}", show(found.as_deref()));
        Err(self.wrong("get", KEYSPACES.len(), slot as u32, detail))
    }

    /// A keyspace that is made, filled, read and dropped.
    fn passing_keyspace(&mut self, lane: &Lane) -> Result<()> {
        let name = format!("passing-{}-{}", self.thread, self.operations);
        let failed = Failure::store("a keyspace that passes");
        let keyspace = lane.store.create_keyspace(&name).map_err(&failed)?;
        for n in 0..PASSING_KEYS {
            keyspace.put(n.to_be_bytes(), &name).map_err(&failed)?;
        }
        let count = keyspace.iter().start().map_err(&failed)?.count();
        if self.is_refused(lane.store.drop_keyspace(&name))? {
            return Ok(());
        }
        self.wrote(Kind::Keyspace);
        let after = keyspace.get(1_u32.to_be_bytes());
        let refused = after.as_ref().err().map(Error::kind);
        if count != PASSING_KEYS as usize || refused != Some(ErrorKind::UnknownKeyspace) {
            return Err(Failure::Violation(format!(
                "keyspace {name} held {count} keys of {PASSING_KEYS}; a read after it was dropped gave {after:?}"
            )));
        }
        Ok(())
    }

    fn make_durable(&mut self, lane: &Lane) -> Result<()> {
        if self.random.below(2) == 0 {
            lane.store.sync().map_err(Failure::store("sync"))?;
            self.run.count(Kind::Sync, 1);
        } else {
            lane.store.flush().map_err(Failure::store("flush"))?;
            self.run.count(Kind::Flush, 1);
        }
        Ok(())
    }

    fn bad_input(&mut self, lane: &Lane) -> Result<()> {
        let at = lane.at(0);
        let (wanted, found) = match self.random.below(4) {
            0 => (ErrorKind::TooLarge, at.put(vec![b'x'; 1 << 16], "x").err()),
            1 => (
                ErrorKind::UnknownKeyspace,
                lane.store.keyspace("nobody").err(),
            ),
            2 => (
                ErrorKind::Invalid,
                at.put_with("x", "x", &WriteOptions::new().ttl_ms(0)).err(),
            ),
            _ => (
                ErrorKind::KeyspaceExists,
                lane.store.create_keyspace(LARGE).err(),
            ),
        };
        self.run.count(Kind::BadInput, 1);
        if found.as_ref().map(Error::kind) == Some(wanted) {
            return Ok(());
        }
        let words = format!("bad input was to give {wanted:?} and gave {found:?}");
        Err(Failure::Violation(words))
    }
}

fn show(value: Option<&[u8]>) -> String {
    match value {
        None => "no value".to_owned(),
        Some(value) => match Stamp::of(value) {
            Some(stamp) => format!("{stamp:?}"),
            None => format!("{} bytes that nobody wrote", value.len()),
        },
    }
}
