//! Deterministic simulation of the store: the real engine, on one thread over its step functions,
//! on a simulated device, clock and source of randomness. One seed gives one run, byte for byte.
//!
//! A seed draws a script (`workload`): options, operations, background steps with operations in
//! their pauses, faults, crashes. The script is run (`run`, `world`, `operations`, `reads`) against
//! a model of the store (`model`), and after each crash what was recovered must be a prefix of
//! history that holds all that was acknowledged as durable. One that fails is made short (`shrink`)
//! and printed as a test.
//!
//! The fault model, zone by zone, is told in `media`. What a run cannot reach: schedules in which
//! two threads are inside the same function; those are the concurrency tests' and loom's.
//!
//! ```
//! let (setup, events) = heliox_sim::generate(7, 200);
//! let report = heliox_sim::replay(&setup, &events);
//! assert_eq!(report.violation, None);
//! assert_eq!(report, heliox_sim::replay(&setup, &events));
//! ```
//!
//! Read next: `script` for what a run is made of, `world` for what a crash does.
#![forbid(unsafe_code)]

mod array;
mod checkers;
mod clock;
mod keys;
mod media;
mod model;
mod operations;
mod power;
mod reads;
mod run;
mod script;
mod shrink;
mod workload;
mod world;
mod zones;

pub use clock::Clock;
pub use media::Fault;
pub use run::{replay, Report};
pub use script::{as_test, Ack, Event, Setup, Zone};
pub use shrink::{shrink, Shrunk};
pub use workload::generate;
pub use world::Counts;
