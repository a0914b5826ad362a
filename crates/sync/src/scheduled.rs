//! Shuttle's primitives with the methods of `parking_lot`'s.
//!
//! Timed waits: no time passes under shuttle. A timed wait therefore lets others run once and says
//! that its time is over, as any such wait may; it hides nothing that happens in between. With
//! [`crate::Plan::patient`] it never ends by itself, and a wake-up that is lost is found as a deadlock.

use std::cell::Cell;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::PoisonError;
use std::time::Duration;

use shuttle::sync;

std::thread_local! {
    static PATIENT: Cell<bool> = const { Cell::new(false) };
}

/// Lets timed waits of this thread's explorations last until they are woken.
pub(crate) fn set_patient(patient: bool) {
    PATIENT.set(patient);
}

/// A lock for one.
#[derive(Default)]
pub struct Mutex<T: ?Sized>(sync::Mutex<T>);

/// Holds a [`Mutex`].
pub struct MutexGuard<'a, T: ?Sized> {
    lock: &'a Mutex<T>,
    /// None only while a condition is waited for.
    held: Option<sync::MutexGuard<'a, T>>,
}

impl<T> Mutex<T> {
    /// An unlocked mutex.
    pub const fn new(value: T) -> Mutex<T> {
        Mutex(sync::Mutex::new(value))
    }

    /// The value.
    pub fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Waits until the mutex is free, and takes it.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        let held = Some(self.0.lock().unwrap_or_else(PoisonError::into_inner));
        MutexGuard { lock: self, held }
    }

    /// Takes the mutex if it is free now.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        let held = Some(self.0.try_lock().ok()?);
        Some(MutexGuard { lock: self, held })
    }

    /// The value: the borrow excludes everybody else.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: ?Sized> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Mutex")
    }
}

const HELD: &str = "a guard is empty only while its condition is waited for";

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        match &self.held {
            Some(held) => held,
            None => unreachable!("{HELD}"),
        }
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        match &mut self.held {
            Some(held) => held,
            None => unreachable!("{HELD}"),
        }
    }
}

/// A lock for many who read or one who writes.
#[derive(Default)]
pub struct RwLock<T: ?Sized>(sync::RwLock<T>);

pub use sync::{RwLockReadGuard, RwLockWriteGuard};

impl<T> RwLock<T> {
    /// An unlocked lock.
    pub const fn new(value: T) -> RwLock<T> {
        RwLock(sync::RwLock::new(value))
    }

    /// The value.
    pub fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Waits until nobody writes.
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until nobody reads or writes.
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: ?Sized> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RwLock")
    }
}

/// Whether a timed wait ended by its time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    /// True if the time was over.
    #[must_use]
    pub fn timed_out(&self) -> bool {
        self.0
    }
}

/// Something that threads wait for.
#[derive(Default)]
pub struct Condvar(sync::Condvar);

impl Condvar {
    /// A condition that nobody waits for.
    #[must_use]
    pub const fn new() -> Condvar {
        Condvar(sync::Condvar::new())
    }

    /// Lets go of the lock, waits until notified, takes the lock again.
    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        if let Some(held) = guard.held.take() {
            let woken = self.0.wait(held);
            guard.held = Some(woken.unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// As [`Condvar::wait`], at most so long; see the module for what that means.
    pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, _: Duration) -> WaitTimeoutResult {
        if PATIENT.get() {
            self.wait(guard);
            return WaitTimeoutResult(false);
        }
        guard.held = None;
        shuttle::thread::yield_now();
        *guard = guard.lock.lock();
        WaitTimeoutResult(true)
    }

    /// Wakes one who waits.
    pub fn notify_one(&self) -> bool {
        self.0.notify_one();
        true
    }

    /// Wakes all who wait.
    pub fn notify_all(&self) -> usize {
        self.0.notify_all();
        0
    }
}

impl fmt::Debug for Condvar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Condvar")
    }
}
