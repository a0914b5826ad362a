//! Where the scrub is, and at which pace it goes on. The walking itself is in `scrub`.
//!
//! A pass begins with what a store is found by (labels, superblock copies), goes on to the newest
//! checkpoint, then to the segments of the log, from one drawn at random around to it again. The
//! position is not kept over a close: a store that is open for less than a pass at a time begins at
//! another place each time, so every place has its turn in the long run, and no write to media is
//! spent on it.
//!
//! Pace: all bytes in use once in the period, but at least [`RATE_MIN`] and at most [`RATE_MAX`]
//! bytes a second. Time that was missed is not made up for, so there are no bursts. Memory: one
//! buffer of [`WINDOW_BYTES`], while a pass is under way.
//!
//! Threads: any; whoever drives the background pass holds its lock.

use std::collections::VecDeque;
use std::time::Duration;

use heliox_format::ids::{Birth, SegmentId};
use heliox_media::AlignedBuf;
use heliox_sync::Mutex;

use crate::findings::Mark;
use crate::health::{ScrubReport, Structure};

/// Bytes of a segment of the log that are read at a time.
pub(crate) const PIECE_BYTES: usize = 128 << 10;
/// Bytes of a checkpoint that are read at a time: the largest chunk.
pub(crate) const WINDOW_BYTES: usize = 1 << 20;
/// Slower than this a small store would be passed in less than the period: that costs nothing.
pub(crate) const RATE_MIN: u64 = 64 << 10;
/// Faster than this a scrub might be felt; a store beyond 19 TB takes more than a week then.
pub(crate) const RATE_MAX: u64 = 32 << 20;
/// A store that is opened for a moment is not scrubbed.
const FIRST_AFTER: Duration = Duration::from_secs(5);
/// After a device that does not answer.
const AFTER_ERROR: Duration = Duration::from_secs(60);
/// Segments that wait to be looked at out of turn.
const SUSPECTS_MAX: usize = 64;

/// Bytes a second for so many bytes in use and a period.
pub(crate) fn rate(used_bytes: u64, period_secs: u64) -> u64 {
    (used_bytes / period_secs.max(1)).clamp(RATE_MIN, RATE_MAX)
}

/// A damaged place in a segment of the log.
#[derive(Clone, Debug)]
pub(crate) struct Gap {
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) structure: Structure,
    pub(crate) what: String,
    /// The device itself could not read it.
    pub(crate) is_hard: bool,
}

/// A segment of the log that is being verified.
#[derive(Clone, Debug)]
pub(crate) struct SegmentWalk {
    pub(crate) id: SegmentId,
    pub(crate) birth: Birth,
    /// Next address.
    pub(crate) at: u64,
    /// Written up to here.
    pub(crate) end: u64,
    pub(crate) gaps: Vec<Gap>,
}

impl SegmentWalk {
    pub(crate) fn mark(&self, gap: &Gap) -> Mark {
        Mark {
            segment: Some((self.id, self.birth)),
            address: gap.from,
        }
    }
}

/// A checkpoint that is being verified.
#[derive(Clone, Debug)]
pub(crate) struct CheckpointWalk {
    pub(crate) number: u64,
    pub(crate) chain: Vec<(SegmentId, Birth)>,
    /// Which of the chain.
    pub(crate) at: usize,
    /// The next chunk's offset in it, and its number.
    pub(crate) offset: u64,
    pub(crate) chunk: u32,
}

/// What a pass does next.
#[derive(Debug)]
pub(crate) enum Walk {
    Heads,
    FindCheckpoint,
    Checkpoint(CheckpointWalk),
    FindSegment,
    Segment(SegmentWalk),
    Over,
}

/// A pass under way.
#[derive(Debug)]
pub(crate) struct Pass {
    pub(crate) report: ScrubReport,
    pub(crate) walk: Walk,
    /// The segment of the log to be looked at next, and how many were.
    pub(crate) next: u32,
    pub(crate) looked_at: u32,
    /// Segments that others found damaged come first.
    pub(crate) takes_suspects: bool,
    buffer: Option<AlignedBuf>,
}

