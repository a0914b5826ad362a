//! Records of the tail that wait for their place in the index.
//!
//! Replay in order of the log jumps about in the index; ordered by leaf, many records at a time and
//! over all cores, the same work is several times faster. Within a leaf the order of the log is
//! kept: records of different keys may have displaced each other there. Between leaves it does not
//! matter.

use std::collections::{BTreeMap, HashSet};

use heliox_format::ids::{Location, SeqNo};
use heliox_index::{Action, Entry, Index, PreparedKey};
use heliox_log::read::ReadBuf;
use heliox_log::{Log, LogError};
use heliox_sync::atomic::{AtomicUsize, Ordering};
use heliox_sync::thread;
use heliox_sync::Mutex;

use crate::error::{Error, Result};
use crate::keys::ReplayKeys;
use crate::leaves::Leaves;
use crate::tail::{TailRecord, What};

/// Most records that are sorted together.
const RECORDS_MAX: usize = 1 << 20;
/// What a waiting record takes: itself, the number of its leaf, its place in their order.
const RECORD_BYTES: usize = size_of::<TailRecord>() + 2 * size_of::<u32>();
/// Fewer records than this are not worth a second thread.
const RECORDS_PER_THREAD_MIN: usize = 4096;
/// Shares of the records for each thread: one that is slower takes fewer of them.
const SHARES_PER_THREAD: usize = 8;
/// Records that are brought together before they are installed, so that the misses of the cache
/// which that takes overlap.
const GATHERED: usize = 64;

/// The waiting records.
pub(crate) struct Installs {
    bytes_max: usize,
    /// In the order of the log.
    waiting: Vec<TailRecord>,
    /// Their longer keys.
    keys: Vec<u8>,
    /// The leaf of each.
    leaves: Vec<u32>,
    /// Their numbers, ordered by leaf.
    order: Vec<u32>,
    /// Entries that went because their locations hold other records by now.
    given_up: Mutex<HashSet<Location>>,
    /// Entries, with the hashes of their keys, that went without a record in the run before.
    swept: Mutex<Vec<(Location, u64)>>,
    /// Entries whose records cannot be read, and why, unless a later record displaced them.
    damage: Mutex<BTreeMap<u64, String>>,
}

/// What the threads that apply records share.
#[derive(Clone, Copy)]
struct Target<'a> {
    log: &'a Log,
    index: &'a Index,
    records: &'a [TailRecord],
    keys: &'a [u8],
    source: &'a ReplayKeys<'a>,
    swept: &'a Mutex<Vec<(Location, u64)>>,
}

impl Installs {
    /// None wait. Those that wait are to take about so many bytes at most.
    pub(crate) fn new(bytes_max: usize) -> Installs {
        Installs {
            bytes_max,
            waiting: Vec::new(),
            keys: Vec::new(),
            leaves: Vec::new(),
            order: Vec::new(),
            given_up: Mutex::default(),
            swept: Mutex::default(),
            damage: Mutex::default(),
        }
    }

    /// Adds a record and its key.
    pub(crate) fn push(&mut self, record: &TailRecord, key: &[u8]) {
        self.waiting.push(record.moved(key, &mut self.keys));
    }

    /// True if it is time to apply.
    pub(crate) fn is_full(&self) -> bool {
        let count = self.waiting.len();
        count >= RECORDS_MAX || count * RECORD_BYTES + self.keys.len() >= self.bytes_max
    }

    /// Puts all waiting records into the index. Gives the orders of records that displaced one
    /// which the index does not know: signs of damage before them.
    pub(crate) fn apply(&mut self, log: &Log, index: &Index, threads: usize) -> Result<Vec<SeqNo>> {
        let threads = threads.clamp(1, 1 + self.waiting.len() / RECORDS_PER_THREAD_MIN);
        let leaves = Leaves::new(index.fences());
        self.find_leaves(&leaves, threads)?;
        self.order_by_leaf(leaves.count());
        let source = ReplayKeys {
            log,
            given_up: &self.given_up,
            damage: &self.damage,
        };
        let target = Target {
            log,
            index,
            records: &self.waiting,
            keys: &self.keys,
            source: &source,
            swept: &self.swept,
        };
        let shares = self.shares(threads);
        let next = AtomicUsize::new(0);
        let work = || {
            let mut missed = Vec::new();
            while let Some(share) = shares.get(next.fetch_add(1, Ordering::Relaxed)) {
                apply_in_order(target, share, &mut missed)?;
            }
            Ok::<_, Error>(missed)
        };
        let missed = thread::scope(|scope| {
            let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
            let mut missed = work()?;
            for thread in others {
                let ended = thread.join();
                missed.extend(ended.map_err(|_| Error::internal("replay panicked"))??);
            }
            Ok::<_, Error>(missed)
        })?;
        self.keys.clear();
        self.waiting.clear();
        Ok(missed)
    }

