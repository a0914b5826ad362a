//! One thread of a load: does its operations on a store, and checks what they answer. The caller's
//! thread only.

use std::time::{Duration, Instant};

use heliox::{Batch, ErrorKind, Keyspace, Store};

use crate::failure::{Failure, Result};
use crate::script::{self, Action, Script, Slot, Stamp, KEYSPACES};
use crate::state::{counter_value, parse_counter, ThreadState};

/// How long a range delete waits for room, and how often it asks.
const ROOM_PATIENCE: Duration = Duration::from_secs(30);
const ROOM_PAUSE: Duration = Duration::from_millis(5);

/// A thread's place in a load, and what its part of the store must hold.
pub(crate) struct Worker {
    store: Store,
    keyspaces: [Keyspace; 2],
    script: Script,
    thread: u16,
    threads: u16,
    state: ThreadState,
}

impl Worker {
    pub(crate) fn new(
        store: &Store,
        script: Script,
        thread: u16,
        threads: u16,
        state: ThreadState,
    ) -> heliox::Result<Worker> {
        let [first, second] = KEYSPACES;
        Ok(Worker {
            store: store.clone(),
            keyspaces: [
                store.keyspace_or_create(first)?,
                store.keyspace_or_create(second)?,
            ],
            script,
            thread,
            threads,
            state,
        })
    }

    /// Which thread it is.
    pub(crate) fn thread(&self) -> u16 {
        self.thread
    }

    /// Does operation `number`.
    pub(crate) fn run(&mut self, number: u64) -> Result<()> {
        let action = self.script.action(self.thread, number);
        let answer = self
            .answer(&action, number)
            .map_err(Failure::store("an operation of the load"))?;
        let old = |slot: &Slot| self.state.slots.get(slot);
        let expected = match &action {
            Action::InsertIfAbsent(slot, _) => Answer::Flag(old(slot).is_none()),
            Action::ReplaceIfPresent(slot, _) => Answer::Flag(old(slot).is_some()),
            Action::Take(slot) | Action::Read(slot) => Answer::Value(old(slot).map(script::value)),
            Action::Scan(keyspace) => Answer::List(self.expected_scan(*keyspace)),
            _ => Answer::Nothing,
        };
        if answer != expected {
            let words = format!(
                "thread {} operation {number} of life {}, {action:?}: expected {}, found {}",
                self.thread,
                self.script.life,
                expected.show(),
                answer.show()
            );
            return Err(Failure::Violation(words));
        }
        self.state.apply(&self.script, self.thread, number, &action);
        Ok(())
    }

    fn answer(&self, action: &Action, number: u64) -> heliox::Result<Answer> {
        let key = |slot: &Slot| script::key(self.thread, slot.key);
        let value = |slot: &Slot, bytes: u32| {
            script::value(&self.script.stamp(self.thread, number, *slot, bytes))
        };
        let [first, second] = &self.keyspaces;
        let at = |keyspace: u8| if keyspace == 0 { first } else { second };
        match action {
            Action::Put(slot, bytes) => at(slot.keyspace).put(key(slot), value(slot, *bytes))?,
            Action::Delete(slot) => at(slot.keyspace).delete(key(slot))?,
            Action::Batch(members) => {
                let mut batch = Batch::new();
                for (slot, bytes) in members {
                    match bytes {
                        Some(bytes) => batch.put(at(slot.keyspace), key(slot), value(slot, *bytes)),
                        None => batch.delete(at(slot.keyspace), key(slot)),
                    }
                }
                self.store.write(&batch)?;
            }
            Action::DeleteRange { keyspace, from, to } => {
                let (from, to) = (
                    script::key(self.thread, *from),
                    script::key(self.thread, *to),
                );
                delete_range(at(*keyspace), &from, &to)?;
            }
            Action::InsertIfAbsent(slot, bytes) => {
                let done = at(slot.keyspace).insert_if_absent(key(slot), value(slot, *bytes))?;
                return Ok(Answer::Flag(done));
            }
            Action::ReplaceIfPresent(slot, bytes) => {
                let done = at(slot.keyspace).replace_if_present(key(slot), value(slot, *bytes))?;
                return Ok(Answer::Flag(done));
            }
            Action::Take(slot) => return Ok(Answer::Value(at(slot.keyspace).take(key(slot))?)),
            Action::Update(slot, bytes) => {
                let next = value(slot, *bytes);
                at(slot.keyspace).update(key(slot), |old| old.map(|_| next.clone()))?;
            }
            Action::Count(counter) => self.count(first, *counter)?,
            Action::Sync => self.store.sync()?,
            Action::Flush => self.store.flush()?,
            Action::Read(slot) => return Ok(Answer::Value(at(slot.keyspace).get(key(slot))?)),
            Action::Scan(keyspace) => {
                return Ok(Answer::List(scan(at(*keyspace), self.thread)?));
            }
        }
        Ok(Answer::Nothing)
    }

