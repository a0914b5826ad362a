//! How much of the store writers may fill, and how they are slowed before it ends.
//!
//! Free segments are divided into reserves that are never lent: a whole checkpoint (the old one
//! stays until the new one is durable), and segments for the survivors of a collection step. Users
//! stop first, deletes later; one that fits the segment which is appended to takes no free one and is
//! never asked (`write.rs`, `admit`). Above the reserve lies a zone in which each byte written costs a
//! delay that grows smoothly, so that writers meet collection's pace instead of a wall.

use std::time::Duration;

use heliox_sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::environment::Environment;
use crate::stats::Counters;

/// Segments that collection may need at once, and that deletes may dip into.
const GC_RESERVE_SEGMENTS: u64 = 3;
/// Segments beyond the reserve that only deletes may use.
const DELETE_RESERVE_SEGMENTS: u64 = 2;
/// A checkpoint that collection asks for should free so many times what it writes.
const CHECKPOINT_GAIN: u64 = 7;
/// But this part of all segments may wait for one at most.
const WAITING_DIVISOR: u64 = 16;
/// And this part of what is left for garbage.
const GARBAGE_DIVISOR: u64 = 4;
/// Where fewer are these parts, none is asked for.
const GATHERED_SEGMENTS_MIN: u64 = 3;
/// Longest delay per byte, at the reserve's border, in picoseconds.
const DELAY_PS_PER_BYTE_MAX: u64 = 200_000;

/// Delays shorter than this are saved up, since a sleep takes longer.
const DELAY_MIN: Duration = Duration::from_micros(200);
/// Nobody is delayed for longer at a time: by then there may be room.
const DELAY_MAX: Duration = Duration::from_millis(50);
/// For how long it counts that no room could be made.
const LOOK_LASTS: Duration = Duration::from_secs(1);

/// What a writer wants to add.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wish {
    /// New data.
    Data,
    /// A tombstone, a range delete, or a keyspace record.
    Delete,
}

/// The account of free segments that the flows share.
pub(crate) struct Space {
    segments: u64,
    segment_bytes: u64,
    checkpoint_segments: AtomicU64,
    /// Emptied segments that make one cheap.
    worth_segments: AtomicU64,
    /// Segments that what is live would fill, when collection looked last.
    live_segments: AtomicU64,
    /// One was asked for.
    checkpoint_wanted: AtomicBool,
    /// Most emptied segments that waited at once for the newest checkpoint that was begun, and for the one to come.
    waited_segments: [AtomicU64; 2],
    /// Of the checkpoint's, what the one that is being written has taken.
    taken_segments: AtomicU64,
    free_seen: AtomicU64,
    /// The newest look for room found none to make.
    stuck: AtomicBool,
    /// Somebody looks.
    looking: AtomicBool,
    /// Something died, or may be collected that could not be before, since that look began.
    garbage_since: AtomicBool,
    /// When it began, in milliseconds of the environment.
    looked_ms: AtomicU64,
    /// Until when the delays of all that was written last, in nanoseconds of the environment.
    delayed_until_ns: AtomicU64,
}

impl Space {
    pub(crate) fn new(segments: u64, segment_bytes: u64) -> Space {
        Space {
            segments,
            segment_bytes,
            checkpoint_segments: AtomicU64::new(1),
            worth_segments: AtomicU64::new(0),
            live_segments: AtomicU64::new(0),
            checkpoint_wanted: AtomicBool::new(false),
            waited_segments: [AtomicU64::new(0), AtomicU64::new(0)],
            taken_segments: AtomicU64::new(0),
            free_seen: AtomicU64::new(0),
            stuck: AtomicBool::new(false),
            looking: AtomicBool::new(false),
            garbage_since: AtomicBool::new(false),
            looked_ms: AtomicU64::new(0),
            delayed_until_ns: AtomicU64::new(0),
        }
    }

    /// True if another number of segments was free when a writer asked last: the index may have grown.
    pub(crate) fn has_changed(&self, free: u64) -> bool {
        let has_changed = self.free_seen.load(Ordering::Relaxed) != free;
        if has_changed {
            self.free_seen.store(free, Ordering::Relaxed);
        }
        has_changed
    }

