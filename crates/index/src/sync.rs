//! The lock of the tree's shape: cheap to take shared, dearer to take exclusively.
//!
//! Readers take one of several shards, each on its own cache line, so readers on different cores
//! do not meet; a writer takes all shards in order. A thread must not take the lock while it holds
//! it. With the feature `loom` the lock is built of loom's primitives, and its test explores
//! interleavings.
#![allow(unsafe_code)]

use std::ops::{Deref, DerefMut};

#[cfg(not(feature = "loom"))]
mod primitives {
    pub(super) use heliox_sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};
    pub(super) use std::cell::UnsafeCell;

    /// Shards of a lock.
    pub(super) const SHARDS: usize = if cfg!(feature = "shuttle") { 2 } else { 16 };

    pub(super) fn read(lock: &RwLock<()>) -> RwLockReadGuard<'_, ()> {
        lock.read()
    }

    pub(super) fn write(lock: &RwLock<()>) -> RwLockWriteGuard<'_, ()> {
        lock.write()
    }

    /// The shard of this thread.
    #[cfg(feature = "shuttle")]
    pub(super) fn shard() -> usize {
        heliox_sync::thread::number() % SHARDS
    }

    /// The shard of this thread.
    #[cfg(not(feature = "shuttle"))]
    pub(super) fn shard() -> usize {
        use std::sync::atomic::{AtomicUsize, Ordering};
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        thread_local!(static SHARD: usize = NEXT.fetch_add(1, Ordering::Relaxed) % SHARDS);
        SHARD.with(|shard| *shard)
    }
}

#[cfg(feature = "loom")]
mod primitives {
    pub(super) use loom::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};
    pub(super) use std::cell::UnsafeCell;

    pub(super) const SHARDS: usize = 2;

    pub(super) fn read(lock: &RwLock<()>) -> RwLockReadGuard<'_, ()> {
        lock.read()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub(super) fn write(lock: &RwLock<()>) -> RwLockWriteGuard<'_, ()> {
        lock.write()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    loom::thread_local!(static SHARD: std::cell::Cell<usize> = std::cell::Cell::new(0));

    pub(super) fn shard() -> usize {
        SHARD.with(std::cell::Cell::get)
    }

    #[cfg(test)]
    pub(super) fn set_shard(shard: usize) {
        SHARD.with(|cell| cell.set(shard));
    }
}

use primitives::{
    read, shard, write, RwLock, RwLockReadGuard, RwLockWriteGuard, UnsafeCell, SHARDS,
};

#[repr(align(128))]
struct Shard(RwLock<()>);

/// A value that is read far more often than changed.
pub(crate) struct ShardedLock<T> {
    shards: [Shard; SHARDS],
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached through guards alone: shared while some shard is held shared,
// exclusively while all shards are held exclusively, and these exclude each other.
unsafe impl<T: Send + Sync> Sync for ShardedLock<T> {}

/// Shared access.
pub(crate) struct Shared<'a, T> {
    value: &'a T,
    _shard: RwLockReadGuard<'a, ()>,
}

/// Exclusive access.
pub(crate) struct Exclusive<'a, T> {
    value: &'a mut T,
    _shards: [RwLockWriteGuard<'a, ()>; SHARDS],
}

impl<T> ShardedLock<T> {
    pub(crate) fn new(value: T) -> ShardedLock<T> {
        ShardedLock {
            shards: std::array::from_fn(|_| Shard(RwLock::new(()))),
            value: UnsafeCell::new(value),
        }
    }

    #[inline]
    pub(crate) fn shared(&self) -> Shared<'_, T> {
        let _shard = read(&self.shards[shard()].0);
        // SAFETY: a shard is held shared, so no `Exclusive` exists until the guard is dropped.
        let value = unsafe { &*self.value.get() };
        Shared { value, _shard }
    }

    pub(crate) fn exclusive(&self) -> Exclusive<'_, T> {
        let _shards = std::array::from_fn(|at| write(&self.shards[at].0));
        // SAFETY: all shards are held exclusively, so no other guard exists.
        let value = unsafe { &mut *self.value.get() };
        Exclusive { value, _shards }
    }
}

impl<T> Deref for Shared<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        self.value
    }
}

impl<T> Deref for Exclusive<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        self.value
    }
}

impl<T> DerefMut for Exclusive<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.value
    }
}

#[cfg(all(test, feature = "loom"))]
mod schedules {
    use super::*;
    use loom::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    use loom::sync::{Arc, Mutex};

    /// The protocol of the index: updates hold the shape shared and a leaf's lock, a split holds
    /// the shape exclusively. Two counters stand for the halves of a leaf.
    #[test]
    fn a_split_is_never_seen_half_done() {
        loom::model(|| {
            let inside = Arc::new(AtomicUsize::new(0));
            let shape = Arc::new(ShardedLock::new((Mutex::new(0u32), 0u32)));
            let threads: Vec<_> = (0..2)
                .map(|at| {
                    let (shape, inside) = (shape.clone(), inside.clone());
                    loom::thread::spawn(move || {
                        primitives::set_shard(at);
                        if at == 0 {
                            let mut all = shape.exclusive();
                            assert_eq!(inside.fetch_add(1, Relaxed), 0);
                            let left = all.0.get_mut().unwrap();
                            let moved = std::mem::take(left);
                            all.1 += moved;
                            inside.fetch_sub(1, Relaxed);
                        } else {
                            let some = shape.shared();
                            assert_eq!(inside.load(Relaxed), 0);
                            *some.0.lock().unwrap() += 1;
                        }
                    })
                })
                .collect();
            threads
                .into_iter()
                .for_each(|thread| thread.join().unwrap());
            let all = shape.exclusive();
            assert_eq!(*all.0.lock().unwrap() + all.1, 1);
        });
    }
}
