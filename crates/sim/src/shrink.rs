//! Makes a failing script short: leaves out ever smaller parts as long as it still breaks a promise.
//!
//! Any broken promise counts, not only the first one found: a short script tells more than the same
//! words. Threads: the caller's, and one a run.

use std::mem::{discriminant, Discriminant};
use std::time::{Duration, Instant};

use crate::run::{replay, Report};
use crate::script::{Event, Setup};

/// A script that fails, and how.
pub struct Shrunk {
    /// What is left of it.
    pub events: Vec<Event>,
    /// How it fails.
    pub report: Report,
}

/// Shrinks a failing script for at most so long.
#[must_use]
pub fn shrink(setup: &Setup, events: &[Event], report: &Report, most: Duration) -> Shrunk {
    let begun = Instant::now();
    let mut best = Shrunk {
        events: events.to_vec(),
        report: report.clone(),
    };
    // Nothing after the event that showed it matters, unless the end did.
    let head = best.events.get(..report.events + 1).map(<[Event]>::to_vec);
    try_script(setup, &mut best, head.unwrap_or_default());
    leave_kinds_out(setup, &mut best);
    let mut part = best.events.len().div_ceil(2).max(1);
    loop {
        let before = best.events.len();
        let mut from = 0;
        while from < best.events.len() && begun.elapsed() < most {
            let to = (from + part).min(best.events.len());
            let mut shorter = best.events.clone();
            shorter.drain(from..to);
            if !try_script(setup, &mut best, shorter) {
                from = to;
            }
        }
        let is_done = part == 1 && best.events.len() == before;
        if is_done || begun.elapsed() >= most {
            return best;
        }
        part = part.div_ceil(2).max(1);
    }
}

/// Leaves out all events of a kind at once, kind by kind.
fn leave_kinds_out(setup: &Setup, best: &mut Shrunk) {
    let mut kinds: Vec<Discriminant<Event>> = Vec::new();
    for event in &best.events {
        let kind = discriminant(event);
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    for kind in kinds {
        let events = best.events.iter().copied();
        let without = events.filter(|e| discriminant(e) != kind).collect();
        try_script(setup, best, without);
    }
}

fn try_script(setup: &Setup, best: &mut Shrunk, events: Vec<Event>) -> bool {
    if events.is_empty() || events.len() >= best.events.len() {
        return false;
    }
    let report = replay(setup, &events);
    if report.violation.is_none() {
        return false;
    }
    *best = Shrunk { events, report };
    true
}
