//! Ordered iteration at a snapshot.
//!
//! A step asks the index for the next entries of one leaf, reads their records in one batch,
//! drops what the snapshot does not see, and sorts within tie groups, whose order only the records
//! tell. The cursor is the last key passed, so whatever happens to the index between two steps
//! (splits, moves, overwrites), no key is missed or given twice.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use heliox_format::ids::{KeyspaceId, Location, SeqNo};
use heliox_format::record::Record;
use heliox_index::{Direction, Next, PreparedKey, ScanBatch, ScanEntry, ScanFrom};
use heliox_log::read::ReadBuf;
use heliox_log::LogError;

use crate::core::{Asked, Core, Head};
use crate::error::{Error, ErrorKind, Result};
use crate::gather::{self, Place};
use crate::large;
use crate::read::{
    back_off, follow_chain, is_gone, is_outdated, is_stale, is_visible, note_read, with_scratch,
    Chain, OwnedRecord, View,
};
use crate::snapshot::SnapshotGuard;

/// Entries that are read at first besides what may be at the very place: who seeks a key that is there often
/// wants no more.
const FIRST_ENTRIES: usize = 0;
/// Those that are read once something was found; then twice as many each time.
const NEXT_ENTRIES: usize = 8;
const ENTRIES_MAX: usize = 256;
const RETRIES_MAX: usize = 10_000;
const KEYSPACE_BYTES: usize = 4;

/// Which keys an iteration covers.
#[derive(Clone, Debug)]
pub(crate) struct Bounds {
    pub(crate) keyspace: KeyspaceId,
    /// First key.
    pub(crate) from: Vec<u8>,
    /// First key after the range; none for "to the end of the keyspace".
    pub(crate) to: Option<Vec<u8>>,
}

impl Bounds {
    fn internal(&self, key: &[u8]) -> Vec<u8> {
        let mut internal = self.keyspace.0.to_be_bytes().to_vec();
        internal.extend_from_slice(key);
        internal
    }

    /// The first internal key after the range; none if there is no larger one.
    fn internal_end(&self) -> Option<Vec<u8>> {
        match &self.to {
            Some(to) => Some(self.internal(to)),
            None => Some(self.keyspace.0.checked_add(1)?.to_be_bytes().to_vec()),
        }
    }

    fn holds(&self, keyspace: KeyspaceId, key: &[u8]) -> bool {
        keyspace == self.keyspace
            && key >= self.from.as_slice()
            && self.to.as_deref().is_none_or(|to| key < to)
    }

    /// True if no key is left in the direction once `internal` was passed.
    fn is_past(&self, internal: &[u8], direction: Direction) -> bool {
        match direction {
            Direction::Forward => self.internal_end().is_some_and(|end| internal >= &end[..]),
            Direction::Backward => internal <= &self.internal(&self.from)[..],
        }
    }
}

/// Where the next step starts; all keys are internal.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Cursor {
    /// At this key, which was passed already unless the iteration begins there.
    At(Vec<u8>),
    /// At the end of all keys, going backward.
    End,
    /// Nothing is left.
    Done,
}

/// A key and its value that are ready to be given out.
type Item = (Vec<u8>, Vec<u8>);

/// An iteration. Holds its snapshot.
pub(crate) struct Scan {
    core: Arc<Core>,
    snapshot: Arc<SnapshotGuard>,
    bounds: Bounds,
    direction: Direction,
    keys_only: bool,
    cursor: Cursor,
    /// The last key that was passed; keys at or before it are not given again.
    passed: Option<Vec<u8>>,
    ready: VecDeque<Result<Item>>,
    /// Entries whose records are damaged and were told.
    damaged: HashSet<Location>,
    entries: usize,
    /// How many items are still to be given.
    left: usize,
    /// What of this iteration may still be laid together.
    gather_left: usize,
    /// Bytes of the keys that were made ready without their values, and of these.
    passed_bytes: u64,
    batch: ScanBatch,
    buf: ReadBuf,
}

