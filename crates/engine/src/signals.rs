//! How flows wake the background threads, and how the threads announce progress.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// One background thread's doorbell.
#[derive(Default)]
pub(crate) struct Bell {
    /// Spares ringers the lock while the thread has not answered yet.
    rung: AtomicBool,
    door: Mutex<()>,
    ringing: Condvar,
}

impl Bell {
    /// Wakes the thread, now or when it next listens.
    pub(crate) fn ring(&self) {
        if self.rung.load(Ordering::Relaxed) {
            return;
        }
        if !self.rung.swap(true, Ordering::SeqCst) {
            let _door = self.door.lock();
            self.ringing.notify_all();
        }
    }

    /// Waits until rung, at most so long.
    pub(crate) fn listen(&self, most: Duration) {
        let mut door = self.door.lock();
        if !self.rung.load(Ordering::SeqCst) {
            self.ringing.wait_for(&mut door, most);
        }
        self.rung.store(false, Ordering::SeqCst);
    }
}

/// All doorbells of a store.
#[derive(Default)]
pub(crate) struct Signals {
    /// Full chunks wait to be written, or a bounded write nears its limit.
    pub(crate) flush: Bell,
    /// Segments should be collected.
    pub(crate) gc: Bell,
    /// A checkpoint is due, or a sweep.
    pub(crate) upkeep: Bell,
    /// Room was made for writers.
    pub(crate) room: Bell,
    stop: AtomicBool,
}

impl Signals {
    /// Tells all threads to end.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
        for bell in [&self.flush, &self.gc, &self.upkeep, &self.room] {
            bell.ring();
        }
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }
}
