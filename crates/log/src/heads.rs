//! Where the heads of values in chunks are that this run appended, and which of them died: their
//! chunks, elsewhere, are garbage from then on, and whoever makes room asks for them by and by.
//!
//! It lives under the log's lock and is volatile. Of heads that an earlier run wrote it knows nothing:
//! see `Segment::untold_heads`.

use std::collections::{BTreeSet, VecDeque};

use heliox_format::ids::{Location, SegmentId, SeqNo};

/// Memory that a head takes while it lives, roughly: nodes of the set are two thirds full.
const LIVE_BYTES: usize = 26;

/// A head whose entry went to another record, or was taken away.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeadHead {
    /// Where it was.
    pub location: Location,
    /// The keyed hash of the key that took its entry: the head's own, unless it is a stranger.
    pub key_hash: u64,
    /// The order of the record that displaced it, or the newest when its entry was taken away.
    pub death: SeqNo,
}

/// The heads of one log.
#[derive(Debug, Default)]
pub(crate) struct Heads {
    live: BTreeSet<(SegmentId, Location)>,
    dead: VecDeque<DeadHead>,
}

impl Heads {
    /// A head was appended.
    pub(crate) fn add(&mut self, id: SegmentId, location: Location) {
        self.live.insert((id, location));
    }

    /// The record at a place lost its entry; `copied`: to a copy of itself.
    pub(crate) fn displace(&mut self, id: SegmentId, dead: DeadHead, copied: bool) {
        if self.live.remove(&(id, dead.location)) && !copied {
            self.dead.push_back(dead);
        }
    }

    /// A segment begins another life.
    pub(crate) fn forget(&mut self, id: SegmentId) {
        let first = (id, Location::from_bits(0));
        let next = |live: &BTreeSet<_>| live.range(first..).next().copied();
        while let Some(head) = next(&self.live).filter(|(of, _)| *of == id) {
            self.live.remove(&head);
        }
    }

    /// Memory in use, roughly.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let dead = self.dead.capacity() * size_of::<DeadHead>();
        (self.live.len() * LIVE_BYTES + dead) as u64
    }

    pub(crate) fn take_dead(&mut self) -> Option<DeadHead> {
        self.dead.pop_front()
    }

    pub(crate) fn put_back(&mut self, dead: DeadHead) {
        self.dead.push_front(dead);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_that_lost_its_entry_is_told_once_and_a_moved_one_never() {
        let mut heads = Heads::default();
        let dead = |at| DeadHead {
            location: Location::from_bits(at),
            key_hash: 1,
            death: SeqNo(9),
        };
        for at in [10, 20, 30] {
            heads.add(SegmentId(1), Location::from_bits(at));
        }
        heads.displace(SegmentId(1), dead(10), true);
        heads.displace(SegmentId(1), dead(20), false);
        heads.displace(SegmentId(1), dead(20), false);
        heads.displace(SegmentId(1), dead(25), false);
        heads.forget(SegmentId(1));
        heads.displace(SegmentId(1), dead(30), false);
        assert_eq!(heads.take_dead(), Some(dead(20)));
        assert_eq!(heads.take_dead(), None);
    }
}
