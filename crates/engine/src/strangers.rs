//! Strangers: records that lost their entry to a record of another key with equal slice and
//! fingerprint.
//!
//! A wrong displacement is a fact about two records: the one displaced and the one that names its
//! location. Whoever comes upon one, by the sums of an emptied segment or by reading a chain, sees to
//! it that the key displaced has an entry, or that it needs none, and *settles* the record: its
//! segment's sum gets what it lacks, once, and nobody looks at the record again.
//!
//! Invariant: a record is settled only after what stands in for it is in the log or the index. A
//! heal is entered with its settlement under the log's lock; an entry that stands in is seen under its
//! leaf's lock. So no cut of a checkpoint has the settlement without the stand-in, and a crash that
//! loses a settlement finds the stand-in again and settles anew. Threads: any; no lock is held while
//! records are read.

use heliox_format::ids::{Location, SegmentId, SeqNo};
use heliox_format::record::{Record, RecordKind};
use heliox_index::{Action, Entry, PreparedKey};
use heliox_log::scan::{Scanned, SegmentScanner};
use heliox_log::sums::{is_told, weight, Settlement};
use heliox_log::Stream;
use smallvec::SmallVec;

use crate::core::{Core, Head};
use crate::error::Result;
use crate::keys::StoreKeys;
use crate::read::{
    hash_of, is_gone, older_version, read_link, read_links, settlement, trace, with_scratch,
    OwnedRecord, Traced, View,
};
use crate::snapshots::DeadVersion;
use crate::write::{append_and_install, healed_record, Expect, Installed};

/// Links of a chain that are followed to settle what lies below a record. What lies deeper, under a
/// key that was written so often, is left to the sums.
const LINKS_MAX: usize = 1024;

/// What a look at a record came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Judged {
    /// Nothing more is to be done about it.
    Done,
    /// Its key got an entry.
    Healed,
    /// Something changed meanwhile: look again.
    Again,
}

/// A record that no entry points to.
struct Dead<'a> {
    record: &'a OwnedRecord,
    /// It lost its entry to another key, for certain.
    is_stranger: bool,
    /// Records near it lost their entries to other keys: where its chain is broken, so did it.
    is_suspect: bool,
    /// What settles it, as far as that is known.
    settlement: Settlement,
}

/// What the entries that match a dead record's key say of it.
enum Evidence {
    /// A version that is not older has an entry, or is hidden itself.
    Superseded,
    /// It lies under a record of another key.
    Hidden(Option<Settlement>),
    /// A chain ends at a record that is gone.
    Broken,
    Nothing,
    Stale,
}

type Seen = SmallVec<[Location; 2]>;

fn evidence(core: &Core, key: &PreparedKey<'_>, dead: &OwnedRecord) -> Result<(Evidence, Seen)> {
    let asked = core.asked();
    let matches = core.index.lookup(key);
    let seen: Seen = matches.iter().map(|e| e.location).collect();
    let version = dead.record().version();
    let mut evidence = Evidence::Nothing;
    for location in &seen {
        let head = Head {
            location: *location,
            asked,
        };
        match with_scratch(|scratch| trace(core, key, head, scratch))? {
            Traced::Own => return Ok((Evidence::Superseded, seen)),
            Traced::Stale => return Ok((Evidence::Stale, seen)),
            Traced::Hidden(hidden) if hidden.seq == dead.seq => {
                evidence = Evidence::Hidden(hidden.settlement);
            }
            // It is healed with its own segment.
            Traced::Hidden(hidden) if hidden.version >= version => {
                return Ok((Evidence::Superseded, seen));
            }
            Traced::Broken if matches!(evidence, Evidence::Nothing) => evidence = Evidence::Broken,
            Traced::Hidden(_) | Traced::Origin | Traced::Broken => {}
        }
    }
    Ok((evidence, seen))
}

/// Gives the key of a dead record an entry again, if the record lost its own to another key and
/// nothing newer of its key is there; settles it.
fn judge(core: &Core, dead: &Dead<'_>) -> Result<Judged> {
    let record = dead.record;
    if core.log.is_settled(dead.settlement.location) {
        return Ok(Judged::Done);
    }
    if is_gone(core, &record.record(), View::Latest) {
        if dead.is_stranger {
            core.log.settle(&dead.settlement);
        }
        return Ok(Judged::Done);
    }
    let key = core.prepare(record.header.keyspace, &record.key);
    let (evidence, seen) = evidence(core, &key, record)?;
    let mut settles = dead.settlement;
    match evidence {
        Evidence::Stale => return Ok(Judged::Again),
        Evidence::Superseded if dead.is_stranger => {
            return settle_superseded(core, &key, &seen, &dead.settlement);
        }
        Evidence::Superseded => return Ok(Judged::Done),
        Evidence::Hidden(known) => settles = known.unwrap_or(settles),
        Evidence::Broken if dead.is_stranger || dead.is_suspect => {}
        Evidence::Nothing if dead.is_stranger => {}
        Evidence::Broken | Evidence::Nothing => return Ok(Judged::Done),
    }
    heal(core, &key, record, &seen, settles)
}

