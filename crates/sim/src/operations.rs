//! Every operation of the store beside the same on the model: writes here, reads in `reads`.
//!
//! Invariant: an operation on a keyspace that the model does not have, or that may or may not be
//! there after a failure, is passed over, so that any part of a script can be run.

use std::collections::BTreeMap;
use std::sync::Arc;

use heliox::{Batch, Durability, Error, ErrorKind, Keyspace, Result, Store, WriteOptions};
use heliox_media::Random;

use crate::checkers::space_name;
use crate::keys::{Key, Value};
use crate::model::{BoundedAck, Change, Held};
use crate::script::{Ack, Event};
use crate::world::{reported, Checked, World};

/// A keyspace of the store and a key of the run.
pub(crate) struct Place {
    pub(crate) store: Store,
    pub(crate) keyspace: Keyspace,
    pub(crate) space: u8,
    pub(crate) key: Key,
}

/// What a write is about to change, and what it was promised.
struct Attempt {
    what: &'static str,
    ack: Ack,
    /// Its keys are the model's alone: the store wrote none of them.
    is_range: bool,
    /// Success would be a lie: the device has told of a failure already.
    is_hopeless: bool,
}

impl World {
    /// Does one event that is an operation of the store.
    pub(crate) fn operate(&mut self, event: Event) -> Checked {
        self.counts.operations += 1;
        match event {
            Event::Put(space, key, len, ack) => self.put(space, key, len, ack, None),
            Event::PutFor(space, key, len, ttl) => {
                self.put(space, key, len, Ack::Bounded, Some(ttl))
            }
            Event::Delete(space, key, ack) => self.delete(space, key, ack),
            Event::Insert(space, key, len) => self.conditional(space, key, len, false),
            Event::Replace(space, key, len) => self.conditional(space, key, len, true),
            Event::Take(space, key) => self.take(space, key),
            Event::Update(space, key, operand) => self.update(space, key, operand, false),
            Event::Merge(space, key, operand) => self.update(space, key, operand, true),
            Event::Batch(seed, members, len, ack) => self.batch(seed, members, len, ack),
            Event::DeleteRange(space, from, to) => self.delete_range(space, from, to),
            Event::DeletePrefix(space, key, bytes) => self.delete_prefix(space, key, bytes),
            Event::CreateSpace(space) => self.create_space(space),
            Event::DropSpace(space) => self.drop_space(space),
            Event::SyncNow | Event::FlushNow | Event::CheckpointNow => self.whole_store(event),
            other => self.read(other),
        }
    }

    pub(crate) fn key(&self, number: u32) -> Option<Key> {
        let n = number as usize % self.keys.len().max(1);
        self.keys.get(n).map(Key::clone)
    }

    /// The store's keyspace and the key, if model and store have them.
    pub(crate) fn place(&self, space: u8, key: u32) -> std::result::Result<Option<Place>, String> {
        let (Some(store), Some(key)) = (self.store.clone(), self.key(key)) else {
            return Ok(None);
        };
        let is_there = self.model.now.contains_key(&space);
        if !is_there || !self.model.is_sure_of_space(space) {
            return Ok(None);
        }
        let keyspace = store.keyspace(&space_name(space));
        let keyspace = keyspace.map_err(|e| format!("keyspace {space}: {e}"))?;
        Ok(Some(Place {
            store,
            keyspace,
            space,
            key,
        }))
    }

    fn next_value(&mut self, len: u32) -> Value {
        self.tag += 1;
        // Spread, so that short values differ in their first bytes.
        let tag = self.tag << 8 | u64::from(self.setup.seed as u8);
        Value { tag, len }
    }

    fn write_options(&self, ack: Ack) -> WriteOptions {
        WriteOptions::new().durability(match ack {
            Ack::Synced => Durability::Sync,
            Ack::Bounded => self.bounded(),
            Ack::Volatile => Durability::None,
        })
    }

