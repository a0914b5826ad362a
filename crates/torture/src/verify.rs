//! The rules that a store keeps over a crash, checked from what each thread did.
//!
//! The operations of a thread are known in advance (`script`); a crash may cut them off at one point
//! per thread. So what was found must be, for each thread, the state after `n` of its operations:
//! a prefix, every operation and batch whole. `n` may not be less than what was promised durable,
//! nor more than what was begun. Across threads, no write that was issued after another was
//! acknowledged is there without it. Where several `n` explain what was found, each rule takes the
//! one that is kindest, so what is reported is wrong for certain. Plain data, no threads.

use std::collections::BTreeSet;

use crate::script::{Action, Script, Slot};
use crate::state::ThreadState;

/// One acknowledged operation. Times are of one clock; `events_after` is what a recorded
/// device had seen when it returned, or zero.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Done {
    pub(crate) issued_ns: u64,
    pub(crate) acknowledged_ns: u64,
    pub(crate) events_after: u64,
}

/// What the threads did in one life of a store.
#[derive(Clone, Debug)]
pub(crate) struct Life {
    pub(crate) script: Script,
    /// What the store held when the threads began, which is durable.
    pub(crate) start: Vec<ThreadState>,
    /// Of each thread, the acknowledged operations from number 0 on.
    pub(crate) done: Vec<Vec<Done>>,
}

/// Between which numbers each thread's operations may be cut off.
#[derive(Clone, Debug)]
pub(crate) struct Bounds {
    /// So many must be there.
    pub(crate) least: Vec<u64>,
    /// So many may be there.
    pub(crate) most: Vec<u64>,
}

/// What a crash left.
#[derive(Clone, Default, Debug)]
pub(crate) struct Outcome {
    /// Acknowledged operations that are lost, as they may be.
    pub(crate) lost: u64,
    /// Their bytes.
    pub(crate) lost_bytes: u64,
    /// When the oldest of them was acknowledged.
    pub(crate) oldest_lost_ns: Option<u64>,
    /// Broken promises, in words.
    pub(crate) violations: Vec<String>,
}

impl Life {
    /// The bounds when every acknowledged operation that `is_required` must be there, and all that
    /// was acknowledged before the youngest that `is_barrier` was issued.
    pub(crate) fn bounds(
        &self,
        is_barrier: impl Fn(&Action) -> bool,
        is_required: impl Fn(&Done) -> bool,
    ) -> Bounds {
        let mut barrier_ns = 0;
        for (thread, done) in self.done.iter().enumerate() {
            for (number, op) in done.iter().enumerate() {
                if is_barrier(&self.script.action(thread as u16, number as u64)) {
                    barrier_ns = barrier_ns.max(op.issued_ns);
                }
            }
        }
        let required = |op: &Done| op.acknowledged_ns < barrier_ns || is_required(op);
        let least = |done: &Vec<Done>| {
            done.iter()
                .rposition(required)
                .map_or(0, |at| at as u64 + 1)
        };
        Bounds {
            least: self.done.iter().map(least).collect(),
            most: self.done.iter().map(|done| done.len() as u64 + 1).collect(),
        }
    }

    /// This life as it was when a recorded device had seen so many events.
    pub(crate) fn until(&self, event: u64) -> Life {
        let known = |done: &Vec<Done>| {
            done.iter()
                .take_while(|op| op.events_after <= event)
                .copied()
                .collect()
        };
        Life {
            script: self.script,
            start: self.start.clone(),
            done: self.done.iter().map(known).collect(),
        }
    }

    /// Checks what was found against the rules.
    pub(crate) fn verify(&self, found: &[ThreadState], bounds: &Bounds) -> Outcome {
        let mut outcome = Outcome::default();
        let mut cuts = Vec::new();
        for (thread, found) in found.iter().enumerate() {
            let (least, most) = (at(&bounds.least, thread), at(&bounds.most, thread));
            match self.cuts_of(thread, found, most) {
                Ok((_, longest)) if longest < least => outcome.violations.push(format!(
                    "thread {thread}: {longest} operations are there, but {least} were promised; the first missing is {:?}, {:?}",
                    self.script.action(thread as u16, longest),
                    self.done.get(thread).and_then(|d| d.get(longest as usize)),
                )),
                Ok(cut) => cuts.push((thread, cut)),
                Err(words) => outcome.violations.push(words),
            }
        }
        self.account_losses(&cuts, &mut outcome);
        self.check_order(&cuts, &mut outcome);
        outcome
    }