impl Pass {
    /// A pass that goes around from segment `first`.
    pub(crate) fn new(now_ms: u64, first: u32, takes_suspects: bool) -> Pass {
        Pass {
            report: ScrubReport {
                started_ms: now_ms,
                ..ScrubReport::default()
            },
            walk: Walk::Heads,
            next: first,
            looked_at: 0,
            takes_suspects,
            buffer: None,
        }
    }

    /// The pass's memory.
    pub(crate) fn take_buffer(&mut self) -> Result<AlignedBuf, heliox_media::MediaError> {
        match self.buffer.take() {
            Some(buffer) => Ok(buffer),
            None => AlignedBuf::for_read(WINDOW_BYTES),
        }
    }

    pub(crate) fn give_back(&mut self, buffer: AlignedBuf) {
        self.buffer = Some(buffer);
    }
}

/// The scrub of one store.
pub(crate) struct Patrol {
    /// The pass in the background; none before its first step.
    pub(crate) pass: Mutex<Option<Pass>>,
    next_at: Mutex<Duration>,
    suspects: Mutex<VecDeque<(SegmentId, Birth)>>,
    last: Mutex<Option<ScrubReport>>,
}

impl Patrol {
    /// Of a store that is opened now.
    pub(crate) fn new(now: Duration) -> Patrol {
        Patrol {
            pass: Mutex::default(),
            next_at: Mutex::new(now + FIRST_AFTER),
            suspects: Mutex::default(),
            last: Mutex::default(),
        }
    }

    /// How long until the next piece.
    pub(crate) fn due_in(&self, now: Duration) -> Duration {
        self.next_at.lock().saturating_sub(now)
    }

    /// A piece of so many bytes was read; `began` is when.
    pub(crate) fn spend(&self, began: Duration, bytes: u64, rate: u64) {
        let mut next = self.next_at.lock();
        let due = (*next).max(began);
        *next = due + Duration::from_micros(bytes * 1_000_000 / rate.max(1));
    }

    /// The device does not answer: there is time.
    pub(crate) fn pause(&self, now: Duration) {
        *self.next_at.lock() = now + AFTER_ERROR;
    }

    /// Somebody met damage in a segment.
    pub(crate) fn suspect(&self, id: SegmentId, birth: Birth) {
        let mut suspects = self.suspects.lock();
        if suspects.len() < SUSPECTS_MAX && !suspects.contains(&(id, birth)) {
            suspects.push_back((id, birth));
        }
    }

    pub(crate) fn next_suspect(&self) -> Option<(SegmentId, Birth)> {
        self.suspects.lock().pop_front()
    }

    /// The report of the last pass that ended.
    pub(crate) fn last(&self) -> Option<ScrubReport> {
        self.last.lock().clone()
    }

    pub(crate) fn set_last(&self, report: ScrubReport) {
        *self.last.lock() = Some(report);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pace_is_the_periods_within_bounds() {
        const WEEK: u64 = 7 * 24 * 3600;
        assert_eq!(rate(1 << 30, WEEK), RATE_MIN);
        assert_eq!(rate(1 << 40, WEEK), (1 << 40) / WEEK);
        assert_eq!(rate(64 << 40, WEEK), RATE_MAX);
        assert_eq!(rate(1 << 30, 1), RATE_MAX);
    }

    #[test]
    fn missed_time_is_not_made_up_for() {
        let patrol = Patrol::new(Duration::ZERO);
        let s = Duration::from_secs;
        assert_eq!(patrol.due_in(s(1)), s(4));
        patrol.spend(s(5), 1 << 20, 1 << 20);
        assert_eq!(patrol.due_in(s(5)), s(1));
        patrol.spend(s(100), 1 << 20, 1 << 20);
        assert_eq!(patrol.due_in(s(100)), s(1));
        patrol.pause(s(100));
        assert_eq!(patrol.due_in(s(100)), AFTER_ERROR);
    }

    #[test]
    fn suspects_are_few_and_each_is_told_once() {
        let patrol = Patrol::new(Duration::ZERO);
        for n in 0..100 {
            patrol.suspect(SegmentId(n % 80), Birth(1));
        }
        let taken = std::iter::from_fn(|| patrol.next_suspect()).count();
        assert_eq!(taken, SUSPECTS_MAX);
    }
}
