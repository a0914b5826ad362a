//! How flows wake the background threads, and how the threads announce progress.

use std::time::Duration;

use heliox_sync::atomic::{AtomicBool, Ordering};
use heliox_sync::{Condvar, Mutex};

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
    /// Somebody wants the store's health looked at.
    pub(crate) watch: Bell,
    /// Room was made for writers.
    pub(crate) room: Bell,
    stop: AtomicBool,
}

impl Signals {
    /// Tells all threads to end.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
        for bell in [&self.flush, &self.gc, &self.upkeep, &self.watch, &self.room] {
            bell.ring();
        }
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }
}

#[cfg(all(test, feature = "shuttle"))]
mod schedules {
    use heliox_sync::{explore, thread, Plan};

    use super::*;

    /// Whoever sees that there is work before it listens, and listens again after each ring, never
    /// sleeps while work waits.
    #[test]
    fn no_ring_is_lost() {
        let plan = Plan {
            schedules: 5000,
            patient: true,
        };
        explore(plan, |_| {
            let (bell, work) = (Bell::default(), std::sync::Mutex::new(0));
            let give = || {
                *work.lock().unwrap() += 1;
                bell.ring();
            };
            thread::scope(|scope| {
                scope.spawn(|| (0..2).for_each(|_| give()));
                scope.spawn(give);
                scope.spawn(|| {
                    let mut done = 0;
                    while done < 3 {
                        bell.listen(Duration::from_secs(1));
                        done += std::mem::take(&mut *work.lock().unwrap());
                    }
                });
            });
        });
    }
}
