//! Writing: one primitive, append-and-install, under the leaf's lock and without I/O.
//!
//! Find the entry, check the condition, append to the log (which gives location and order), put
//! the location into the entry; unlock. A put's condition is none; whatever depends on the present
//! value reads first, unlocked, and then demands that nothing has changed. Nothing is appended that
//! is not installed.

use heliox_format::ids::{KeyspaceId, Location, SeqNo};
use heliox_format::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use heliox_format::record::{Record, RecordKind};
use heliox_index::{Action, Entry, PreparedKey};
use heliox_log::append::{Appended, BatchMember, Carried, NewRecord};
use heliox_log::{LogError, Stream};

use crate::admit::{acknowledge, admit};
use crate::batches::BatchPass;
use crate::canary::{is, Canary};
use crate::core::Core;
use crate::error::{Error, Result};
use crate::keys::StoreKeys;
use crate::options::WriteOptions;
use crate::read::{back_off, cache_record, look_up_present, named, Arrival, OwnedRecord, Present};
use crate::space::Wish;
use crate::tombstones::Tombstone;

/// Under which condition a record is installed.
pub(crate) enum Expect<'a> {
    /// None: replace the entry that matches, unread.
    Blind,
    /// The entries are still these; replace this one, or add one.
    Verified {
        seen: &'a [Location],
        own: Option<Location>,
    },
    /// As `Verified`, and no range delete has taken away the value of this version, from which the
    /// record was made.
    Read {
        seen: &'a [Location],
        own: Option<Location>,
        version: SeqNo,
    },
    /// An entry still holds this location: replace it.
    Holds(Location),
}

/// What became of an attempt to install.
pub(crate) enum Installed {
    /// The record is in the log and the index.
    Done {
        appended: Appended,
        displaced: Option<Location>,
    },
    /// Nothing matched, and the record would only have said that nothing is there.
    Nothing,
    /// The entries are not as expected: look again.
    Changed,
    /// Several entries match: only their records tell which is the key's.
    Ambiguous,
    /// A member of a batch in flight is in the way.
    Pending,
}

/// Appends `record` and installs it under the leaf's lock.
pub(crate) fn append_and_install(
    core: &Core,
    key: &PreparedKey<'_>,
    record: &NewRecord<'_>,
    stream: Stream,
    expect: &Expect<'_>,
    pass: Option<&BatchPass<'_>>,
) -> Result<Installed> {
    let keys = StoreKeys { core };
    let decide = |matches: &[Entry]| {
        let old = match target(core, matches, expect, pass) {
            Ok(old) => old,
            Err(outcome) => return (Action::Keep, Ok(outcome)),
        };
        if old.is_none() && record.kind == RecordKind::Tombstone {
            if let Some(pass) = pass {
                pass.announce_absent(record.keyspace, record.key);
            }
            return (Action::Keep, Ok(Installed::Nothing));
        }
        // A copy of an older version says nothing new, and does not wait.
        let is_new = pass.is_none() && record.version.is_none();
        if is_new && core.batches.is_absent(record.keyspace, record.key) {
            return (Action::Keep, Ok(Installed::Pending));
        }
        // Held until the record has its order.
        let mut held = None;
        if let Expect::Read { version, .. } = expect {
            held = core.ranges.hold(record.keyspace, record.key, *version);
            if held.is_none() {
                return (Action::Keep, Ok(Installed::Changed));
            }
        }
        let appended = append_for(core, key, record, stream, old, pass);
        drop(held);
        match appended {
            Ok(appended) => installed_as(record, appended, old),
            Err(error) => (Action::Keep, Err(error)),
        }
    };
    let installed = core
        .index
        .update(key, &keys, decide)?
        .map_err(Error::from)?;
    if let Installed::Done {
        appended,
        displaced,
    } = &installed
    {
        if displaced.is_some() {
            core.space.note_garbage();
        }
        // Members of a batch are kept once it is visible.
        if pass.is_none() {
            keep_in_cache(core, record, appended, *displaced);
        }
    }
    Ok(installed)
}

/// What the index does for a record that is in the log.
fn installed_as(
    record: &NewRecord<'_>,
    appended: Appended,
    displaced: Option<Location>,
) -> (Action, std::result::Result<Installed, LogError>) {
    let new = Entry {
        location: appended.location,
        tombstone: record.kind == RecordKind::Tombstone,
    };
    let action = match displaced {
        Some(old) => Action::Replace { old, new },
        None => Action::Insert(new),
    };
    let installed = Installed::Done {
        appended,
        displaced,
    };
    (action, Ok(installed))
}

