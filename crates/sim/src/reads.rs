//! Every read of the store against the model.

use std::collections::BTreeMap;

use heliox::{Error, ErrorKind, Keyspace, Snapshot};

use crate::checkers::{dump, is_detection, recognise, space_name};
use crate::keys::{Key, Value};
use crate::model::{same, show, Found1, Map, State};
use crate::script::Event;
use crate::world::{Checked, World};

/// Snapshots that live at a time.
const SNAPSHOTS_MAX: usize = 6;

impl World {
    /// Does one event that changes nothing.
    pub(crate) fn read(&mut self, event: Event) -> Checked {
        match event {
            Event::Get(space, key) => self.get(space, key),
            Event::GetPart(space, key, offset, len) => self.get_part(space, key, offset, len),
            Event::MultiGet(space, first, count) => self.multi_get(space, first, count),
            Event::Scan(space, from, to, bits) => self.scan(space, from, to, bits),
            Event::TakeSnapshot => self.take_snapshot(),
            Event::ReadSnapshot(n, space, key) => self.read_snapshot(n, space, key),
            Event::ScanSnapshot(n, space) => self.scan_snapshot(n, space),
            Event::DropSnapshot(n) => {
                let n = usize::from(n) % self.snapshots.len().max(1);
                self.snapshots.remove(n);
                Ok(())
            }
            Event::Compare => self.compare(),
            _ => Ok(()),
        }
    }

    /// An error of a read is one of the faults, or damage.
    pub(crate) fn read_error(&mut self, what: &str, error: &Error) -> Checked {
        match error.kind() {
            ErrorKind::Io => self.expect_fault(what, error),
            _ if self.media.is_tainted() && is_detection(error) => Ok(()),
            _ => Err(format!("{what}: {error}")),
        }
    }

    /// What the store said of a key, against the model.
    pub(crate) fn agree(
        &mut self,
        what: &str,
        space: u8,
        key: &Key,
        found: Option<&[u8]>,
    ) -> Checked {
        let wanted = self.model.get(space, key, self.now_ms());
        if self.model.is_uncertain(space, key) {
            return Ok(());
        }
        self.judge(what, space, key, found, wanted)
    }

    fn judge(
        &mut self,
        what: &str,
        space: u8,
        key: &Key,
        found: Option<&[u8]>,
        wanted: Option<Value>,
    ) -> Checked {
        let found = found.map(|bytes| recognise(space, key, bytes)).transpose();
        let found = found.map_err(|e| format!("{what}: {e}"))?;
        let has = found.map(|value| Found1 { value });
        if self.is_allowed(space, key, wanted, has) {
            if self.has_strangers() && has.is_some() && !same(wanted, has) {
                self.lost.insert((space, Key::clone(key)));
            }
            return Ok(());
        }
        self.expect_told(format!(
            "{what} of {space}/{}: found {found:?}, wanted {wanted:?}",
            show(key)
        ))
    }

    fn get(&mut self, space: u8, key: u32) -> Checked {
        let Some(place) = self.place(space, key)? else {
            return Ok(());
        };
        match place.keyspace.get(&place.key) {
            Ok(found) => self.agree("get", space, &place.key, found.as_deref()),
            Err(error) => self.read_error("get", &error),
        }
    }

    fn get_part(&mut self, space: u8, key: u32, offset: u32, len: u32) -> Checked {
        let Some(place) = self.place(space, key)? else {
            return Ok(());
        };
        let part = place
            .keyspace
            .get_range(&place.key, offset.into(), len.into());
        let there = place.keyspace.contains(&place.key);
        let (part, there) = match (part, there) {
            (Ok(part), Ok(there)) => (part, there),
            (Err(error), _) | (_, Err(error)) => return self.read_error("get_range", &error),
        };
        if self.has_strangers() || self.model.is_uncertain(space, &place.key) {
            return Ok(());
        }
        let wanted = self.model.get(space, &place.key, self.now_ms());
        let wanted = wanted.map(|value| {
            let bytes = value.bytes(space, &place.key);
            let clip = |at: u32| (at as usize).min(bytes.len());
            let (from, to) = (clip(offset), clip(offset.saturating_add(len)));
            bytes.get(from..to).unwrap_or_default().to_vec()
        });
        if there != part.is_some() || part != wanted {
            return self.expect_told(format!(
                "get_range or contains of {space}/{} is wrong",
                show(&place.key)
            ));
        }
        Ok(())
    }

