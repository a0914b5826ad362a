//! The only threads of a store. Each calls bounded steps; the steps know nothing of threads.
//!
//! - *flusher*: writes full chunks, and syncs within the bound of `bounded` durability.
//! - *collector*: garbage collection while free segments are below the goal.
//! - *upkeep*: checkpoints, sweeps, and the division of memory between index and cache.
//! - *watch*: the store's health, and the scrub at its pace. It goes on when the others have failed.
//! - *events*: calls the listener, where there is one.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Arc;
use std::time::Duration;

use heliox_log::LogError;
use heliox_sync::thread::{Builder, JoinHandle};

use crate::admit::FLUSH_DIVISOR;
use crate::checkpoint;
use crate::core::Core;
use crate::error::{Error, ErrorKind, Result};
use crate::events::EventKind;
use crate::gc;
use crate::large;
use crate::options::Durability;
use crate::room::make_room;
use crate::scrub;
use crate::sweep;
use crate::watch;

/// A checkpoint may cost this share of what is written: one part in so many.
const CHECKPOINT_COST_DIVISOR: u64 = 7;
/// And only this one, while the log since the last is short enough to be replayed in a few seconds.
const CHEAP_CHECKPOINT_COST_DIVISOR: u64 = 14;
const QUICK_REPLAY_BYTES: u64 = 1 << 30;
/// Log bytes between two checkpoints, at least.
const CHECKPOINT_BYTES_MIN: u64 = 64 << 20;
const FLUSH_TICK: Duration = Duration::from_millis(100);
const UPKEEP_TICK: Duration = Duration::from_millis(50);
const COLLECT_TICK: Duration = Duration::from_millis(100);
const WATCH_TICK: Duration = Duration::from_millis(100);

/// One kind of background work, for who drives it instead of the threads.
#[doc(hidden)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// What the flusher does when it is woken.
    Flush,
    /// Collection, whether it is due or not.
    Collect,
    /// What the upkeep thread does when it is woken.
    Upkeep,
    /// A sweep.
    Sweep,
    /// A checkpoint at the pace of one that nobody waits for.
    Checkpoint,
    /// Ends the segments that are appended to, full or not, so that collection has something to do
    /// in a small store.
    Seal,
    /// The scrub's next segment, checkpoint or heads, whether it is due or not.
    Scrub,
}

/// Does one bounded piece of one kind of work. True if there was something to do.
pub(crate) fn run_step(core: &Arc<Core>, step: Step) -> Result<bool> {
    match step {
        Step::Flush => flush_step(core).map(|()| true),
        Step::Collect => make_room(core),
        Step::Upkeep => upkeep_step(core).map(|_| true),
        Step::Sweep => sweep::step(core),
        Step::Checkpoint => checkpoint_step(core),
        Step::Seal => {
            core.log.seal_segments();
            Ok(true)
        }
        Step::Scrub => scrub::target_step(core),
    }
}

/// The running threads.
#[derive(Default)]
pub(crate) struct Workers {
    threads: Vec<JoinHandle<()>>,
    /// The listener of events has one of its own, which nobody joins: it may be stuck.
    has_listener: bool,
}

impl Workers {
    /// Starts the threads of a store.
    pub(crate) fn start(&mut self, core: &Arc<Core>) -> Result<()> {
        for (name, work) in [
            ("heliox-flush", flush_loop as fn(&Arc<Core>) -> Result<()>),
            ("heliox-gc", collect_loop),
            ("heliox-upkeep", upkeep_loop),
            ("heliox-watch", watch_loop),
        ] {
            let core = Arc::clone(core);
            let body = move || guard(&core, name, work);
            let thread = Builder::new().name(name.to_owned()).spawn(body);
            let thread = thread.map_err(|e| {
                Error::internal(format!("the thread {name} cannot be started: {e}"))
            })?;
            self.threads.push(thread);
        }
        if core.events.has_listener() {
            // It knows the events alone: one that is stuck keeps nothing else.
            let events = Arc::clone(&core.events);
            let body = move || events.listen();
            let thread = Builder::new().name("heliox-events".to_owned()).spawn(body);
            thread.map_err(|e| {
                Error::internal(format!("the thread heliox-events cannot be started: {e}"))
            })?;
            self.has_listener = true;
        }
        Ok(())
    }

    /// Ends the threads and waits for them.
    pub(crate) fn stop(&mut self, core: &Core) {
        core.signals.stop();
        for thread in self.threads.drain(..) {
            // A panic was caught and failed the store already.
            let _ = thread.join();
        }
    }

    /// Lets the listener hear the last events.
    pub(crate) fn end_events(&self, core: &Core) {
        core.events.end(self.has_listener);
    }
}

