//! Making room: what the collector, and a writer at the wall, do where segments run short; and the
//! finding that there is none to make, by which writers are refused.
//!
//! Invariant: nobody is refused while anything is left that would free a segment: garbage, entries that
//! a range delete covers, tombstones that nobody needs. What dies while this looks, it may not see; the
//! look then does not count ([`Space::note_garbage`](crate::space::Space::note_garbage)).

use crate::core::Core;
use crate::error::{ErrorKind, Result};
use crate::gc;
use crate::sweep::{reap_tombstones, sweep_for_writer};

/// Does one bounded piece. True if room was made or will be.
pub(crate) fn make_room(core: &Core) -> Result<bool> {
    let Some(_one) = core.gc_lock.try_lock() else {
        return Ok(false);
    };
    let space = &core.space;
    space.begin_look(core.settings.environment.elapsed());
    space.expect_checkpoint(core.index.memory_bytes());
    space.expect_live(core.live_bytes());
    let held = core.pins.held();
    let made = match collect_or_sweep(core) {
        // No failure of the store: deletes may still make some.
        Err(error) if error.kind() == ErrorKind::Full => false,
        Err(error) => {
            space.end_look(false);
            return Err(error);
        }
        Ok(made) => made,
    };
    // Only what is found at the wall refuses writers there: before it, garbage is still to come. What a
    // backup holds comes back.
    let is_held = held > 0 || core.pins.held() > 0;
    space.end_look(!made && !is_held && is_at_wall(core));
    Ok(made)
}

fn is_at_wall(core: &Core) -> bool {
    core.log.free_segments() <= core.space.data_floor()
}

/// Sweeps are left to the upkeep where there is time.
fn collect_or_sweep(core: &Core) -> Result<bool> {
    if gc::step(core)? {
        return Ok(true);
    }
    if !is_at_wall(core) {
        return Ok(false);
    }
    Ok(sweep_for_writer(core)? || reap_tombstones(core)?)
}