    fn multi_get(&mut self, space: u8, first: u32, count: u8) -> Checked {
        let Some(place) = self.place(space, first)? else {
            return Ok(());
        };
        let numbers = (0..u32::from(count)).map(|n| first.wrapping_add(n * 7));
        let keys: Vec<Key> = numbers.filter_map(|n| self.key(n)).collect();
        let found = match place.keyspace.multi_get(&keys) {
            Ok(found) => found,
            Err(error) => return self.read_error("multi_get", &error),
        };
        if found.len() != keys.len() {
            return Err("multi_get gave another number of answers".to_owned());
        }
        keys.iter()
            .zip(found)
            .try_for_each(|(key, found)| self.agree("multi_get", space, key, found.as_deref()))
    }

    fn scan(&mut self, space: u8, from: u32, to: u32, bits: u8) -> Checked {
        let (Some(place), Some(to)) = (self.place(space, from)?, self.key(to)) else {
            return Ok(());
        };
        let from = &place.key;
        let mut options = place.keyspace.iter();
        if bits & 1 != 0 {
            options = options.from(from);
        }
        if bits & 2 != 0 {
            options = options.to(&to);
        }
        if bits & 4 != 0 {
            options = options.reverse();
        }
        if bits & 8 != 0 {
            options = options.keys_only();
        }
        let is_in = |k: &Key| (bits & 1 == 0 || k >= from) && (bits & 2 == 0 || *k < to);
        let items = match options.start() {
            Ok(items) => items,
            Err(error) => return self.read_error("scan", &error),
        };
        let items: heliox::Result<Vec<_>> = items.collect();
        let items = match items {
            Ok(items) => items,
            Err(error) => return self.read_error("scan", &error),
        };
        let now_ms = self.now_ms();
        let Some(map) = self.model.now.get(&space) else {
            return Ok(());
        };
        let wanted = map.iter().filter(|(k, h)| is_in(k) && h.lives_at(now_ms));
        let mut wanted: Vec<(Key, Value)> = wanted.map(|(k, h)| (Key::clone(k), h.value)).collect();
        if bits & 4 != 0 {
            wanted.reverse();
        }
        if !self.model.is_sure_of(space) {
            return Ok(());
        }
        self.same_items("scan", space, &items, &wanted, bits & 8 != 0)
    }

    fn same_items(
        &mut self,
        what: &str,
        space: u8,
        items: &[(Vec<u8>, Vec<u8>)],
        wanted: &[(Key, Value)],
        keys_only: bool,
    ) -> Checked {
        if self.has_strangers() {
            return self.fitting_items(what, space, items, wanted, keys_only);
        }
        for (n, (key, bytes)) in items.iter().enumerate() {
            let Some((next, value)) = wanted.get(n) else {
                return self.expect_told(format!(
                    "{what} gives {space}/{}, which is not there",
                    show(key)
                ));
            };
            if **next != key[..] {
                return self.expect_told(format!(
                    "{what} gives {space}/{} where {} comes next",
                    show(key),
                    show(next)
                ));
            }
            if !keys_only {
                self.judge(what, space, next, Some(bytes), Some(*value))?;
            }
        }
        match wanted.get(items.len()) {
            None => Ok(()),
            Some((key, _)) => self.expect_told(format!("{what} ends before {space}/{}", show(key))),
        }
    }

    /// As [`World::same_items`] with weak fingerprints: keys may be missing, and others have come
    /// back, but each comes once, in order, and with its value.
    fn fitting_items(
        &mut self,
        what: &str,
        space: u8,
        items: &[(Vec<u8>, Vec<u8>)],
        wanted: &[(Key, Value)],
        keys_only: bool,
    ) -> Checked {
        let is_forward = |pair: &[(Vec<u8>, Vec<u8>)]| match pair {
            [(a, _), (b, _)] => a < b,
            _ => true,
        };
        let is_backward = |pair: &[(Vec<u8>, Vec<u8>)]| !is_forward(pair);
        if !items.windows(2).all(is_forward) && !items.windows(2).all(is_backward) {
            return Err(format!("{what} of {space} is out of order"));
        }
        let wanted: BTreeMap<&[u8], Value> = wanted.iter().map(|(k, v)| (&**k, *v)).collect();
        for (key, bytes) in items {
            let value = wanted.get(&key[..]).copied();
            if !keys_only {
                self.judge(what, space, &key[..].into(), Some(bytes), value)?;
            }
        }
        Ok(())
    }

