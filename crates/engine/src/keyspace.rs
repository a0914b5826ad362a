//! A keyspace as its user has it: checks arguments, then calls one flow.

use std::sync::Arc;

use heliox_format::ids::KeyspaceId;
use heliox_index::Direction;

use crate::approximate;
use crate::core::Core;
use crate::error::{Error, ErrorKind, Result};
use crate::keyspaces::KeyspaceState;
use crate::large;
use crate::options::WriteOptions;
use crate::range_delete;
use crate::ranges::prefix_end;
use crate::read::{self, View};
use crate::scan::{Bounds, Scan};
use crate::snapshot::{Snapshot, SnapshotGuard};
use crate::write::{self, Change, Stored};

/// A sorted set of keys with values in a store, apart from all other keyspaces. Cheap to clone;
/// shared by all threads.
///
/// Keys are 0 to 65,535 arbitrary bytes, values 0 to 256 MiB. Reads return writes that are not
/// durable yet.
#[derive(Clone)]
pub struct Keyspace {
    pub(crate) core: Arc<Core>,
    pub(crate) state: Arc<KeyspaceState>,
}

impl std::fmt::Debug for Keyspace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keyspace")
            .field("name", &self.state.name)
            .finish_non_exhaustive()
    }
}

/// How many keys and bytes a range holds, roughly.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Approximate {
    /// Keys. Exact if there are few, at most 256; else tombstones not yet swept are included, and it is off
    /// by at most about one index leaf at each end.
    pub count: u64,
    /// Bytes: of the keys and values themselves where they are few; else on media, the count times the
    /// store's mean record.
    pub bytes: u64,
}