    /// Before a write, with weak fingerprints: a key that its own entry no longer leads to is
    /// written beside it, and what it was may come back.
    fn touch(&mut self, place: &Place) {
        if !self.has_strangers() {
            return;
        }
        let is_wanted = self.model.get(place.space, &place.key, self.now_ms());
        if is_wanted.is_some() && matches!(place.keyspace.get(&place.key), Ok(None)) {
            self.lost.insert((place.space, Key::clone(&place.key)));
        }
    }

    /// True if a key may be missing that is there, or there that was deleted.
    fn may_hide(&self, place: &Place, was: Option<Value>) -> bool {
        let is_lost = || self.lost.contains(&(place.space, Key::clone(&place.key)));
        self.has_strangers() && (was.is_some() || is_lost())
    }

    fn attempt(&self, what: &'static str, ack: Ack) -> Attempt {
        Attempt {
            what,
            ack,
            is_range: false,
            is_hopeless: self.media.is_reported(),
        }
    }

    /// What became of a write: the model follows, or a promise is broken.
    fn settle(&mut self, attempt: &Attempt, done: Result<()>, changes: Vec<Change>) -> Checked {
        match done {
            Ok(()) => {
                if attempt.is_hopeless && !changes.is_empty() {
                    return Err(format!("{} succeeded after a failure", attempt.what));
                }
                // A delete of what is not there, or may have expired, may write nothing.
                let is_there = |space: &u8, key: &Key| {
                    let held = self.model.now.get(space).and_then(|map| map.get(key));
                    held.is_some_and(|held| held.expiry_ms.is_none())
                };
                let size = |change: &Change| match change {
                    Change::Set(space, key, None) if !is_there(space, key) => 0,
                    Change::Set(_, key, held) => {
                        key.len() as u64 + held.map_or(0, |h| u64::from(h.value.len))
                    }
                    Change::Create(_) | Change::Drop(_) => 0,
                };
                let bytes = match attempt.is_range {
                    true => 0,
                    false => changes.iter().map(size).sum(),
                };
                let bounded = (attempt.ack == Ack::Bounded).then(|| BoundedAck {
                    at: self.clock.ticked(),
                    bytes,
                });
                let is_empty = changes.is_empty();
                self.model.step(changes, bounded);
                if attempt.ack == Ack::Synced && !is_empty && !self.media.has_lied() {
                    self.model.sync();
                }
                Ok(())
            }
            Err(error) => self.refused(attempt.what, &error, changes),
        }
    }

    /// Judges an error of a write.
    fn refused(&mut self, what: &str, error: &Error, changes: Vec<Change>) -> Checked {
        match error.kind() {
            ErrorKind::Full | ErrorKind::OverBudget if !self.media.has_failed() => {
                self.counts.refused += 1;
                Ok(())
            }
            ErrorKind::Io | ErrorKind::Failed | ErrorKind::Full => {
                let is_failed = self.media.has_failed() || self.store_failed();
                self.is_failed |= is_failed;
                match self.store_failed() {
                    true => self.model.maybe(changes),
                    // Others may be acknowledged after it, with it or without.
                    false if is_failed => self.model.forget(&changes),
                    false => {}
                }
                self.expect_fault(what, error)
            }
            _ if self.media.is_tainted() => {
                self.is_failed |= self.store_failed();
                self.model.forget(&changes);
                Ok(())
            }
            _ => Err(format!("{what}: {error}")),
        }
    }

    pub(crate) fn store_failed(&self) -> bool {
        let health = self.store.as_ref().map(|s| s.stats().health);
        matches!(health, Some(heliox::Health::Failed { .. }))
    }

    /// An error of the device must have a fault behind it.
    pub(crate) fn expect_fault(&self, what: &str, error: &Error) -> Checked {
        if self.media.fired() > 0 || self.media.has_failed() {
            return Ok(());
        }
        Err(format!("{what} without any fault: {error}"))
    }

