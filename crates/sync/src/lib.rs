//! The primitives of concurrency that the libraries are built of: locks, conditions, atomics and
//! threads, taken from here alone.
//!
//! Normally these are `parking_lot`'s and the standard library's own, by their own names: nothing is
//! added. With the feature `shuttle` they are shuttle's, under the same names and with the same
//! methods, so that a test decides at each of them which thread runs next, and a wait that nobody
//! ends is found. Such a build runs inside `explore` only.
//!
//! Counters of mere statistics stay the standard library's: they decide nothing, and each would be
//! one more place to switch threads.
#![forbid(unsafe_code)]

#[cfg(feature = "shuttle")]
mod explore;
#[cfg(feature = "shuttle")]
mod scheduled;

#[cfg(feature = "shuttle")]
pub use explore::{explore, Plan};
#[cfg(not(feature = "shuttle"))]
pub use parking_lot::{
    Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, WaitTimeoutResult,
};
#[cfg(feature = "shuttle")]
pub use scheduled::{
    Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, WaitTimeoutResult,
};

/// Atomics and fences.
pub mod atomic {
    #[cfg(feature = "shuttle")]
    pub use shuttle::sync::atomic::{
        fence, AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering,
    };
    #[cfg(not(feature = "shuttle"))]
    pub use std::sync::atomic::{
        fence, AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering,
    };
}

/// Channels.
pub mod mpsc {
    #[cfg(feature = "shuttle")]
    pub use shuttle::sync::mpsc::{channel, sync_channel, Receiver, Sender, SyncSender};
    #[cfg(not(feature = "shuttle"))]
    pub use std::sync::mpsc::{channel, sync_channel, Receiver, Sender, SyncSender};
}

/// Threads.
pub mod thread {
    use std::io;

    #[cfg(feature = "shuttle")]
    pub use shuttle::thread::{
        scope, sleep, spawn, yield_now, Builder, JoinHandle, Scope, ScopedJoinHandle,
    };
    #[cfg(not(feature = "shuttle"))]
    pub use std::thread::{
        scope, sleep, spawn, yield_now, Builder, JoinHandle, Scope, ScopedJoinHandle,
    };

    /// A hint that the caller waits for another thread without giving up its core.
    #[inline]
    pub fn spin_loop() {
        #[cfg(feature = "shuttle")]
        shuttle::hint::spin_loop();
        #[cfg(not(feature = "shuttle"))]
        std::hint::spin_loop();
    }

    /// Spawns a thread in a scope whose owner goes on working meanwhile.
    ///
    /// # Errors
    /// The operating system refuses one more; always when schedules are explored, since a scope of
    /// shuttle's wakes its owner when the last thread ends, whatever the owner waits for then.
    pub fn spawn_scoped<'scope, 'env, F, T>(
        scope: &'scope Scope<'scope, 'env>,
        work: F,
    ) -> io::Result<ScopedJoinHandle<'scope, T>>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        #[cfg(feature = "shuttle")]
        return {
            drop((scope, work));
            Err(io::ErrorKind::Unsupported.into())
        };
        #[cfg(not(feature = "shuttle"))]
        Builder::new().spawn_scoped(scope, work)
    }

    /// Which of an exploration's threads runs: the first is 0.
    #[cfg(feature = "shuttle")]
    #[must_use]
    pub fn number() -> usize {
        usize::from(shuttle::thread::current().id())
    }

    /// How many threads the machine runs at once; one when schedules are explored.
    #[must_use]
    pub fn parallelism() -> usize {
        #[cfg(feature = "shuttle")]
        return 1;
        #[cfg(not(feature = "shuttle"))]
        std::thread::available_parallelism().map_or(1, usize::from)
    }
}

/// The usual build adds nothing: these are the very types.
#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    #[test]
    fn the_usual_types_are_the_originals() {
        let mutex: parking_lot::Mutex<u8> = super::Mutex::new(1);
        let lock: parking_lot::RwLock<u8> = super::RwLock::new(2);
        let condvar: parking_lot::Condvar = super::Condvar::new();
        let atomic: std::sync::atomic::AtomicU64 = super::atomic::AtomicU64::new(3);
        let sum = u64::from(*mutex.lock() + *lock.read()) + atomic.into_inner();
        assert_eq!((sum, condvar.notify_one()), (6, false));
    }
}
