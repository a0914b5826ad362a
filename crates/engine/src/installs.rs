//! Records of the tail that wait for their place in the index.
//!
//! Replay in order of the log jumps about in the index; ordered by leaf, a million records at a
//! time and over all cores, the same work is several times faster. Within a leaf the order of the
//! log is kept: records of different keys may have displaced each other there. Between leaves it
//! does not matter.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::thread;

use heliox_format::ids::{KeyspaceId, Location, SeqNo};
use heliox_index::{Action, Entry, Index, PreparedKey};
use heliox_log::read::ReadBuf;
use heliox_log::{Log, LogError};
use parking_lot::Mutex;

use crate::error::{Error, Result};
use crate::keys::ReplayKeys;

/// Records that are sorted together.
const RECORDS_MAX: usize = 1 << 20;
/// Bytes of keys that are sorted together.
const KEY_BYTES_MAX: usize = 64 << 20;
/// Fewer records than this are not worth a second thread.
const RECORDS_PER_THREAD_MIN: usize = 4096;

#[derive(Clone, Copy)]
struct Install {
    leaf: u32,
    keyspace: KeyspaceId,
    key_from: u32,
    key_bytes: u32,
    tombstone: bool,
    seq: SeqNo,
    location: Location,
    displaced: Option<Location>,
}

/// The waiting records.
#[derive(Default)]
pub(crate) struct Installs {
    keys: Vec<u8>,
    waiting: Vec<Install>,
    /// Entries that went because their locations hold other records by now.
    given_up: Mutex<HashSet<Location>>,
    damage: Mutex<Vec<String>>,
}

/// What the threads that apply records share.
#[derive(Clone, Copy)]
struct Target<'a> {
    log: &'a Log,
    index: &'a Index,
    seed: u64,
    keys: &'a [u8],
    source: &'a ReplayKeys<'a>,
}

/// A record as replay gives it.
pub(crate) struct TailRecord<'a> {
    pub(crate) keyspace: KeyspaceId,
    pub(crate) key: &'a [u8],
    pub(crate) tombstone: bool,
    pub(crate) seq: SeqNo,
    pub(crate) location: Location,
    pub(crate) displaced: Option<Location>,
}

impl Installs {
    /// Adds a record.
    pub(crate) fn push(&mut self, record: &TailRecord<'_>) {
        self.waiting.push(Install {
            leaf: 0,
            keyspace: record.keyspace,
            key_from: self.keys.len() as u32,
            key_bytes: record.key.len() as u32,
            tombstone: record.tombstone,
            seq: record.seq,
            location: record.location,
            displaced: record.displaced,
        });
        self.keys.extend_from_slice(record.key);
    }

    /// True if it is time to apply.
    pub(crate) fn is_full(&self) -> bool {
        self.waiting.len() >= RECORDS_MAX || self.keys.len() >= KEY_BYTES_MAX
    }

    /// Puts all waiting records into the index. Gives the orders of records that displaced one
    /// which the index does not know: signs of damage before them.
    pub(crate) fn apply(&mut self, log: &Log, index: &Index, seed: u64) -> Result<Vec<SeqNo>> {
        let keys = &self.keys;
        let source = ReplayKeys {
            log,
            given_up: &self.given_up,
            damage: &self.damage,
        };
        let target = Target {
            log,
            index,
            seed,
            keys,
            source: &source,
        };
        let leaves = Leaves::new(index.fences());
        for install in &mut self.waiting {
            install.leaf = leaves.of(install.keyspace, key_of(keys, install));
        }
        self.waiting.sort_unstable_by_key(|i| (i.leaf, i.seq));
        let threads = thread::available_parallelism().map_or(1, usize::from);
        let share = self
            .waiting
            .len()
            .div_ceil(threads)
            .max(RECORDS_PER_THREAD_MIN);
        let mut rest = &self.waiting[..];
        let mut missed = Vec::new();
        thread::scope(|scope| {
            let mut running = Vec::new();
            while !rest.is_empty() {
                let (mine, others) = rest.split_at(border(rest, share));
                rest = others;
                running.push(scope.spawn(move || apply_in_order(target, mine)));
            }
            for thread in running {
                let ended = thread.join();
                missed.extend(ended.map_err(|_| Error::internal("replay panicked"))??);
            }
            Ok::<_, Error>(())
        })?;
        self.keys.clear();
        self.waiting.clear();
        Ok(missed)
    }

    /// What was found damaged so far, in words; told once.
    pub(crate) fn take_damage(&mut self) -> Vec<String> {
        std::mem::take(self.damage.get_mut())
    }
}

fn key_of<'k>(keys: &'k [u8], install: &Install) -> &'k [u8] {
    let from = install.key_from as usize;
    &keys[from..from + install.key_bytes as usize]
}

/// The leaves that the index has now, to be found by key.
struct Leaves {
    /// Lower fences of all leaves but the first.
    fences: Vec<Vec<u8>>,
    /// What all fences begin with.
    common: Vec<u8>,
    /// The eight bytes of each fence after that, which nearly always decide.
    heads: Vec<u64>,
}

impl Leaves {
    fn new(fences: Vec<Vec<u8>>) -> Leaves {
        let common = match (fences.first(), fences.last()) {
            (Some(first), Some(last)) => {
                let same = first.iter().zip(last).take_while(|(a, b)| a == b).count();
                first[..same].to_vec()
            }
            _ => Vec::new(),
        };
        let heads = fences.iter().map(|f| head(&f[common.len()..])).collect();
        Leaves {
            fences,
            common,
            heads,
        }
    }