/// Runs a thread's loop; what goes wrong in it fails the store for good instead of passing unseen.
fn guard(core: &Arc<Core>, name: &'static str, work: fn(&Arc<Core>) -> Result<()>) {
    let ended = catch_unwind(AssertUnwindSafe(|| work(core)));
    match ended {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            core.fail(LogError::Failed(error.to_string()));
            note_error(core, name, &error);
        }
        Err(_) => {
            let first = core
                .log
                .fail(LogError::Internal("a background thread panicked"));
            note_error(core, name, &first.into());
        }
    }
    core.signals.watch.ring();
    core.signals.room.ring();
}

fn flush_loop(core: &Arc<Core>) -> Result<()> {
    while !core.signals.is_stopped() {
        let due = core.sync_due_in().unwrap_or(FLUSH_TICK);
        core.signals.flush.listen(due.min(FLUSH_TICK));
        flush_step(core)?;
    }
    Ok(())
}

/// Writes what is full, and makes durable what must not wait longer.
pub(crate) fn flush_step(core: &Core) -> Result<()> {
    if core.log.unwritten_bytes() > core.settings.tail_limit_bytes / FLUSH_DIVISOR {
        core.log.write_full_chunks()?;
    }
    let Some(due) = core.sync_due_in() else {
        return Ok(());
    };
    let is_much = match core.settings.durability {
        Durability::Bounded { bytes, .. } => core.log.unsynced_bytes() * 2 > bytes,
        Durability::Sync | Durability::None => false,
    };
    if due.is_zero() || is_much {
        core.sync()?;
    }
    Ok(())
}

fn collect_loop(core: &Arc<Core>) -> Result<()> {
    while !core.signals.is_stopped() {
        core.signals.gc.listen(COLLECT_TICK);
        while gc::is_due(core) && !core.signals.is_stopped() {
            let gained = make_room(core)?;
            core.signals.room.ring();
            if !gained {
                break;
            }
        }
        core.ahead.clear();
    }
    Ok(())
}

fn upkeep_loop(core: &Arc<Core>) -> Result<()> {
    let mut has_more = false;
    while !core.signals.is_stopped() {
        if !has_more {
            core.signals.upkeep.listen(UPKEEP_TICK);
        }
        has_more = upkeep_step(core)?;
    }
    Ok(())
}

/// Divides memory, prepares a segment and writes a checkpoint if they are due, lets dead large values go,
/// sweeps. True if the sweep found something: there may be more.
pub(crate) fn upkeep_step(core: &Arc<Core>) -> Result<bool> {
    core.divide_memory();
    let prepared = core.log.prepare_next();
    core.counters.metadata_bytes_written.add(prepared);
    core.space.expect_checkpoint(core.index.memory_bytes());
    if checkpoint_is_due(core) && checkpoint_step(core)? {
        // Segments that it covers may go.
        core.signals.gc.ring();
    }
    large::reap(core)?;
    sweep::step(core)
}

/// Writes a checkpoint that nobody waits for.
fn checkpoint_step(core: &Core) -> Result<bool> {
    match checkpoint::run(core, checkpoint::Pace::Gentle, false) {
        // No failure of the store: deletes and collection may still make room for it.
        Err(error) if error.kind() == ErrorKind::Full => Ok(false),
        written => written.map(|()| true),
    }
}

/// A checkpoint is due when the log has grown so much that its cost is a small share, or when emptied
/// segments or swept range deletes wait for one.
fn checkpoint_is_due(core: &Core) -> bool {
    if core.space.wants_checkpoint() || core.ranges.want_checkpoint(core.snapshots.oldest()) {
        return true;
    }
    let index = core.index.memory_bytes();
    let goal = (index * CHEAP_CHECKPOINT_COST_DIVISOR).min(QUICK_REPLAY_BYTES);
    let goal = goal
        .max(index * CHECKPOINT_COST_DIVISOR)
        .max(CHECKPOINT_BYTES_MIN);
    let capacity = core.root.capacity_bytes();
    core.log_bytes_since_checkpoint() >= goal.min(capacity / 4)
}

fn note_error(core: &Core, work: &'static str, error: &Error) {
    let error = error.to_string();
    core.events
        .emit(core.now_ms(), EventKind::BackgroundError { work, error });
}

fn watch_loop(core: &Arc<Core>) -> Result<()> {
    while !core.signals.is_stopped() {
        let due = scrub::due_in(core).unwrap_or(WATCH_TICK);
        core.signals.watch.listen(due.min(WATCH_TICK));
        watch_step(core);
    }
    Ok(())
}

/// Looks at the health, and goes on with the scrub if it is due. An error ends neither: what it
/// means for the store, the parts have said, and the scrub waits for the device to answer again.
pub(crate) fn watch_step(core: &Core) {
    watch::look(core);
    if let Err(error) = scrub::step_if_due(core) {
        note_error(core, "scrub", &error);
    }
}

/// Tells the listener what waits for it, where no thread does.
pub(crate) fn deliver(core: &Core) {
    if !core.settings.background {
        core.events.deliver();
    }
}
