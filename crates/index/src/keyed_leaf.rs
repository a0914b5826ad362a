//! The other format of a leaf: full keys in memory, front-coded, for keys that defeat slices.
//!
//! Long shared prefixes (URLs, paths) leave nothing for 15 bits to tell apart. Such a leaf keeps
//! its keys: larger, but nothing is ever read to find or order them, and a match is certain.
//!
//! Invariants: entries are in key order, over groups and within them; no group is empty; a group
//! is decoded from its first key, which stands in full. Threads: as for any leaf.

use smallvec::SmallVec;

use crate::api::{Action, Direction, Entry};
use crate::key::{common_bytes, KeyView};
use heliox_format::ids::Location;

/// Most entries of a group: what one operation decodes.
const GROUP_ENTRIES: usize = 32;
/// A group with more bytes than this is cut, if it has two entries.
const GROUP_BYTES: usize = 4096;
/// A leaf with more entries than this is split.
const LEAF_ENTRIES: usize = 1024;
/// A leaf with more bytes than this is split, if it can be.
const LEAF_BYTES: usize = 32 << 10;
/// Bytes of an entry beside its key: location (5), flags (1).
const ENTRY_BYTES: usize = Location::BYTES + 1;

/// An entry with its key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct KeyedEntry {
    pub(crate) key: Vec<u8>,
    pub(crate) entry: Entry,
}

#[derive(Default)]
struct Group {
    /// For each entry: bytes shared with the key before, bytes of its own, those bytes, entry.
    bytes: Vec<u8>,
    count: usize,
}

/// A leaf of full keys.
#[derive(Default)]
pub(crate) struct KeyedLeaf {
    groups: Vec<Group>,
    len: usize,
    bytes: usize,
}

impl KeyedLeaf {
    /// A leaf of entries in key order.
    pub(crate) fn from_sorted(entries: &[KeyedEntry]) -> KeyedLeaf {
        let mut leaf = KeyedLeaf {
            groups: Group::encode_all(entries),
            ..KeyedLeaf::default()
        };
        leaf.recount();
        leaf
    }

    fn recount(&mut self) {
        self.len = self.groups.iter().map(|group| group.count).sum();
        let bytes = |group: &Group| group.bytes.capacity() + 16;
        self.bytes = self.groups.iter().map(bytes).sum::<usize>()
            + self.groups.capacity() * std::mem::size_of::<Group>()
            + std::mem::size_of::<KeyedLeaf>();
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// All memory of the leaf.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn wants_split(&self) -> bool {
        (self.len > LEAF_ENTRIES || (self.len > 1 && self.bytes > LEAF_BYTES)) && self.spreads()
    }

    fn spreads(&self) -> bool {
        match (self.groups.first(), self.groups.last()) {
            (Some(first), Some(last)) => first.first_key() != last.last_key(),
            _ => false,
        }
    }

    /// The group that holds `key` if any does.
    fn group_of(&self, key: KeyView<'_>) -> usize {
        let not_above = |group: &Group| key.compare(group.first_key()).is_gt();
        self.groups.partition_point(not_above).saturating_sub(1)
    }

    /// The entries of a key.
    pub(crate) fn find(&self, key: KeyView<'_>) -> SmallVec<[Entry; 2]> {
        let mut found = SmallVec::new();
        let whole = key.internal();
        // Equal keys may run over a group's end.
        for group in self.groups.iter().skip(self.group_of(key)) {
            if key.compare(group.first_key()).is_lt() {
                break;
            }
            found.extend(group.equal(&whole).map(|held| held.entry()));
        }
        found
    }

    /// Applies an action to a key's entries. False if it names an entry that is not there.
    pub(crate) fn apply(&mut self, key: &[u8], action: Action) -> bool {
        self.apply_in_place(key, action) || self.apply_anew(key, action)
    }

