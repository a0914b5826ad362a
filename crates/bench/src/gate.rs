//! Where threads wait for each other: hundreds of them take a while to start, which is no part of
//! what is measured.
//!
//! Threads: many pass, one opens.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Closed until it is opened; then it stays open.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    arrived: usize,
    /// Whether there is work behind it.
    opened: Option<bool>,
}

impl Gate {
    /// Waits until it is opened; false if the work was called off.
    pub(crate) fn pass(&self) -> bool {
        let mut state = self.lock();
        state.arrived += 1;
        self.changed.notify_all();
        loop {
            if let Some(work) = state.opened {
                return work;
            }
            state = self.wait(state);
        }
    }

    /// Waits until so many threads have come to the gate.
    pub(crate) fn wait_for(&self, threads: usize) {
        let mut state = self.lock();
        while state.arrived < threads {
            state = self.wait(state);
        }
    }

    /// Opens it, for work or to have everyone go home.
    pub(crate) fn open(&self, work: bool) {
        self.lock().opened = Some(work);
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'g>(&self, state: MutexGuard<'g, State>) -> MutexGuard<'g, State> {
        self.changed
            .wait(state)
            .unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    #[test]
    fn nobody_passes_before_all_have_come() {
        for work in [true, false] {
            let (came, passed) = (AtomicUsize::new(0), AtomicUsize::new(0));
            let (gate, came, passed) = (&Gate::default(), &came, &passed);
            std::thread::scope(|scope| {
                let pass = move || {
                    std::thread::sleep(Duration::from_millis(5));
                    came.fetch_add(1, Ordering::SeqCst);
                    let opened = gate.pass();
                    passed.fetch_add(1, Ordering::SeqCst);
                    opened
                };
                let threads: Vec<_> = (0..20).map(|_| scope.spawn(pass)).collect();
                gate.wait_for(20);
                let before = [came, passed].map(|count| count.load(Ordering::SeqCst));
                gate.open(work);
                assert_eq!(before, [20, 0]);
                for thread in threads {
                    assert_eq!(thread.join().unwrap(), work);
                }
            });
        }
    }
}