    fn set(place: &Place, held: Option<Held>) -> Vec<Change> {
        vec![Change::Set(place.space, Key::clone(&place.key), held)]
    }

    fn put(&mut self, space: u8, key: u32, len: u32, ack: Ack, ttl: Option<u64>) -> Checked {
        let Some(place) = self.place(space, key)? else {
            return Ok(());
        };
        self.touch(&place);
        let value = self.next_value(len);
        let mut options = self.write_options(ack);
        if let Some(ttl) = ttl {
            options = options.ttl_ms(ttl);
        }
        let expiry_ms = ttl.map(|ttl| self.now_ms() + ttl);
        let attempt = self.attempt("put", ack);
        let bytes = value.bytes(space, &place.key);
        let done = place.keyspace.put_with(&place.key, &bytes, &options);
        let held = Held { value, expiry_ms };
        self.settle(&attempt, done, World::set(&place, Some(held)))
    }

    fn delete(&mut self, space: u8, key: u32, ack: Ack) -> Checked {
        let Some(place) = self.place(space, key)? else {
            return Ok(());
        };
        self.touch(&place);
        let attempt = self.attempt("delete", ack);
        let options = self.write_options(ack);
        let done = place.keyspace.delete_with(&place.key, &options);
        let is_there = self
            .model
            .now
            .get(&space)
            .is_some_and(|m| m.contains_key(&place.key));
        let changes = match is_there || done.is_err() {
            true => World::set(&place, None),
            false => Vec::new(),
        };
        self.settle(&attempt, done, changes)
    }

    fn conditional(&mut self, space: u8, key: u32, len: u32, if_there: bool) -> Checked {
        let Some(place) = self.place(space, key)? else {
            return Ok(());
        };
        let value = self.next_value(len);
        let was = self.model.get(space, &place.key, self.now_ms());
        self.touch(&place);
        let is_sure = !self.model.is_uncertain(space, &place.key) && !self.may_hide(&place, was);
        let (name, attempt) = match if_there {
            true => ("replace", self.attempt("replace", Ack::Bounded)),
            false => ("insert", self.attempt("insert", Ack::Bounded)),
        };
        let bytes = value.bytes(space, &place.key);
        let done = match if_there {
            true => place.keyspace.replace_if_present(&place.key, &bytes),
            false => place.keyspace.insert_if_absent(&place.key, &bytes),
        };
        if let Ok(done) = &done {
            if is_sure && *done != (was.is_some() == if_there) {
                self.expect_told(format!(
                    "{name} of {space}/{key} said {done}, it was {was:?}"
                ))?;
            }
        }
        let held = Held {
            value,
            expiry_ms: None,
        };
        let changes = match done {
            Ok(false) => Vec::new(),
            _ => World::set(&place, Some(held)),
        };
        self.settle(&attempt, done.map(|_| ()), changes)
    }

    fn take(&mut self, space: u8, key: u32) -> Checked {
        let Some(place) = self.place(space, key)? else {
            return Ok(());
        };
        self.touch(&place);
        let attempt = self.attempt("take", Ack::Bounded);
        let done = place.keyspace.take(&place.key);
        if let Ok(taken) = &done {
            self.agree("take", space, &place.key, taken.as_deref())?;
        }
        let changes = match &done {
            Ok(None) => Vec::new(),
            _ => World::set(&place, None),
        };
        self.settle(&attempt, done.map(|_| ()), changes)
    }

