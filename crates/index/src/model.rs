//! The simplest structure with the interface of the index: a locked map of full keys.
//!
//! It says what the real one must do, and is what the property tests compare with.

use std::collections::BTreeMap;
use std::ops::Bound;

use heliox_format::ids::{Location, SeqNo};
use parking_lot::Mutex;

use crate::api::{
    Action, Direction, Entry, IndexOptions, IndexStats, KeySource, Matches, Next, ScanBatch,
    ScanEntry, ScanFrom,
};
use crate::error::{ImageError, IndexError};
use crate::key::PreparedKey;

type Map = BTreeMap<Vec<u8>, Vec<Entry>>;

/// The index, as a map.
pub struct Index {
    map: Mutex<Map>,
    limit_bytes: Mutex<u64>,
}

/// How far an image walk has come.
#[derive(Debug)]
pub struct ImageCursor {
    done: bool,
}

/// Builds an index out of images.
pub struct IndexLoader {
    options: IndexOptions,
    map: Map,
}

fn bytes_of(map: &Map) -> u64 {
    map.iter()
        .map(|(key, entries)| (key.len() + 16 * entries.len() + 48) as u64)
        .sum()
}

impl Index {
    /// An empty index.
    ///
    /// # Errors
    /// None here.
    pub fn new(options: IndexOptions) -> Result<Index, IndexError> {
        Ok(Index {
            map: Mutex::default(),
            limit_bytes: Mutex::new(options.limit_bytes),
        })
    }

    /// The entries of a key.
    #[must_use]
    pub fn lookup(&self, key: &PreparedKey<'_>) -> Matches {
        let map = self.map.lock();
        Matches(
            map.get(&key.internal())
                .map(|e| e.iter().copied().collect())
                .unwrap_or_default(),
        )
    }

