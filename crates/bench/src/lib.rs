//! Workloads, key families, measurement and reports: what `heliox bench` runs.
//!
//! An engine is anything that implements [`Engine`], so that a driver for another store measures
//! it with the same keys, values, threads and clock. [`HelioxEngine`] is the one for this store.
//!
//! - [`KeyGen`], [`ValueGen`], [`Permutation`]: data as a pure function of an index and a seed.
//! - [`Config`] says what to run, [`Bench`] runs it and gives one [`Row`] a workload.
//! - [`Zipfian`], [`Scrambled`], [`Latest`]: the skewed choices of YCSB; [`Distribution`] names all choices.
//! - [`rows_to_json`], [`rows_to_text`] and [`rows_to_table`] present the rows; [`size`] reads and shows numbers.
//!
//! Threads: [`Bench::run`] starts its own workers and joins them before it returns; an [`Observer`]
//! is called from the caller's thread alone.
#![forbid(unsafe_code)]

mod config;
mod control;
mod counters;
mod crew;
mod dispenser;
mod distribution;
mod draw;
mod engine;
mod error;
mod family;
mod gate;
mod heliox_engine;
mod inserts;
mod keys;
mod latency;
mod limit;
mod merge;
mod mix;
mod observer;
mod open_loop;
mod permutation;
mod reopen;
mod report;
mod row;
mod run;
mod search;
mod series;
pub mod size;
mod stall;
mod summary;
mod system;
mod tally;
mod url;
mod usage;
mod values;
mod warm_up;
mod worker;
mod workload;
mod ycsb;

pub use config::{Config, DurabilityMode, Step};
pub use counters::{ByCause, Counters};
pub use distribution::{Latest, Scrambled, Zipfian};
pub use draw::Distribution;
pub use engine::{Engine, EngineError, Seen};
pub use error::BenchError;
pub use family::KeyFamily;
pub use heliox_engine::{HelioxEngine, HelioxSetup};
pub use keys::KeyGen;
pub use latency::Latency;
pub use limit::LatencyLimit;
pub use merge::add_number;
pub use observer::{Observer, Progress, Silent};
pub use open_loop::OpenLoop;
pub use permutation::Permutation;
pub use reopen::Reopening;
pub use report::{
    row_to_json, rows_to_json, rows_to_table, rows_to_text, short, thousands, trials_to_table,
};
pub use row::{Reopened, Row};
pub use run::Bench;
pub use search::{LimitSearch, Trial};
pub use stall::{StallClock, StallWatch};
pub use summary::CallSummary;
pub use system::forget_pages;
pub use usage::Used;
pub use values::ValueGen;
pub use warm_up::WarmedUp;
pub use workload::Workload;
