//! The real store under schedules that a test decides: a few threads, a few operations each, on
//! memory. Background steps are threads of the test; the thread that owns a scope only waits, since
//! shuttle wakes it when the last of the others ends, whatever it waits for.

mod batches;
mod conditions;
mod moves;
mod room;
mod snapshots;

use std::sync::Arc;

use heliox_media::MemoryMedia;
use heliox_sync::{explore, thread, Plan};

use crate::tests::{memory, open, options};
use crate::{Batch, Keyspace, Step, Store};

fn under_schedules(schedules: u64, test: impl Fn() + Send + Sync + 'static) {
    let patient = false;
    explore(Plan { schedules, patient }, move |_| test());
}

/// An empty store that reads from its tail and its device alone.
fn fresh() -> (Store, Keyspace) {
    let (store, keys) = open(&options(memory(66)));
    store.core().cache.set_budget_bytes(0);
    (store, keys)
}

fn run(store: &Store, steps: &[Step]) {
    for step in steps {
        store.step_of(*step).unwrap();
    }
}

/// A value of several sectors that says its number in every byte.
fn value(number: u8) -> Vec<u8> {
    vec![number; 700]
}

/// The number of a value, which must be whole; 0 for none.
fn number(found: Option<Vec<u8>>) -> u8 {
    let Some(found) = found else {
        return 0;
    };
    assert_eq!(found, value(found[0]), "a value that nobody wrote");
    found[0]
}

fn get(keys: &Keyspace, key: &str) -> u8 {
    number(keys.get(key).unwrap())
}
