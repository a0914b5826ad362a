//! Events: what happened in a store that somebody may want to know, kept for a while and given to
//! the listener, if there is one.
//!
//! Who emits only puts an event into two short lists, so it may be done under any lock. The listener
//! is called by a thread of its own (in a store without threads: at the end of a step), with no lock
//! held, one event at a time and in order. It may be slow, block or panic: events beyond
//! [`QUEUE_MAX`] that wait for it are dropped and their number is told, a panic is caught and the
//! next event is given all the same, and closing the store waits for it no longer than
//! [`CLOSE_WAIT`]. Memory is bounded by the two lists.
//!
//! Threads: any.

use std::collections::VecDeque;
use std::fmt;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Arc;
use std::time::Duration;

use heliox_sync::{Condvar, Mutex};

use crate::health::{Finding, HealthState, ScrubReport};

/// Events that are kept for who asks later.
const RECENT_MAX: usize = 64;
/// Events that wait for the listener.
const QUEUE_MAX: usize = 1024;
/// How long closing waits for the listener.
const CLOSE_WAIT: Duration = Duration::from_secs(1);

/// Something that happened in a store.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Event {
    /// Counts the events of an open store, from 1.
    pub number: u64,
    /// When, in milliseconds since 1970.
    pub at_ms: u64,
    /// What.
    pub kind: EventKind,
}

/// What happened.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum EventKind {
    /// The store's health is another one: it is full, has room again, failed, found damage, or is
    /// well again.
    HealthChanged {
        /// Before.
        from: HealthState,
        /// From now on.
        to: HealthState,
        /// Why, in words.
        why: String,
    },
    /// Damage was found, and what could be done about it was done.
    DamageFound(Finding),
    /// A pass of the scrub began.
    ScrubStarted,
    /// A pass of the scrub ended.
    ScrubFinished(ScrubReport),
    /// A checkpoint is durable.
    CheckpointWritten {
        /// Its bytes.
        bytes: u64,
    },
    /// Writers began to wait for collection.
    StallBegan,
    /// Writers no longer wait for collection.
    StallEnded {
        /// How long they did, in milliseconds.
        millis: u64,
    },
    /// Background work failed; the health says what follows from it.
    BackgroundError {
        /// Which work.
        work: &'static str,
        /// What went wrong, in words.
        error: String,
    },
    /// Keys that another key's overwrite had displaced have their own entries again.
    StrangersHealed {
        /// How many.
        count: u64,
    },
    /// The listener was too slow: so many events were dropped before this one.
    EventsDropped {
        /// How many.
        count: u64,
    },
}

impl EventKind {
    /// The kind's name, for JSON and logs.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            EventKind::HealthChanged { .. } => "health_changed",
            EventKind::DamageFound(_) => "damage_found",
            EventKind::ScrubStarted => "scrub_started",
            EventKind::ScrubFinished(_) => "scrub_finished",
            EventKind::CheckpointWritten { .. } => "checkpoint_written",
            EventKind::StallBegan => "stall_began",
            EventKind::StallEnded { .. } => "stall_ended",
            EventKind::BackgroundError { .. } => "background_error",
            EventKind::StrangersHealed { .. } => "strangers_healed",
            EventKind::EventsDropped { .. } => "events_dropped",
        }
    }
}

impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EventKind::HealthChanged { from, to, why } if why.is_empty() => {
                write!(f, "from {from} to {to}")
            }
            EventKind::HealthChanged { from, to, why } => write!(f, "from {from} to {to}: {why}"),
            EventKind::DamageFound(finding) => finding.fmt(f),
            EventKind::ScrubStarted => f.write_str("a scrub began"),
            EventKind::ScrubFinished(report) => write!(
                f,
                "a scrub verified {} bytes in {} segments and found {} damaged places",
                report.bytes, report.segments, report.finding_count
            ),
            EventKind::CheckpointWritten { bytes } => write!(f, "a checkpoint of {bytes} bytes"),
            EventKind::StallBegan => f.write_str("writers wait for garbage collection"),
            EventKind::StallEnded { millis } => {
                write!(f, "writers waited on and off for {millis} ms")
            }
            EventKind::BackgroundError { work, error } => write!(f, "{work}: {error}"),
            EventKind::StrangersHealed { count } => {
                write!(f, "{count} keys have their entries again")
            }
            EventKind::EventsDropped { count } => write!(f, "{count} events for a slow listener"),
        }
    }
}

/// Who is told of events.
pub(crate) type Listener = Arc<dyn Fn(&Event) + Send + Sync>;

#[derive(Default)]
struct Lists {
    last_number: u64,
    recent: VecDeque<Event>,
    waiting: VecDeque<Event>,
    dropped: u64,
    /// No more events will come.
    ended: bool,
    /// The listener's thread has ended.
    is_done: bool,
}

/// The events of one store.
pub(crate) struct Events {
    listener: Option<Listener>,
    lists: Mutex<Lists>,
    came: Condvar,
    done: Condvar,
}

impl Events {
    pub(crate) fn new(listener: Option<Listener>) -> Events {
        Events {
            listener,
            lists: Mutex::default(),
            came: Condvar::new(),
            done: Condvar::new(),
        }
    }

    pub(crate) fn has_listener(&self) -> bool {
        self.listener.is_some()
    }

