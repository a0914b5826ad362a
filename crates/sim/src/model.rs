//! What the store must hold: the visible state, the state that is certain to survive a crash, and
//! every step between the two.
//!
//! Invariant: a crash leaves the certain state and a prefix of the steps since; a step is kept whole
//! or not at all. Threads: plain data.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::keys::{Key, Value};

/// A value, and when it expires, in milliseconds since 1970.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Held {
    /// The value.
    pub value: Value,
    /// When it ends.
    pub expiry_ms: Option<u64>,
}

impl Held {
    /// True unless it has expired.
    #[must_use]
    pub(crate) fn lives_at(&self, now_ms: u64) -> bool {
        self.expiry_ms.is_none_or(|at| at > now_ms)
    }
}

/// One keyspace.
pub(crate) type Map = BTreeMap<Key, Held>;
/// All keyspaces, by number.
pub(crate) type State = BTreeMap<u8, Map>;

/// One change of one key or keyspace.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    /// A keyspace is made.
    Create(u8),
    /// A keyspace goes with all its keys.
    Drop(u8),
    /// A key has this value from here on.
    Set(u8, Key, Option<Held>),
}

/// How a step was acknowledged under `Bounded`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BoundedAck {
    /// When, on the clock that counts the time between events.
    pub at: Duration,
    /// Its keys and values.
    pub bytes: u64,
}

/// What a crash keeps whole or not at all.
#[derive(Clone, Debug)]
pub(crate) struct StepTaken {
    changes: Vec<Change>,
    bounded: Option<BoundedAck>,
}

/// The model of a store.
#[derive(Clone, Default)]
pub(crate) struct Model {
    /// What is visible now.
    pub now: State,
    durable: State,
    since: Vec<StepTaken>,
    /// What was synced is kept apart all the same, since damage may take it back.
    keeps_history: bool,
    /// How many of the steps were there at each sync; ascending, only where history is kept.
    syncs: Vec<usize>,
    /// Changes of operations that failed: their keys may have either value until the next open.
    uncertain: BTreeSet<(u8, Key)>,
    uncertain_spaces: BTreeSet<u8>,
    /// Keys of writes that met damage, and were refused or not: never known again.
    unknown: BTreeSet<(u8, Key)>,
}

fn apply(state: &mut State, change: &Change) {
    match change {
        Change::Create(space) => {
            state.entry(*space).or_default();
        }
        Change::Drop(space) => {
            state.remove(space);
        }
        Change::Set(space, key, held) => {
            // A step that was not acknowledged may name a keyspace that never came to be.
            let Some(map) = state.get_mut(space) else {
                return;
            };
            match held {
                Some(held) => map.insert(Key::clone(key), *held),
                None => map.remove(key),
            };
        }
    }
}

/// What may be found of a key where something else is wanted: keyspace, key, wanted, found.
pub(crate) type Rule<'a> = &'a dyn Fn(u8, &Key, Option<Value>, Option<Found1>) -> bool;

impl Model {
    /// A model of a store that may be damaged: what was synced can still be told from what was not.
    #[must_use]
    pub(crate) fn with_history() -> Model {
        Model {
            keeps_history: true,
            ..Model::default()
        }
    }

    /// A step that was acknowledged.
    pub(crate) fn step(&mut self, changes: Vec<Change>, bounded: Option<BoundedAck>) {
        if changes.is_empty() {
            return;
        }
        for change in &changes {
            apply(&mut self.now, change);
        }
        self.since.push(StepTaken { changes, bounded });
    }

    /// A step that failed with the device: it may have happened or not.
    pub(crate) fn maybe(&mut self, changes: Vec<Change>) {
        for change in &changes {
            match change {
                Change::Create(space) | Change::Drop(space) => {
                    self.uncertain_spaces.insert(*space);
                }
                Change::Set(space, key, _) => {
                    self.uncertain.insert((*space, Key::clone(key)));
                }
            }
        }
        let bounded = None;
        self.since.push(StepTaken { changes, bounded });
    }

    /// A step that met damage: whether it happened will not show in what comes after it.
    pub(crate) fn forget(&mut self, changes: &[Change]) {
        for change in changes {
            match change {
                Change::Create(space) | Change::Drop(space) => {
                    self.uncertain_spaces.insert(*space);
                }
                Change::Set(space, key, _) => {
                    self.unknown.insert((*space, Key::clone(key)));
                }
            }
        }
    }