    fn find_leaves(&mut self, leaves: &Leaves, threads: usize) -> Result<()> {
        let (records, keys) = (&self.waiting, &self.keys);
        self.leaves.clear();
        self.leaves.resize(records.len(), 0);
        let share = records.len().div_ceil(threads).max(1);
        let find = |records: &[TailRecord], found: &mut [u32]| {
            for (record, leaf) in records.iter().zip(found) {
                *leaf = leaves.of(record.keyspace, record.key(keys));
            }
        };
        let mut shares = records.chunks(share).zip(self.leaves.chunks_mut(share));
        thread::scope(|scope| {
            let own = shares.next();
            let others: Vec<_> = shares
                .map(|(records, found)| scope.spawn(move || find(records, found)))
                .collect();
            if let Some((records, found)) = own {
                find(records, found);
            }
            let mut ended = others.into_iter().map(thread::ScopedJoinHandle::join);
            ended.try_for_each(|e| e.map_err(|_| Error::internal("replay panicked")))
        })
    }

    /// Counts, and so keeps the order of the log within each leaf.
    fn order_by_leaf(&mut self, leaves: usize) {
        let mut starts = vec![0u32; leaves + 1];
        for leaf in &self.leaves {
            starts[*leaf as usize + 1] += 1;
        }
        let mut before = 0;
        for start in &mut starts {
            before += *start;
            *start = before;
        }
        self.order.clear();
        self.order.resize(self.leaves.len(), 0);
        for (number, leaf) in self.leaves.iter().enumerate() {
            let place = &mut starts[*leaf as usize];
            self.order[*place as usize] = number as u32;
            *place += 1;
        }
    }

    /// The order, cut so that no leaf is in two shares.
    fn shares(&self, threads: usize) -> Vec<&[u32]> {
        let share = match threads {
            1 => self.order.len(),
            _ => self.order.len().div_ceil(threads * SHARES_PER_THREAD),
        };
        let leaf = |number: u32| self.leaves[number as usize];
        let (mut shares, mut rest) = (Vec::new(), &self.order[..]);
        while !rest.is_empty() {
            let mut at = share.clamp(1, rest.len());
            while at < rest.len() && leaf(rest[at - 1]) == leaf(rest[at]) {
                at += 1;
            }
            let (mine, others) = rest.split_at(at);
            shares.push(mine);
            rest = others;
        }
        shares
    }

    /// Entries that had gone without a record, as records after that tell, with the hashes of their
    /// keys; told once.
    pub(crate) fn take_swept(&mut self) -> Vec<(Location, u64)> {
        std::mem::take(self.swept.get_mut())
    }

    /// True if records could not be read that no later one displaced so far.
    pub(crate) fn has_damage(&mut self) -> bool {
        !self.damage.get_mut().is_empty()
    }

    /// What is damaged, in words; told once, at the end.
    pub(crate) fn take_damage(&mut self) -> impl Iterator<Item = String> {
        std::mem::take(self.damage.get_mut()).into_values()
    }
}

fn apply_in_order(target: Target<'_>, order: &[u32], missed: &mut Vec<SeqNo>) -> Result<()> {
    let mut gathered = Vec::with_capacity(GATHERED);
    for some in order.chunks(GATHERED) {
        gathered.clear();
        gathered.extend(some.iter().map(|number| target.records[*number as usize]));
        for record in &gathered {
            let key = record.key(target.keys);
            let key = PreparedKey::of_hashed(record.hash, record.keyspace, key);
            let new = Entry {
                location: record.location,
                tombstone: record.what == What::Tombstone,
            };
            match install(target, &key, new, record.displaced())? {
                Fit::Exact => {}
                Fit::Among => take_swept_twin(target, &key, record)?,
                Fit::Beside => install_beside(target, &key, new, record.seq)?,
                Fit::Missed(old) if take_strangers_entry(target, old)? => {
                    install_beside(target, &key, new, record.seq)?;
                }
                Fit::Missed(_) => {
                    install_over_lost(target, &key, new)?;
                    missed.push(record.seq);
                }
            }
        }
    }
    Ok(())
}