    fn update(&mut self, space: u8, key: u32, operand: u64, by_merge: bool) -> Checked {
        let Some(place) = self.place(space, key)? else {
            return Ok(());
        };
        self.touch(&place);
        let attempt = self.attempt("update", Ack::Bounded);
        let mut old = None;
        let mut made: Option<Value> = None;
        let done = if by_merge {
            old = match place.keyspace.get(&place.key) {
                Ok(old) => old,
                Err(error) => return self.read_error("get", &error),
            };
            let mut bytes = vec![space];
            bytes.extend_from_slice(&operand.to_le_bytes());
            place.keyspace.merge(&place.key, &bytes)
        } else {
            place.keyspace.update(&place.key, |seen| {
                old = seen.map(<[u8]>::to_vec);
                let parsed = seen.map(parsed);
                let value = Value::merged(parsed, operand);
                made = Some(value);
                Some(value.bytes(space, &place.key))
            })
        };
        if done.is_ok() {
            self.agree("update", space, &place.key, old.as_deref())?;
        }
        let value = made.unwrap_or_else(|| Value::merged(old.as_deref().map(parsed), operand));
        let held = Held {
            value,
            expiry_ms: None,
        };
        self.settle(&attempt, done, World::set(&place, Some(held)))
    }

    fn batch(&mut self, seed: u64, members: u8, len: u32, ack: Ack) -> Checked {
        let mut random = Random::new(seed);
        let mut batch = Batch::new();
        let mut last: BTreeMap<(u8, Key), Option<Held>> = BTreeMap::new();
        let spaces: Vec<u8> = self.model.now.keys().copied().collect();
        let mut store = None;
        for _ in 0..members {
            let space = spaces.get(random.below(spaces.len() as u64) as usize);
            let key = random.below(self.setup.keys.into()) as u32;
            let len = random.below(u64::from(len) + 1) as u32;
            let is_delete = random.below(4) == 0;
            let ttl = (random.below(16) == 0).then_some(50);
            let Some(place) = space.map_or(Ok(None), |s| self.place(*s, key))? else {
                continue;
            };
            self.touch(&place);
            let value = self.next_value(len);
            let held = (!is_delete).then(|| Held {
                value,
                expiry_ms: ttl.map(|ttl| self.now_ms() + ttl),
            });
            let bytes = value.bytes(place.space, &place.key);
            match (is_delete, ttl) {
                (true, _) => batch.delete(&place.keyspace, &place.key),
                (_, Some(ttl)) => batch.put_ttl(&place.keyspace, &place.key, &bytes, ttl),
                _ => batch.put(&place.keyspace, &place.key, &bytes),
            }
            store = Some(place.store);
            last.insert((place.space, place.key), held);
        }
        let Some(store) = store else {
            return Ok(());
        };
        let attempt = self.attempt("batch", ack);
        let done = store.write_with(&batch, &self.write_options(ack));
        let is_there = |space: &u8, key: &Key| {
            let map = self.model.now.get(space);
            map.is_some_and(|m| m.contains_key(key))
        };
        // A batch that only deletes what is not there writes nothing.
        let is_idle = done.is_ok() && !last.iter().any(|((s, k), h)| h.is_some() || is_there(s, k));
        let set = |((space, key), held)| Change::Set(space, key, held);
        let changes = match is_idle {
            true => Vec::new(),
            false => last.into_iter().map(set).collect(),
        };
        self.settle(&attempt, done, changes)
    }

    fn delete_range(&mut self, space: u8, from: u32, to: u32) -> Checked {
        let (Some(place), Some(to)) = (self.place(space, from)?, self.key(to)) else {
            return Ok(());
        };
        let from = Key::clone(&place.key);
        let (from, to) = if from <= to { (from, to) } else { (to, from) };
        let attempt = self.attempt("delete_range", Ack::Bounded);
        let done = place.keyspace.delete_range(&from, &to);
        let gone = |key: &Key| *key >= from && *key < to;
        self.settle_range(attempt, done, space, gone)
    }

    fn delete_prefix(&mut self, space: u8, key: u32, bytes: u8) -> Checked {
        let Some(place) = self.place(space, key)? else {
            return Ok(());
        };
        let key = &place.key;
        let prefix = key.get(..usize::from(bytes)).unwrap_or(key).to_vec();
        let attempt = self.attempt("delete_prefix", Ack::Bounded);
        let done = place.keyspace.delete_prefix(&prefix);
        self.settle_range(attempt, done, space, |key| key.starts_with(&prefix))
    }