fn heal(
    core: &Core,
    key: &PreparedKey<'_>,
    record: &OwnedRecord,
    seen: &[Location],
    settles: Settlement,
) -> Result<Judged> {
    core.counters.strangers_found.add(1);
    let expect = Expect::Verified { seen, own: None };
    let mut copy = healed_record(record);
    copy.settles = Some(settles);
    match append_and_install(core, key, &copy, Stream::Survivor, &expect, None)? {
        Installed::Done { .. } => {
            core.counters.strangers_healed.add(1);
            Ok(Judged::Healed)
        }
        _ => Ok(Judged::Again),
    }
}

/// Settles a record that something newer stands in for, if its entry is there still.
fn settle_superseded(
    core: &Core,
    key: &PreparedKey<'_>,
    seen: &[Location],
    settlement: &Settlement,
) -> Result<Judged> {
    let keys = StoreKeys { core };
    let settled = core.index.update(key, &keys, |matches: &[Entry]| {
        let same =
            matches.len() == seen.len() && matches.iter().all(|e| seen.contains(&e.location));
        if same {
            core.log.settle(settlement);
        }
        (Action::Keep, same)
    })?;
    Ok(if settled { Judged::Done } else { Judged::Again })
}

// ---- by a chain ----

/// What lies below a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Below {
    /// There is a record of another key.
    pub(crate) has_foreign: bool,
    /// The first one is of another key.
    pub(crate) begins_foreign: bool,
    /// The chain was read to its end.
    pub(crate) is_whole: bool,
    /// Something changed meanwhile: look again.
    pub(crate) again: bool,
}

/// Reads the chain below a record whose key has an entry, and settles what it shows.
pub(crate) fn settle_below(core: &Core, top: &OwnedRecord) -> Result<Below> {
    let mut below = Below::default();
    let mut by = hash_of(core, &top.record());
    let (mut seen, mut is_first) = (vec![by], true);
    let mut older = older_version(&top.record());
    for _ in 0..LINKS_MAX {
        let Some(dead) = older else {
            below.is_whole = true;
            break;
        };
        let Some(linked) = with_scratch(|scratch| read_link(core, dead, scratch))? else {
            break;
        };
        let record = linked.record.record();
        let own = hash_of(core, &record);
        if own != by {
            below.begins_foreign |= is_first;
            below.has_foreign = true;
            if let Some(settlement) = settlement(core, &linked, by) {
                // Of each key only the newest counts: those below it died rightly.
                if seen.contains(&own) {
                    core.log.settle(&settlement);
                } else {
                    let judged = judge(
                        core,
                        &Dead {
                            record: &linked.record,
                            is_stranger: true,
                            is_suspect: true,
                            settlement,
                        },
                    )?;
                    below.again |= judged == Judged::Again;
                }
            }
        }
        if !seen.contains(&own) {
            seen.push(own);
        }
        (by, is_first) = (own, false);
        older = older_version(&record);
    }
    Ok(below)
}

/// As [`settle_below`], of many records whose chains are read side by side.
pub(crate) fn settle_below_many(core: &Core, tops: &[&OwnedRecord]) -> Vec<Result<Below>> {
    let alike = follow_alike(core, tops);
    let of = |(top, below): (&&OwnedRecord, Option<Below>)| match below {
        Some(below) => Ok(below),
        None => settle_below(core, top),
    };
    tops.iter().zip(alike).map(of).collect()
}

/// What lies below each record if all of it that is still there is of its own key; none if it is not, or
/// cannot be read. Nearly always it is, and there is nothing to settle.
fn follow_alike(core: &Core, tops: &[&OwnedRecord]) -> Vec<Option<Below>> {
    let hashes: Vec<u64> = tops.iter().map(|t| hash_of(core, &t.record())).collect();
    let mut below: Vec<Option<Below>> = vec![None; tops.len()];
    let mut next: Vec<(usize, DeadVersion)> = Vec::with_capacity(tops.len());
    let mut follow =
        |n: usize, record: &Record<'_>, next: &mut Vec<(usize, DeadVersion)>| match older_version(
            record,
        ) {
            Some(older) => next.push((n, older)),
            None => {
                below[n] = Some(Below {
                    is_whole: true,
                    ..Below::default()
                });
            }
        };
    for (n, top) in tops.iter().enumerate() {
        follow(n, &top.record(), &mut next);
    }
    let mut broken = Vec::new();
    for _ in 0..LINKS_MAX {
        if next.is_empty() {
            break;
        }
        let links: Vec<DeadVersion> = next.iter().map(|(_, link)| *link).collect();
        let read = read_links(core, &links);
        for ((n, _), record) in std::mem::take(&mut next).into_iter().zip(read) {
            match record {
                Ok(None) => broken.push(n),
                Ok(Some(record)) if hash_of(core, &record.record()) == hashes[n] => {
                    follow(n, &record.record(), &mut next);
                }
                Ok(Some(_)) | Err(_) => {}
            }
        }
    }
    for n in broken.into_iter().chain(next.iter().map(|(n, _)| *n)) {
        below[n] = Some(Below::default());
    }
    below
}