    /// True if nothing is known of the key until the next open, or ever.
    #[must_use]
    pub(crate) fn is_uncertain(&self, space: u8, key: &Key) -> bool {
        let is_in = |keys: &BTreeSet<(u8, Key)>| {
            !keys.is_empty() && keys.contains(&(space, Key::clone(key)))
        };
        self.uncertain_spaces.contains(&space) || is_in(&self.uncertain) || is_in(&self.unknown)
    }

    /// True if any value, or none, may be found of the key after a crash.
    #[must_use]
    pub(crate) fn is_unknown(&self, space: u8, key: &Key) -> bool {
        !self.unknown.is_empty() && self.unknown.contains(&(space, Key::clone(key)))
    }

    /// True if nothing at all failed since the last open.
    #[must_use]
    pub(crate) fn is_sure_of(&self, space: u8) -> bool {
        let is_certain = self.uncertain.is_empty() && self.unknown.is_empty();
        is_certain && !self.uncertain_spaces.contains(&space)
    }

    /// True unless the keyspace itself may or may not be there.
    #[must_use]
    pub(crate) fn is_sure_of_space(&self, space: u8) -> bool {
        !self.uncertain_spaces.contains(&space)
    }

    /// Compares all that the store shows with what is visible.
    ///
    /// # Errors
    /// The first keys that differ, in words.
    pub(crate) fn equals(&self, found: &Found, now_ms: u64, rule: Rule<'_>) -> Result<(), String> {
        let differ = differences(&self.now, found, now_ms, rule);
        if differ.is_empty() || !self.uncertain.is_empty() || !self.uncertain_spaces.is_empty() {
            return Ok(());
        }
        Err(format!(
            "{} keys are not as the model has them: {}",
            differ.len(),
            sample(&differ)
        ))
    }

    /// Everything so far survives any crash.
    pub(crate) fn sync(&mut self) {
        if self.keeps_history {
            let all = self.since.len();
            if self.syncs.last() != Some(&all) {
                self.syncs.push(all);
            }
            return;
        }
        self.fold();
    }

    /// Before which step damage of so many places may end history without a trace: each can hide
    /// one flush, the newest, and then the one before it.
    #[must_use]
    pub(crate) fn silent_from(&self, damages: u64) -> usize {
        let mut syncs = self.syncs.iter().rev();
        syncs.nth(damages as usize).copied().unwrap_or_default()
    }

    fn fold(&mut self) {
        self.syncs.clear();
        for step in std::mem::take(&mut self.since) {
            for change in &step.changes {
                apply(&mut self.durable, change);
            }
        }
    }

    /// The live value of a key.
    #[must_use]
    pub(crate) fn get(&self, space: u8, key: &Key, now_ms: u64) -> Option<Value> {
        let held = self.now.get(&space)?.get(key)?;
        held.lives_at(now_ms).then_some(held.value)
    }

    /// How many of the steps since the last sync `found` shows, keys compared by `rule`.
    ///
    /// # Errors
    /// In words, if it shows no prefix of them.
    pub(crate) fn prefix_of(
        &self,
        found: &Found,
        now_ms: u64,
        rule: Rule<'_>,
    ) -> Result<usize, String> {
        let mut state = self.durable.clone();
        let mut differ = differences(&state, found, now_ms, rule);
        // The longest fitting prefix: steps that changed nothing visible count as kept.
        let mut fitting = differ.is_empty().then_some(0);
        let mut best = (differ.len(), 0, sample(&differ));
        for (n, step) in self.since.iter().enumerate() {
            for change in &step.changes {
                apply(&mut state, change);
                let Change::Set(space, key, _) = change else {
                    differ = differences(&state, found, now_ms, rule);
                    continue;
                };
                let held = state.get(space).and_then(|m| m.get(key));
                let wanted = held.filter(|h| h.lives_at(now_ms)).map(|h| h.value);
                let has = found.get(space).and_then(|m| m.get(key)).copied();
                let place = (*space, Key::clone(key));
                // Without the keyspace nothing is wanted of its keys.
                if rule(*space, key, wanted, has) {
                    differ.remove(&place);
                } else {
                    differ.insert(place);
                }
            }
            if differ.is_empty() {
                fitting = Some(n + 1);
            }
            if differ.len() < best.0 {
                best = (differ.len(), n + 1, sample(&differ));
            }
        }
        fitting.ok_or_else(|| {
            format!(
                "the store shows no prefix of the {} steps since the last sync; nearest after step {}, {} keys differ: {}",
                self.since.len(),
                best.1,
                best.0,
                best.2
            )
        })
    }

