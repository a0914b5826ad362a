//! Letting a write begin, and saying that it is done: the only places where a writer waits for
//! background work.

use std::time::Duration;

use heliox_format::ids::SeqNo;
use heliox_log::Stream;

use crate::canary::{is, Canary};
use crate::core::Core;
use crate::error::{Error, Result};
use crate::options::{Durability, WriteOptions};
use crate::space::Wish;

/// Longest that a writer waits for collection before it is told that the store is full.
const ROOM_WAIT_MAX: Duration = Duration::from_secs(30);
/// How long a writer waits for collection before the oldest snapshot gives way to it.
const SNAPSHOT_PATIENCE: Duration = Duration::from_secs(2);
/// How long a writer at the wall waits for whoever collects before it looks again, whoever wakes it.
const ROOM_TICK: Duration = Duration::from_millis(10);
/// The flusher is woken when this part of the tail's share waits to be written.
pub(crate) const FLUSH_DIVISOR: u64 = 8;
/// How long a writer sleeps for want of room in the tail before it looks again, whoever wakes it.
const TAIL_WAIT: Duration = Duration::from_millis(100);

/// Lets a write of so many bytes begin: waits for room in the tail and in the store.
pub(crate) fn admit(core: &Core, wish: Wish, bytes: usize) -> Result<()> {
    core.check_writable()?;
    if let Some(first) = core.log.failure() {
        return Err(Error::failed(&first.into()));
    }
    wait_for_tail(core)?;
    let environment = &core.settings.environment;
    let mut begun: Option<Duration> = None;
    loop {
        if let Some(delay) = has_room(core, wish, bytes) {
            if !delay.is_zero() {
                core.signals.gc.ring();
                core.space.pay_delay(environment, &core.counters, delay);
            }
            return Ok(());
        }
        core.check_open()?;
        let now = environment.elapsed();
        if core.space.is_stuck(now) && core.is_full_for_good() {
            return Err(core.full());
        }
        core.counters.room_waits.add(1);
        let waited = now - *begun.get_or_insert(now);
        if waited > ROOM_WAIT_MAX {
            return Err(core.full());
        }
        // Rather than writers, old snapshots go.
        if waited > SNAPSHOT_PATIENCE && core.snapshots.give_up_oldest(now.as_millis() as u64) {
            core.space.note_garbage();
        }
        core.signals.gc.ring();
        // A writer at the wall helps, or waits for whoever collects.
        if (core.make_room)(core)? {
            core.signals.room.ring();
        } else {
            environment.listen(&core.signals.room, ROOM_TICK);
        }
    }
}

/// The delay at which a write of so many bytes may go on now; none if there is no room for it.
pub(crate) fn has_room(core: &Core, wish: Wish, bytes: usize) -> Option<Duration> {
    let free = core.log.free_segments();
    if core.space.has_changed(free) {
        core.space.expect_checkpoint(core.index.memory_bytes());
    }
    let delay = core.space.ask(wish, bytes as u64, free);
    // What takes none of the reserves never waits.
    let fits = || wish == Wish::Delete && core.log.fits_open_segment(Stream::User, bytes);
    delay.or_else(|| fits().then_some(Duration::ZERO))
}

/// Waits while the tail holds more unwritten bytes than its share of memory.
fn wait_for_tail(core: &Core) -> Result<()> {
    let limit = core.settings.tail_limit_bytes;
    let unwritten = core.log.unwritten_bytes();
    if unwritten > limit / FLUSH_DIVISOR {
        core.signals.flush.ring();
    }
    if unwritten <= limit {
        return Ok(());
    }
    if !core.settings.background {
        return keep_tail_small(core);
    }
    // Whoever wakes and finds no room rings again: what took it was appended after the flusher had looked.
    while core.log.unwritten_bytes() > limit && core.log.failure().is_none() {
        core.check_open()?;
        core.signals.flush.ring();
        core.log.wait_for_room(limit, TAIL_WAIT);
    }
    Ok(())
}

/// Writes full chunks if the tail holds more than its share of memory, instead of waiting for who
/// writes them; long before, wakes who does.
pub(crate) fn keep_tail_small(core: &Core) -> Result<()> {
    let (limit, unwritten) = (core.settings.tail_limit_bytes, core.log.unwritten_bytes());
    if unwritten > limit / FLUSH_DIVISOR {
        core.signals.flush.ring();
    }
    if unwritten > limit {
        core.log.write_full_chunks()?;
    }
    Ok(())
}

/// Returns when the write of order `seq` is as durable as asked for.
pub(crate) fn acknowledge(core: &Core, seq: SeqNo, options: &WriteOptions) -> Result<()> {
    match options.durability.unwrap_or(core.settings.durability) {
        Durability::None => Ok(()),
        Durability::Sync if is(Canary::SyncSkipped) => Ok(()),
        Durability::Sync => {
            core.log.sync_to(seq)?;
            if core.log.ask_prepared() {
                core.signals.upkeep.ring();
            }
            Ok(())
        }
        Durability::Bounded { ms, bytes } => wait_for_bound(core, ms, bytes),
    }
}

/// Waits while an acknowledgement now would break the bound of an earlier one.
fn wait_for_bound(core: &Core, ms: u64, bytes: u64) -> Result<()> {
    let unsynced = core.log.unsynced_bytes();
    if unsynced * 2 > bytes {
        core.signals.flush.ring();
    }
    if core.owe_sync(ms) || unsynced > bytes {
        core.sync()?;
    }
    Ok(())
}
