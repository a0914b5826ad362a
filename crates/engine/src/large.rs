//! Values too large for one record: cut into chunks in a hidden keyspace, the head written last.
//!
//! The head is the user's record and holds the value's id and length; the chunks' keys are the id
//! and a number, so one range holds them all. A note in a second hidden keyspace names the owner:
//! a crash before the head leaves chunks that nobody reads, and the sweep finds them by the note.

use std::borrow::Cow;

use heliox_format::bytes::{Reader, WriteBytes};
use heliox_format::ids::KeyspaceId;
use heliox_format::limits::CHUNK_BYTES;
use heliox_format::record::{Record, RecordKind};
use heliox_log::append::Carried;
use heliox_log::heads::DeadHead;
use heliox_sync::atomic::Ordering;

use crate::admit::{admit, keep_tail_small};
use crate::core::{self, Core};
use crate::error::{Error, ErrorKind, Result};
use crate::keyspaces::{CHUNKS, OWNERS};
use crate::read::{fetch, get, hash_of, with_scratch, OwnedRecord, View};
use crate::space::Wish;
use crate::write::{check_sizes, delete_for_collection, put_undurable, Stored};

/// Dead heads looked at in one step.
const HEADS_PER_STEP: usize = 256;

/// What the head of a chunked value says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Head {
    pub(crate) id: u64,
    pub(crate) len_bytes: u64,
}

impl Head {
    pub(crate) fn decode(value: &[u8]) -> Option<Head> {
        let mut reader = Reader::new(value);
        let head = Head {
            id: reader.u64()?,
            len_bytes: reader.u64()?,
        };
        reader.rest().is_empty().then_some(head)
    }

    fn encode(self) -> Vec<u8> {
        let mut out = Vec::with_capacity(16);
        out.put_u64(self.id);
        out.put_u64(self.len_bytes);
        out
    }

    pub(crate) fn chunks(self) -> u32 {
        self.len_bytes.div_ceil(CHUNK_BYTES as u64) as u32
    }
}

/// The key of a chunk.
pub(crate) fn chunk_key(id: u64, number: u32) -> [u8; 12] {
    let mut key = [0; 12];
    key[..8].copy_from_slice(&id.to_be_bytes());
    key[8..].copy_from_slice(&number.to_be_bytes());
    key
}

/// A value as a record holds it, and its chunks, if it has some.
pub(crate) type InRecord<'v> = (Cow<'v, [u8]>, Option<Carried>);

/// The value as a record holds it: itself, or the head of chunks that are written now, and these.
pub(crate) fn store<'v>(
    core: &Core,
    keyspace: KeyspaceId,
    key: &[u8],
    value: &'v [u8],
) -> Result<InRecord<'v>> {
    check_sizes(key, value.len())?;
    if value.len() <= CHUNK_BYTES {
        return Ok((Cow::Borrowed(value), None));
    }
    // All of it or nothing.
    admit(core, Wish::Data, value.len())?;
    core.large_unsure.fetch_add(1, Ordering::AcqRel);
    let since = core.log.user_appended_bytes();
    let head = Head {
        id: core.next_value_id.fetch_add(1, Ordering::Relaxed),
        len_bytes: value.len() as u64,
    };
    let written = store_chunks(core, keyspace, key, value, head);
    if written.as_ref().is_err_and(|e| is_refusal(core, e)) {
        forget(core, head)?;
        settled(core);
    }
    written?;
    let bytes = head.len_bytes;
    Ok((Cow::Owned(head.encode()), Some(Carried { since, bytes })))
}

fn store_chunks(
    core: &Core,
    keyspace: KeyspaceId,
    key: &[u8],
    value: &[u8],
    head: Head,
) -> Result<()> {
    let mut owner = keyspace.0.to_be_bytes().to_vec();
    owner.extend_from_slice(key);
    let plain = |bytes| Stored {
        bytes,
        chunks: None,
    };
    let note = [&head.len_bytes.to_le_bytes()[..], &owner].concat();
    put_undurable(core, OWNERS, &head.id.to_be_bytes(), plain(&note), None)?;
    for (number, chunk) in value.chunks(CHUNK_BYTES).enumerate() {
        let chunk_key = chunk_key(head.id, number as u32);
        put_undurable(core, CHUNKS, &chunk_key, plain(chunk), None)?;
    }
    Ok(())
}

/// The value of a record, or `None` if its chunks went while they were read: look again.
pub(crate) fn load(core: &Core, record: &Record<'_>) -> Result<Option<Vec<u8>>> {
    let mut value = Vec::new();
    let is_whole = load_range(core, record, 0, u64::MAX, &mut value)?;
    Ok(is_whole.then_some(value))
}

