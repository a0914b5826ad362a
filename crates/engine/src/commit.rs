//! Writing a batch: its members are installed one by one, pending, and become visible together with
//! its commit record.

use heliox_format::ids::{KeyspaceId, Location, SeqNo};
use heliox_format::record::{RecordKind, RECORD_HEADER_BYTES_MAX};
use heliox_index::PreparedKey;
use heliox_log::append::{Appended, BatchMember, Carried, NewRecord};
use heliox_log::{LogError, Stream};
use smallvec::SmallVec;

use crate::admit::{acknowledge, admit, has_room, keep_tail_small};
use crate::batches::BatchPass;
use crate::canary::{is, Canary};
use crate::core::Core;
use crate::error::{Error, Result};
use crate::options::WriteOptions;
use crate::read::{back_off, look_up_present_in_batch, named};
use crate::space::Wish;
use crate::tombstones::Tombstone;
use crate::write::{
    append_and_install, count_user_bytes, install_hidden, keep_in_cache, Expect, Installed,
};

/// Members whose memory is asked for before the first of them is touched.
const GROUP: usize = 16;

/// One operation of a batch, ready to be installed.
pub(crate) struct Member<'a> {
    pub(crate) keyspace: KeyspaceId,
    pub(crate) key: &'a [u8],
    /// The stored value; none for a delete.
    pub(crate) value: Option<&'a [u8]>,
    pub(crate) chunks: Option<Carried>,
    pub(crate) expiry_ms: Option<u64>,
}

/// Installs all members as pending, in key order, then makes them visible with one commit record.
pub(crate) fn commit(core: &Core, members: &[Member<'_>], options: &WriteOptions) -> Result<()> {
    let bytes = members
        .iter()
        .map(|m| m.key.len() + m.value.map_or(0, <[u8]>::len))
        .sum();
    let pass = enter_with_room(core, members, bytes)?;
    check_index_room(core, members)?;
    let carries = carried_by_commit(core, members, bytes);
    let done = install_members(core, members, &pass)?;
    let Some(first) = done.first().map(|d| d.appended.seq) else {
        drop(pass);
        // What took the values away before may not be durable yet.
        return acknowledge(core, core.log.last_seq(), options);
    };
    let count_bytes = (done.len() as u64).to_le_bytes();
    let mut record = NewRecord::new(RecordKind::Commit, KeyspaceId(0), &[], &count_bytes);
    record.batch = Some(BatchMember::Of(first));
    record.carries = Some(carries);
    let commit = core
        .log
        .append(Stream::User, &record)
        .map_err(|e| core.fail(e))?;
    pass.publish(commit.seq);
    drop(pass);
    let is_delete = |d: &&Done<'_, '_>| d.member.value.is_none();
    let deletes = done.iter().filter(is_delete);
    core.tombstones
        .add(deletes.map(|d| Tombstone::of(&d.appended)));
    keep_members(core, first, &done);
    count_user_bytes(core, bytes);
    acknowledge(core, commit.seq, options)
}

/// A member that is in the log and the index.
struct Done<'m, 'v> {
    member: &'m Member<'v>,
    appended: Appended,
    displaced: Option<Location>,
}

/// Installs all members that change something, in order.
fn install_members<'m, 'v>(
    core: &Core,
    members: &'m [Member<'v>],
    pass: &BatchPass<'_>,
) -> Result<Vec<Done<'m, 'v>>> {
    let mut done: Vec<Done<'m, 'v>> = Vec::with_capacity(members.len());
    for group in members.chunks(GROUP) {
        let prepare = |m: &Member<'v>| core.prepare(m.keyspace, m.key);
        let keys: SmallVec<[PreparedKey<'_>; GROUP]> = group.iter().map(prepare).collect();
        core.index.expect_updates(&keys);
        for (member, key) in group.iter().zip(&keys) {
            let first = done.first().map(|d| d.appended.seq);
            let installed = install_member(core, member, key, first, pass);
            match installed {
                Ok(Some((appended, displaced))) => done.push(Done {
                    member,
                    appended,
                    displaced,
                }),
                Ok(None) => continue,
                // Members that are in the index already can neither be shown nor taken back.
                Err(error) if first.is_some() => {
                    core.fail(LogError::Internal("a batch failed half way"));
                    return Err(error);
                }
                Err(error) => return Err(error),
            }
            // Not a wait that can be refused: a batch that has begun is finished.
            keep_tail_small(core)?;
        }
    }
    Ok(done)
}

/// Keeps the members for readers to come. Not before they are visible: so it holds up no other batch.
fn keep_members(core: &Core, first: SeqNo, done: &[Done<'_, '_>]) {
    if core.cache.budget_bytes() == 0 {
        return;
    }
    for group in done.chunks(GROUP) {
        let old = group.iter().filter_map(|d| named(core, d.displaced?));
        core.cache.expect_reads(old);
        let new = group
            .iter()
            .map(|d| (d.appended.location, d.appended.birth));
        core.cache.expect_inserts(new);
        for d in group {
            let record = record_of(d.member, (d.appended.seq != first).then_some(first));
            keep_in_cache(core, &record, &d.appended, d.displaced);
        }
    }
}

/// A member's record, by the order of the first one, if it is not the first.
fn record_of<'v>(member: &Member<'v>, first: Option<SeqNo>) -> NewRecord<'v> {
    let kind = match member.value {
        Some(_) => RecordKind::Put,
        None => RecordKind::Tombstone,
    };
    let value = member.value.unwrap_or_default();
    let mut record = NewRecord::new(kind, member.keyspace, member.key, value);
    record.chunked = member.chunks.is_some();
    record.expiry_ms = member.expiry_ms;
    record.batch = Some(first.map_or(BatchMember::First, BatchMember::Of));
    record
}