/// Which entry the record replaces, or why it cannot be installed now.
fn target(
    core: &Core,
    matches: &[Entry],
    expect: &Expect<'_>,
    pass: Option<&BatchPass<'_>>,
) -> std::result::Result<Option<Location>, Installed> {
    let in_the_way = |e: &Entry| {
        core.batches.is_pending_at(e.location) && !pass.is_some_and(|p| p.is_member(e.location))
    };
    if core.batches.pending_first().is_some() && matches.iter().any(in_the_way) {
        return Err(Installed::Pending);
    }
    match expect {
        Expect::Blind => match matches {
            [] => Ok(None),
            [one] => Ok(Some(one.location)),
            _ => Err(Installed::Ambiguous),
        },
        Expect::Holds(old) => match matches.iter().any(|e| e.location == *old) {
            true => Ok(Some(*old)),
            false => Err(Installed::Changed),
        },
        Expect::Verified { seen, own } | Expect::Read { seen, own, .. } => {
            let same =
                matches.len() == seen.len() && matches.iter().all(|e| seen.contains(&e.location));
            if same {
                Ok(*own)
            } else {
                Err(Installed::Changed)
            }
        }
    }
}

fn append_for(
    core: &Core,
    key: &PreparedKey<'_>,
    record: &NewRecord<'_>,
    stream: Stream,
    old: Option<Location>,
    pass: Option<&BatchPass<'_>>,
) -> std::result::Result<Appended, LogError> {
    let mut record = *record;
    record.displaced = old.filter(|_| !is(Canary::LinkForgotten));
    record.key_hash = key.hash();
    let appended = core.log.append(stream, &record)?;
    if let (Some(pass), Some(member)) = (pass, record.batch) {
        let first = match member {
            BatchMember::First => appended.seq,
            BatchMember::Of(first) => first,
        };
        pass.announce(first, appended.location);
    }
    // A copy of a live record carries its version on, so nothing is lost with the original.
    if record.version.is_none() && core.snapshots.any() && !is(Canary::SnapshotNotNoted) {
        if let Some((old, segment)) =
            old.and_then(|l| Some((l, core.log.geometry().segment_at(l)?)))
        {
            core.snapshots.note_displaced(segment, old, appended.seq);
        }
    }
    Ok(appended)
}

/// Keeps what was written for readers to come: a copy only where its original was kept.
pub(crate) fn keep_in_cache(
    core: &Core,
    new: &NewRecord<'_>,
    appended: &Appended,
    displaced: Option<Location>,
) {
    if core.cache.budget_bytes() == 0 {
        return;
    }
    let old = displaced.and_then(|location| named(core, location));
    if new.version.is_some() && !old.is_some_and(|(l, birth)| core.cache.holds(l, birth)) {
        return;
    }
    let Ok(mut header) = new.header(appended.seq) else {
        return;
    };
    header.displaced = displaced;
    let record = Record {
        header,
        seq: appended.seq,
        key: new.key,
        value: new.value,
    };
    let arrival = old.map_or(Arrival::New, |(l, birth)| Arrival::Successor(l, birth));
    cache_record(core, appended.location, appended.birth, &record, arrival);
}

// ---- the verbs ----

/// Refuses keys and values that no store takes.
pub(crate) fn check_sizes(key: &[u8], value_bytes: usize) -> Result<()> {
    if key.len() > KEY_BYTES_MAX {
        return Err(Error::key_too_large(key.len()));
    }
    if value_bytes > VALUE_BYTES_MAX {
        return Err(Error::value_too_large(value_bytes));
    }
    Ok(())
}

/// A value as a record holds it: the bytes, or the list of chunks that hold them, and these.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stored<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) chunks: Option<Carried>,
}

/// Gives a key a value, whatever it had.
pub(crate) fn put(
    core: &Core,
    keyspace: KeyspaceId,
    key: &[u8],
    value: Stored<'_>,
    options: &WriteOptions,
) -> Result<()> {
    let seq = put_undurable(core, keyspace, key, value, options.ttl_ms)?;
    acknowledge(core, seq, options)
}

