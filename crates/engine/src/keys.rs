//! Full keys for the index, which keeps none: read from the records themselves.

use std::collections::{BTreeMap, HashSet};

use heliox_format::ids::Location;
use heliox_format::record::Record;
use heliox_index::{KeyRead, KeySource, SourceError};
use heliox_log::read::ReadBuf;
use heliox_log::{Log, LogError};
use heliox_sync::Mutex;

use crate::core::Core;
use crate::error::Error;
use crate::read::look_in_cache;

/// Reads keys from the log, all in one submission. `damaged` is told of records that can never be
/// read again.
fn read_from_log(
    log: &Log,
    locations: &[Location],
    each: &mut dyn FnMut(usize, KeyRead, &[u8]),
    damaged: &mut dyn FnMut(Location, &LogError),
) -> Result<(), SourceError> {
    let (mut buf, mut key, mut failed) = (ReadBuf::default(), Vec::new(), None);
    let read = log.read_many(locations, &mut buf, &mut |number, found| match found {
        Ok(Some(found)) => {
            copy_key(&found.record, &mut key);
            each(number, KeyRead::Found, &key);
        }
        Ok(None) => each(number, KeyRead::Stale, &[]),
        Err(error @ LogError::Damaged(_)) => {
            damaged(locations[number], &error);
            each(number, KeyRead::Lost, &[]);
        }
        Err(error) => failed = Some(error),
    });
    match read.err().or(failed) {
        Some(error) => Err(SourceError(Box::new(Error::from(error)))),
        None => Ok(()),
    }
}

/// The one key that a batch of one read.
fn read_one(
    source: &dyn KeySource,
    location: Location,
    out: &mut Vec<u8>,
) -> Result<KeyRead, SourceError> {
    let mut answer = KeyRead::Stale;
    source.read_keys(&[location], &mut |_, read, key| {
        answer = read;
        out.clear();
        out.extend_from_slice(key);
    })?;
    Ok(answer)
}

/// Reads keys during replay, when there is no cache yet.
///
/// An entry of the checkpoint may point into a segment that was used again after the cut. The
/// record that took its place is still to come, so the entry may go if its key is asked for.
pub(crate) struct ReplayKeys<'a> {
    pub(crate) log: &'a Log,
    /// Entries that went.
    pub(crate) given_up: &'a Mutex<HashSet<Location>>,
    /// Records that cannot be read, and why. One that a later record displaced is no loss: its
    /// segment may have been given back before the end.
    pub(crate) damage: &'a Mutex<BTreeMap<u64, String>>,
}

impl KeySource for ReplayKeys<'_> {
    fn read_key(&self, location: Location, out: &mut Vec<u8>) -> Result<KeyRead, SourceError> {
        read_one(self, location, out)
    }

    fn read_keys(
        &self,
        locations: &[Location],
        each: &mut dyn FnMut(usize, KeyRead, &[u8]),
    ) -> Result<(), SourceError> {
        read_from_log(self.log, locations, each, &mut |location, error| {
            let mut damage = self.damage.lock();
            damage.insert(location.bits(), error.to_string());
        })
    }

    fn is_stale_for_good(&self) -> bool {
        true
    }

    fn give_up(&self, location: Location) {
        self.given_up.lock().insert(location);
    }
}

/// Reads keys from the cache, else from the log. The entry of a record that damage took is given
/// up, and the damage noted: it must not stand in the way of other keys.
pub(crate) struct StoreKeys<'a> {
    pub(crate) core: &'a Core,
}

impl KeySource for StoreKeys<'_> {
    fn read_key(&self, location: Location, out: &mut Vec<u8>) -> Result<KeyRead, SourceError> {
        read_one(self, location, out)
    }

    /// What the cache does not hold is read in one submission.
    fn read_keys(
        &self,
        locations: &[Location],
        each: &mut dyn FnMut(usize, KeyRead, &[u8]),
    ) -> Result<(), SourceError> {
        let (mut key, mut numbers, mut missing) = (Vec::new(), Vec::new(), Vec::new());
        for (number, location) in locations.iter().enumerate() {
            match look_in_cache(self.core, *location, |record| copy_key(record, &mut key)) {
                Some(()) => each(number, KeyRead::Found, &key),
                None => {
                    numbers.push(number);
                    missing.push(*location);
                }
            }
        }
        if missing.is_empty() {
            return Ok(());
        }
        let core = self.core;
        read_from_log(
            &core.log,
            &missing,
            &mut |at, read, key| each(numbers[at], read, key),
            &mut |location, error| core.note_damaged_read(location, error),
        )
    }
}

fn copy_key(record: &Record<'_>, out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(&record.header.keyspace.0.to_be_bytes());
    out.extend_from_slice(record.key);
}