    fn count(&self, keyspace: &Keyspace, counter: usize) -> heliox::Result<()> {
        let threads = self.threads;
        keyspace.update(script::counter_key(counter), |old| {
            let zero = || vec![0; usize::from(threads)];
            let mut counts = old
                .and_then(|old| parse_counter(old, threads))
                .unwrap_or_else(zero);
            if let Some(count) = counts.get_mut(usize::from(self.thread)) {
                *count += 1;
            }
            Some(counter_value(&counts))
        })
    }

    fn expected_scan(&self, keyspace: u8) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mine = self
            .state
            .slots
            .iter()
            .filter(|(slot, _)| slot.keyspace == keyspace);
        let pair = |(slot, stamp): (&Slot, &Stamp)| {
            (script::key(self.thread, slot.key), script::value(stamp))
        };
        mine.map(pair).collect()
    }
}

/// Deletes a range, and waits while too many others wait for their sweep, which the store says as
/// it has to.
pub(crate) fn delete_range(keyspace: &Keyspace, from: &[u8], to: &[u8]) -> heliox::Result<()> {
    let begun = Instant::now();
    loop {
        match keyspace.delete_range(from, to) {
            Err(error) if error.kind() == ErrorKind::Full && begun.elapsed() < ROOM_PATIENCE => {
                std::thread::sleep(ROOM_PAUSE);
            }
            other => return other,
        }
    }
}

/// A thread's keys with their values; anew if what the iteration reads gave way to a writer without
/// room.
fn scan(keyspace: &Keyspace, thread: u16) -> heliox::Result<Vec<(Vec<u8>, Vec<u8>)>> {
    loop {
        let items = keyspace.iter().prefix(script::prefix(thread)).start();
        match items.and_then(Iterator::collect) {
            Err(error) if error.kind() == ErrorKind::SnapshotTooOld => {}
            other => return other,
        }
    }
}

/// What an operation says.
#[derive(PartialEq, Eq)]
enum Answer {
    Nothing,
    Flag(bool),
    Value(Option<Vec<u8>>),
    List(Vec<(Vec<u8>, Vec<u8>)>),
}

impl Answer {
    /// In words, values by their stamps.
    fn show(&self) -> String {
        match self {
            Answer::Nothing => "nothing".to_owned(),
            Answer::Flag(flag) => flag.to_string(),
            Answer::Value(None) => "no value".to_owned(),
            Answer::Value(Some(value)) => show_value(value),
            Answer::List(list) => {
                let shown = list.iter().map(|(key, value)| {
                    format!("{} {}", String::from_utf8_lossy(key), show_value(value))
                });
                shown.collect::<Vec<_>>().join(", ")
            }
        }
    }
}

fn show_value(value: &[u8]) -> String {
    match script::parse_value(value) {
        Some(stamp) => format!("{stamp:?}"),
        None => format!("{} bytes that nobody wrote", value.len()),
    }
}