/// As [`put`], but leaves the wait for durability to the caller.
pub(crate) fn put_undurable(
    core: &Core,
    keyspace: KeyspaceId,
    key: &[u8],
    value: Stored<'_>,
    ttl_ms: Option<u64>,
) -> Result<SeqNo> {
    check_sizes(key, value.bytes.len())?;
    admit(core, Wish::Data, key.len() + value.bytes.len())?;
    let mut record = NewRecord::new(RecordKind::Put, keyspace, key, value.bytes);
    (record.chunked, record.carries) = (value.chunks.is_some(), value.chunks);
    record.expiry_ms = expiry(core, ttl_ms);
    let appended = install_blind(core, &core.prepare(keyspace, key), &record)?;
    core.counters.operations().puts.add(1);
    count_user_bytes(core, key.len() + value.bytes.len());
    Ok(appended.map_or(SeqNo::ZERO, |a| a.seq))
}

fn expiry(core: &Core, ttl_ms: Option<u64>) -> Option<u64> {
    ttl_ms.map(|ttl| core.now_ms().saturating_add(ttl))
}

/// Takes a key's value away, if it has one.
pub(crate) fn delete(
    core: &Core,
    keyspace: KeyspaceId,
    key: &[u8],
    options: &WriteOptions,
) -> Result<()> {
    check_sizes(key, 0)?;
    admit(core, Wish::Delete, key.len())?;
    let record = NewRecord::new(RecordKind::Tombstone, keyspace, key, &[]);
    let appended = install_blind(core, &core.prepare(keyspace, key), &record)?;
    core.counters.operations().deletes.add(1);
    count_user_bytes(core, key.len());
    // What took the value away before may not be durable yet.
    let seq = appended.map_or_else(|| core.log.last_seq(), |a| a.seq);
    acknowledge(core, seq, options)
}

/// Takes a key's value away for collection, which gives room back: it neither asks for room nor
/// waits for anything, and goes on while the store closes.
pub(crate) fn delete_for_collection(core: &Core, keyspace: KeyspaceId, key: &[u8]) -> Result<()> {
    let record = NewRecord::new(RecordKind::Tombstone, keyspace, key, &[]);
    install_blind(core, &core.prepare(keyspace, key), &record)?;
    Ok(())
}

/// Installs without reading, unless several entries match or the store verifies everything.
fn install_blind(
    core: &Core,
    key: &PreparedKey<'_>,
    record: &NewRecord<'_>,
) -> Result<Option<Appended>> {
    for attempt in 0.. {
        let installed = if core.settings.exact && !is(Canary::ExactUnread) {
            Installed::Ambiguous
        } else {
            append_and_install(core, key, record, Stream::User, &Expect::Blind, None)?
        };
        match installed {
            Installed::Done { appended, .. } => {
                note_tombstone(core, record, &appended);
                return Ok(Some(appended));
            }
            Installed::Nothing => return Ok(None),
            Installed::Pending => wait_for_batch(core)?,
            Installed::Changed => back_off(attempt),
            Installed::Ambiguous => match install_verified(core, key, record)? {
                Installed::Done { appended, .. } => {
                    note_tombstone(core, record, &appended);
                    return Ok(Some(appended));
                }
                Installed::Nothing => return Ok(None),
                Installed::Pending => wait_for_batch(core)?,
                Installed::Changed | Installed::Ambiguous => back_off(attempt),
            },
        }
    }
    Ok(None)
}

fn note_tombstone(core: &Core, record: &NewRecord<'_>, appended: &Appended) {
    if record.kind == RecordKind::Tombstone {
        core.tombstones.add([Tombstone::of(appended)]);
    }
}

/// Reads which entry is the key's own, then installs if nothing has changed since.
fn install_verified(
    core: &Core,
    key: &PreparedKey<'_>,
    record: &NewRecord<'_>,
) -> Result<Installed> {
    let present = match look_up_present(core, key)? {
        Some(present) => present,
        None => return Ok(Installed::Pending),
    };
    let hidden = present.own.is_none() && present.value.is_some();
    if record.kind == RecordKind::Tombstone && present.own.is_none() && !hidden {
        return Ok(Installed::Nothing);
    }
    let expect = Expect::Verified {
        seen: &present.seen,
        own: present.own,
    };
    if record.kind == RecordKind::Tombstone && hidden {
        return install_hidden(core, key, &present, None);
    }
    let mut record = *record;
    record.settles = present.hidden;
    append_and_install(core, key, &record, Stream::User, &expect, None)
}