/// How long a record's value is; reads nothing.
pub(crate) fn len_bytes(record: &Record<'_>) -> u64 {
    let head = Head::decode(record.value).filter(|_| record.header.chunked);
    head.map_or(record.value.len() as u64, |head| head.len_bytes)
}

/// Where bytes `offset..offset + len` of so many are, fewer at the end.
fn clip(total: u64, offset: u64, len: u64) -> (u64, u64) {
    (offset.min(total), offset.saturating_add(len).min(total))
}

/// Bytes `offset..offset + len` of a value that is not in chunks, as far as it has them.
pub(crate) fn part(value: &[u8], offset: u64, len: u64) -> &[u8] {
    let (from, to) = clip(value.len() as u64, offset, len);
    value.get(from as usize..to as usize).unwrap_or_default()
}

/// Adds bytes `offset..offset + len` of a record's value to `out`, as far as it has them; reads only
/// the chunks that hold them. False as `None` of [`load`]: what was added is of no use then.
pub(crate) fn load_range(
    core: &Core,
    record: &Record<'_>,
    offset: u64,
    len: u64,
    out: &mut Vec<u8>,
) -> Result<bool> {
    if !record.header.chunked {
        out.extend_from_slice(part(record.value, offset, len));
        return Ok(true);
    }
    let head = Head::decode(record.value)
        .ok_or_else(|| Error::damaged("the head of a value in chunks does not decode"))?;
    let (from, to) = clip(head.len_bytes, offset, len);
    out.reserve((to - from) as usize);
    let chunk_bytes = CHUNK_BYTES as u64;
    let mut at = from;
    while at < to {
        let number = at / chunk_bytes;
        let (first, last) = (
            at % chunk_bytes,
            (to - number * chunk_bytes).min(chunk_bytes),
        );
        let key = chunk_key(head.id, number as u32);
        let mut is_whole = false;
        get(
            core,
            &core.prepare(CHUNKS, &key),
            View::Latest,
            &mut |chunk| {
                if let Some(part) = chunk.value.get(first as usize..last as usize) {
                    out.extend_from_slice(part);
                    is_whole = true;
                }
                Ok(())
            },
        )?;
        if !is_whole {
            return Ok(false);
        }
        at = number * chunk_bytes + last;
    }
    Ok(true)
}

/// Deletes the chunks of a large value whose head died, unless a copy of the head lives on or a
/// snapshot reads one.
pub(crate) fn forget_dead(core: &Core, head: &OwnedRecord) -> Result<()> {
    let Some(id) = Head::decode(&head.value) else {
        return Ok(());
    };
    if head.header.keyspace == CHUNKS {
        return Ok(());
    }
    let key = core.prepare(head.header.keyspace, &head.key);
    let views = core.snapshots.orders().into_iter().map(View::At);
    for view in views.chain([View::Latest]) {
        let mut in_use = false;
        get(core, &key, view, &mut |record| {
            in_use = record.header.chunked && record.value == head.value;
            Ok(())
        })?;
        if in_use {
            return Ok(());
        }
    }
    forget(core, id)
}

/// Deletes the chunks of large values whose heads died since the last time, as far as no snapshot may
/// read one: the accounts know that they are garbage from then on. A head that was displaced by
/// another key's record, and what cannot be read, is left to the collection of its segment; what there
/// is no room for waits. True if more may be done now.
pub(crate) fn reap(core: &Core) -> Result<bool> {
    for _ in 0..HEADS_PER_STEP {
        let Some(dead) = core.log.take_dead_head() else {
            return Ok(false);
        };
        // Read in this order: a batch that displaced it is either pending still, or committed.
        let is_pending = core
            .batches
            .pending_first()
            .is_some_and(|first| dead.death >= first);
        if is_pending || core.snapshots.oldest().is_some_and(|s| s < dead.death) {
            core.log.put_back_dead_head(dead);
            return Ok(false);
        }
        match reap_one(core, dead) {
            Ok(()) => keep_tail_small(core)?,
            Err(error) if core.is_unreadable(&error) => {}
            Err(error) => {
                core.log.put_back_dead_head(dead);
                let is_full = error.kind() == ErrorKind::Full;
                return if is_full { Ok(false) } else { Err(error) };
            }
        }
    }
    Ok(true)
}

fn reap_one(core: &Core, dead: DeadHead) -> Result<()> {
    let at = core::Head {
        location: dead.location,
        asked: core::Asked::of(dead.death),
    };
    let record = with_scratch(|scratch| {
        let record = fetch(core, at, scratch)?;
        Ok::<_, Error>(record.map(|r| OwnedRecord::of(&r)))
    })?;
    let is_own = |r: &OwnedRecord| hash_of(core, &r.record()) == dead.key_hash;
    match record.filter(is_own) {
        Some(r) if r.header.chunked && r.header.kind == RecordKind::Put => forget_dead(core, &r),
        _ => Ok(()),
    }
}

