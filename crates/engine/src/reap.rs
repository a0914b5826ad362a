//! Entries that go without a record that says so: which tombstones nobody needs any more, and how an
//! entry is taken away. Sweeps and collection share it.
//!
//! Tombstones are looked at many at a time, so that a batch of reads serves them all. What they rest on
//! may change meanwhile but for two things: records do not, as long as they lie where they lay; and what
//! was durably covered, or seen by no snapshot, stays so. That it still lies there is asked last, under
//! the leaf's lock.

use heliox_format::ids::SeqNo;
use heliox_format::record::RecordKind;
use heliox_index::{Action, Entry, Matches, PreparedKey};

use crate::canary::{is, Canary};
use crate::core::{Asked, Core, Head};
use crate::error::Result;
use crate::keys::StoreKeys;
use crate::read::{fetch_many, is_alive, OwnedRecord};
use crate::strangers::{mark_kept, oldest_segment, settle_below_many, Below};
use crate::tombstones::Tombstone;

/// Most tombstones that are read in one batch: what is read of each and of what it displaced is in
/// memory at the same time.
pub(crate) const TOMBSTONES_PER_BATCH: usize = 256;

/// What is to be done about a tombstone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    /// Its entry is gone, now or since before.
    Gone,
    /// Something is in the way: look again.
    Later,
    /// Until no segment began before this order.
    Kept(SeqNo),
    /// What it displaced cannot be read: it keeps its entry.
    Unreadable,
}

/// The order up to which tombstones may go: a checkpoint covers them, and no snapshot is older.
pub(crate) fn reapable(core: &Core) -> SeqNo {
    if is(Canary::TombstoneTooEarly) {
        return SeqNo::MAX;
    }
    // Read first: a snapshot that is taken from here on sees all that is covered by now.
    let covered = core.checkpointed();
    covered.min(core.snapshots.oldest().unwrap_or(SeqNo::MAX))
}

/// Takes away the entries of those tombstones that nobody needs; they are no younger than [`reapable`]
/// says. Gives their fates, also where an error ends it early: of what is left the fate is then later.
pub(crate) fn reap(core: &Core, tombstones: &[Tombstone]) -> (Vec<Fate>, Result<()>) {
    let head = |t: &Tombstone| Head {
        location: t.location,
        asked: Asked::of(t.seq),
    };
    let heads: Vec<Head> = tombstones.iter().map(head).collect();
    let mut fates = vec![Fate::Later; heads.len()];
    let mut found = Vec::with_capacity(heads.len());
    for (n, record) in fetch_many(core, &heads).into_iter().enumerate() {
        match record {
            Ok(Some(record)) if record.header.kind == RecordKind::Tombstone => {
                found.push((n, record));
            }
            Ok(_) => fates[n] = Fate::Gone,
            Err(error) if core.is_unreadable(&error) => fates[n] = Fate::Unreadable,
            Err(error) => return (fates, Err(error)),
        }
    }
    let records: Vec<(Head, &OwnedRecord)> = found.iter().map(|(n, r)| (heads[*n], r)).collect();
    let (known, ended) = reap_known(core, &records);
    for ((n, _), fate) in found.iter().zip(known) {
        fates[*n] = fate;
    }
    (fates, ended)
}

/// As [`reap`], of tombstones whose records are at hand.
pub(crate) fn reap_known(
    core: &Core,
    tombstones: &[(Head, &OwnedRecord)],
) -> (Vec<Fate>, Result<()>) {
    core.settings.environment.breathe();
    let keys: Vec<PreparedKey<'_>> = tombstones
        .iter()
        .map(|(_, t)| core.prepare(t.header.keyspace, &t.key))
        .collect();
    let mut matches: Vec<Matches> = Vec::with_capacity(keys.len());
    core.index.lookup_many(&keys, &mut matches);
    let (mut fates, mut holding) = (vec![Fate::Later; tombstones.len()], Vec::new());
    for (n, (head, _)) in tombstones.iter().enumerate() {
        if matches[n].iter().any(|e| e.location == head.location) {
            holding.push(n);
        } else {
            fates[n] = Fate::Gone;
        }
    }
    let tops: Vec<&OwnedRecord> = holding.iter().map(|n| tombstones[*n].1).collect();
    for (n, below) in holding.into_iter().zip(settle_below_many(core, &tops)) {
        core.settings.environment.breathe();
        let is_alone = matches[n].len() == 1;
        let fate = below.and_then(|below| decide(core, &keys[n], tombstones[n], below, is_alone));
        match fate {
            Ok(fate) => fates[n] = fate,
            Err(error) if core.is_unreadable(&error) => fates[n] = Fate::Unreadable,
            Err(error) => return (fates, Err(error)),
        }
    }
    (fates, Ok(()))
}

/// Takes a tombstone's entry away, given what lies below it.
fn decide(
    core: &Core,
    key: &PreparedKey<'_>,
    (head, tombstone): (Head, &OwnedRecord),
    below: Below,
    is_alone: bool,
) -> Result<Fate> {
    let (location, record) = (head.location, tombstone.record());
    if record.seq > reapable(core) || below.again {
        return Ok(Fate::Later);
    }
    // A version of its key may lie hidden where the chain does not lead, or leads no more.
    let is_marked = core.log.is_settled(location);
    let may_hide = below.begins_foreign || below.has_foreign && !below.is_whole;
    if (is_marked || may_hide) && oldest_segment(core) < record.version() {
        mark_kept(core, location, record.seq);
        return Ok(Fate::Kept(record.version()));
    }
    if !is_alone || !remove_entry(core, key, head)? {
        return Ok(Fate::Later);
    }
    core.counters.tombstones_dropped.add(1);
    Ok(Fate::Gone)
}

/// Removes the entry of the record at `head`, if it is the only one that may be the key's. No record
/// says so: the segment waits for a checkpoint that covers the removal.
pub(crate) fn remove_entry(core: &Core, key: &PreparedKey<'_>, head: Head) -> Result<bool> {
    let keys = StoreKeys { core };
    Ok(core
        .index
        .update(key, &keys, |matches: &[Entry]| match matches {
            // The place may have begun another life since, and hold another record of the key.
            [one] if one.location == head.location && is_alive(core, head) => {
                core.log.note_unlogged_removal(head.location, key.hash());
                core.space.note_garbage();
                let old = head.location;
                (Action::Remove { old }, true)
            }
            _ => (Action::Keep, false),
        })?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests;

    /// Whoever decided on a record must not remove another one that came to lie in its place.
    #[test]
    fn an_entry_stays_whose_place_began_another_life_since() {
        let (store, ks) = tests::open(&tests::options(tests::memory(66)));
        let core = store.core();
        ks.put("other", "value").unwrap();
        core.log.seal_segments();
        let before = core.log.last_seq();
        ks.put("key", "value").unwrap();
        let key = core.prepare(ks.id(), b"key");
        let location = core.index.lookup(&key)[0].location;
        let remove = |seq| {
            let asked = Asked::of(seq);
            remove_entry(core, &key, Head { location, asked }).unwrap()
        };
        assert!(!remove(before));
        assert_eq!(ks.get("key").unwrap().as_deref(), Some(&b"value"[..]));
        assert!(remove(before.next()));
        assert_eq!(ks.get("key").unwrap(), None);
    }
}
