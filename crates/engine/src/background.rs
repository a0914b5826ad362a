//! The only threads of a store. Each calls bounded steps; the steps know nothing of threads.
//!
//! - *flusher*: writes full chunks, and syncs within the bound of `bounded` durability.
//! - *collector*: garbage collection while free segments are below the goal.
//! - *upkeep*: checkpoints, sweeps, and the division of memory between index and cache.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use heliox_log::LogError;

use crate::checkpoint;
use crate::core::Core;
use crate::error::{Error, ErrorKind, Result};
use crate::gc;
use crate::options::Durability;
use crate::sweep;
use crate::write::FLUSH_DIVISOR;

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
}

/// Does one bounded piece of one kind of work. True if there was something to do.
pub(crate) fn run_step(core: &Arc<Core>, step: Step) -> Result<bool> {
    match step {
        Step::Flush => flush_step(core).map(|()| true),
        Step::Collect => collect_step(core),
        Step::Upkeep => upkeep_step(core).map(|()| true),
        Step::Sweep => sweep::step(core),
        Step::Checkpoint => checkpoint_step(core),
        Step::Seal => {
            core.log.seal_segments();
            Ok(true)
        }
    }
}

/// The running threads.
#[derive(Default)]
pub(crate) struct Workers(Vec<JoinHandle<()>>);

impl Workers {
    /// Starts the threads of a store.
    pub(crate) fn start(core: &Arc<Core>) -> Result<Workers> {
        let mut workers = Workers::default();
        for (name, work) in [
            ("heliox-flush", flush_loop as fn(&Arc<Core>) -> Result<()>),
            ("heliox-gc", collect_loop),
            ("heliox-upkeep", upkeep_loop),
        ] {
            let core = Arc::clone(core);
            let body = move || guard(&core, work);
            let thread = Builder::new().name(name.to_owned()).spawn(body);
            let thread = thread.map_err(|e| {
                Error::internal(format!("the thread {name} cannot be started: {e}"))
            })?;
            workers.0.push(thread);
        }
        Ok(workers)
    }

    /// Ends the threads and waits for them.
    pub(crate) fn stop(&mut self, core: &Core) {
        core.signals.stop();
        for thread in self.0.drain(..) {
            // A panic was caught and failed the store already.
            let _ = thread.join();
        }
    }
}

/// Runs a thread's loop; what goes wrong in it fails the store for good instead of passing unseen.
fn guard(core: &Arc<Core>, work: fn(&Arc<Core>) -> Result<()>) {
    let ended = catch_unwind(AssertUnwindSafe(|| work(core)));
    match ended {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            core.log.fail(LogError::Failed(error.to_string()));
        }
        Err(_) => {
            core.log
                .fail(LogError::Internal("a background thread panicked"));
        }
    }
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
            let gained = collect_step(core)?;
            core.signals.room.ring();
            if !gained {
                break;
            }
        }
        core.ahead.clear();
    }
    Ok(())
}

/// Does one bounded piece of collection.
pub(crate) fn collect_step(core: &Core) -> Result<bool> {
    unless_full(core, gc::step(core))
}

/// A lack of room is no failure of the store: deletes and collection may still make some.
fn unless_full(core: &Core, done: Result<bool>) -> Result<bool> {
    match done {
        Err(error) if error.kind() == ErrorKind::Full => {
            core.space.set_stuck(true);
            Ok(false)
        }
        other => other,
    }
}

fn upkeep_loop(core: &Arc<Core>) -> Result<()> {
    while !core.signals.is_stopped() {
        core.signals.upkeep.listen(UPKEEP_TICK);
        upkeep_step(core)?;
    }
    Ok(())
}

/// Divides memory, writes a checkpoint if one is due, sweeps.
pub(crate) fn upkeep_step(core: &Arc<Core>) -> Result<()> {
    core.divide_memory();
    core.space.expect_checkpoint(core.index.memory_bytes());
    if checkpoint_is_due(core) {
        checkpoint_step(core)?;
    }
    sweep::step(core)?;
    Ok(())
}

/// Writes a checkpoint that nobody waits for.
fn checkpoint_step(core: &Core) -> Result<bool> {
    let written = checkpoint::run(core, checkpoint::Pace::Gentle, false);
    unless_full(core, written.map(|()| true))
}

/// A checkpoint is due when the log has grown so much that its cost is a small share, or when swept
/// range deletes wait for one.
fn checkpoint_is_due(core: &Core) -> bool {
    if core.ranges.want_checkpoint(core.snapshots.oldest()) {
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
