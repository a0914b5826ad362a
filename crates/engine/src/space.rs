//! How much of the store writers may fill, and how they are slowed before it ends.
//!
//! Free segments are divided into reserves that are never lent: a whole checkpoint (the old one
//! stays until the new one is durable), and segments for the survivors of a collection step. Users
//! stop first, deletes later; one that fits the segment which is appended to takes no free one and is
//! never asked (`write.rs`, `admit`). Above the reserve lies a zone in which each byte written costs a
//! delay that grows smoothly, so that writers meet collection's pace instead of a wall.

use std::cell::Cell;
use std::time::Duration;

use heliox_sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::environment::Environment;
use crate::stats::Counters;

/// Segments that collection may need at once, and that deletes may dip into.
const GC_RESERVE_SEGMENTS: u64 = 3;
/// Segments beyond the reserve that only deletes may use.
const DELETE_RESERVE_SEGMENTS: u64 = 2;
/// Longest delay per byte, at the reserve's border, in picoseconds.
const DELAY_PS_PER_BYTE_MAX: u64 = 200_000;

/// Delays shorter than this are saved up, since a sleep takes longer.
const DELAY_MIN: Duration = Duration::from_micros(200);

heliox_sync::thread_local! {
    static DELAY_OWED: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// Slows the calling thread by so much, now or later.
pub(crate) fn pay_delay(environment: &Environment, counters: &Counters, delay: Duration) {
    let owed = DELAY_OWED.with(Cell::get) + delay;
    if owed < DELAY_MIN {
        DELAY_OWED.with(|cell| cell.set(owed));
        return;
    }
    DELAY_OWED.with(|cell| cell.set(Duration::ZERO));
    counters.throttle_us.add(owed.as_micros() as u64);
    environment.sleep(owed);
}

/// What a writer wants to add.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wish {
    /// New data.
    Data,
    /// A tombstone, a range delete, or a keyspace record.
    Delete,
}

/// What becomes of a wish.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// Go on, after this delay.
    Go(Duration),
    /// Wait for collection, then ask again.
    Wait,
    /// Collection cannot make room: the store is full.
    Full,
}

/// The account of free segments that the flows share.
pub(crate) struct Space {
    segments: u64,
    segment_bytes: u64,
    checkpoint_segments: AtomicU64,
    /// Of those, what the checkpoint that is being written has taken.
    taken_segments: AtomicU64,
    stuck: AtomicBool,
}

impl Space {
    pub(crate) fn new(segments: u64, segment_bytes: u64) -> Space {
        Space {
            segments,
            segment_bytes,
            checkpoint_segments: AtomicU64::new(1),
            taken_segments: AtomicU64::new(0),
            stuck: AtomicBool::new(false),
        }
    }

    /// Keeps room for a checkpoint of an index of so many bytes.
    pub(crate) fn expect_checkpoint(&self, index_bytes: u64) {
        let bytes = index_bytes + index_bytes / 16 + (2 << 20);
        let segments = bytes.div_ceil(self.segment_bytes);
        self.checkpoint_segments.store(segments, Ordering::Relaxed);
    }

    /// The checkpoint that is being written took a segment: that much of the reserve is in use.
    pub(crate) fn take_for_checkpoint(&self) {
        self.taken_segments.fetch_add(1, Ordering::Relaxed);
    }

    /// The segments of a checkpoint that has ended, or of the one before it, are free again.
    pub(crate) fn end_checkpoint(&self) {
        self.taken_segments.store(0, Ordering::Relaxed);
    }

    /// Collection found nothing that would free space, or did again.
    pub(crate) fn set_stuck(&self, stuck: bool) {
        self.stuck.store(stuck, Ordering::Release);
    }

    pub(crate) fn is_stuck(&self) -> bool {
        self.stuck.load(Ordering::Acquire)
    }

    /// Free segments that collection may not fill before a checkpoint has been written: the checkpoint's,
    /// and enough for what one more victim may need.
    pub(crate) fn checkpoint_floor(&self) -> u64 {
        self.delete_floor() - 1
    }

    /// Free segments that are not lent to deletes.
    fn delete_floor(&self) -> u64 {
        let whole = self.checkpoint_segments.load(Ordering::Relaxed);
        let left = whole.saturating_sub(self.taken_segments.load(Ordering::Relaxed));
        left + GC_RESERVE_SEGMENTS
    }

    /// Free segments that are not lent to data.
    pub(crate) fn data_floor(&self) -> u64 {
        self.delete_floor() + DELETE_RESERVE_SEGMENTS
    }

    /// Collection keeps at least so many segments free.
    pub(crate) fn gc_goal(&self) -> u64 {
        self.data_floor() + self.slow_zone()
    }

    fn slow_zone(&self) -> u64 {
        (self.segments / 64).clamp(4, 64)
    }

    /// What becomes of a wish for `bytes` while `free` segments are free.
    pub(crate) fn ask(&self, wish: Wish, bytes: u64, free: u64) -> Verdict {
        let floor = match wish {
            Wish::Data => self.data_floor(),
            Wish::Delete => self.delete_floor(),
        };
        // What a large batch will fill counts as filled.
        let free = free.saturating_sub(bytes / self.segment_bytes);
        if free <= floor {
            return if self.is_stuck() {
                Verdict::Full
            } else {
                Verdict::Wait
            };
        }
        let (over, zone) = (free - floor, self.slow_zone());
        if over >= zone {
            return Verdict::Go(Duration::ZERO);
        }
        // Cubic in how deep the zone is entered: unnoticeable at its top, steep at its end.
        let depth = (zone - over) * 1000 / zone;
        let per_byte_ps = DELAY_PS_PER_BYTE_MAX * depth / 1000 * depth / 1000 * depth / 1000;
        Verdict::Go(Duration::from_nanos(bytes * per_byte_ps / 1000))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_smoothly_and_deletes_go_further() {
        let space = Space::new(256, 16 << 20);
        space.expect_checkpoint(100 << 20);
        let floor = space.data_floor();
        assert_eq!(
            space.ask(Wish::Data, 1000, 256),
            Verdict::Go(Duration::ZERO)
        );
        let mut last = Duration::ZERO;
        for free in (floor + 1..floor + 4).rev() {
            let Verdict::Go(delay) = space.ask(Wish::Data, 1000, free) else {
                panic!("refused at {free}");
            };
            assert!(delay > last);
            last = delay;
        }
        assert_eq!(space.ask(Wish::Data, 1000, floor), Verdict::Wait);
        assert!(matches!(space.ask(Wish::Delete, 30, floor), Verdict::Go(_)));
        space.set_stuck(true);
        assert_eq!(space.ask(Wish::Data, 1000, floor), Verdict::Full);
        let lowest = floor - DELETE_RESERVE_SEGMENTS;
        assert_eq!(space.ask(Wish::Delete, 30, lowest), Verdict::Full);
        // What a checkpoint takes of its own reserve takes nothing from writers.
        space.take_for_checkpoint();
        assert!(matches!(space.ask(Wish::Data, 1000, floor), Verdict::Go(_)));
        assert_eq!(space.ask(Wish::Data, 1000, floor - 1), Verdict::Full);
        space.end_checkpoint();
        assert_eq!(space.ask(Wish::Data, 1000, floor), Verdict::Full);
    }
}
