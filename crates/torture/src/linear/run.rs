//! Real threads on a few keys: makes histories on a small store under which collection,
//! checkpoints and sweeps never rest.
//!
//! A history is a *window*: all threads start together, do a few operations each with the time of
//! call and return, and wait for each other. Between windows one thread sees all slots, so each
//! window starts from a state that is known, and a window that was checked need not be remembered.
//! Values are padded to many lengths by their number, and verified to the last byte.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use heliox::{Batch, Durability, ErrorKind, Keyspace, MergeOperator, Options, Step, Store};
use heliox_media::{Media, MemoryMedia, Random};

use super::checker::Span;
use super::ops::{mixed, Op, Slots, KEYS, SLOTS};
use crate::failure::{Failure, Result};
use crate::now_ns;
use crate::worker::delete_range;

/// Bytes of the store: the smallest.
const CAPACITY_BYTES: u64 = 66 << 20;

/// A pause between a snapshot and its reads, now and then.
const SNAPSHOT_PAUSE: Duration = Duration::from_micros(300);

/// A store and its two keyspaces.
#[derive(Clone)]
pub(crate) struct Subject {
    pub(crate) store: Store,
    keyspaces: [Keyspace; 2],
}

/// [`mixed`], as a merge operator.
struct Mix;

impl MergeOperator for Mix {
    fn name(&self) -> &str {
        "mix"
    }

    fn merge(&self, _: &[u8], base: Option<&[u8]>, operand: &[u8]) -> Option<Vec<u8>> {
        let operand = u64::from_le_bytes(operand.try_into().ok()?);
        let base = match base {
            Some(base) => Some(parse(base)?),
            None => None,
        };
        Some(padded(mixed(base, operand)))
    }
}

/// The bytes of a number: itself and a filling that depends on it, now and then of many blocks.
fn padded(number: u64) -> Vec<u8> {
    let mut random = Random::new(number);
    let fill = match random.below(64) {
        0 => random.below(20_000),
        1..=8 => random.below(4096),
        _ => random.below(64),
    };
    let mut bytes = number.to_le_bytes().to_vec();
    bytes.extend((0..fill).map(|_| random.next() as u8));
    bytes
}

/// The number of a value that is whole.
fn parse(bytes: &[u8]) -> Option<u64> {
    let number = u64::from_le_bytes(bytes.get(..8)?.try_into().ok()?);
    (padded(number) == bytes).then_some(number)
}

fn key(slot: usize) -> Vec<u8> {
    format!("key{}", slot % KEYS).into_bytes()
}

impl Subject {
    /// A store in memory.
    pub(crate) fn new() -> Result<Subject> {
        Subject::open(&Subject::options()?)
    }

    /// How the store is opened, on an empty device.
    pub(super) fn options() -> Result<Options> {
        let media: Arc<dyn Media> = Arc::new(MemoryMedia::new(CAPACITY_BYTES, 512)?);
        Ok(Options::new()
            .volumes(vec![media])
            .segment_bytes(4 << 20)
            .memory_budget_bytes(32 << 20)
            .merge_operator(Arc::new(Mix))
            .durability(Durability::None))
    }

    pub(super) fn open(options: &Options) -> Result<Subject> {
        let store = Store::open("", options).map_err(Failure::store("open"))?;
        let make = |name| {
            store
                .keyspace_or_create(name)
                .map_err(Failure::store("keyspace"))
        };
        let keyspaces = [make("a")?, make("b")?];
        Ok(Subject { store, keyspaces })
    }

    fn at(&self, slot: usize) -> &Keyspace {
        let [first, second] = &self.keyspaces;
        if slot < KEYS {
            first
        } else {
            second
        }
    }

    /// What all slots hold, while nobody writes.
    pub(crate) fn slots(&self) -> Result<Slots> {
        let mut slots = [None; SLOTS];
        for (slot, place) in slots.iter_mut().enumerate() {
            let found = self
                .at(slot)
                .get(key(slot))
                .map_err(Failure::store("get"))?;
            *place = number(found)?;
        }
        Ok(slots)
    }