    /// The fewest and the most operations of a thread that explain what was found.
    fn cuts_of(&self, thread: usize, found: &ThreadState, most: u64) -> Result<(u64, u64), String> {
        let mut state = self.start.get(thread).cloned().unwrap_or_default();
        let slots = state.slots.keys().chain(found.slots.keys());
        let mut differing: BTreeSet<Slot> = slots
            .filter(|slot| state.slots.get(slot) != found.slots.get(slot))
            .copied()
            .collect();
        let mut cuts: Option<(u64, u64)> = None;
        let mut nearest = (usize::MAX, 0, String::new());
        for number in 0..=most {
            if differing.is_empty() && state.counters == found.counters {
                cuts = Some((cuts.map_or(number, |(first, _)| first), number));
            }
            if cuts.is_none() && differing.len() < nearest.0 {
                nearest = (
                    differing.len(),
                    number,
                    self.difference(&state, found, &differing),
                );
            }
            if number == most {
                break;
            }
            let action = self.script.action(thread as u16, number);
            for slot in state.apply(&self.script, thread as u16, number, &action) {
                if state.slots.get(&slot) == found.slots.get(&slot) {
                    differing.remove(&slot);
                } else {
                    differing.insert(slot);
                }
            }
        }
        let (_, number, difference) = nearest;
        cuts.ok_or_else(|| {
            format!("thread {thread}: what was found is no prefix of its operations (0 to {most}); nearest to the first {number}: {difference}")
        })
    }

    fn difference(
        &self,
        state: &ThreadState,
        found: &ThreadState,
        differing: &BTreeSet<Slot>,
    ) -> String {
        let show = |slot: &Slot| {
            format!(
                "{slot:?} expected {:?} found {:?}",
                state.slots.get(slot),
                found.slots.get(slot)
            )
        };
        let mut words: Vec<String> = differing.iter().take(3).map(show).collect();
        if differing.len() > 3 {
            words.push(format!("{} slots in all", differing.len()));
        }
        if state.counters != found.counters {
            words.push(format!(
                "counters expected {:?} found {:?}",
                state.counters, found.counters
            ));
        }
        words.join("; ")
    }

    fn account_losses(&self, cuts: &[(usize, (u64, u64))], outcome: &mut Outcome) {
        for (thread, (_, longest)) in cuts {
            let done = self.done.get(*thread).map_or(&[][..], Vec::as_slice);
            let mut state = self.start.get(*thread).cloned().unwrap_or_default();
            for (number, op) in done.iter().enumerate() {
                let number = number as u64;
                let action = self.script.action(*thread as u16, number);
                let mut touched = state.apply(&self.script, *thread as u16, number, &action);
                if number < *longest {
                    continue;
                }
                outcome.lost += 1;
                let oldest = outcome.oldest_lost_ns.unwrap_or(u64::MAX);
                outcome.oldest_lost_ns = Some(oldest.min(op.acknowledged_ns));
                // Only what was written: a condition may not have held.
                touched.sort_unstable();
                touched.dedup();
                let stamps = touched.iter().filter_map(|slot| state.slots.get(slot));
                let written =
                    stamps.filter(|stamp| (stamp.life, stamp.number) == (self.script.life, number));
                outcome.lost_bytes += written.map(|stamp| u64::from(stamp.bytes)).sum::<u64>();
            }
        }
    }

    /// No write that was issued after another was acknowledged is there without it.
    fn check_order(&self, cuts: &[(usize, (u64, u64))], outcome: &mut Outcome) {
        let done = |thread: usize, number: u64| self.done.get(thread)?.get(number as usize);
        let missing = cuts.iter().filter_map(|(thread, (_, longest))| {
            Some((done(*thread, *longest)?.acknowledged_ns, *thread, *longest))
        });
        let Some((missing_ns, thread, number)) = missing.min() else {
            return;
        };
        for (other, (shortest, _)) in cuts {
            let Some(last) = shortest.checked_sub(1) else {
                continue;
            };
            // One that was not acknowledged was issued after the one before it was.
            let issued_ns = match (done(*other, last), last.checked_sub(1)) {
                (Some(op), _) => op.issued_ns,
                (None, Some(before)) => done(*other, before).map_or(0, |op| op.acknowledged_ns),
                (None, None) => 0,
            };
            if issued_ns > missing_ns {
                outcome.violations.push(format!(
                    "operation {last} of thread {other} is there, issued {} ns after operation {number} of thread {thread} was acknowledged, which is missing",
                    issued_ns - missing_ns
                ));
            }
        }
    }
}

fn at(numbers: &[u64], thread: usize) -> u64 {
    numbers.get(thread).copied().unwrap_or(0)
}