/// # Writing
impl Keyspace {
    /// Gives `key` the value, whatever it had. Reads nothing from media.
    ///
    /// # Errors
    /// `TooLarge`, `Full`, `OverBudget`, `UnknownKeyspace` after a drop, `Failed` after a device
    /// failure.
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.put_with(key, value, &WriteOptions::new())
    }

    /// As [`Keyspace::put`], with a durability or a time to live of its own.
    ///
    /// # Errors
    /// As [`Keyspace::put`]; `Invalid` for options out of bounds.
    pub fn put_with(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: &WriteOptions,
    ) -> Result<()> {
        let (key, value) = (key.as_ref(), value.as_ref());
        self.check(Some(options))?;
        write::check_sizes(key, value.len())?;
        let (stored, chunks) = large::store(&self.core, self.id(), key, value)?;
        let stored = Stored {
            bytes: &stored,
            chunks,
        };
        let put = write::put(&self.core, self.id(), key, stored, options);
        if chunks.is_some() {
            large::settle(&self.core, stored.bytes, put.as_ref().err())?;
        }
        put
    }

    /// Takes the value of `key` away; no error if it has none. Reads nothing from media.
    ///
    /// # Errors
    /// As [`Keyspace::put`].
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.delete_with(key, &WriteOptions::new())
    }

    /// As [`Keyspace::delete`], with a durability of its own.
    ///
    /// # Errors
    /// As [`Keyspace::put`].
    pub fn delete_with(&self, key: impl AsRef<[u8]>, options: &WriteOptions) -> Result<()> {
        self.check(Some(options))?;
        write::delete(&self.core, self.id(), key.as_ref(), options)
    }

    /// Gives `key` the value if it has none. True if it did.
    ///
    /// # Errors
    /// As [`Keyspace::put`], and read errors.
    pub fn insert_if_absent(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<bool> {
        let value = value.as_ref();
        let mut was_absent = false;
        self.modify(key.as_ref(), &mut |old| {
            was_absent = old.is_none();
            Ok(if was_absent {
                Some(Some(value.to_vec()))
            } else {
                None
            })
        })?;
        Ok(was_absent)
    }

    /// Gives `key` the value if it has one already. True if it did.
    ///
    /// # Errors
    /// As [`Keyspace::put`], and read errors.
    pub fn replace_if_present(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<bool> {
        let value = value.as_ref();
        let mut was_present = false;
        self.modify(key.as_ref(), &mut |old| {
            was_present = old.is_some();
            Ok(if was_present {
                Some(Some(value.to_vec()))
            } else {
                None
            })
        })?;
        Ok(was_present)
    }

    /// Takes the value of `key` away and gives it, in one atomic step.
    ///
    /// # Errors
    /// As [`Keyspace::put`], and read errors.
    pub fn take(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        let mut taken = None;
        self.modify(key.as_ref(), &mut |old| {
            taken = old;
            Ok(Some(None))
        })?;
        Ok(taken)
    }

    /// Changes the value of `key` atomically: `change` is shown the present value and gives the
    /// next, `None` for no value. It may be called several times if others write the key.
    ///
    /// # Errors
    /// As [`Keyspace::put`], and read errors.
    pub fn update(
        &self,
        key: impl AsRef<[u8]>,
        mut change: impl FnMut(Option<&[u8]>) -> Option<Vec<u8>>,
    ) -> Result<()> {
        self.modify(key.as_ref(), &mut |old| Ok(Some(change(old.as_deref()))))
    }

    /// As [`Keyspace::update`], but `change` may also decide to leave things as they are: with `None`
    /// nothing is written. True if something was.
    ///
    /// # Errors
    /// As [`Keyspace::update`].
    pub fn update_if(
        &self,
        key: impl AsRef<[u8]>,
        mut change: impl FnMut(Option<&[u8]>) -> Option<Option<Vec<u8>>>,
    ) -> Result<bool> {
        let mut changed = false;
        self.modify(key.as_ref(), &mut |old| {
            let next = change(old.as_deref());
            changed = next.is_some();
            Ok(next)
        })?;
        Ok(changed)
    }

    /// Merges an operand into the value of `key` by the store's merge operator, atomically.
    ///
    /// # Errors
    /// `Invalid` if the store was opened without a merge operator or the operator refuses; else as
    /// [`Keyspace::update`].
    pub fn merge(&self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        let (key, operand) = (key.as_ref(), operand.as_ref());
        let Some(operator) = self.core.settings.merge_operator.clone() else {
            return Err(Error::invalid(
                "merge needs a merge operator: give one with Options::merge_operator",
            ));
        };
        self.modify(key, &mut |old| {
            let merged = operator.merge(key, old.as_deref(), operand);
            let refused = || {
                Error::invalid(format!(
                    "merge operator {} refused the operand",
                    operator.name()
                ))
            };
            merged.map(|value| Some(Some(value))).ok_or_else(refused)
        })
    }

    /// Takes away every key in `[from, to)`. Accepted in constant time; space is reclaimed later.
    ///
    /// # Errors
    /// As [`Keyspace::put`]; `Full` while thousands of range deletes wait for their sweep.
    pub fn delete_range(&self, from: impl AsRef<[u8]>, to: impl AsRef<[u8]>) -> Result<()> {
        self.delete_range_with(from, to, &WriteOptions::new())
    }

    /// As [`Keyspace::delete_range`], with a durability of its own.
    ///
    /// # Errors
    /// As [`Keyspace::delete_range`]; `Invalid` for options out of bounds.
    pub fn delete_range_with(
        &self,
        from: impl AsRef<[u8]>,
        to: impl AsRef<[u8]>,
        options: &WriteOptions,
    ) -> Result<()> {
        let (from, to) = (from.as_ref(), to.as_ref());
        self.check(Some(options))?;
        write::check_sizes(from, to.len())?;
        write::check_sizes(to, 0)?;
        if from >= to {
            return Ok(());
        }
        range_delete::run(&self.core, self.id(), from, Some(to), options)
    }

    /// Takes away every key that starts with `prefix`, as [`Keyspace::delete_range`].
    ///
    /// # Errors
    /// As [`Keyspace::delete_range`].
    pub fn delete_prefix(&self, prefix: impl AsRef<[u8]>) -> Result<()> {
        self.delete_prefix_with(prefix, &WriteOptions::new())
    }

    /// As [`Keyspace::delete_prefix`], with a durability of its own.
    ///
    /// # Errors
    /// As [`Keyspace::delete_range_with`].
    pub fn delete_prefix_with(
        &self,
        prefix: impl AsRef<[u8]>,
        options: &WriteOptions,
    ) -> Result<()> {
        let prefix = prefix.as_ref();
        self.check(Some(options))?;
        write::check_sizes(prefix, 0)?;
        let end = prefix_end(prefix);
        range_delete::run(&self.core, self.id(), prefix, end.as_deref(), options)
    }
}

/// # Reading
impl Keyspace {
    /// The value of `key`.
    ///
    /// # Errors
    /// A device error, or `Damaged` if the record does not verify.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.read(key.as_ref(), View::Latest, 0, u64::MAX)
    }

    /// As [`Keyspace::get`], into memory of the caller, which is cleared first, and holds nothing after an
    /// error. True if there is a value.
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    pub fn get_into(&self, key: impl AsRef<[u8]>, value: &mut Vec<u8>) -> Result<bool> {
        let found = self.read_into(key.as_ref(), View::Latest, 0, u64::MAX, value);
        if found.is_err() {
            value.clear();
        }
        found
    }

    /// Bytes `offset..offset + len` of the value of `key`, fewer at its end.
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    pub fn get_range(
        &self,
        key: impl AsRef<[u8]>,
        offset: u64,
        len: u64,
    ) -> Result<Option<Vec<u8>>> {
        self.read(key.as_ref(), View::Latest, offset, len)
    }

    /// The value that `key` had when the snapshot was taken.
    ///
    /// # Errors
    /// As [`Keyspace::get`]; `SnapshotTooOld` if the snapshot gave way to the memory budget, or
    /// to a writer without room.
    pub fn get_at(&self, key: impl AsRef<[u8]>, snapshot: &Snapshot) -> Result<Option<Vec<u8>>> {
        let guard = self.guard_of(snapshot)?;
        let value = self.read(key.as_ref(), View::At(guard.seq()), 0, u64::MAX);
        guard.check_readable()?;
        value
    }

    /// The values of many keys, their records read in one batch. Each is as of some moment of the call;
    /// [`Keyspace::multi_get_at`] gives all as of one.
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Vec<u8>>>> {
        self.check(None)?;
        self.read_many(keys, View::Latest)
    }

    /// The values that many keys had when the snapshot was taken: all as of one moment.
    ///
    /// # Errors
    /// As [`Keyspace::get_at`].
    pub fn multi_get_at<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        snapshot: &Snapshot,
    ) -> Result<Vec<Option<Vec<u8>>>> {
        let guard = self.guard_of(snapshot)?;
        self.core.check_open()?;
        let values = self.read_many(keys, View::At(guard.seq()));
        guard.check_readable()?;
        values
    }

    /// True if `key` has a value.
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    pub fn contains(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        let key = key.as_ref();
        self.check(None)?;
        write::check_sizes(key, 0)?;
        let prepared = self.core.prepare(self.id(), key);
        read::get(&self.core, &prepared, View::Latest, &mut |_| Ok(()))
    }

    /// An iteration over keys in order: set its bounds, then [`IterOptions::start`] it.
    #[must_use]
    pub fn iter(&self) -> IterOptions {
        IterOptions {
            keyspace: self.clone(),
            from: Vec::new(),
            to: None,
            direction: Direction::Forward,
            keys_only: false,
            limit: None,
            snapshot: None,
        }
    }

    /// How much is in `[from, to)`: by the index alone, at about 50 ns for each 1,000 keys. Where it says
    /// that there are at most 256, the keys are counted as an iteration counts them: it reads their records,
    /// and those beside them in the same leaf of the index, 1,000 or more for a keyspace that has no leaf of
    /// its own. Deleted keys that are not swept yet make few look like many.
    ///
    /// # Errors
    /// `UnknownKeyspace` after a drop; a device error.
    pub fn approximate(&self, from: impl AsRef<[u8]>, to: impl AsRef<[u8]>) -> Result<Approximate> {
        self.check(None)?;
        let (from, to) = (from.as_ref(), to.as_ref());
        let (count, bytes) = approximate::run(&self.core, self.id(), from, to)?;
        Ok(Approximate { count, bytes })
    }

    /// The keyspace's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.state.name
    }

    pub(crate) fn id(&self) -> KeyspaceId {
        self.state.id
    }

    fn check(&self, options: Option<&WriteOptions>) -> Result<()> {
        self.core.check_open()?;
        if self.state.is_dropped() {
            return Err(Error::unknown_keyspace(&self.state.name));
        }
        options.map_or(Ok(()), WriteOptions::validate)
    }

    fn guard_of<'s>(&self, snapshot: &'s Snapshot) -> Result<&'s Arc<SnapshotGuard>> {
        if !snapshot.0.is_of(&self.core) {
            return Err(Error::invalid("the snapshot is of another store"));
        }
        snapshot.0.check_readable()?;
        Ok(&snapshot.0)
    }

    fn read_many<K: AsRef<[u8]>>(&self, keys: &[K], view: View) -> Result<Vec<Option<Vec<u8>>>> {
        for key in keys {
            write::check_sizes(key.as_ref(), 0)?;
        }
        let keys: Vec<&[u8]> = keys.iter().map(AsRef::as_ref).collect();
        crate::multi_get::run(&self.core, self.id(), &keys, view)
    }

    fn read(&self, key: &[u8], view: View, offset: u64, len: u64) -> Result<Option<Vec<u8>>> {
        let mut value = Vec::new();
        let found = self.read_into(key, view, offset, len, &mut value)?;
        Ok(found.then_some(value))
    }

    fn read_into(
        &self,
        key: &[u8],
        view: View,
        offset: u64,
        len: u64,
        value: &mut Vec<u8>,
    ) -> Result<bool> {
        value.clear();
        // A snapshot of a dropped keyspace can still be read.
        if view == View::Latest {
            self.check(None)?;
        }
        self.core.check_open()?;
        write::check_sizes(key, 0)?;
        let prepared = self.core.prepare(self.id(), key);
        let operations = self.core.counters.operations();
        operations.gets.add(1);
        let mut last = None;
        loop {
            let mut head = None;
            let found = read::get(&self.core, &prepared, view, &mut |record| {
                match record.header.chunked {
                    true => head = Some(read::OwnedRecord::of(record)),
                    false => value.extend_from_slice(large::part(record.value, offset, len)),
                }
                Ok(())
            })?;
            if !found {
                return Ok(false);
            }
            if let Some(head) = head {
                let is_whole = large::load_range(&self.core, &head.record(), offset, len, value)?;
                if !is_whole {
                    // Chunks go with their head: missing under the same one twice, they are lost.
                    if last.replace(head.seq) == Some(head.seq) {
                        return Err(Error::damaged("a chunk of a large value is missing"));
                    }
                    value.clear();
                    continue;
                }
            }
            operations.get_hits.add(1);
            return Ok(true);
        }
    }

    /// Runs a conditional write: `change` gives `None` to leave things as they are, else the next
    /// value or none.
    #[allow(clippy::type_complexity)] // spelled out once
    fn modify(
        &self,
        key: &[u8],
        change: &mut dyn FnMut(Option<Vec<u8>>) -> Result<Option<Option<Vec<u8>>>>,
    ) -> Result<()> {
        self.check(None)?;
        let core = &*self.core;
        let options = WriteOptions::new();
        let mut last = None;
        // The chunks of a value that was not installed, since the key changed meanwhile.
        let mut unused: Option<Vec<u8>> = None;
        let modified = write::modify(core, self.id(), key, &options, &mut |record| {
            if let Some(stored) = unused.take() {
                large::withdraw(core, &stored)?;
            }
            let old = match record {
                None => None,
                Some(record) => match large::load(core, record)? {
                    Some(value) => Some(value),
                    // Chunks go with their head: missing under the same one twice, they are lost.
                    None if last.replace(record.seq) == Some(record.seq) => {
                        return Err(Error::damaged("a chunk of a large value is missing"));
                    }
                    None => return Ok(Change::Retry),
                },
            };
            Ok(match change(old)? {
                None => Change::Keep,
                Some(None) => Change::Delete,
                Some(Some(value)) => {
                    let (bytes, chunks) = large::store(core, self.id(), key, &value)?;
                    let bytes = bytes.into_owned();
                    unused = chunks.map(|_| bytes.clone());
                    Change::Put { bytes, chunks }
                }
            })
        });
        if let Some(stored) = unused {
            large::settle(core, &stored, modified.as_ref().err())?;
        }
        modified
    }
}