    /// Keeps room for a checkpoint of an index of so many bytes.
    pub(crate) fn expect_checkpoint(&self, index_bytes: u64) {
        let bytes = index_bytes + index_bytes / 16 + (2 << 20);
        let segments = bytes.div_ceil(self.segment_bytes);
        self.checkpoint_segments.store(segments, Ordering::Relaxed);
        let worth = (index_bytes * CHECKPOINT_GAIN).div_ceil(self.segment_bytes);
        self.worth_segments.store(worth, Ordering::Relaxed);
    }

    /// True if so many emptied segments make a checkpoint cheap.
    pub(crate) fn is_worth_checkpoint(&self, waiting: u64) -> bool {
        waiting >= self.worth_segments.load(Ordering::Relaxed)
    }

    /// Says how much is live.
    pub(crate) fn expect_live(&self, live_bytes: u64) {
        let segments = live_bytes.div_ceil(self.segment_bytes);
        self.live_segments.store(segments, Ordering::Relaxed);
    }

    /// Emptied segments for which a checkpoint is written before room runs short. 0 where there can be few:
    /// in a store of few segments, or a full one, whose collection needs all that is left for garbage.
    fn gathered_segments(&self) -> u64 {
        let worth = self.worth_segments.load(Ordering::Relaxed);
        let kept =
            self.data_floor() + self.slow_zone() + self.live_segments.load(Ordering::Relaxed);
        let garbage = self.segments.saturating_sub(kept);
        let most = (self.segments / WAITING_DIVISOR).min(garbage / GARBAGE_DIVISOR);
        if most < worth.min(GATHERED_SEGMENTS_MIN) {
            return 0;
        }
        worth.min(most)
    }

    /// So many emptied segments wait for a checkpoint. True if somebody else should write one now.
    pub(crate) fn ask_checkpoint(&self, waiting: u64) -> bool {
        let [_, most] = &self.waited_segments;
        most.fetch_max(waiting, Ordering::Relaxed);
        let enough = self.gathered_segments();
        let asks = enough > 0 && waiting >= enough && !self.wants_checkpoint();
        if asks {
            self.checkpoint_wanted.store(true, Ordering::Relaxed);
        }
        asks
    }

    /// True if one was asked for since the newest began.
    pub(crate) fn wants_checkpoint(&self) -> bool {
        self.checkpoint_wanted.load(Ordering::Relaxed)
    }

    /// A checkpoint begins: what waits now, it covers.
    pub(crate) fn begin_checkpoint(&self) {
        self.checkpoint_wanted.store(false, Ordering::Relaxed);
        let [before, most] = &self.waited_segments;
        before.store(most.swap(0, Ordering::Relaxed), Ordering::Relaxed);
    }

    /// The checkpoint that is being written took a segment: that much of the reserve is in use.
    pub(crate) fn take_for_checkpoint(&self) {
        self.taken_segments.fetch_add(1, Ordering::Relaxed);
    }

    /// The segments of a checkpoint that has ended, or of the one before it, are free again.
    pub(crate) fn end_checkpoint(&self) {
        self.taken_segments.store(0, Ordering::Relaxed);
    }

    /// Somebody begins to look for what would make room: nobody is refused meanwhile.
    pub(crate) fn begin_look(&self, now: Duration) {
        self.looking.store(true, Ordering::SeqCst);
        self.looked_ms
            .store(now.as_millis() as u64, Ordering::Relaxed);
        self.garbage_since.store(false, Ordering::SeqCst);
    }

    /// The look that has begun last found something, or nothing at all.
    pub(crate) fn end_look(&self, found_nothing: bool) {
        self.stuck.store(found_nothing, Ordering::SeqCst);
        self.looking.store(false, Ordering::SeqCst);
    }

    /// A look that has begun already may not see it, and does not count: there is something to collect.
    pub(crate) fn note_garbage(&self) {
        // Nearly always so already: then the line stays with everybody.
        if !self.garbage_since.load(Ordering::SeqCst) {
            self.garbage_since.store(true, Ordering::SeqCst);
        }
    }

    /// True if the newest look found nothing.
    pub(crate) fn was_stuck(&self) -> bool {
        self.stuck.load(Ordering::SeqCst)
    }