    /// Where one group is concerned, that keeps its size: a few bytes of it change. False, and nothing
    /// is done, otherwise.
    fn apply_in_place(&mut self, key: &[u8], action: Action) -> bool {
        let at = self.group_of(KeyView::from(key));
        let next = self.groups.get(at + 1);
        if next.is_some_and(|next| next.first_key() <= key) {
            return false;
        }
        let Some(group) = self.groups.get_mut(at) else {
            return false;
        };
        let before = group.bytes.capacity();
        let is_done = match action {
            Action::Insert(entry) => group.insert(key, entry),
            Action::Replace { old, new } => group.replace(key, old, new),
            Action::Keep | Action::Remove { .. } => false,
        };
        if is_done {
            self.len += usize::from(matches!(action, Action::Insert(_)));
            self.bytes = self.bytes - before + group.bytes.capacity();
        }
        is_done
    }

    /// Decodes the groups concerned and makes them anew.
    fn apply_anew(&mut self, key: &[u8], action: Action) -> bool {
        let start = self.group_of(KeyView::from(key));
        let mut end = start + 1;
        while self
            .groups
            .get(end)
            .is_some_and(|group| group.first_key() <= key)
        {
            end += 1;
        }
        let end = end.min(self.groups.len());
        let mut entries: Vec<KeyedEntry> = self.groups[start..end]
            .iter()
            .flat_map(Group::decode)
            .collect();
        let at = entries.partition_point(|entry| entry.key.as_slice() < key);
        let holder = |old| {
            entries
                .iter()
                .position(|other| other.key == key && other.entry.location == old)
        };
        match action {
            Action::Keep => return true,
            Action::Insert(entry) => entries.insert(
                at,
                KeyedEntry {
                    key: key.to_vec(),
                    entry,
                },
            ),
            Action::Replace { old, new } => match holder(old) {
                Some(at) => entries[at].entry = new,
                None => return false,
            },
            Action::Remove { old } => match holder(old) {
                Some(at) => drop(entries.remove(at)),
                None => return false,
            },
        }
        self.groups.splice(start..end, Group::encode_all(&entries));
        self.recount();
        true
    }

    /// All entries, in key order.
    pub(crate) fn entries(&self) -> Vec<KeyedEntry> {
        self.groups.iter().flat_map(Group::decode).collect()
    }

    /// Visits entries at `key` or beyond it in a direction, until told to stop. True if it was told
    /// so. Costs the groups visited.
    pub(crate) fn visit_from(
        &self,
        key: Option<&[u8]>,
        direction: Direction,
        f: &mut dyn FnMut(KeyedEntry) -> bool,
    ) -> bool {
        let mut visit = |group: &Group| {
            let mut entries = group.decode();
            if direction == Direction::Backward {
                entries.reverse();
            }
            let reached = |entry: &KeyedEntry| match (key, direction) {
                (None, _) => true,
                (Some(key), Direction::Forward) => entry.key.as_slice() >= key,
                (Some(key), Direction::Backward) => entry.key.as_slice() <= key,
            };
            entries.into_iter().filter(reached).all(&mut *f)
        };
        match direction {
            Direction::Forward => {
                let start = key.map_or(0, |key| self.group_of(KeyView::from(key)));
                !self.groups.iter().skip(start).all(&mut visit)
            }
            Direction::Backward => {
                let not_above = |group: &Group| key.is_none_or(|key| group.first_key() <= key);
                let end = self.groups.partition_point(not_above);
                !self.groups[..end].iter().rev().all(&mut visit)
            }
        }
    }

    /// Visits all entries, in key order.
    pub(crate) fn visit(&self, mut f: impl FnMut(&[u8], Entry)) {
        self.groups.iter().for_each(|group| group.visit(&mut f));
    }
}

impl Group {
    /// Entries in key order as groups of moderate size.
    fn encode_all(entries: &[KeyedEntry]) -> Vec<Group> {
        let mut groups = Vec::new();
        let mut rest = entries;
        while !rest.is_empty() {
            // A group that is cut is cut into equal parts, so that the next insert fits.
            let parts = rest.len().div_ceil(GROUP_ENTRIES);
            let (group, len) = Group::encode(&rest[..rest.len().div_ceil(parts)]);
            groups.push(group);
            rest = &rest[len..];
        }
        groups
    }

