//! Simulated surroundings of the store: time that passes only when somebody lets it, seeded bytes
//! for random ones, and the pauses of background steps.
//!
//! Two clocks. The monotonic one counts every delay; the wall clock, by which values expire, moves
//! only between two events of a script, so that the model knows exactly what an operation saw.
//! Threads: a run has one; the locks here are never contended.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

use heliox::Simulation;
use heliox_media::Random;
use parking_lot::Mutex;

/// When the simulated world begins: the 1st of January 2026, in milliseconds since 1970.
const WALL_START_MS: u64 = 1_767_225_600_000;

/// What the driver does in a pause of a background step.
pub(crate) type Turn = Arc<dyn Fn() + Send + Sync>;

/// The clock of one run.
pub struct Clock {
    elapsed_ns: AtomicU64,
    /// The part of it that passed between events, not within them.
    ticked_ns: AtomicU64,
    wall_ms: AtomicU64,
    random: Mutex<Random>,
    turn: Mutex<Option<Turn>>,
}

impl Clock {
    /// A clock at the beginning of the world.
    #[must_use]
    pub fn new(seed: u64) -> Clock {
        Clock {
            elapsed_ns: AtomicU64::new(0),
            ticked_ns: AtomicU64::new(0),
            wall_ms: AtomicU64::new(WALL_START_MS),
            random: Mutex::new(Random::new(seed)),
            turn: Mutex::new(None),
        }
    }

    /// Time passes between two events.
    pub fn tick(&self, time: Duration) {
        self.sleep(time);
        let ticked = self.ticked_ns.load(Ordering::Relaxed) + time.as_nanos() as u64;
        self.ticked_ns.store(ticked, Ordering::Relaxed);
        let elapsed_ms = self.elapsed().as_millis() as u64;
        self.wall_ms
            .store(WALL_START_MS + elapsed_ms, Ordering::Relaxed);
    }

    /// How much of the time passed between events.
    #[must_use]
    pub fn ticked(&self) -> Duration {
        Duration::from_nanos(self.ticked_ns.load(Ordering::Relaxed))
    }

    /// What to do in the pauses of background steps from now on.
    pub fn set_turn(&self, turn: Option<Turn>) {
        *self.turn.lock() = turn;
    }
}

impl Simulation for Clock {
    fn elapsed(&self) -> Duration {
        Duration::from_nanos(self.elapsed_ns.load(Ordering::Relaxed))
    }

    fn now_ms(&self) -> u64 {
        self.wall_ms.load(Ordering::Relaxed)
    }

    fn sleep(&self, time: Duration) {
        let elapsed = self.elapsed_ns.load(Ordering::Relaxed) + time.as_nanos() as u64;
        self.elapsed_ns.store(elapsed, Ordering::Relaxed);
    }

    fn fill_random(&self, bytes: &mut [u8]) {
        let mut random = self.random.lock();
        bytes.fill_with(|| random.next() as u8);
    }

    fn breathe(&self) {
        let turn = self.turn.lock().clone();
        if let Some(turn) = turn {
            turn();
        }
    }
}