    /// The entries of several keys.
    pub fn lookup_many(&self, keys: &[PreparedKey<'_>], out: &mut Vec<Matches>) {
        out.clear();
        out.extend(keys.iter().map(|key| self.lookup(key)));
    }

    /// The one write primitive.
    ///
    /// # Errors
    /// `OverBudget`, and `Internal` if the action names an entry that is not among the matches.
    pub fn update<R>(
        &self,
        key: &PreparedKey<'_>,
        _source: &dyn KeySource,
        decide: impl FnOnce(&[Entry]) -> (Action, R),
    ) -> Result<R, IndexError> {
        let mut map = self.map.lock();
        let limit = *self.limit_bytes.lock();
        let internal = key.internal();
        if limit < 1 << 40 {
            let needed = bytes_of(&map) + 100;
            if needed > limit && !map.contains_key(&internal) {
                return Err(IndexError::OverBudget { needed, limit });
            }
        }
        let entries = map.entry(internal.clone()).or_default();
        let (action, answer) = decide(entries);
        let find = |entries: &[Entry], old: Location| {
            entries
                .iter()
                .position(|entry| entry.location == old)
                .ok_or(IndexError::Internal("no match holds this location"))
        };
        match action {
            Action::Keep => {}
            Action::Insert(entry) => entries.push(entry),
            Action::Replace { old, new } => {
                let at = find(entries, old)?;
                entries[at] = new;
            }
            Action::Remove { old } => {
                let at = find(entries, old)?;
                entries.remove(at);
            }
        }
        if entries.is_empty() {
            map.remove(&internal);
        }
        Ok(answer)
    }

    /// Nothing to learn: full keys are known.
    pub fn learn(&self, _key: &PreparedKey<'_>, _location: Location) {}

    /// One step of an ordered walk.
    pub fn scan(
        &self,
        from: ScanFrom<'_>,
        direction: Direction,
        limit: usize,
        out: &mut ScanBatch,
    ) {
        let map = self.map.lock();
        out.entries.clear();
        out.next = Next::End;
        let range = match (from, direction) {
            (ScanFrom::Start, Direction::Forward) | (ScanFrom::End, Direction::Backward) => {
                (Bound::Unbounded, Bound::Unbounded)
            }
            (ScanFrom::At(key), Direction::Forward) => (Bound::Included(key), Bound::Unbounded),
            (ScanFrom::At(key), Direction::Backward) => (Bound::Unbounded, Bound::Included(key)),
            _ => return,
        };
        let range = map.range::<[u8], _>(range);
        let mut ordered: Box<dyn Iterator<Item = (&Vec<u8>, &Vec<Entry>)>> = match direction {
            Direction::Forward => Box::new(range),
            Direction::Backward => Box::new(range.rev()),
        };
        let (mut group, mut beyond) = (0, 0);
        for (key, entries) in ordered.by_ref() {
            out.entries
                .extend(entries.iter().map(|&entry| ScanEntry { entry, group }));
            group += 1;
            // What the caller may have had before does not count, so that every step advances.
            beyond += usize::from(from != ScanFrom::At(key)) * entries.len();
            if beyond >= limit.max(1) {
                break;
            }
        }
        if ordered.next().is_some() {
            out.next = Next::More;
        }
    }

    /// Number of entries in `[from, to)`.
    #[must_use]
    pub fn approximate_count(&self, from: &[u8], to: Option<&[u8]>) -> u64 {
        let upper = to.map_or(Bound::Unbounded, Bound::Excluded);
        if to.is_some_and(|to| to <= from) {
            return 0;
        }
        let map = self.map.lock();
        map.range::<[u8], _>((Bound::Included(from), upper))
            .map(|(_, e)| e.len() as u64)
            .sum()
    }

    /// Starts an image walk.
    #[must_use]
    pub fn image_start(&self) -> ImageCursor {
        ImageCursor { done: false }
    }

    /// The next leaf of an image walk.
    ///
    /// # Errors
    /// None here.
    pub fn image_next(
        &self,
        cursor: &mut ImageCursor,
        out: &mut Vec<u8>,
        at: &mut dyn FnMut() -> SeqNo,
    ) -> Result<Option<SeqNo>, IndexError> {
        if std::mem::replace(&mut cursor.done, true) {
            return Ok(None);
        }
        let map = self.map.lock();
        out.extend_from_slice(&(map.values().map(Vec::len).sum::<usize>() as u64).to_le_bytes());
        for (key, entries) in map.iter() {
            for entry in entries {
                out.extend_from_slice(&(key.len() as u32).to_le_bytes());
                out.extend_from_slice(key);
                let bits = entry.location.bits() << 1 | u64::from(entry.tombstone);
                out.extend_from_slice(&bits.to_le_bytes());
            }
        }
        Ok(Some(at()))
    }

    /// A loader of images.
    #[must_use]
    pub fn loader(options: IndexOptions) -> IndexLoader {
        IndexLoader {
            options,
            map: Map::new(),
        }
    }

    /// Visits every entry.
    pub fn for_each_entry(&self, f: &mut dyn FnMut(Entry)) {
        self.map
            .lock()
            .values()
            .flatten()
            .for_each(|&entry| f(entry));
    }

    /// All memory of the index, in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        bytes_of(&self.map.lock())
    }

    /// Sets the limit, in bytes.
    pub fn set_limit_bytes(&self, limit: u64) {
        *self.limit_bytes.lock() = limit;
    }

    /// Counters.
    #[must_use]
    pub fn stats(&self) -> IndexStats {
        let map = self.map.lock();
        IndexStats {
            entries: map.values().map(|e| e.len() as u64).sum(),
            leaves: 1,
            memory_bytes: bytes_of(&map),
            ..IndexStats::default()
        }
    }
}

fn take<'b>(bytes: &mut &'b [u8], len: usize) -> Result<&'b [u8], ImageError> {
    let (head, tail) = bytes.split_at_checked(len).ok_or(ImageError::Truncated)?;
    *bytes = tail;
    Ok(head)
}

fn take_u64(bytes: &mut &[u8]) -> Result<u64, ImageError> {
    let mut word = [0; 8];
    word.copy_from_slice(take(bytes, 8)?);
    Ok(u64::from_le_bytes(word))
}

impl IndexLoader {
    /// Takes the next leaf off the front of `bytes`.
    ///
    /// # Errors
    /// `Truncated`.
    pub fn push(&mut self, bytes: &mut &[u8]) -> Result<Vec<u8>, ImageError> {
        for _ in 0..take_u64(bytes)? {
            let mut len = [0; 4];
            len.copy_from_slice(take(bytes, 4)?);
            let key = take(bytes, u32::from_le_bytes(len) as usize)?.to_vec();
            let bits = take_u64(bytes)?;
            let location = Location::from_bits(bits >> 1);
            let entry = Entry {
                location,
                tombstone: bits & 1 == 1,
            };
            self.map.entry(key).or_default().push(entry);
        }
        Ok(Vec::new())
    }

    /// The index.
    ///
    /// # Errors
    /// None here.
    pub fn finish(self) -> Result<Index, ImageError> {
        Ok(Index {
            map: Mutex::new(self.map),
            limit_bytes: Mutex::new(self.options.limit_bytes),
        })
    }
}