    fn of(&self, keyspace: KeyspaceId, key: &[u8]) -> u32 {
        let id = keyspace.0.to_be_bytes();
        let skip = self.common.len();
        let n = if skip >= id.len() && key.len() >= skip - id.len() {
            match compare(&self.common, &id, &key[..skip - id.len()]) {
                Ordering::Equal => self.after_common(&key[skip - id.len()..], &id, key),
                Ordering::Greater => 0,
                Ordering::Less => self.fences.len(),
            }
        } else {
            self.fences
                .partition_point(|f| compare(f, &id, key) != Ordering::Greater)
        };
        n as u32
    }

    fn after_common(&self, rest: &[u8], id: &[u8; 4], key: &[u8]) -> usize {
        let wanted = head(rest);
        let from = self.heads.partition_point(|h| *h < wanted);
        let to = from + self.heads[from..].partition_point(|h| *h == wanted);
        let is_past = |f: &Vec<u8>| compare(f, id, key) != Ordering::Greater;
        from + self.fences[from..to].partition_point(is_past)
    }
}

/// The first eight bytes, zeros after the end.
fn head(bytes: &[u8]) -> u64 {
    let mut head = [0; 8];
    let n = bytes.len().min(8);
    head[..n].copy_from_slice(&bytes[..n]);
    u64::from_be_bytes(head)
}

/// Compares an internal key with a keyspace and key that are not put together.
fn compare(internal: &[u8], keyspace: &[u8; 4], key: &[u8]) -> Ordering {
    let (id, rest) = internal.split_at(internal.len().min(keyspace.len()));
    id.cmp(&keyspace[..]).then_with(|| rest.cmp(key))
}

/// Where to cut about `share` records off so that no leaf is on both sides.
fn border(records: &[Install], share: usize) -> usize {
    let mut at = share.min(records.len());
    while at < records.len() && records[at - 1].leaf == records[at].leaf {
        at += 1;
    }
    at
}

fn apply_in_order(target: Target<'_>, records: &[Install]) -> Result<Vec<SeqNo>> {
    let mut missed = Vec::new();
    for record in records {
        let key = PreparedKey::new(target.seed, record.keyspace, key_of(target.keys, record));
        let new = Entry {
            location: record.location,
            tombstone: record.tombstone,
        };
        match install(target, &key, new, record.displaced)? {
            Fit::Exact => {}
            Fit::Beside => install_beside(target, &key, new)?,
            Fit::Missed => missed.push(record.seq),
        }
    }
    Ok(missed)
}

/// How a record met the index.
enum Fit {
    /// As it says itself.
    Exact,
    /// It says that nothing was there, and something is: nothing was done.
    Beside,
    /// It says that it displaced a record which the index does not know.
    Missed,
}

fn install(
    target: Target<'_>,
    key: &PreparedKey<'_>,
    new: Entry,
    displaced: Option<Location>,
) -> Result<Fit> {
    let source = target.source;
    Ok(target.index.update(key, source, |matches| {
        let Some(old) = displaced else {
            return match matches {
                [] => (Action::Insert(new), Fit::Exact),
                _ => (Action::Keep, Fit::Beside),
            };
        };
        if matches.iter().any(|e| e.location == old) {
            return (Action::Replace { old, new }, Fit::Exact);
        }
        if source.given_up.lock().contains(&old) {
            return (Action::Insert(new), Fit::Exact);
        }
        // The record that had the entry was lost to damage: its predecessor still has it.
        match matches {
            [one] => (
                Action::Replace {
                    old: one.location,
                    new,
                },
                Fit::Missed,
            ),
            _ => (Action::Insert(new), Fit::Missed),
        }
    })?)
}

/// Installs a record that found no entry, where there is one now: it is another key's, or the image
/// has an entry of the key itself that was swept away later, without a record.
fn install_beside(target: Target<'_>, key: &PreparedKey<'_>, new: Entry) -> Result<()> {
    let mut swept = None;
    let mut buf = ReadBuf::default();
    for entry in target.index.lookup(key).iter() {
        match target.log.read(entry.location, &mut buf) {
            Ok(Some(found)) => {
                let record = found.record;
                if record.key == key.key() && record.header.keyspace == key.keyspace() {
                    swept = Some(entry.location);
                }
            }
            Ok(None) | Err(LogError::Damaged(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let action = match swept {
        Some(old) => Action::Replace { old, new },
        None => Action::Insert(new),
    };
    let source = target.source;
    Ok(target.index.update(key, source, |_| (action, ()))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaves_are_found_as_by_comparing_whole_keys() {
        let internal = |id: u32, key: &[u8]| [&id.to_be_bytes()[..], key].concat();
        let keys: [&[u8]; 9] = [
            b"",
            b"\0",
            b"a",
            b"aa",
            b"common",
            b"common1",
            b"common12345678",
            b"common2",
            b"z",
        ];
        let sets: [Vec<Vec<u8>>; 4] = [
            Vec::new(),
            vec![internal(1, b"common12345678")],
            vec![
                internal(1, b"common1"),
                internal(1, b"common12345678"),
                internal(1, b"common2"),
            ],
            vec![
                internal(0, b"z"),
                internal(1, b""),
                internal(1, b"aa"),
                internal(2, b"a"),
            ],
        ];
        for fences in sets {
            let leaves = Leaves::new(fences.clone());
            for id in 0..4 {
                for key in keys {
                    let whole = internal(id, key);
                    let wanted = fences.partition_point(|f| *f <= whole);
                    assert_eq!(
                        leaves.of(KeyspaceId(id), key) as usize,
                        wanted,
                        "{id} {key:?}"
                    );
                }
            }
        }
    }
}
