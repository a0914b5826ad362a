//! Giving the segment that comes next its blocks, where small writes are made durable one by one.
//!
//! In a sparse file the first write of a block has the file system find a place for it, and a sync waits
//! until that is in its journal: twice the time of a sync of blocks that were written before. So where
//! writers wait for such syncs, the next segment is written with zeros ahead of its use, once.
//!
//! Invariant: the segment is in nobody's hands meanwhile: neither free nor open. That its content is lost
//! is nothing new: what is free may be discarded at any time.

use heliox_media::Media;
use heliox_sync::atomic::Ordering;

use crate::log::Log;

/// A sync that writes no more than this is a small one.
const SMALL_SYNC_BYTES: u64 = 64 << 10;
/// Where no more segments are free, none is taken away even for a moment.
const FREE_SEGMENTS_MIN: usize = 16;

impl Log {
    /// To be asked by who has waited for a sync: true if syncs are small and the segment that comes next may
    /// have no blocks yet. Then somebody should call [`Log::prepare_next`]; nobody else is told so.
    #[must_use]
    pub fn ask_prepared(&self) -> bool {
        let is_small = self.last_sync_bytes.load(Ordering::Relaxed) <= SMALL_SYNC_BYTES;
        if !is_small || self.prepare_due.load(Ordering::Relaxed) {
            return false;
        }
        let state = self.state.lock();
        let next = state.table.next();
        let is_due = next != state.prepared && state.table.free_count() > FREE_SEGMENTS_MIN;
        if is_due {
            self.prepare_due.store(true, Ordering::Relaxed);
        }
        is_due
    }

    /// Prepares the segment that comes next, if that was asked for and there are segments to spare. Gives
    /// the bytes that were written for it.
    pub fn prepare_next(&self) -> u64 {
        if !self.prepare_due.swap(false, Ordering::Relaxed) {
            return 0;
        }
        let taken = {
            let mut state = self.state.lock();
            let is_ample = state.table.free_count() > FREE_SEGMENTS_MIN;
            let taken = is_ample.then(|| state.table.take_next()).flatten();
            self.publish_free(&state);
            taken
        };
        let Some(id) = taken else {
            return 0;
        };
        let place = self.geometry.start(id);
        // A hint: without it, syncs are slower.
        let written = self.media.prepare(place, self.geometry.segment_bytes);
        let mut state = self.state.lock();
        state.table.put_next(id);
        state.prepared = Some(id);
        self.publish_free(&state);
        written.unwrap_or(0)
    }
}
