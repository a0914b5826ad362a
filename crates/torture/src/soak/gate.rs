//! Where the threads of a load wait while the store is closed and opened again. Any thread.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

#[derive(Default)]
struct Inside {
    closing: bool,
    parked: usize,
    gone: usize,
}

/// The gate: everybody passes it before each operation.
#[derive(Default)]
pub(crate) struct Gate {
    inside: Mutex<Inside>,
    changed: Condvar,
    /// `Inside::closing`, for those who only look.
    closing: AtomicBool,
}

impl Gate {
    /// True if the gate is being closed: let go of the store, then [`Gate::park`].
    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Relaxed)
    }

    /// Waits until the gate is open.
    pub(crate) fn park(&self) {
        let mut inside = self.lock();
        inside.parked += 1;
        self.changed.notify_all();
        while inside.closing {
            inside = self
                .changed
                .wait(inside)
                .unwrap_or_else(PoisonError::into_inner);
        }
        inside.parked -= 1;
    }

    /// The calling thread will not come again.
    pub(crate) fn leave(&self) {
        self.lock().gone += 1;
        self.changed.notify_all();
    }

    /// Closes the gate, and returns when all of so many threads wait or have left.
    pub(crate) fn close(&self, threads: usize) {
        let mut inside = self.lock();
        inside.closing = true;
        self.closing.store(true, Ordering::Relaxed);
        while inside.parked + inside.gone < threads {
            inside = self
                .changed
                .wait(inside)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Lets everybody go on.
    pub(crate) fn open(&self) {
        let mut inside = self.lock();
        inside.closing = false;
        self.closing.store(false, Ordering::Relaxed);
        self.changed.notify_all();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
