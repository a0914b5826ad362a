//! What a store must hold after so many operations of each thread, and what it was found to hold.
//! Plain data.

use std::collections::BTreeMap;

use crate::script::{
    parse_key, parse_value, Action, KeyOf, Script, Slot, Stamp, COUNTERS, KEYSPACES,
};

/// The part of a store that one thread's operations decide.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(crate) struct ThreadState {
    pub(crate) slots: BTreeMap<Slot, Stamp>,
    pub(crate) counters: [u64; COUNTERS],
}

impl ThreadState {
    /// Lets operation `number` of this thread happen; gives the slots that it may have changed.
    pub(crate) fn apply(
        &mut self,
        script: &Script,
        thread: u16,
        number: u64,
        action: &Action,
    ) -> Vec<Slot> {
        let stamp = |slot: Slot, bytes: u32| script.stamp(thread, number, slot, bytes);
        match action {
            Action::Put(slot, bytes) => {
                self.slots.insert(*slot, stamp(*slot, *bytes));
                vec![*slot]
            }
            Action::InsertIfAbsent(slot, bytes) => {
                self.slots
                    .entry(*slot)
                    .or_insert_with(|| stamp(*slot, *bytes));
                vec![*slot]
            }
            Action::ReplaceIfPresent(slot, bytes) | Action::Update(slot, bytes) => {
                if let Some(present) = self.slots.get_mut(slot) {
                    *present = stamp(*slot, *bytes);
                }
                vec![*slot]
            }
            Action::Delete(slot) | Action::Take(slot) => {
                self.slots.remove(slot);
                vec![*slot]
            }
            Action::Batch(members) => {
                for (slot, bytes) in members {
                    match bytes {
                        Some(bytes) => self.slots.insert(*slot, stamp(*slot, *bytes)),
                        None => self.slots.remove(slot),
                    };
                }
                members.iter().map(|(slot, _)| *slot).collect()
            }
            Action::DeleteRange { keyspace, from, to } => {
                let slot = |key: u16| Slot {
                    keyspace: *keyspace,
                    key,
                };
                let touched: Vec<Slot> = (*from..*to).map(slot).collect();
                touched.iter().for_each(|slot| {
                    self.slots.remove(slot);
                });
                touched
            }
            Action::Count(counter) => {
                if let Some(count) = self.counters.get_mut(*counter) {
                    *count += 1;
                }
                Vec::new()
            }
            Action::Sync | Action::Flush | Action::Read(_) | Action::Scan(_) => Vec::new(),
        }
    }
}

/// A shared counter's value: so many of each thread.
pub(crate) fn counter_value(counts: &[u64]) -> Vec<u8> {
    counts
        .iter()
        .flat_map(|count| count.to_le_bytes())
        .collect()
}

/// What a shared counter's value says of each thread; none if it is no such value.
pub(crate) fn parse_counter(bytes: &[u8], threads: u16) -> Option<Vec<u64>> {
    let whole = bytes.len() == usize::from(threads) * 8;
    let counts = bytes
        .chunks_exact(8)
        .map(|c| Some(u64::from_le_bytes(c.try_into().ok()?)));
    counts.collect::<Option<Vec<u64>>>().filter(|_| whole)
}

/// Puts what a store holds, key by key, in terms of the model.
pub(crate) fn note(
    states: &mut [ThreadState],
    keyspace: u8,
    key: &[u8],
    bytes: &[u8],
) -> Result<(), String> {
    let name = KEYSPACES.get(usize::from(keyspace)).copied().unwrap_or("?");
    let shown = String::from_utf8_lossy(key).into_owned();
    let broken = || {
        format!(
            "keyspace {name}, key {shown}: a value of {} bytes that nobody wrote",
            bytes.len()
        )
    };
    match parse_key(key) {
        Some(KeyOf::Thread(thread, number)) => {
            let stamp = parse_value(bytes).ok_or_else(broken)?;
            let slot = Slot {
                keyspace,
                key: number,
            };
            if stamp.thread != thread || stamp.slot != slot {
                return Err(format!(
                    "keyspace {name}, key {shown}: it has the value of another key, {stamp:?}"
                ));
            }
            let state = states.get_mut(usize::from(thread)).ok_or_else(broken)?;
            state.slots.insert(slot, stamp);
        }
        Some(KeyOf::Counter(counter)) if counter < COUNTERS && keyspace == 0 => {
            let counts = parse_counter(bytes, states.len() as u16).ok_or_else(broken)?;
            for (state, count) in states.iter_mut().zip(counts) {
                if let Some(place) = state.counters.get_mut(counter) {
                    *place = count;
                }
            }
        }
        _ => {
            return Err(format!(
                "keyspace {name}, key {shown}: nobody wrote such a key"
            ))
        }
    }
    Ok(())
}