    fn settle_range(
        &mut self,
        mut attempt: Attempt,
        done: Result<()>,
        space: u8,
        is_gone: impl Fn(&Key) -> bool,
    ) -> Checked {
        attempt.is_range = true;
        let map = self.model.now.get(&space);
        let keys = map.into_iter().flat_map(|m| m.keys());
        let gone = keys.filter(|k| is_gone(k));
        let changes = gone
            .map(|k| Change::Set(space, Arc::clone(k), None))
            .collect();
        self.settle(&attempt, done, changes)
    }

    fn create_space(&mut self, space: u8) -> Checked {
        let Some(store) = self.store.clone() else {
            return Ok(());
        };
        if self.model.now.contains_key(&space) || !self.model.is_sure_of_space(space) {
            return Ok(());
        }
        let attempt = self.attempt("create_keyspace", Ack::Bounded);
        let done = store.create_keyspace(&space_name(space)).map(|_| ());
        self.settle(&attempt, done, vec![Change::Create(space)])
    }

    fn drop_space(&mut self, space: u8) -> Checked {
        let Some(place) = self.place(space, 0)? else {
            return Ok(());
        };
        let attempt = self.attempt("drop_keyspace", Ack::Bounded);
        let done = place.store.drop_keyspace(&space_name(space));
        // What a snapshot holds of it is out of reach without a handle.
        for (_, state) in &mut self.snapshots {
            state.remove(&space);
        }
        self.settle(&attempt, done, vec![Change::Drop(space)])
    }

    fn whole_store(&mut self, event: Event) -> Checked {
        let Some(store) = self.store.clone() else {
            return Ok(());
        };
        let is_hopeless = self.media.is_reported();
        let (what, done, makes_durable) = match event {
            Event::SyncNow => ("sync", store.sync(), true),
            Event::FlushNow => ("flush", store.flush(), false),
            _ => ("checkpoint", store.checkpoint(), true),
        };
        match done {
            Ok(()) if is_hopeless => Err(format!("{what} succeeded after a failure")),
            Ok(()) => {
                if makes_durable && !self.media.has_lied() {
                    self.model.sync();
                }
                Ok(())
            }
            Err(error) => self.refused(what, &error, Vec::new()),
        }
    }

    /// What became of a background step.
    pub(crate) fn after_step(&mut self, what: &str, done: Result<()>) -> Checked {
        let Err(error) = done else {
            return Ok(());
        };
        match error.kind() {
            // The thread that runs such a step ends with the error, and the store with it.
            ErrorKind::Io | ErrorKind::Failed | ErrorKind::Full => {
                self.is_failed = true;
                self.expect_fault(what, &error)
            }
            _ if self.media.is_tainted() => {
                self.is_failed = true;
                Ok(())
            }
            _ => Err(format!("{what}: {error}")),
        }
    }

    /// What a scrub's step owes: an error of the device ends the step and not the store, and no damage
    /// is told where none was done.
    pub(crate) fn after_scrub(&mut self, done: Result<()>) -> Checked {
        if let Err(error) = &done {
            self.is_failed |= self.media.has_failed() || self.store_failed();
            let is_devices = matches!(error.kind(), ErrorKind::Io | ErrorKind::Failed);
            if !is_devices && !self.media.is_tainted() {
                return Err(format!("a scrub: {error}"));
            }
            self.expect_fault("a scrub", error)?;
        }
        let damage = self.store.as_ref().map(reported).unwrap_or_default();
        if damage.is_empty() || self.media.is_tainted() {
            return Ok(());
        }
        Err(format!("a scrub reports damage: {damage:?}"))
    }
}

/// A value by its bytes, whether or not they are right.
fn parsed(bytes: &[u8]) -> Value {
    Value {
        tag: crate::keys::tag_of(bytes),
        len: bytes.len() as u32,
    }
}