    /// A group of the first entries, as many as fit, and how many these are.
    fn encode(entries: &[KeyedEntry]) -> (Group, usize) {
        let mut group = Group::default();
        let mut before: &[u8] = &[];
        for KeyedEntry { key, entry } in entries {
            let shared = common_bytes(before, key);
            if group.count > 0 && group.bytes.len() + key.len() - shared > GROUP_BYTES {
                break;
            }
            put_varint(&mut group.bytes, shared);
            put_varint(&mut group.bytes, key.len() - shared);
            group.bytes.extend_from_slice(&key[shared..]);
            group.bytes.extend_from_slice(&bytes_of(*entry));
            group.count += 1;
            before = key;
        }
        group.bytes.shrink_to_fit();
        let count = group.count;
        (group, count)
    }

    fn first_key(&self) -> &[u8] {
        let mut bytes = self.bytes.as_slice();
        let _shared = take_varint(&mut bytes);
        let len = take_varint(&mut bytes);
        bytes.get(..len).unwrap_or(&[])
    }

    fn last_key(&self) -> Vec<u8> {
        let mut last = Vec::new();
        self.visit(|key, _| {
            last.clear();
            last.extend_from_slice(key);
        });
        last
    }

    fn visit(&self, mut f: impl FnMut(&[u8], Entry)) {
        let (mut key, mut at) = (Vec::new(), 0);
        while let Some(held) = self.held_at(at) {
            key.truncate(held.shared);
            key.extend_from_slice(held.own);
            f(&key, held.entry());
            at = held.end();
        }
    }

    /// The entry that starts there, if any does.
    fn held_at(&self, at: usize) -> Option<Held<'_>> {
        let mut bytes = self.bytes.get(at..).filter(|bytes| !bytes.is_empty())?;
        let shared = take_varint(&mut bytes);
        let own_len = take_varint(&mut bytes);
        let (own, rest) = bytes.split_at_checked(own_len)?;
        Some(Held {
            shared,
            own,
            entry_at: self.bytes.len() - rest.len(),
            bytes: rest.first_chunk()?,
        })
    }

    /// Where the first entry that is not below the key starts, and how many bytes the key shares with the
    /// one before. No key is put together for it.
    fn seek(&self, key: &[u8]) -> (usize, usize) {
        let (mut at, mut shared) = (0, 0);
        while let Some(held) = self.held_at(at) {
            // One that leaves the entry before earlier than the key does is above the key, one that
            // leaves it later is below it like that.
            if held.shared < shared {
                break;
            }
            if held.shared == shared {
                let rest = &key[shared..];
                if held.own >= rest {
                    break;
                }
                shared += common_bytes(held.own, rest);
            }
            at = held.end();
        }
        (at, shared)
    }

    /// The entries of this very key.
    fn equal<'g>(&'g self, key: &'g [u8]) -> impl Iterator<Item = Held<'g>> {
        let (mut at, mut shared) = self.seek(key);
        std::iter::from_fn(move || {
            let held = self.held_at(at)?;
            let is_equal = held.shared == shared && held.own == &key[shared..];
            (at, shared) = (held.end(), key.len());
            is_equal.then_some(held)
        })
    }

    /// Adds an entry in front of those that are not below it. False, and nothing is done, if the group
    /// would grow too large.
    fn insert(&mut self, key: &[u8], entry: Entry) -> bool {
        if self.count >= GROUP_ENTRIES || self.bytes.len() + key.len() > GROUP_BYTES {
            return false;
        }
        let (at, shared) = self.seek(key);
        let mut laid = Vec::with_capacity(key.len() + 32);
        put_varint(&mut laid, shared);
        put_varint(&mut laid, key.len() - shared);
        laid.extend_from_slice(&key[shared..]);
        laid.extend_from_slice(&bytes_of(entry));
        let mut end = at;
        if let Some(next) = self.held_at(at) {
            // It follows the new key now, with which it shares no less.
            let more = match next.shared == shared {
                true => common_bytes(&key[shared..], next.own),
                false => 0,
            };
            put_varint(&mut laid, next.shared + more);
            put_varint(&mut laid, next.own.len() - more);
            laid.extend_from_slice(&next.own[more..]);
            end = next.entry_at;
        }
        self.bytes
            .reserve_exact(laid.len() - (end - at).min(laid.len()));
        self.bytes.splice(at..end, laid);
        self.count += 1;
        true
    }

    /// Changes an entry of the key. False, and nothing is done, if none holds `old`.
    fn replace(&mut self, key: &[u8], old: Location, new: Entry) -> bool {
        let mut equal = self.equal(key);
        let held = equal.find(|held| held.entry().location == old);
        let Some(at) = held.map(|held| held.entry_at) else {
            return false;
        };
        drop(equal);
        self.bytes[at..at + ENTRY_BYTES].copy_from_slice(&bytes_of(new));
        true
    }

    fn decode(&self) -> Vec<KeyedEntry> {
        let mut entries = Vec::with_capacity(self.count + 1);
        self.visit(|key, entry| {
            entries.push(KeyedEntry {
                key: key.to_vec(),
                entry,
            })
        });
        entries
    }
}