    /// The keys that were written, or may have been, since the last sync.
    pub(crate) fn keys_since(&self) -> impl Iterator<Item = (u8, Key)> + '_ {
        let changes = self.since.iter().flat_map(|step| &step.changes);
        changes.filter_map(|change| match change {
            Change::Set(space, key, _) => Some((*space, Key::clone(key))),
            Change::Create(_) | Change::Drop(_) => None,
        })
    }

    /// The acknowledgements under `Bounded` that a crash broke which kept so many steps.
    pub(crate) fn lost_acks(&self, kept: usize) -> impl Iterator<Item = BoundedAck> + '_ {
        self.since.iter().skip(kept).filter_map(|s| s.bounded)
    }

    /// After a crash that kept the first `kept` steps since the last sync.
    pub(crate) fn crash(&mut self, kept: usize) {
        self.since.truncate(kept);
        self.fold();
        self.now = self.durable.clone();
        self.settle();
    }

    /// After damage: what was found counts from here on, until it expires as it was to.
    pub(crate) fn adopt(&mut self, found: &Found) {
        let writes = self.expiring();
        let held = |space: u8, key: &Key, has: Found1| {
            let mut writes = writes.get(&(space, key)).into_iter().flatten();
            let write = writes.rfind(|held| same(Some(held.value), Some(has)));
            Held {
                value: has.value,
                expiry_ms: write.and_then(|held| held.expiry_ms),
            }
        };
        let now: State = found
            .iter()
            .map(|(space, map)| {
                let held = map
                    .iter()
                    .map(|(k, v)| (Key::clone(k), held(*space, k, *v)));
                (*space, held.collect())
            })
            .collect();
        self.now = now.clone();
        self.durable = now;
        self.since.clear();
        self.syncs.clear();
        self.settle();
    }

    /// All values that expire, oldest first.
    fn expiring(&self) -> BTreeMap<(u8, &Key), Vec<Held>> {
        let mut writes: BTreeMap<(u8, &Key), Vec<Held>> = BTreeMap::new();
        let mut note = |space: u8, key, held: &Held| {
            if held.expiry_ms.is_some() {
                writes.entry((space, key)).or_default().push(*held);
            }
        };
        for (space, map) in &self.durable {
            map.iter().for_each(|(key, held)| note(*space, key, held));
        }
        for change in self.since.iter().flat_map(|step| &step.changes) {
            if let Change::Set(space, key, Some(held)) = change {
                note(*space, key, held);
            }
        }
        writes
    }

    fn settle(&mut self) {
        self.uncertain.clear();
        self.uncertain_spaces.clear();
    }
}

/// A value that a scan found, and whether it is one that its key can have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Found1 {
    /// What it says it is.
    pub value: Value,
}

/// All that a store holds.
pub(crate) type Found = BTreeMap<u8, BTreeMap<Key, Found1>>;

/// True if what was found is what was wanted; a short value holds only a part of its tag.
#[must_use]
pub(crate) fn same(wanted: Option<Value>, found: Option<Found1>) -> bool {
    match (wanted, found) {
        (None, None) => true,
        (Some(w), Some(f)) => w.len == f.value.len && w.stored_tag() == f.value.tag,
        _ => false,
    }
}

fn differences(state: &State, found: &Found, now_ms: u64, rule: Rule<'_>) -> BTreeSet<(u8, Key)> {
    let mut differ = BTreeSet::new();
    let (no_map, no_found) = (Map::new(), BTreeMap::new());
    for space in state.keys().chain(found.keys()) {
        if state.contains_key(space) != found.contains_key(space) {
            differ.insert((*space, Key::from(&b"(the keyspace itself)"[..])));
        }
        let map = state.get(space).unwrap_or(&no_map);
        let there = found.get(space).unwrap_or(&no_found);
        for key in map.keys().chain(there.keys()) {
            let held = map.get(key).filter(|h| h.lives_at(now_ms));
            if !rule(*space, key, held.map(|h| h.value), there.get(key).copied()) {
                differ.insert((*space, Key::clone(key)));
            }
        }
    }
    differ
}

fn sample(differ: &BTreeSet<(u8, Key)>) -> String {
    let first: Vec<String> = differ
        .iter()
        .take(4)
        .map(|(space, key)| format!("{space}/{}", show(key)))
        .collect();
    first.join(", ")
}

/// A key for people.
#[must_use]
pub(crate) fn show(key: &[u8]) -> String {
    let head: Vec<u8> = key.iter().copied().take(40).collect();
    format!("{:?}({})", head.escape_ascii().to_string(), key.len())
}
