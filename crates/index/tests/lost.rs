//! Keys that can never be read again, and locations that hold another record, must not stand in
//! the way of the other keys of a leaf.
#![allow(clippy::unwrap_used)] // a failure is the test's

use std::collections::HashSet;
use std::sync::Mutex;

use heliox_format::ids::{KeyspaceId, Location};
use heliox_index::{
    Action, Entry, Index, IndexOptions, KeyRead, KeySource, PreparedKey, SourceError,
};

const KEYSPACE: KeyspaceId = KeyspaceId(1);
const KEYS: u64 = 6000;

/// Keys that slices cannot tell apart, so that splits must read.
fn key(i: u64) -> Vec<u8> {
    let place = i % 7;
    format!("https://example.org/the/same/long/path/{place:03}/page-{i:06}.html").into_bytes()
}

fn internal(i: u64) -> Vec<u8> {
    [&KEYSPACE.0.to_be_bytes()[..], &key(i)].concat()
}

/// What becomes of every tenth key.
#[derive(Clone, Copy)]
enum Fate {
    Lost,
    /// Its location holds the record of the key after it.
    Reused,
}

struct Source {
    fate: Fate,
    given_up: Mutex<HashSet<u64>>,
}

impl KeySource for Source {
    fn read_key(&self, location: Location, out: &mut Vec<u8>) -> Result<KeyRead, SourceError> {
        let i = location.bits();
        let is_struck = i.is_multiple_of(10);
        let read = match self.fate {
            Fate::Lost if is_struck => return Ok(KeyRead::Lost),
            Fate::Reused if is_struck => i + 1,
            Fate::Lost | Fate::Reused => i,
        };
        *out = internal(read);
        Ok(KeyRead::Found)
    }

    fn is_stale_for_good(&self) -> bool {
        matches!(self.fate, Fate::Reused)
    }

    fn give_up(&self, location: Location) {
        self.given_up.lock().unwrap().insert(location.bits());
    }
}

fn others_stay(fate: Fate) {
    let options = IndexOptions {
        seed: 7,
        ..IndexOptions::default()
    };
    let index = Index::new(options).unwrap();
    let source = Source {
        fate,
        given_up: Mutex::default(),
    };
    for i in 0..KEYS {
        let key = key(i);
        let prepared = PreparedKey::new(7, KEYSPACE, &key);
        let entry = Entry {
            location: Location::from_bits(i),
            tombstone: false,
        };
        let insert = |_: &[Entry]| (Action::Insert(entry), ());
        index.update(&prepared, &source, insert).unwrap();
    }
    let given_up = source.given_up.lock().unwrap();
    assert!(
        !given_up.is_empty(),
        "no split asked for a key that is gone"
    );
    assert!(
        given_up.iter().all(|i| i % 10 == 0),
        "a key that can be read was given up"
    );
    for i in 0..KEYS {
        let key = key(i);
        let found = index.lookup(&PreparedKey::new(7, KEYSPACE, &key));
        let location = Location::from_bits(i);
        let is_there = found.iter().any(|e| e.location == location);
        assert_eq!(is_there, !given_up.contains(&i), "key {i}");
    }
}

#[test]
fn a_key_that_cannot_be_read_loses_its_entry_alone() {
    others_stay(Fate::Lost);
}

#[test]
fn a_location_of_another_record_loses_its_entry_alone() {
    others_stay(Fate::Reused);
}
