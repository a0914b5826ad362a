//! What the volumes of a simulated store share: one power supply, one count of requests, and what the
//! store was told. Threads: any, but a run uses one.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::clock::Clock;

/// What the volumes of an array have in common.
pub(crate) struct Shared {
    pub(crate) clock: Arc<Clock>,
    pub(crate) state: Mutex<Common>,
}

/// What is known of all of them together.
#[derive(Clone, Default)]
pub(crate) struct Common {
    /// Requests that change something before the power goes.
    pub(crate) power_left: Option<u64>,
    pub(crate) is_off: bool,
    /// When the store was first told that something failed for good, or the power went.
    pub(crate) down_at: Option<Duration>,
    pub(crate) is_reported: bool,
    pub(crate) has_lied: bool,
    pub(crate) fired: u64,
    /// Bytes damaged behind the store's back, once each, and syncs that lied.
    pub(crate) damages: u64,
    pub(crate) lies: u64,
    pub(crate) digest: u64,
}

impl Shared {
    pub(crate) fn new(clock: &Arc<Clock>, state: Common) -> Arc<Shared> {
        Arc::new(Shared {
            clock: Arc::clone(clock),
            state: Mutex::new(state),
        })
    }

    pub(crate) fn is_off(&self) -> bool {
        self.state.lock().is_off
    }

    pub(crate) fn note_fired(&self) {
        self.state.lock().fired += 1;
    }

    pub(crate) fn note_damage(&self) {
        self.state.lock().damages += 1;
    }

    pub(crate) fn note_lie(&self) {
        let mut state = self.state.lock();
        state.damages += 1;
        state.lies += 1;
        state.has_lied = true;
    }

    pub(crate) fn note_reported(&self) {
        self.state.lock().is_reported = true;
    }

    pub(crate) fn note_down(&self) {
        let now = self.clock.ticked();
        self.state.lock().down_at.get_or_insert(now);
    }

    /// Counts a request that changes something; true if the power goes with it, none if it is gone.
    pub(crate) fn count_change(&self, what: u64, offset: u64, data: &[u8]) -> Option<bool> {
        let mut state = self.state.lock();
        if state.is_off {
            return None;
        }
        state.digest = digest(state.digest, &what.to_le_bytes());
        state.digest = digest(state.digest, &offset.to_le_bytes());
        state.digest = digest(state.digest, data);
        let Some(left) = state.power_left.as_mut() else {
            return Some(false);
        };
        *left = left.saturating_sub(1);
        let is_last = *left == 0;
        if is_last {
            state.is_off = true;
            state.down_at.get_or_insert(self.clock.ticked());
        }
        Some(is_last)
    }
}

fn digest(seed: u64, bytes: &[u8]) -> u64 {
    let mut sum = seed;
    for chunk in bytes.chunks(8) {
        let mut word = [0; 8];
        if let Some(head) = word.get_mut(..chunk.len()) {
            head.copy_from_slice(chunk);
        }
        sum = (sum ^ u64::from_le_bytes(word))
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(29);
    }
    sum
}