/// An entry as it stands in a group.
struct Held<'g> {
    /// Bytes that its key shares with the one before.
    shared: usize,
    /// The others.
    own: &'g [u8],
    /// Where location and flags start.
    entry_at: usize,
    bytes: &'g [u8; ENTRY_BYTES],
}

impl Held<'_> {
    fn end(&self) -> usize {
        self.entry_at + ENTRY_BYTES
    }

    fn entry(&self) -> Entry {
        let mut word = [0; 8];
        word[..ENTRY_BYTES].copy_from_slice(self.bytes);
        let bits = u64::from_le_bytes(word);
        Entry {
            location: Location::from_bits(bits),
            tombstone: bits >> Location::BITS & 1 == 1,
        }
    }
}

fn bytes_of(entry: Entry) -> [u8; ENTRY_BYTES] {
    let bits = entry.location.bits() | u64::from(entry.tombstone) << Location::BITS;
    let mut bytes = [0; ENTRY_BYTES];
    bytes.copy_from_slice(&bits.to_le_bytes()[..ENTRY_BYTES]);
    bytes
}

fn put_varint(out: &mut Vec<u8>, mut value: usize) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Reads a number; one that ends early counts as far as it goes.
fn take_varint(bytes: &mut &[u8]) -> usize {
    let (mut value, mut shift) = (0usize, 0);
    while let Some((byte, rest)) = bytes.split_first() {
        *bytes = rest;
        value |= usize::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
        shift += 7;
        if byte & 0x80 == 0 {
            break;
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn entry(number: u64) -> Entry {
        Entry {
            location: Location::from_bits(number),
            tombstone: number.is_multiple_of(3),
        }
    }

    proptest! {
        #[test]
        fn a_keyed_leaf_is_a_map(ops in prop::collection::vec((0u32..200, 0u8..4, 0usize..300), 0..300)) {
            let mut leaf = KeyedLeaf::default();
            let mut map = BTreeMap::new();
            for (number, (id, kind, pad)) in ops.into_iter().enumerate() {
                // Every third is longer by what others are prefixes of.
                let tail = if id % 3 == 0 { "/index.html" } else { "" };
                let key = format!("https://host/{}{}{tail}", "x".repeat(pad % 3 * 700), id / 3);
                let key = key.into_bytes();
                let new = entry(number as u64);
                let held = leaf.find(KeyView::from(key.as_slice())).first().copied();
                prop_assert_eq!(held, map.get(&key).copied());
                let action = match (held, kind) {
                    (None, _) => Action::Insert(new),
                    (Some(held), 0 | 1) => Action::Remove { old: held.location },
                    (Some(held), _) => Action::Replace { old: held.location, new },
                };
                prop_assert!(leaf.apply(&key, action));
                match action {
                    Action::Remove { .. } => drop(map.remove(&key)),
                    _ => drop(map.insert(key, new)),
                }
            }
            // Nothing is stored twice for being changed in place, and the memory is counted as it is.
            for group in &leaf.groups {
                let (anew, count) = Group::encode(&group.decode());
                prop_assert_eq!((&anew.bytes, anew.count, count), (&group.bytes, group.count, count));
            }
            if leaf.len() > 0 {
                let counted = leaf.bytes();
                leaf.recount();
                prop_assert_eq!(leaf.bytes(), counted);
            }
            let held: Vec<_> = leaf.entries().into_iter().map(|e| (e.key, e.entry)).collect();
            prop_assert_eq!(leaf.len(), map.len());
            prop_assert_eq!(held, map.into_iter().collect::<Vec<_>>());
        }
    }
}
