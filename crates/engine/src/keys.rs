//! Full keys for the index, which keeps none: read from the records themselves.

use heliox_format::ids::Location;
use heliox_format::record::Record;
use heliox_index::{KeyRead, KeySource, SourceError};
use heliox_log::read::ReadBuf;
use heliox_log::Log;

use crate::core::Core;
use crate::error::Error;
use crate::read::look_in_cache;

/// Reads keys from the log alone: for recovery, when there is no cache yet.
pub(crate) struct LogKeys<'a> {
    pub(crate) log: &'a Log,
}

impl KeySource for LogKeys<'_> {
    fn read_key(&self, location: Location, out: &mut Vec<u8>) -> Result<KeyRead, SourceError> {
        let mut buf = ReadBuf::default();
        let found = self.log.read(location, &mut buf);
        match found.map_err(|e| SourceError(Box::new(Error::from(e))))? {
            Some(found) => {
                copy_key(&found.record, out);
                Ok(KeyRead::Found)
            }
            None => Ok(KeyRead::Stale),
        }
    }

    /// All reads in one submission.
    fn read_keys(
        &self,
        locations: &[Location],
        each: &mut dyn FnMut(usize, KeyRead, &[u8]),
    ) -> Result<(), SourceError> {
        let (mut buf, mut key, mut failed) = (ReadBuf::default(), Vec::new(), None);
        let read = self
            .log
            .read_many(locations, &mut buf, &mut |number, found| match found {
                Ok(Some(found)) => {
                    copy_key(&found.record, &mut key);
                    each(number, KeyRead::Found, &key);
                }
                Ok(None) => each(number, KeyRead::Stale, &[]),
                Err(error) => failed = Some(error),
            });
        match read.err().or(failed) {
            Some(error) => Err(SourceError(Box::new(Error::from(error)))),
            None => Ok(()),
        }
    }
}

/// Reads keys from the cache, else from the log.
pub(crate) struct StoreKeys<'a> {
    pub(crate) core: &'a Core,
}

impl KeySource for StoreKeys<'_> {
    fn read_key(&self, location: Location, out: &mut Vec<u8>) -> Result<KeyRead, SourceError> {
        if look_in_cache(self.core, location, |record| copy_key(record, out)).is_some() {
            return Ok(KeyRead::Found);
        }
        LogKeys {
            log: &self.core.log,
        }
        .read_key(location, out)
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
        let log = LogKeys {
            log: &self.core.log,
        };
        log.read_keys(&missing, &mut |at, read, key| each(numbers[at], read, key))
    }
}

fn copy_key(record: &Record<'_>, out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(&record.header.keyspace.0.to_be_bytes());
    out.extend_from_slice(record.key);
}