/// The bounds and manner of an iteration.
#[derive(Clone)]
pub struct IterOptions {
    keyspace: Keyspace,
    from: Vec<u8>,
    to: Option<Vec<u8>>,
    direction: Direction,
    keys_only: bool,
    limit: Option<usize>,
    snapshot: Option<Arc<SnapshotGuard>>,
}

impl IterOptions {
    /// Only keys at or after this one.
    #[must_use]
    pub fn from(mut self, key: impl AsRef<[u8]>) -> IterOptions {
        self.from = self.from.max(key.as_ref().to_vec());
        self
    }

    /// Only keys before this one.
    #[must_use]
    pub fn to(mut self, key: impl AsRef<[u8]>) -> IterOptions {
        let key = key.as_ref().to_vec();
        self.to = Some(self.to.map_or(key.clone(), |to| to.min(key)));
        self
    }

    /// Only keys that start with this.
    #[must_use]
    pub fn prefix(self, prefix: impl AsRef<[u8]>) -> IterOptions {
        let end = prefix_end(prefix.as_ref());
        let from = self.from(prefix);
        match end {
            Some(end) => from.to(end),
            None => from,
        }
    }

    /// From the largest key to the smallest.
    #[must_use]
    pub fn reverse(mut self) -> IterOptions {
        self.direction = Direction::Backward;
        self
    }

