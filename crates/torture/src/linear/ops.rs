//! The sequential store that histories are compared with, and the operations on it: a few slots,
//! each a key of one of two keyspaces, each with a number or none. Plain data.

use super::checker::Model;

/// Keys of each keyspace.
pub(crate) const KEYS: usize = 4;
/// Slots of all keyspaces: slot `i` is key `i % KEYS` of keyspace `i / KEYS`.
pub(crate) const SLOTS: usize = 2 * KEYS;

/// What all slots hold.
pub(crate) type Slots = [Option<u64>; SLOTS];

/// One operation with its answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Op {
    Get(usize, Option<u64>),
    Contains(usize, bool),
    Put(usize, u64),
    Delete(usize),
    InsertIfAbsent(usize, u64, bool),
    ReplaceIfPresent(usize, u64, bool),
    Take(usize, Option<u64>),
    /// The value becomes [`mixed`] with this number; what was there before.
    Update(usize, u64, Option<u64>),
    /// As an update that does not tell what was there.
    Merge(usize, u64),
    Batch(Vec<(usize, Option<u64>)>),
    /// Slots `from..to`, which are of one keyspace.
    DeleteRange(usize, usize),
    /// What a snapshot or an iteration shows of these slots.
    See(Vec<(usize, Option<u64>)>),
}

/// What a read-modify-write makes of a value and its operand: no two orders give the same.
pub(crate) fn mixed(old: Option<u64>, operand: u64) -> u64 {
    let old = old.map_or(0x5851_f42d_4c95_7f2d, |old| old ^ 0x1405_7b7e_f767_814f);
    (old.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ operand).rotate_left(29)
}

impl Op {
    /// The one slot it is about; none if it is about several.
    pub(crate) fn slot(&self) -> Option<usize> {
        match self {
            Op::Get(slot, _)
            | Op::Contains(slot, _)
            | Op::Put(slot, _)
            | Op::Delete(slot)
            | Op::InsertIfAbsent(slot, ..)
            | Op::ReplaceIfPresent(slot, ..)
            | Op::Take(slot, _)
            | Op::Update(slot, ..)
            | Op::Merge(slot, _) => Some(*slot),
            Op::Batch(_) | Op::DeleteRange(..) | Op::See(_) => None,
        }
    }
}

/// All slots together.
pub(crate) struct Store;

impl Model for Store {
    type State = Slots;
    type Operation = Op;

    fn step(state: &Slots, operation: &Op) -> Option<Slots> {
        let mut next = *state;
        if let Some(slot) = operation.slot() {
            *next.get_mut(slot)? = Slot::step(state.get(slot)?, operation)?;
            return Some(next);
        }
        match operation {
            Op::Batch(members) => {
                for (slot, value) in members {
                    *next.get_mut(*slot)? = *value;
                }
            }
            Op::DeleteRange(from, to) => next.get_mut(*from..*to)?.fill(None),
            Op::See(seen) => {
                let all = seen
                    .iter()
                    .all(|(slot, value)| state.get(*slot) == Some(value));
                return all.then_some(next);
            }
            _ => return None,
        }
        Some(next)
    }
}

/// One slot alone: histories of operations on single keys can be checked key by key.
pub(crate) struct Slot;

impl Model for Slot {
    type State = Option<u64>;
    type Operation = Op;

    fn step(state: &Option<u64>, operation: &Op) -> Option<Option<u64>> {
        let old = *state;
        match operation {
            Op::Get(_, found) => (*found == old).then_some(old),
            Op::Contains(_, found) => (*found == old.is_some()).then_some(old),
            Op::Put(_, value) => Some(Some(*value)),
            Op::Delete(_) => Some(None),
            Op::InsertIfAbsent(_, value, done) => {
                (*done == old.is_none()).then_some(if *done { Some(*value) } else { old })
            }
            Op::ReplaceIfPresent(_, value, done) => {
                (*done == old.is_some()).then_some(if *done { Some(*value) } else { old })
            }
            Op::Take(_, found) => (*found == old).then_some(None),
            Op::Update(_, operand, found) => (*found == old).then_some(Some(mixed(old, *operand))),
            Op::Merge(_, operand) => Some(Some(mixed(old, *operand))),
            Op::Batch(_) | Op::DeleteRange(..) | Op::See(_) => None,
        }
    }
}