    /// One window: so many operations of each thread, with their times.
    pub(crate) fn window(
        &self,
        seed: u64,
        threads: usize,
        operations: usize,
        singles: bool,
    ) -> Result<Vec<Span<Op>>> {
        let start = Barrier::new(threads);
        let lists = std::thread::scope(|scope| {
            let start = &start;
            let body = move |thread: usize| {
                let mut random =
                    Random::new(seed ^ (thread as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
                start.wait();
                let mut list = Vec::with_capacity(operations);
                for n in 0..operations {
                    let unique = random.next() << 16 | (thread << 10 | n) as u64;
                    self.operate(&mut random, unique, singles, &mut list)?;
                }
                Ok(list)
            };
            let threads: Vec<_> = (0..threads)
                .map(|thread| scope.spawn(move || body(thread)))
                .collect();
            let join = |thread: std::thread::ScopedJoinHandle<'_, Result<Vec<Span<Op>>>>| {
                let panicked = |_| Failure::Violation("a thread panicked".to_owned());
                thread.join().map_err(panicked).and_then(|list| list)
            };
            threads.into_iter().map(join).collect::<Result<Vec<_>>>()
        })?;
        Ok(lists.concat())
    }

    pub(super) fn operate(
        &self,
        random: &mut Random,
        unique: u64,
        singles: bool,
        list: &mut Vec<Span<Op>>,
    ) -> Result<()> {
        let slot = random.below(SLOTS as u64) as usize;
        if !singles && random.below(2) == 0 {
            return self.operate_on_many(random, unique, slot, list);
        }
        let (at, key, value) = (self.at(slot), key(slot), || padded(unique));
        let called = now_ns();
        let operation = match random.below(16) {
            0..=3 => at
                .get(&key)
                .map(|found| number(found).map(|n| Op::Get(slot, n))),
            4 => at.contains(&key).map(|found| Ok(Op::Contains(slot, found))),
            5..=7 => at.put(&key, value()).map(|()| Ok(Op::Put(slot, unique))),
            8 => at.delete(&key).map(|()| Ok(Op::Delete(slot))),
            9 => at
                .insert_if_absent(&key, value())
                .map(|done| Ok(Op::InsertIfAbsent(slot, unique, done))),
            10 => at
                .replace_if_present(&key, value())
                .map(|done| Ok(Op::ReplaceIfPresent(slot, unique, done))),
            11 => at
                .take(&key)
                .map(|found| number(found).map(|n| Op::Take(slot, n))),
            12 => at
                .merge(&key, unique.to_le_bytes())
                .map(|()| Ok(Op::Merge(slot, unique))),
            13 => return self.get_many(slot, list),
            _ => self.update(slot, unique),
        };
        let returned = now_ns();
        let operation = operation.map_err(Failure::store("an operation on one key"))??;
        list.push(Span {
            called,
            returned,
            operation,
        });
        Ok(())
    }

    fn update(&self, slot: usize, unique: u64) -> heliox::Result<Result<Op>> {
        let mut old = Ok(None);
        self.at(slot).update(key(slot), |found| {
            old = number(found.map(<[u8]>::to_vec));
            let before = old.as_ref().ok().copied().flatten();
            Some(padded(mixed(before, unique)))
        })?;
        Ok(old.map(|old| Op::Update(slot, unique, old)))
    }

    /// A multi-get promises nothing over its keys together: so many gets at the same time.
    fn get_many(&self, slot: usize, list: &mut Vec<Span<Op>>) -> Result<()> {
        let first = slot / KEYS * KEYS;
        let keys: Vec<Vec<u8>> = (first..first + KEYS).map(key).collect();
        let called = now_ns();
        let found = self
            .at(slot)
            .multi_get(&keys)
            .map_err(Failure::store("multi_get"))?;
        let returned = now_ns();
        for (n, found) in found.into_iter().enumerate() {
            let operation = Op::Get(first + n, number(found)?);
            list.push(Span {
                called,
                returned,
                operation,
            });
        }
        Ok(())
    }

    fn operate_on_many(
        &self,
        random: &mut Random,
        unique: u64,
        slot: usize,
        list: &mut Vec<Span<Op>>,
    ) -> Result<()> {
        let called = now_ns();
        let (operation, returned) = match random.below(8) {
            0..=2 => {
                let members = members(random, unique);
                let mut batch = Batch::new();
                for (slot, value) in &members {
                    match value {
                        Some(value) => batch.put(self.at(*slot), key(*slot), padded(*value)),
                        None => batch.delete(self.at(*slot), key(*slot)),
                    }
                }
                self.store.write(&batch).map_err(Failure::store("batch"))?;
                (Op::Batch(members), now_ns())
            }
            3 => {
                let first = slot / KEYS * KEYS;
                let to = (slot + 1 + random.below(2) as usize).min(first + KEYS);
                let end = format!("key{}", to - first).into_bytes();
                delete_range(self.at(slot), &key(slot), &end)
                    .map_err(Failure::store("delete_range"))?;
                (Op::DeleteRange(slot, to), now_ns())
            }
            seen => {
                let seen = match seen {
                    4 | 5 => self.see_snapshot(random),
                    _ => self.see_iteration(slot, random.below(2) == 0),
                };
                match seen {
                    // It gave way to a writer without room, and says nothing.
                    Err(Failure::Store(_, error)) if error.kind() == ErrorKind::SnapshotTooOld => {
                        return Ok(());
                    }
                    other => other?,
                }
            }
        };
        list.push(Span {
            called,
            returned,
            operation,
        });
        Ok(())
    }

    /// Several keys of both keyspaces through one snapshot, in any order. It is the taking of the
    /// snapshot that has a moment; the reads may come much later.
    fn see_snapshot(&self, random: &mut Random) -> Result<(Op, u64)> {
        let snapshot = self.store.snapshot().map_err(Failure::store("snapshot"))?;
        let returned = now_ns();
        if random.below(8) == 0 {
            // Others overwrite what it shows, and collection would like to take it away.
            for step in [Step::Seal, Step::Collect, Step::Collect] {
                std::thread::sleep(SNAPSHOT_PAUSE);
                let stepped = self.store.step_of(step);
                stepped.map_err(Failure::store("a step of background work"))?;
            }
        }
        let mut seen = Vec::new();
        for _ in 0..2 + random.below(5) {
            let slot = random.below(SLOTS as u64) as usize;
            let found = self
                .at(slot)
                .get_at(key(slot), &snapshot)
                .map_err(Failure::store("get_at"))?;
            seen.push((slot, number(found)?));
        }
        if random.below(2) == 0 {
            for first in [0, KEYS] {
                let items = self.at(first).iter().at(&snapshot).prefix("key").start();
                seen.extend(listed(
                    first,
                    items.map_err(Failure::store("iterate a snapshot"))?,
                )?);
            }
        }
        Ok((Op::See(seen), returned))
    }

    fn see_iteration(&self, slot: usize, reverse: bool) -> Result<(Op, u64)> {
        let first = slot / KEYS * KEYS;
        let bounds = self.at(slot).iter().prefix("key");
        let bounds = if reverse { bounds.reverse() } else { bounds };
        let items = bounds.start().map_err(Failure::store("iterate"))?;
        let returned = now_ns();
        Ok((Op::See(listed(first, items)?), returned))
    }

    /// Writes other keys among and beside the slots' and drives the background's steps, so that
    /// records move, and entries and segments come and go, all the time.
    pub(crate) fn disturb(&self, seed: u64, stop: &AtomicBool) -> Result<()> {
        let mut random = Random::new(seed);
        while !stop.load(Ordering::Relaxed) {
            for _ in 0..random.below(200) {
                let slot = random.below(SLOTS as u64) as usize;
                let other = format!(
                    "k{}{:05}",
                    ["a", "e", "f"][random.below(3) as usize % 3],
                    random.below(3000)
                );
                let len = random.below(3000) as usize;
                let done = self.at(slot).put(other, vec![random.next() as u8; len]);
                done.map_err(Failure::store("a put beside"))?;
            }
            let step = match random.below(8) {
                0 => Step::Checkpoint,
                1 | 2 => Step::Seal,
                3 => Step::Sweep,
                4 => Step::Flush,
                _ => Step::Collect,
            };
            self.store
                .step_of(step)
                .map_err(Failure::store("a step of background work"))?;
        }
        Ok(())
    }
}

/// Two to five slots, each once.
fn members(random: &mut Random, unique: u64) -> Vec<(usize, Option<u64>)> {
    let mut members: Vec<(usize, Option<u64>)> = Vec::new();
    for n in 0..2 + random.below(4) {
        let slot = random.below(SLOTS as u64) as usize;
        if members.iter().all(|(other, _)| *other != slot) {
            let value = unique ^ (n + 1) << 60;
            members.push((slot, (random.below(4) > 0).then_some(value)));
        }
    }
    members
}

/// What an iteration over the slots of one keyspace says of each of them.
fn listed(first: usize, items: heliox::Iter) -> Result<Vec<(usize, Option<u64>)>> {
    let mut seen: Vec<(usize, Option<u64>)> =
        (first..first + KEYS).map(|slot| (slot, None)).collect();
    for item in items {
        let (found, value) = item.map_err(Failure::store("iterate"))?;
        let place = seen.iter_mut().find(|(slot, _)| key(*slot) == found);
        match place {
            Some((_, place)) if place.is_none() => *place = number(Some(value))?,
            Some(_) => {
                return Err(Failure::Violation(format!(
                    "an iteration gave {found:?} twice"
                )))
            }
            None => {
                return Err(Failure::Violation(format!(
                    "an iteration gave {found:?}, which nobody wrote"
                )))
            }
        }
    }
    Ok(seen)
}

fn number(value: Option<Vec<u8>>) -> Result<Option<u64>> {
    let Some(value) = value else {
        return Ok(None);
    };
    match parse(&value) {
        Some(number) => Ok(Some(number)),
        None => Err(Failure::Violation(format!(
            "a value of {} bytes that nobody wrote",
            value.len()
        ))),
    }
}