// ---- by the sums ----

/// Looks at the dead records of an emptied segment whose sums do not tell that all is well. True if
/// something was done about one, or has to be looked at again.
pub(crate) fn heal_segment(core: &Core, id: SegmentId) -> Result<bool> {
    let segment = core.log.segment(id);
    let difference = segment.appended_sum.wrapping_sub(segment.displaced_sum);
    let differs = difference != 0 && !segment.voided;
    let told = if differs {
        told(core, id, difference)?
    } else {
        None
    };
    let mut changed = false;
    let all = visit(core, id, &mut |location, record| {
        if told.is_some_and(|told| told != location) {
            return Ok(());
        }
        let settlement = Settlement {
            location,
            seq: record.seq,
            difference: if told.is_some() { difference } else { 0 },
        };
        let judged = judge(
            core,
            &Dead {
                record: &record,
                is_stranger: told.is_some(),
                is_suspect: differs,
                settlement,
            },
        )?;
        changed |= judged != Judged::Done;
        if told.is_some() && judged != Judged::Again {
            // What it shows of others goes with it.
            changed |= settle_below(core, &record)?.again;
        }
        Ok(())
    });
    all?;
    Ok(changed)
}

/// True if the sums of a segment do not tell that a record lost its entry to another key, as far as
/// they can be compared; `live`: place and key's hash of its records that have theirs. If one lost
/// it just now, the answer is false at worst.
pub(crate) fn is_even(
    core: &Core,
    id: SegmentId,
    live: impl Iterator<Item = (Location, u64)>,
) -> bool {
    let terms = live.map(|(at, hash)| hash.wrapping_mul(weight(at)));
    let sum = terms.fold(0, u64::wrapping_add);
    let segment = core.log.segment(id);
    segment.voided || segment.appended_sum.wrapping_sub(segment.displaced_sum) == sum
}

/// The one record of the segment that explains the difference, if there is exactly one.
fn told(core: &Core, id: SegmentId, difference: u64) -> Result<Option<Location>> {
    let (mut told, mut count) = (None, 0);
    visit(core, id, &mut |location, _| {
        if is_told(difference, location, core.settings.fingerprint_bits) {
            (told, count) = (Some(location), count + 1);
        }
        Ok(())
    })?;
    Ok(told.filter(|_| count == 1))
}

/// Shows every record of the segment that had an entry, and was not settled.
fn visit(
    core: &Core,
    id: SegmentId,
    look: &mut dyn FnMut(Location, OwnedRecord) -> Result<()>,
) -> Result<()> {
    let segment = core.log.segment(id);
    let used = Some(segment.used_bytes);
    let media = core.log.media();
    let Ok(mut scanner) = SegmentScanner::load(&**media, core.log.geometry(), id, used) else {
        return Ok(());
    };
    if scanner.birth() != segment.birth {
        return Ok(());
    }
    while let Some(item) = scanner.next() {
        let Scanned::Record { location, record } = item else {
            continue;
        };
        let is_indexed = matches!(record.header.kind, RecordKind::Put | RecordKind::Tombstone);
        let counts = is_indexed && record.seq <= segment.last_seq;
        if counts && !core.log.is_settled(location) {
            look(location, OwnedRecord::of(&record))?;
        }
    }
    Ok(())
}

// ---- what collection leaves to be done ----

/// The order before which no segment of the log began: a stranger that something of that order or
/// older could stand in for is gone.
pub(crate) fn oldest_segment(core: &Core) -> SeqNo {
    core.log.with_table(|table| {
        let used = table.iter().filter(|(_, s)| s.is_log());
        used.map(|(_, s)| s.first_seq).min().unwrap_or(SeqNo::MAX)
    })
}

/// Marks a tombstone that is kept until no older segment is left: what told so may go before.
pub(crate) fn mark_kept(core: &Core, location: Location, seq: SeqNo) {
    core.log.settle(&Settlement {
        location,
        seq,
        difference: 0,
    });
}

#[cfg(test)]
mod tests;