/// Gives a version that lies under a stranger's entry an entry of its own, for a tombstone to
/// replace; the caller looks again.
pub(crate) fn install_hidden(
    core: &Core,
    key: &PreparedKey<'_>,
    present: &Present,
    pass: Option<&BatchPass<'_>>,
) -> Result<Installed> {
    if let Some(value) = &present.value {
        let expect = Expect::Verified {
            seen: &present.seen,
            own: None,
        };
        let mut healed = healed_record(value);
        healed.settles = present.hidden;
        append_and_install(core, key, &healed, Stream::User, &expect, pass)?;
    }
    Ok(Installed::Changed)
}

/// A copy of a version that had lost its entry, to give it one again.
pub(crate) fn healed_record(value: &OwnedRecord) -> NewRecord<'_> {
    let record = value.record();
    let mut healed = NewRecord::new(
        RecordKind::Put,
        value.header.keyspace,
        &value.key,
        &value.value,
    );
    healed.version = Some(record.version());
    healed.link = record.header.older();
    healed.expiry_ms = record.header.expiry_ms;
    healed.chunked = record.header.chunked;
    healed
}

/// What a conditional write does with the present value.
pub(crate) enum Change {
    /// Leaves everything as it is.
    Keep,
    /// Looks again: what was shown went while it was read.
    Retry,
    /// Gives the key this value; see [`Stored`].
    Put {
        bytes: Vec<u8>,
        chunks: Option<Carried>,
    },
    /// Takes the value away.
    Delete,
}

/// Reads the present value, lets `change` decide, and installs if nothing has changed since; else
/// does it again.
pub(crate) fn modify(
    core: &Core,
    keyspace: KeyspaceId,
    key: &[u8],
    options: &WriteOptions,
    change: &mut dyn FnMut(Option<&Record<'_>>) -> Result<Change>,
) -> Result<()> {
    check_sizes(key, 0)?;
    let prepared = core.prepare(keyspace, key);
    for attempt in 0.. {
        let present = match look_up_present(core, &prepared)? {
            Some(present) => present,
            None => {
                wait_for_batch(core)?;
                continue;
            }
        };
        let old = present.value.as_ref().map(OwnedRecord::record);
        let (kind, bytes, chunks) = match change(old.as_ref())? {
            Change::Keep => return Ok(()),
            Change::Retry => continue,
            Change::Put { bytes, chunks } => (RecordKind::Put, bytes, chunks),
            Change::Delete if old.is_none() => return Ok(()),
            Change::Delete => (RecordKind::Tombstone, Vec::new(), None),
        };
        check_sizes(key, bytes.len())?;
        let is_put = kind == RecordKind::Put;
        admit(
            core,
            if is_put { Wish::Data } else { Wish::Delete },
            key.len() + bytes.len(),
        )?;
        let mut record = NewRecord::new(kind, keyspace, key, &bytes);
        (record.chunked, record.carries) = (chunks.is_some(), chunks);
        record.expiry_ms = expiry(core, options.ttl_ms);
        if let Some(appended) = install_change(core, &prepared, &record, &present)? {
            count_user_bytes(core, key.len() + bytes.len());
            return acknowledge(core, appended.seq, options);
        }
        back_off(attempt);
    }
    Ok(())
}

fn install_change(
    core: &Core,
    key: &PreparedKey<'_>,
    record: &NewRecord<'_>,
    present: &Present,
) -> Result<Option<Appended>> {
    if record.kind == RecordKind::Tombstone && present.own.is_none() {
        install_hidden(core, key, present, None)?;
        return Ok(None);
    }
    let (seen, own) = (&present.seen[..], present.own);
    let expect = match &present.value {
        None => Expect::Verified { seen, own },
        Some(value) => Expect::Read {
            seen,
            own,
            version: value.record().version(),
        },
    };
    let mut record = *record;
    record.settles = present.hidden;
    match append_and_install(core, key, &record, Stream::User, &expect, None)? {
        Installed::Done { appended, .. } => {
            note_tombstone(core, &record, &appended);
            Ok(Some(appended))
        }
        Installed::Pending => {
            wait_for_batch(core)?;
            Ok(None)
        }
        Installed::Nothing | Installed::Changed | Installed::Ambiguous => Ok(None),
    }
}

/// Waits for the batch in flight; one that failed half way stays pending, and the store refuses.
pub(crate) fn wait_for_batch(core: &Core) -> Result<()> {
    core.batches.wait();
    match core.log.failure() {
        Some(first) => Err(Error::failed(&first.into())),
        None => Ok(()),
    }
}

pub(crate) fn count_user_bytes(core: &Core, bytes: usize) {
    core.counters
        .operations()
        .user_bytes_written
        .add(bytes as u64);
}