    /// True if no room can be made now: by a look that is not long ago, since values expire meanwhile.
    pub(crate) fn is_stuck(&self, now: Duration) -> bool {
        let looked = Duration::from_millis(self.looked_ms.load(Ordering::Relaxed));
        let counts = !self.looking.load(Ordering::SeqCst)
            && !self.garbage_since.load(Ordering::SeqCst)
            && now.saturating_sub(looked) <= LOOK_LASTS;
        counts && self.was_stuck()
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

    /// Collection keeps at least so many segments free: while it empties those that share a checkpoint,
    /// writers should not come to the zone where they are slowed. Where few wait for one, as of late, what is kept
    /// free for them would only be kept from garbage, and collection would move more for each segment it frees.
    pub(crate) fn gc_goal(&self) -> u64 {
        let waited = self
            .waited_segments
            .iter()
            .map(|w| w.load(Ordering::Relaxed));
        let ahead = waited.max().unwrap_or(0).min(self.gathered_segments());
        self.data_floor() + self.slow_zone() + ahead
    }

    /// Slows the calling thread. Delays follow each other, whosever they are: so many bytes a second are let in,
    /// whether one thread writes them or hundreds.
    pub(crate) fn pay_delay(
        &self,
        environment: &Environment,
        counters: &Counters,
        delay: Duration,
    ) {
        let now = environment.elapsed().as_nanos() as u64;
        let (delay_ns, most) = (delay.as_nanos() as u64, now + DELAY_MAX.as_nanos() as u64);
        let after = |until: u64| until.max(now).saturating_add(delay_ns).min(most);
        let shared = &self.delayed_until_ns;
        let before = shared.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |u| Some(after(u)));
        let owed = Duration::from_nanos(after(before.unwrap_or(now)) - now);
        if owed >= DELAY_MIN {
            counters.throttle_us.add(owed.as_micros() as u64);
            environment.sleep(owed);
        }
    }

    fn slow_zone(&self) -> u64 {
        (self.segments / 64).clamp(4, 64)
    }

    /// The delay at which `bytes` may be written while `free` segments are free; none if there is no room.
    pub(crate) fn ask(&self, wish: Wish, bytes: u64, free: u64) -> Option<Duration> {
        let floor = match wish {
            Wish::Data => self.data_floor(),
            Wish::Delete => self.delete_floor(),
        };
        // What a large batch will fill counts as filled.
        let free = free.saturating_sub(bytes / self.segment_bytes);
        if free <= floor {
            return None;
        }
        let (over, zone) = (free - floor, self.slow_zone());
        if over >= zone {
            return Some(Duration::ZERO);
        }
        // Cubic in how deep the zone is entered: unnoticeable at its top, steep at its end.
        let depth = (zone - over) * 1000 / zone;
        let per_byte_ps = DELAY_PS_PER_BYTE_MAX * depth / 1000 * depth / 1000 * depth / 1000;
        Some(Duration::from_nanos(bytes * per_byte_ps / 1000))
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
        assert_eq!(space.ask(Wish::Data, 1000, 256), Some(Duration::ZERO));
        let mut last = Duration::ZERO;
        for free in (floor + 1..floor + 4).rev() {
            let Some(delay) = space.ask(Wish::Data, 1000, free) else {
                panic!("refused at {free}");
            };
            assert!(delay > last);
            last = delay;
        }
        assert_eq!(space.ask(Wish::Data, 1000, floor), None);
        assert!(space.ask(Wish::Delete, 30, floor).is_some());
        let lowest = floor - DELETE_RESERVE_SEGMENTS;
        assert_eq!(space.ask(Wish::Delete, 30, lowest), None);
        // What a checkpoint takes of its own reserve takes nothing from writers.
        space.take_for_checkpoint();
        assert!(space.ask(Wish::Data, 1000, floor).is_some());
        assert_eq!(space.ask(Wish::Data, 1000, floor - 1), None);
        space.end_checkpoint();
        assert_eq!(space.ask(Wish::Data, 1000, floor), None);
    }

