//! Linearizability: histories of real threads, and the search for an order that explains each.
//!
//! Histories of operations on single keys are checked key by key, which is enough for them; those
//! with batches, range deletes, snapshots and iterations as a whole, over all slots. The engine's
//! own order numbers play no part.

mod checker;
mod ops;
mod run;
#[cfg(all(test, feature = "shuttle"))]
mod schedules;

use std::sync::atomic::{AtomicBool, Ordering};

use heliox_media::Random;

use crate::failure::{Failure, Result};
use checker::{check, Span, Verdict};
use ops::{Op, Slot, Slots, Store, SLOTS};
use run::Subject;

/// Configurations that one search may try.
const CONFIGURATIONS_MAX: usize = 2_000_000;
/// Operations of each thread in a window, by its kind.
const OPERATIONS_OF_SINGLES: usize = 60;
const OPERATIONS_OF_ALL: usize = 16;
/// A store is left for a fresh one after so many windows.
const WINDOWS_PER_STORE: u64 = 400;

/// What to search.
#[derive(Clone, Debug)]
pub struct LinearPlan {
    /// Threads of a window, 1 to 32.
    pub threads: usize,
    /// Operations in all, about.
    pub operations: u64,
    /// Decides what the threads do; how they meet differs from run to run.
    pub seed: u64,
}

/// What was searched.
#[derive(Clone, Default, Debug)]
#[allow(missing_docs)] // the names say it
pub struct LinearReport {
    pub histories: u64,
    pub operations: u64,
    /// Pairs of operations of different threads that overlapped, per operation.
    pub overlaps: f64,
    pub undecided: u64,
    pub segments_collected: u64,
    pub checkpoints: u64,
    pub violations: Vec<String>,
}

impl LinearReport {
    /// As one line of JSON.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        serde_json::json!({
            "histories": self.histories,
            "operations": self.operations,
            "overlaps": self.overlaps,
            "undecided": self.undecided,
            "segments_collected": self.segments_collected,
            "checkpoints": self.checkpoints,
            "violations": self.violations,
        })
    }
}

/// Makes and checks histories; `progress` hears how many operations there were so far.
///
/// # Errors
/// An error of the store, or a wrong value. A history that nothing explains is in the report.
pub fn run(plan: &LinearPlan, progress: &mut dyn FnMut(u64)) -> Result<LinearReport> {
    let mut report = LinearReport::default();
    let mut overlaps = 0;
    let mut random = Random::new(plan.seed);
    while report.operations < plan.operations && report.violations.is_empty() {
        let subject = Subject::new()?;
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let disturber = scope.spawn(|| subject.disturb(plan.seed, &stop));
            let result = windows(
                plan,
                &subject,
                &mut random,
                &mut report,
                &mut overlaps,
                progress,
            );
            stop.store(true, Ordering::Relaxed);
            let disturbed = disturber.join();
            result?;
            disturbed.map_err(|_| Failure::Violation("the thread beside panicked".to_owned()))?
        })?;
        let stats = subject.store.stats();
        report.segments_collected += stats.gc_segments;
        report.checkpoints += stats.checkpoints;
    }
    report.overlaps = overlaps as f64 / report.operations.max(1) as f64;
    Ok(report)
}

fn windows(
    plan: &LinearPlan,
    subject: &Subject,
    random: &mut Random,
    report: &mut LinearReport,
    overlaps: &mut u64,
    progress: &mut dyn FnMut(u64),
) -> Result<()> {
    let mut slots = subject.slots()?;
    for window in 0..WINDOWS_PER_STORE {
        let singles = window % 2 == 0;
        let each = if singles {
            OPERATIONS_OF_SINGLES
        } else {
            OPERATIONS_OF_ALL
        };
        let seed = random.next();
        let mut history = subject.window(seed, plan.threads, each, singles)?;
        let after = subject.slots()?;
        report.operations += history.len() as u64;
        *overlaps += count_overlaps(&history);
        let last = history.iter().map(|span| span.returned).max().unwrap_or(0);
        history.extend(after.iter().enumerate().map(|(slot, found)| Span {
            called: last + 1,
            returned: last + 2,
            operation: Op::Get(slot, *found),
        }));
        report.histories += 1;
        match judge(&slots, &history, singles) {
            Judgement::Fine => {}
            Judgement::Undecided => report.undecided += 1,
            Judgement::Broken(words) => {
                report
                    .violations
                    .push(format!("seed {} window {window}: {words}", plan.seed));
                return Ok(());
            }
        }
        slots = after;
        progress(report.operations);
        if report.operations >= plan.operations {
            break;
        }
    }
    Ok(())
}

#[derive(PartialEq, Eq, Debug)]
enum Judgement {
    Fine,
    Undecided,
    Broken(String),
}

/// Judges one history, key by key if all its operations are on single keys.
fn judge(start: &Slots, history: &[Span<Op>], singles: bool) -> Judgement {
    if !singles {
        return word(check::<Store>(start, history, CONFIGURATIONS_MAX), history);
    }
    let mut worst = Judgement::Fine;
    for slot in 0..SLOTS {
        let own: Vec<Span<Op>> = history
            .iter()
            .filter(|s| s.operation.slot() == Some(slot))
            .cloned()
            .collect();
        let state = start.get(slot).copied().flatten();
        match word(check::<Slot>(&state, &own, CONFIGURATIONS_MAX), &own) {
            Judgement::Fine => {}
            Judgement::Undecided => worst = Judgement::Undecided,
            broken @ Judgement::Broken(_) => return broken,
        }
    }
    worst
}

/// A verdict, in words: what could be explained, and what was open when nothing could follow.
fn word<S>(verdict: Verdict<S>, history: &[Span<Op>]) -> Judgement {
    let longest = match verdict {
        Verdict::Linearizable(_) => return Judgement::Fine,
        Verdict::Undecided => return Judgement::Undecided,
        Verdict::Broken(longest) => longest,
    };
    let first = history.iter().map(|span| span.called).min().unwrap_or(0);
    let show = |span: &Span<Op>| {
        format!(
            "  {:>9} to {:>9}: {:?}",
            span.called - first,
            span.returned - first,
            span.operation
        )
    };
    let explained = longest
        .iter()
        .filter_map(|index| history.get(*index))
        .map(&show);
    let mut open: Vec<usize> = (0..history.len())
        .filter(|index| !longest.contains(index))
        .collect();
    open.sort_by_key(|index| history.get(*index).map(|span| span.called));
    let open = open
        .iter()
        .take(12)
        .filter_map(|index| history.get(*index))
        .map(&show);
    let (explained, open): (Vec<_>, Vec<_>) = (explained.collect(), open.collect());
    let tail = explained.len().saturating_sub(30);
    Judgement::Broken(format!(
        "no order explains this history (times in ns).\n explained, in order, the last of {}:\n{}\n open, the first of {}:\n{}",
        explained.len(),
        explained.get(tail..).unwrap_or_default().join("\n"),
        history.len() - explained.len(),
        open.join("\n")
    ))
}

fn count_overlaps(history: &[Span<Op>]) -> u64 {
    let mut by_call: Vec<(u64, u64)> = history
        .iter()
        .map(|span| (span.called, span.returned))
        .collect();
    by_call.sort_unstable();
    let overlapping = |(at, (_, returned)): (usize, &(u64, u64))| {
        let later = by_call.iter().skip(at + 1);
        later.take_while(|(called, _)| called <= returned).count() as u64
    };
    by_call.iter().enumerate().map(overlapping).sum()
}

#[cfg(test)]
mod tests;