impl Scan {
    pub(crate) fn new(
        core: Arc<Core>,
        snapshot: Arc<SnapshotGuard>,
        bounds: Bounds,
        direction: Direction,
        keys_only: bool,
        limit: Option<usize>,
    ) -> Scan {
        let cursor = match direction {
            Direction::Forward => Cursor::At(bounds.internal(&bounds.from)),
            Direction::Backward => bounds.internal_end().map_or(Cursor::End, Cursor::At),
        };
        Scan {
            core,
            snapshot,
            bounds,
            direction,
            keys_only,
            cursor,
            passed: None,
            ready: VecDeque::new(),
            damaged: HashSet::new(),
            // What is at the very place is the first of them.
            entries: limit.map_or(FIRST_ENTRIES, |l| l.saturating_sub(1).min(ENTRIES_MAX)),
            left: limit.unwrap_or(usize::MAX),
            gather_left: gather::ENTRIES_MAX,
            passed_bytes: 0,
            batch: ScanBatch::default(),
            buf: ReadBuf::default(),
        }
    }

    /// Lays nothing together.
    pub(crate) fn leave_all_where_it_is(&mut self) {
        self.gather_left = 0;
    }

    /// Bytes of the keys given so far without their values, and of these.
    pub(crate) fn passed_bytes(&self) -> u64 {
        self.passed_bytes
    }

    /// Refuses to go on for a user once the store is closed.
    pub(crate) fn check_open(&self) -> Result<()> {
        self.core.check_open()
    }

    /// The next key and value; none at the end. After an error of damage it goes on with the next
    /// record that can be read.
    pub(crate) fn next(&mut self) -> Result<Option<Item>> {
        let mut stale = 0;
        loop {
            if self.left == 0 {
                return Ok(None);
            }
            if let Some(item) = self.ready.pop_front() {
                self.left -= usize::from(item.is_ok());
                return item.map(Some);
            }
            if matches!(self.cursor, Cursor::Done) {
                return Ok(None);
            }
            let stepped = self.step();
            if stepped.is_err() {
                // What a step cannot pass by would come again and again.
                self.cursor = Cursor::Done;
            }
            if stepped? {
                stale = 0;
            } else {
                stale += 1;
                back_off(stale);
            }
            if stale > RETRIES_MAX {
                return Err(self
                    .core
                    .fail_internal("a scan meets entries without records"));
            }
            self.snapshot.check_readable()?;
        }
    }

    /// Reads the next entries; false if some of them moved meanwhile and the step must be repeated.
    fn step(&mut self) -> Result<bool> {
        let asked = self.core.asked();
        self.ask_index();
        let mut entries = std::mem::take(&mut self.batch.entries);
        let found = entries.len();
        entries.retain(|e| !self.damaged.contains(&e.entry.location));
        let records = self.read_records(&mut entries, asked);
        let spoilt = entries.len() < found;
        let Some((records, reads)) = records? else {
            self.batch.entries = entries;
            return Ok(false);
        };
        self.lay_together(&entries, &records, asked, reads);
        let Some(visible) = self.visible(&entries, records, asked)? else {
            self.batch.entries = entries;
            return Ok(false);
        };
        self.batch.entries = entries;
        let furthest = visible.furthest;
        self.give(visible.items)?;
        self.advance(furthest, spoilt);
        Ok(true)
    }

    fn ask_index(&mut self) {
        let from = match &self.cursor {
            Cursor::At(key) => ScanFrom::At(key),
            Cursor::End | Cursor::Done => ScanFrom::End,
        };
        // Damaged ones are passed by.
        let entries = self
            .entries
            .min(self.left.saturating_add(self.damaged.len()));
        self.core
            .index
            .scan(from, self.direction, entries, &mut self.batch);
    }

    /// So that the next scan finds them so.
    fn lay_together(
        &mut self,
        entries: &[ScanEntry],
        records: &[OwnedRecord],
        asked: Asked,
        reads: usize,
    ) {
        let pairs = entries.iter().zip(records).take(self.gather_left);
        let place = |(entry, record): (&ScanEntry, _)| Place {
            location: entry.entry.location,
            record,
        };
        gather::run(&self.core, pairs.map(place), asked, reads);
        self.gather_left = self.gather_left.saturating_sub(entries.len());
    }