    fn take_snapshot(&mut self) -> Checked {
        let Some(store) = self.store.clone() else {
            return Ok(());
        };
        if self.is_failed || self.media.has_failed() {
            return Ok(());
        }
        match store.snapshot() {
            Ok(snapshot) => {
                if self.snapshots.len() >= SNAPSHOTS_MAX {
                    self.snapshots.pop_front();
                }
                self.snapshots.push_back((snapshot, self.model.now.clone()));
                Ok(())
            }
            Err(error) => self.read_error("snapshot", &error),
        }
    }

    fn snapshot(&self, n: u8) -> Option<(Snapshot, &State)> {
        let n = usize::from(n) % self.snapshots.len().max(1);
        let (snapshot, state) = self.snapshots.get(n)?;
        Some((snapshot.clone(), state))
    }

    /// A keyspace that the snapshot has and that is there still.
    fn keyspace_of(&self, state: &State, space: u8) -> Option<Keyspace> {
        if !state.contains_key(&space) || !self.model.now.contains_key(&space) {
            return None;
        }
        self.store.as_ref()?.keyspace(&space_name(space)).ok()
    }

    fn read_snapshot(&mut self, n: u8, space: u8, key: u32) -> Checked {
        let (Some((snapshot, state)), Some(key)) = (self.snapshot(n), self.key(key)) else {
            return Ok(());
        };
        let Some(keyspace) = self.keyspace_of(state, space) else {
            return Ok(());
        };
        let held = state.get(&space).and_then(|m| m.get(&key));
        let wanted = held.filter(|h| h.lives_at(self.now_ms())).map(|h| h.value);
        match keyspace.get_at(&key, &snapshot) {
            Ok(found) => self.judge("get_at", space, &key, found.as_deref(), wanted),
            Err(error) if error.kind() == ErrorKind::SnapshotTooOld => Ok(()),
            Err(error) => self.read_error("get_at", &error),
        }
    }

    fn scan_snapshot(&mut self, n: u8, space: u8) -> Checked {
        let Some((snapshot, state)) = self.snapshot(n) else {
            return Ok(());
        };
        let Some(keyspace) = self.keyspace_of(state, space) else {
            return Ok(());
        };
        let items: heliox::Result<Vec<_>> = match keyspace.iter().at(&snapshot).start() {
            Ok(items) => items.collect(),
            Err(error) => Err(error),
        };
        let empty = Map::new();
        let now_ms = self.now_ms();
        let map = state.get(&space).unwrap_or(&empty);
        let wanted = map.iter().filter(|(_, h)| h.lives_at(now_ms));
        let wanted: Vec<(Key, Value)> = wanted.map(|(k, h)| (Key::clone(k), h.value)).collect();
        match items {
            Ok(items) => self.same_items("scan of a snapshot", space, &items, &wanted, false),
            Err(error) if error.kind() == ErrorKind::SnapshotTooOld => Ok(()),
            Err(error) => self.read_error("scan of a snapshot", &error),
        }
    }

    /// Everything that the store shows against everything that it must.
    fn compare(&mut self) -> Checked {
        let Some(store) = self.store.clone() else {
            return Ok(());
        };
        if self.is_failed || self.media.has_failed() {
            return Ok(());
        }
        let fired = self.media.fired();
        let (found, errors) = match dump(&store, self.media.is_tainted()) {
            Ok(found) => found,
            // A read failed on purpose meanwhile.
            Err(_) if self.media.fired() > fired => return Ok(()),
            Err(error) => return Err(error),
        };
        if errors > 0 {
            self.note_told();
        }
        let rule = |s, k: &Key, w, f| self.is_allowed(s, k, w, f);
        match self.model.equals(&found, self.now_ms(), &rule) {
            Err(words) => self.expect_told(words),
            Ok(()) => Ok(()),
        }
    }
}
