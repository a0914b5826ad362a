//! Segments that a backup copies, and that must therefore stay as they are.
//!
//! Invariants: a pinned segment may be retired (nothing reads it as part of the store any more) but
//! is not given back, so its bytes stay; whoever takes the pin off gives it back if it was retired
//! meanwhile. Pins are set under the log's lock, where retiring happens too: so a segment is either
//! pinned before it is retired, or not part of the backup. Threads: any.

use std::collections::BTreeMap;

use heliox_format::ids::SegmentId;
use heliox_sync::{Mutex, MutexGuard};

/// The pins of one store.
#[derive(Default)]
pub(crate) struct Pins {
    /// Each pinned segment, and whether it was retired since.
    pinned: Mutex<BTreeMap<SegmentId, bool>>,
    /// One backup at a time.
    one: Mutex<()>,
}

impl Pins {
    /// The right to pin; others wait for it.
    pub(crate) fn begin(&self) -> MutexGuard<'_, ()> {
        self.one.lock()
    }

    /// Pins segments.
    pub(crate) fn set(&self, ids: impl IntoIterator<Item = SegmentId>) {
        let mut pinned = self.pinned.lock();
        pinned.extend(ids.into_iter().map(|id| (id, false)));
    }

    /// A segment was retired. True if it is pinned: it is given back when the pin goes.
    pub(crate) fn hold(&self, id: SegmentId) -> bool {
        match self.pinned.lock().get_mut(&id) {
            Some(held) => {
                *held = true;
                true
            }
            None => false,
        }
    }

    /// Takes a pin off. True if the segment was retired meanwhile.
    pub(crate) fn take_off(&self, id: SegmentId) -> bool {
        self.pinned.lock().remove(&id).unwrap_or(false)
    }

    /// A segment that waits to be given back, if there is one: it should be copied first.
    pub(crate) fn first_held(&self) -> Option<SegmentId> {
        let pinned = self.pinned.lock();
        let held = pinned.iter().find(|(_, held)| **held);
        held.map(|(id, _)| *id)
    }

    /// How many segments wait to be given back.
    pub(crate) fn held(&self) -> u64 {
        let pinned = self.pinned.lock();
        pinned.values().filter(|held| **held).count() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_segment_waits_and_another_does_not() {
        let pins = Pins::default();
        pins.set([SegmentId(1), SegmentId(2)]);
        assert!(!pins.hold(SegmentId(3)));
        assert!(pins.hold(SegmentId(2)));
        assert_eq!((pins.held(), pins.first_held()), (1, Some(SegmentId(2))));
        assert!(!pins.take_off(SegmentId(1)), "nobody retired it");
        assert!(pins.take_off(SegmentId(2)), "its waiter must be told");
        assert!(!pins.hold(SegmentId(2)));
        assert_eq!((pins.held(), pins.first_held()), (0, None));
    }
}