/// How a record met the index.
enum Fit {
    /// As it says itself.
    Exact,
    /// The same, but there are other entries that look like this key's.
    Among,
    /// It says that nothing was there, and something is: nothing was done.
    Beside,
    /// It says that it displaced a record of which this key's entries do not know: nothing was done.
    Missed(Location),
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
            let fit = if matches.len() > 1 {
                Fit::Among
            } else {
                Fit::Exact
            };
            return (Action::Replace { old, new }, fit);
        }
        if source.given_up.lock().contains(&old) {
            source.damage.lock().remove(&old.bits());
            return (Action::Insert(new), Fit::Exact);
        }
        (Action::Keep, Fit::Missed(old))
    })?)
}

/// Takes away the entry of a record of another key. When it was displaced, the two keys looked the
/// same; here, in a leaf that was cut otherwise, they do not. False if there is no such entry.
fn take_strangers_entry(target: Target<'_>, old: Location) -> Result<bool> {
    let mut buf = ReadBuf::default();
    let found = match target.log.read(old, &mut buf) {
        Ok(Some(found)) => found.record,
        Ok(None) | Err(LogError::Damaged(_)) => return Ok(false),
        Err(error) => return Err(error.into()),
    };
    let key = target.index.prepare(found.header.keyspace, found.key);
    Ok(target.index.update(&key, target.source, |matches| {
        match matches.iter().any(|entry| entry.location == old) {
            true => (Action::Remove { old }, true),
            false => (Action::Keep, false),
        }
    })?)
}

/// Installs a record where the one that had the entry was lost to damage: its predecessor still has
/// it.
fn install_over_lost(target: Target<'_>, key: &PreparedKey<'_>, new: Entry) -> Result<()> {
    Ok(target.index.update(key, target.source, |matches| {
        let action = match matches {
            [one] => Action::Replace {
                old: one.location,
                new,
            },
            _ => Action::Insert(new),
        };
        (action, ())
    })?)
}

/// Installs a record that found no entry of its own, where there may be one now: it is another key's,
/// or the image has an entry of the key itself that was swept away later, without a record.
fn install_beside(target: Target<'_>, key: &PreparedKey<'_>, new: Entry, at: SeqNo) -> Result<()> {
    let action = match swept_entry(target, key, at)? {
        Some(old) => Action::Replace { old, new },
        None => Action::Insert(new),
    };
    Ok(target.index.update(key, target.source, |_| (action, ()))?)
}

/// Takes away the entry of a key's older record where the newer one took another key's entry: the
/// older had been swept away by then, without a record.
fn take_swept_twin(target: Target<'_>, key: &PreparedKey<'_>, record: &TailRecord) -> Result<()> {
    let Some(old) = swept_entry(target, key, record.seq)? else {
        return Ok(());
    };
    let remove = |_: &[Entry]| (Action::Remove { old }, ());
    Ok(target.index.update(key, target.source, remove)?)
}

/// The entry of a record of this very key that is older than `at`: noted as swept.
///
/// A younger one is not what the entry means, but took its place: in a segment that was given back after
/// the checkpoint and used again. What was swept is never there any more, since its segment is not given
/// back before a checkpoint knows of the sweep.
fn swept_entry(target: Target<'_>, key: &PreparedKey<'_>, at: SeqNo) -> Result<Option<Location>> {
    let mut swept = None;
    let mut buf = ReadBuf::default();
    let matches = target.index.lookup(key);
    for entry in matches.iter() {
        match target.log.read(entry.location, &mut buf) {
            Ok(Some(found)) => {
                let record = found.record;
                let is_of_key = record.key == key.key() && record.header.keyspace == key.keyspace();
                if is_of_key && record.seq < at {
                    swept = Some(entry.location);
                }
            }
            Ok(None) | Err(LogError::Damaged(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    if let Some(old) = swept {
        target.swept.lock().push((old, key.hash()));
    }
    Ok(swept)
}