    /// Notes what happened. May be called under any lock.
    pub(crate) fn emit(&self, at_ms: u64, kind: EventKind) {
        let mut lists = self.lists.lock();
        lists.last_number += 1;
        let number = lists.last_number;
        let event = Event {
            number,
            at_ms,
            kind,
        };
        if self.listener.is_some() && !lists.ended {
            if lists.waiting.len() >= QUEUE_MAX {
                lists.waiting.pop_front();
                lists.dropped += 1;
            }
            lists.waiting.push_back(event.clone());
            self.came.notify_one();
        }
        if lists.recent.len() >= RECENT_MAX {
            lists.recent.pop_front();
        }
        lists.recent.push_back(event);
    }

    /// The newest events, oldest first.
    pub(crate) fn recent(&self) -> Vec<Event> {
        self.lists.lock().recent.iter().cloned().collect()
    }

    /// Gives the listener everything that waits for it.
    pub(crate) fn deliver(&self) {
        let Some(listener) = &self.listener else {
            return;
        };
        while let Some(event) = self.next() {
            tell(listener, &event);
        }
    }

    fn next(&self) -> Option<Event> {
        let mut lists = self.lists.lock();
        let first = lists.waiting.front()?;
        let (number, at_ms) = (first.number, first.at_ms);
        let count = std::mem::take(&mut lists.dropped);
        if count > 0 {
            let kind = EventKind::EventsDropped { count };
            return Some(Event {
                number,
                at_ms,
                kind,
            });
        }
        lists.waiting.pop_front()
    }

    /// What the listener's thread does until [`Events::end`].
    pub(crate) fn listen(&self) {
        loop {
            self.deliver();
            let mut lists = self.lists.lock();
            if !lists.waiting.is_empty() {
                continue;
            }
            if lists.ended {
                lists.is_done = true;
                self.done.notify_all();
                return;
            }
            self.came.wait(&mut lists);
        }
    }

    /// No more events come: waits, not for long, until the listener's thread, if there is one, has
    /// given the last; one that is stuck is left alone.
    pub(crate) fn end(&self, has_thread: bool) {
        if !has_thread {
            self.deliver();
        }
        let mut lists = self.lists.lock();
        lists.ended = true;
        self.came.notify_all();
        if has_thread && !lists.is_done {
            self.done.wait_for(&mut lists, CLOSE_WAIT);
        }
    }
}

/// A listener that panics spoils nothing but its own work.
fn tell(listener: &Listener, event: &Event) {
    let _ = catch_unwind(AssertUnwindSafe(|| listener(event)));
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn bytes_of(event: &Event) -> u64 {
        match event.kind {
            EventKind::CheckpointWritten { bytes } => bytes,
            EventKind::EventsDropped { count } => 1_000_000 + count,
            _ => u64::MAX,
        }
    }

    fn checkpoint(bytes: u64) -> EventKind {
        EventKind::CheckpointWritten { bytes }
    }

    fn noting(heard: &Arc<Mutex<Vec<u64>>>) -> Listener {
        let heard = Arc::clone(heard);
        Arc::new(move |event| heard.lock().push(bytes_of(event)))
    }

    #[test]
    fn the_newest_are_kept_and_all_are_given_in_order() {
        let heard = Arc::default();
        let events = Events::new(Some(noting(&heard)));
        for n in 0..200 {
            events.emit(n, checkpoint(n));
        }
        let recent = events.recent();
        assert_eq!(recent.len(), RECENT_MAX);
        assert_eq!((recent[0].number, recent[63].number), (137, 200));
        events.deliver();
        assert_eq!(*heard.lock(), (0..200).collect::<Vec<_>>());
    }

    #[test]
    fn what_waits_for_a_slow_listener_is_bounded_and_the_loss_is_told() {
        let heard = Arc::default();
        let events = Events::new(Some(noting(&heard)));
        for n in 0..QUEUE_MAX as u64 + 7 {
            events.emit(n, checkpoint(n));
        }
        events.deliver();
        let heard = heard.lock();
        assert_eq!(heard.len(), QUEUE_MAX + 1);
        assert_eq!((heard[0], heard[1]), (1_000_007, 7));
    }

    #[test]
    fn a_listener_that_panics_hears_the_next_event() {
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&calls);
        let events = Events::new(Some(Arc::new(move |event| {
            counted.fetch_add(1, Ordering::SeqCst);
            assert!(bytes_of(event) > 0, "planted");
        })));
        (0..3).for_each(|n| events.emit(0, checkpoint(n)));
        events.deliver();
        assert_eq!(calls.load(Ordering::SeqCst), 3);
    }

    #[test]
    fn closing_hears_the_last_event_and_does_not_wait_for_one_that_is_stuck() {
        let heard = Arc::default();
        let events = Arc::new(Events::new(Some(noting(&heard))));
        let own = Arc::clone(&events);
        let thread = std::thread::spawn(move || own.listen());
        (0..50).for_each(|n| events.emit(0, checkpoint(n)));
        events.end(true);
        thread.join().unwrap();
        assert_eq!(heard.lock().len(), 50);

        let gate = Arc::new(Mutex::new(()));
        let shut = gate.lock();
        let held = Arc::clone(&gate);
        let stuck = Arc::new(Events::new(Some(Arc::new(move |_| drop(held.lock())))));
        let own = Arc::clone(&stuck);
        let thread = std::thread::spawn(move || own.listen());
        stuck.emit(0, checkpoint(1));
        stuck.end(true);
        drop(shut);
        thread.join().unwrap();
    }
}