    /// The records of the entries, in one batch of reads, and how many those were; none if one of them
    /// is gone. Entries of damaged records are told once and taken out.
    fn read_records(
        &mut self,
        entries: &mut Vec<ScanEntry>,
        asked: Asked,
    ) -> Result<Option<(Vec<OwnedRecord>, usize)>> {
        let locations: Vec<Location> = entries.iter().map(|e| e.entry.location).collect();
        let mut records: Vec<Option<OwnedRecord>> = vec![None; locations.len()];
        let mut missing = Vec::new();
        for (i, location) in locations.iter().enumerate() {
            records[i] = crate::read::cached(&self.core, *location);
            if records[i].is_none() {
                missing.push((i, *location));
            }
        }
        let wanted: Vec<Location> = missing.iter().map(|(_, l)| *l).collect();
        let (core, mut failed) = (&self.core, None);
        let mut damaged: Vec<(usize, LogError)> = Vec::new();
        core.log
            .read_many(&wanted, &mut self.buf, &mut |n, found| match found {
                Ok(Some(found)) => {
                    note_read(core, wanted[n], &found);
                    records[missing[n].0] = Some(OwnedRecord::of(&found.record));
                }
                Ok(None) => {}
                Err(error @ LogError::Damaged(_)) => damaged.push((missing[n].0, error)),
                Err(error) => failed = Some(error),
            })?;
        // Segments that began after the index was asked hold other records at these places.
        let head = |location: &Location| Head {
            location: *location,
            asked,
        };
        if locations.iter().any(|l| is_stale(core, head(l))) {
            return Ok(None);
        }
        if let Some(error) = failed {
            return Err(Error::from(error));
        }
        damaged.sort_by_key(|(i, _)| std::cmp::Reverse(*i));
        for (i, error) in damaged {
            let location = entries.remove(i).entry.location;
            self.core.note_damaged_read(location, &error);
            self.damaged.insert(location);
            records.remove(i);
            self.ready.push_back(Err(error.into()));
        }
        let records: Option<Vec<OwnedRecord>> = records.into_iter().collect();
        Ok(records.map(|records| (records, wanted.len())))
    }

    /// What the snapshot sees of the records, in order; none if an entry turned out stale.
    fn visible(
        &self,
        entries: &[ScanEntry],
        records: Vec<OwnedRecord>,
        asked: Asked,
    ) -> Result<Option<Visible>> {
        let view = View::At(self.snapshot.seq());
        let mut seen: Vec<Seen> = Vec::with_capacity(records.len());
        let mut furthest: Option<Vec<u8>> = None;
        for (entry, head) in entries.iter().zip(records) {
            let (keyspace, key) = (head.header.keyspace, head.key.clone());
            let internal = self.internal_of(keyspace, &key);
            let further = |f: &Vec<u8>| match self.direction {
                Direction::Forward => internal > *f,
                Direction::Backward => internal < *f,
            };
            if furthest.as_ref().is_none_or(further) {
                furthest = Some(internal);
            }
            if !self.bounds.holds(keyspace, &key) || !self.is_ahead(&key) {
                continue;
            }
            let place = Head {
                location: entry.entry.location,
                asked,
            };
            match self.version(view, place, head)? {
                Versioned::Stale => return Ok(None),
                Versioned::Absent => {}
                Versioned::Seen(version, record) => {
                    seen.push(Seen {
                        group: entry.group,
                        key,
                        version,
                        record,
                    });
                }
            }
        }
        self.sort(&mut seen);
        // Two entries may hold one key; the newest version speaks for it.
        seen.dedup_by(|later, earlier| later.key == earlier.key);
        let items = seen
            .into_iter()
            .filter_map(|s| Some((s.key, s.record?)))
            .collect();
        Ok(Some(Visible { items, furthest }))
    }

    fn sort(&self, seen: &mut [Seen]) {
        let forward = self.direction == Direction::Forward;
        seen.sort_by(|a, b| {
            let by_key = if forward {
                a.key.cmp(&b.key)
            } else {
                b.key.cmp(&a.key)
            };
            a.group
                .cmp(&b.group)
                .then(by_key)
                .then(b.version.cmp(&a.version))
        });
    }