/// A batch is lost whole with its commit record, the chunks of its members too.
fn carried_by_commit(core: &Core, members: &[Member<'_>], bytes: usize) -> Carried {
    let now = core.log.user_appended_bytes();
    let chunks = || members.iter().filter_map(|m| m.chunks);
    Carried {
        since: chunks().map(|c| c.since).fold(now, u64::min),
        bytes: chunks().map(|c| c.bytes).sum::<u64>() + bytes as u64,
    }
}

/// Enters the gate with room for so many bytes and records. Room is asked for again inside: other
/// batches may have taken it meanwhile, and a batch that has begun cannot be refused.
fn enter_with_room<'c>(
    core: &'c Core,
    members: &[Member<'_>],
    bytes: usize,
) -> Result<BatchPass<'c>> {
    let wish = match members.iter().all(|m| m.value.is_none()) {
        true => Wish::Delete,
        false => Wish::Data,
    };
    let bytes = bytes + (members.len() + 1) * RECORD_HEADER_BYTES_MAX;
    loop {
        admit(core, wish, bytes)?;
        let pass = core.batches.enter();
        if has_room(core, wish, bytes).is_some() {
            return Ok(pass);
        }
    }
}

/// Refuses a batch whose new keys may not fit the index, before any of it is installed.
fn check_index_room(core: &Core, members: &[Member<'_>]) -> Result<()> {
    /// More than an entry takes in either format, splits included, beside the key.
    const ENTRY_BYTES: u64 = 96;
    let limit = core.settings.index_limit_bytes;
    let taken = core.index.memory_bytes();
    let puts = || members.iter().filter(|m| m.value.is_some());
    let need = |m: &Member<'_>| m.key.len() as u64 + ENTRY_BYTES;
    if taken + puts().map(need).sum::<u64>() <= limit {
        return Ok(());
    }
    let is_new = |m: &&Member<'_>| {
        let key = core.prepare(m.keyspace, m.key);
        core.index.lookup(&key).is_empty()
    };
    let more: u64 = puts().filter(is_new).map(need).sum();
    if more == 0 || taken + more <= limit {
        return Ok(());
    }
    Err(Error::over_budget(taken + more, limit))
}

fn install_member(
    core: &Core,
    member: &Member<'_>,
    key: &PreparedKey<'_>,
    first: Option<SeqNo>,
    pass: &BatchPass<'_>,
) -> Result<Option<(Appended, Option<Location>)>> {
    let mut record = record_of(member, first);
    for attempt in 0.. {
        let stream = Stream::User;
        let mut installed = Installed::Ambiguous;
        if !core.settings.exact || is(Canary::ExactUnread) {
            installed = append_and_install(core, key, &record, stream, &Expect::Blind, Some(pass))?;
        }
        if matches!(installed, Installed::Ambiguous) {
            let Some(present) = look_up_present_in_batch(core, key)? else {
                continue;
            };
            let (seen, mut own) = (&present.seen[..], present.own);
            record.settles = present.hidden;
            if member.value.is_none() && own.is_none() && present.value.is_some() {
                own = present.under.filter(|l| core.batches.is_pending_at(*l));
                if own.is_none() {
                    install_hidden(core, key, &present, Some(pass))?;
                    continue;
                }
                // Under a member of this batch. A copy would count even if the batch does not, so
                // the member loses its entry to this one, as it would unread.
                record.settles = None;
            }
            let expect = Expect::Verified { seen, own };
            installed = append_and_install(core, key, &record, stream, &expect, Some(pass))?;
        }
        match installed {
            Installed::Done {
                appended,
                displaced,
            } => return Ok(Some((appended, displaced))),
            Installed::Nothing => return Ok(None),
            Installed::Pending | Installed::Changed | Installed::Ambiguous => back_off(attempt),
        }
    }
    Ok(None)
}
