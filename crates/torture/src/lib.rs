//! Real crashes and real threads: what the deterministic simulation cannot show.
//!
//! - [`kill`]: the program is killed (`kill -9`) under load, thousands of times, and another process,
//!   which wrote down what was acknowledged, verifies what the next life of the store shows.
//! - [`power`]: a recorded run of many threads is cut at every sync, and every image that the device
//!   may then hold is opened: all of them where they are few.
//! - [`linear`]: histories of threads on a few keys are searched for an order that explains them.
//! - [`soak`]: a store under mixed load for an hour, watched from outside: memory, file descriptors,
//!   growth, the longest wait of a writer.
//!
//! `script`, `state` and `verify` are the model that the first two share. Threads: each part says.
#![forbid(unsafe_code)]

pub mod canary;
mod failure;
pub mod kill;
pub mod linear;
pub mod power;
mod script;
pub mod soak;
mod state;
mod verify;
mod worker;

pub use failure::{Failure, Result};

/// Nanoseconds on the clock that never goes back and is the same in all processes.
#[must_use]
pub fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