    fn internal_of(&self, keyspace: KeyspaceId, key: &[u8]) -> Vec<u8> {
        let mut internal = Vec::with_capacity(KEYSPACE_BYTES + key.len());
        internal.extend_from_slice(&keyspace.0.to_be_bytes());
        internal.extend_from_slice(key);
        internal
    }

    fn is_ahead(&self, key: &[u8]) -> bool {
        match (&self.passed, self.direction) {
            (None, _) => true,
            (Some(passed), Direction::Forward) => key > passed.as_slice(),
            (Some(passed), Direction::Backward) => key < passed.as_slice(),
        }
    }

    /// The version of the head's own key that the snapshot sees.
    fn version(&self, view: View, place: Head, head: OwnedRecord) -> Result<Versioned> {
        let core = &*self.core;
        let record: Record<'_> = head.record();
        if is_visible(core, &record, view) {
            let version = record.version();
            let gone = is_gone(core, &record, view);
            if is_outdated(core, place.asked) {
                return Ok(Versioned::Stale);
            }
            return Ok(Versioned::Seen(version, (!gone).then_some(head)));
        }
        let key = PreparedKey::new(core.hash_seed, head.header.keyspace, &head.key);
        let mut copy = None;
        let chain = with_scratch(|scratch| {
            follow_chain(core, &key, place, view, scratch, &mut |record| {
                copy = Some(OwnedRecord::of(record));
                Ok(())
            })
        })?;
        Ok(match chain {
            Chain::Stale => Versioned::Stale,
            Chain::Absent => Versioned::Absent,
            Chain::Deleted(version) => Versioned::Seen(version, None),
            Chain::Value(version) => Versioned::Seen(version, copy),
        })
    }

    fn give(&mut self, items: Vec<(Vec<u8>, OwnedRecord)>) -> Result<()> {
        for (key, record) in items {
            self.passed = Some(key.clone());
            let value = if self.keys_only {
                self.passed_bytes += key.len() as u64 + large::len_bytes(&record.record());
                Ok(Vec::new())
            } else if record.header.chunked {
                // A snapshot keeps its chunks, so they cannot have gone.
                let gone = || Error::damaged("a chunk of a large value is missing");
                large::load(&self.core, &record.record()).and_then(|v| v.ok_or_else(gone))
            } else {
                Ok(record.value)
            };
            match value {
                Err(error) if error.kind() != ErrorKind::Damaged => return Err(error),
                value => self.ready.push_back(value.map(|value| (key, value))),
            }
        }
        Ok(())
    }

    /// Moves the cursor behind everything that was read. Without the keys of damaged records it may
    /// have to ask for more, from the same place on.
    fn advance(&mut self, furthest: Option<Vec<u8>>, spoilt: bool) {
        if spoilt && self.batch.next == Next::More {
            if let Some(key) = furthest {
                self.cursor = Cursor::At(key);
            }
            self.entries = (self.entries * 2).max(1);
            return;
        }
        let key = match (std::mem::take(&mut self.batch.next), furthest) {
            (Next::Leaf(key), _) | (Next::More, Some(key)) => key,
            // Nothing is at the very place.
            (Next::More, None) if self.entries == 0 => {
                self.entries = 1;
                return;
            }
            (Next::End, _) | (Next::More, None) => {
                self.cursor = Cursor::Done;
                return;
            }
        };
        if self.bounds.is_past(&key, self.direction) {
            self.cursor = Cursor::Done;
            return;
        }
        self.entries = match self.entries {
            0 if self.ready.is_empty() => 1,
            entries => (entries * 2).clamp(NEXT_ENTRIES, ENTRIES_MAX),
        };
        self.cursor = Cursor::At(key);
    }
}

struct Seen {
    group: u32,
    key: Vec<u8>,
    version: SeqNo,
    record: Option<OwnedRecord>,
}

struct Visible {
    items: Vec<(Vec<u8>, OwnedRecord)>,
    furthest: Option<Vec<u8>>,
}

enum Versioned {
    Stale,
    Absent,
    Seen(SeqNo, Option<OwnedRecord>),
}