    /// Values are given empty. The records are read all the same: the index holds no full keys.
    #[must_use]
    pub fn keys_only(mut self) -> IterOptions {
        self.keys_only = true;
        self
    }

    /// At most so many keys, which are asked for at once (256 at most). Without a limit the first is read alone,
    /// and what follows in parts that grow.
    #[must_use]
    pub fn limit(mut self, keys: usize) -> IterOptions {
        self.limit = Some(keys);
        self
    }

    /// As of a snapshot, instead of one taken at the start.
    #[must_use]
    pub fn at(mut self, snapshot: &Snapshot) -> IterOptions {
        self.snapshot = Some(Arc::clone(&snapshot.0));
        self
    }

    /// Starts the iteration; it sees one snapshot to its end and does not hold garbage collection
    /// up.
    ///
    /// # Errors
    /// `SnapshotTooOld`, `UnknownKeyspace` after a drop.
    pub fn start(self) -> Result<Iter> {
        let core = Arc::clone(&self.keyspace.core);
        core.check_open()?;
        let snapshot = match self.snapshot {
            Some(snapshot) if !snapshot.is_of(&core) => {
                return Err(Error::invalid("the snapshot is of another store"));
            }
            Some(snapshot) => snapshot,
            None => {
                self.keyspace.check(None)?;
                Arc::new(SnapshotGuard::take(&core))
            }
        };
        snapshot.check_readable()?;
        let bounds = Bounds {
            keyspace: self.keyspace.id(),
            from: self.from,
            to: self.to,
        };
        let (direction, keys_only) = (self.direction, self.keys_only);
        let scan = Scan::new(core, snapshot, bounds, direction, keys_only, self.limit);
        Ok(Iter { scan, ended: false })
    }
}

/// Keys and values in order. A record that is damaged gives its error, and the next item is the next
/// record that can be read; after any other error it is at its end.
pub struct Iter {
    scan: Scan,
    ended: bool,
}

impl Iterator for Iter {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let item = self
            .scan
            .check_open()
            .and_then(|()| self.scan.next())
            .transpose();
        self.ended = match &item {
            None => true,
            Some(Err(error)) => error.kind() != ErrorKind::Damaged,
            Some(Ok(_)) => false,
        };
        item
    }
}