/// True if a write was refused whole, for lack of room or memory: nothing of it was installed.
fn is_refusal(core: &Core, error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Full | ErrorKind::OverBudget) && core.log.failure().is_none()
}

/// A value that [`store`] wrote chunks of has its head, or lost its chunks.
pub(crate) fn settled(core: &Core) {
    core.large_unsure.fetch_sub(1, Ordering::AcqRel);
}

/// Deletes the chunks of a value whose head was not written in the end.
pub(crate) fn withdraw(core: &Core, stored: &[u8]) -> Result<()> {
    if let Some(head) = Head::decode(stored) {
        forget(core, head)?;
        settled(core);
    }
    Ok(())
}

/// After the write of a head: the chunks go if it was refused, and this is why. After any other failure
/// nobody knows whether it was written, and the next run looks.
pub(crate) fn settle(core: &Core, stored: &[u8], failed: Option<&Error>) -> Result<()> {
    match failed {
        None => settled(core),
        Some(why) if is_refusal(core, why) => withdraw(core, stored)?,
        Some(_) => {}
    }
    Ok(())
}

/// Deletes the chunks of a value that nobody can read any more.
pub(crate) fn forget(core: &Core, head: Head) -> Result<()> {
    let id = head.id.to_be_bytes();
    let note = core.prepare(OWNERS, &id);
    if core.index.lookup(&note).iter().all(|e| e.tombstone) {
        return Ok(());
    }
    for number in 0..head.chunks() {
        let key = chunk_key(head.id, number);
        // One that was never written needs no memory of the index to be deleted.
        if !core.index.lookup(&core.prepare(CHUNKS, &key)).is_empty() {
            delete_for_collection(core, CHUNKS, &key)?;
        }
    }
    // The note goes last: what a crash leaves is found by it.
    delete_for_collection(core, OWNERS, &id)
}

/// Deletes the chunks of a value that a crash, or a collection that it cut short, left without a
/// head. `note` is the record that names the owner.
pub(crate) fn forget_if_orphan(core: &Core, id: &[u8], note: &[u8]) -> Result<bool> {
    let Some(head) = id
        .try_into()
        .ok()
        .map(u64::from_be_bytes)
        .zip(Reader::new(note).u64())
    else {
        return Err(Error::damaged(
            "the note of a large value's owner does not decode",
        ));
    };
    let head = Head {
        id: head.0,
        len_bytes: head.1,
    };
    let Some((keyspace, key)) = note[8..].split_first_chunk::<4>() else {
        return Err(Error::damaged(
            "the note of a large value's owner does not decode",
        ));
    };
    let keyspace = KeyspaceId(u32::from_be_bytes(*keyspace));
    let views = core.snapshots.orders().into_iter().map(View::At);
    for view in views.chain([View::Latest]) {
        let mut is_owned = false;
        get(core, &core.prepare(keyspace, key), view, &mut |record| {
            is_owned = record.header.chunked && Head::decode(record.value) == Some(head);
            Ok(())
        })?;
        if is_owned {
            return Ok(false);
        }
    }
    forget(core, head)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commit::{commit, Member};
    use crate::options::{Durability, WriteOptions};
    use crate::tests;
    use crate::write::put;

    /// Writes a value whose chunks a sync covers before its head is there, alone or in a batch, and
    /// gives how many acknowledged bytes are volatile then.
    fn volatile_bytes(bound: u64, in_batch: bool) -> u64 {
        let bounded = Durability::Bounded {
            ms: 3_600_000,
            bytes: bound,
        };
        let (database, ks) = tests::open(&tests::options(tests::memory(130)).durability(bounded));
        let core = database.core();
        let value = vec![7; 1200 << 10];
        let (bytes, chunks) = store(core, ks.id(), b"large", &value).unwrap();
        core.sync().unwrap();
        if in_batch {
            let member = Member {
                keyspace: ks.id(),
                key: b"large",
                value: Some(&bytes),
                chunks,
                expiry_ms: None,
            };
            commit(core, &[member], &WriteOptions::new()).unwrap();
        } else {
            let stored = Stored {
                bytes: &bytes,
                chunks,
            };
            put(core, ks.id(), b"large", stored, &WriteOptions::new()).unwrap();
        }
        let is_durable = core.log.durable_seq() == core.log.last_seq();
        assert_eq!(is_durable, core.log.unsynced_bytes() == 0);
        core.log.unsynced_bytes()
    }

    #[test]
    fn a_head_counts_with_its_chunks_against_the_bound() {
        for in_batch in [false, true] {
            assert_eq!(volatile_bytes(256 << 10, in_batch), 0);
            assert!(volatile_bytes(8 << 20, in_batch) >= 1200 << 10);
        }
    }
}
