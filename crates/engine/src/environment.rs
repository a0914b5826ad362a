//! What a store takes from its surroundings beside its devices: time, random bytes, threads, and
//! the moments at which others get their turn.
//!
//! Invariant: nothing in this crate asks the system for any of these but through here, so that a
//! simulation which answers instead decides everything that happens. Threads: any.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use heliox_sync::thread;

use crate::error::{Error, ErrorKind, Result};
use crate::signals::Bell;

/// Surroundings that are simulated: the same answers give the same run. A store in one has no
/// threads of its own, and every call of it must come from one thread.
pub trait Simulation: Send + Sync {
    /// Time since some fixed moment; never goes back.
    fn elapsed(&self) -> Duration;

    /// Milliseconds since 1970.
    fn now_ms(&self) -> u64;

    /// Lets time pass.
    fn sleep(&self, time: Duration);

    /// Fills `bytes` with what stands for random ones.
    fn fill_random(&self, bytes: &mut [u8]);

    /// Called by background steps where another thread might come between: no lock is held but the
    /// step's own, so every operation of the store may be called from here, and no step.
    fn breathe(&self);
}

/// The surroundings of one store.
#[derive(Clone)]
pub(crate) struct Environment {
    begun: Instant,
    simulation: Option<Arc<dyn Simulation>>,
}

impl Environment {
    pub(crate) fn new(simulation: Option<Arc<dyn Simulation>>) -> Environment {
        Environment {
            begun: Instant::now(),
            simulation,
        }
    }

    /// Time since the environment was made, or since the simulation's own beginning.
    pub(crate) fn elapsed(&self) -> Duration {
        match &self.simulation {
            None => self.begun.elapsed(),
            Some(simulation) => simulation.elapsed(),
        }
    }

    /// Milliseconds since 1970, as expiry counts them.
    pub(crate) fn now_ms(&self) -> u64 {
        match &self.simulation {
            None => {
                let since = SystemTime::now().duration_since(UNIX_EPOCH);
                since.map_or(0, |d| d.as_millis() as u64)
            }
            Some(simulation) => simulation.now_ms(),
        }
    }

    pub(crate) fn sleep(&self, time: Duration) {
        match &self.simulation {
            None => thread::sleep(time),
            Some(simulation) => simulation.sleep(time),
        }
    }

    /// Waits until `bell` is rung, at most so long; in a simulation nobody else can ring it.
    pub(crate) fn listen(&self, bell: &Bell, most: Duration) {
        match &self.simulation {
            None => bell.listen(most),
            Some(simulation) => simulation.sleep(most),
        }
    }

    /// How many threads may work on one thing.
    pub(crate) fn threads(&self) -> usize {
        match &self.simulation {
            None => thread::parallelism(),
            Some(_) => 1,
        }
    }

    /// Fills `bytes` with random ones that nobody can guess.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] if the system has none.
    pub(crate) fn fill_random(&self, bytes: &mut [u8]) -> Result<()> {
        if let Some(simulation) = &self.simulation {
            simulation.fill_random(bytes);
            return Ok(());
        }
        getrandom::fill(bytes).map_err(|error| {
            let message = format!("the operating system gives no random numbers, which the store's identity needs: {error}");
            Error::with_source(ErrorKind::Io, message, error)
        })
    }

    /// A moment of a background step at which others may come between.
    pub(crate) fn breathe(&self) {
        if let Some(simulation) = &self.simulation {
            simulation.breathe();
        }
    }

    pub(crate) fn is_simulated(&self) -> bool {
        self.simulation.is_some()
    }
}