    #[test]
    fn the_fuller_a_store_is_the_fewer_segments_wait_for_a_checkpoint() {
        let space = Space::new(256, 16 << 20);
        space.expect_checkpoint(100 << 20);
        let kept = || space.data_floor() + space.slow_zone();
        let asked_at = |live_segments: u64| {
            space.expect_live(live_segments * (16 << 20));
            let asked = (0..256).find(|waiting| space.ask_checkpoint(*waiting));
            if let Some(waiting) = asked {
                assert!(!space.ask_checkpoint(waiting), "it was asked for");
            }
            space.begin_checkpoint();
            asked.unwrap_or(0)
        };
        assert_eq!(asked_at(128), 16, "a sixteenth of all");
        assert_eq!(asked_at(200), (256 - 200 - kept()) / 4);
        assert_eq!(asked_at(240), 0);
        space.expect_checkpoint(4 << 20);
        assert_eq!(asked_at(128), 2, "more would gain nothing");
    }

    /// Tells its time, and keeps what was slept.
    #[derive(Default)]
    struct Clock {
        now_us: AtomicU64,
        slept_us: heliox_sync::Mutex<Vec<u64>>,
    }

    impl crate::environment::Simulation for Clock {
        fn elapsed(&self) -> Duration {
            Duration::from_micros(self.now_us.load(Ordering::Relaxed))
        }

        fn now_ms(&self) -> u64 {
            1
        }

        fn sleep(&self, time: Duration) {
            self.slept_us.lock().push(time.as_micros() as u64);
        }

        fn fill_random(&self, bytes: &mut [u8]) {
            bytes.fill(7);
        }

        fn breathe(&self) {}
    }

    #[test]
    fn delays_follow_each_other_whoever_pays_them() {
        let (space, clock) = (
            Space::new(256, 16 << 20),
            std::sync::Arc::<Clock>::default(),
        );
        let environment = Environment::new(Some(std::sync::Arc::clone(&clock) as _));
        let counters = Counters::default();
        let pay = |count: usize, delay_us: u64| {
            for _ in 0..count {
                space.pay_delay(&environment, &counters, Duration::from_micros(delay_us));
            }
            std::mem::take(&mut *clock.slept_us.lock())
        };
        // As if each were paid by a thread of its own at the same time.
        assert_eq!(pay(4, 300), [300, 600, 900, 1200]);
        clock.now_us.store(10_000, Ordering::Relaxed);
        assert_eq!(
            pay(5, 60),
            [240, 300],
            "what is too short to be slept is owed"
        );
        assert_eq!(pay(2, 200_000), [50_000, 50_000]);
        assert_eq!(counters.throttle_us.get(), 3000 + 540 + 100_000);
    }

    #[test]
    fn collection_keeps_free_what_lately_waited_for_a_checkpoint() {
        let space = Space::new(256, 16 << 20);
        space.expect_checkpoint(100 << 20);
        space.expect_live(128 * (16 << 20));
        let kept = space.data_floor() + space.slow_zone();
        let ahead = || space.gc_goal() - kept;
        assert_eq!(ahead(), 0);
        space.ask_checkpoint(3);
        space.ask_checkpoint(2);
        assert_eq!(ahead(), 3);
        space.begin_checkpoint();
        assert_eq!(ahead(), 3, "as many may wait for the next");
        space.ask_checkpoint(100);
        assert_eq!(ahead(), 16, "no more than wait at most");
        space.begin_checkpoint();
        space.begin_checkpoint();
        assert_eq!(ahead(), 0);
    }

    #[test]
    fn a_look_counts_until_something_dies_or_time_passes() {
        let space = Space::new(256, 16 << 20);
        let second = Duration::from_secs(1);
        space.begin_look(second);
        assert!(!space.is_stuck(second));
        space.end_look(true);
        assert!(space.is_stuck(second) && space.is_stuck(2 * second));
        assert!(!space.is_stuck(3 * second));
        space.note_garbage();
        assert!(!space.is_stuck(second) && space.was_stuck());
        space.begin_look(3 * second);
        space.end_look(true);
        // While the next one looks, and after what it may not have seen.
        space.begin_look(3 * second);
        assert!(!space.is_stuck(3 * second) && space.was_stuck());
        space.note_garbage();
        space.end_look(true);
        assert!(!space.is_stuck(3 * second));
        space.begin_look(3 * second);
        space.end_look(true);
        assert!(space.is_stuck(3 * second));
        space.begin_look(4 * second);
        space.end_look(false);
        assert!(!space.is_stuck(4 * second) && !space.was_stuck());
    }
}
